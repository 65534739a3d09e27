//! Messages of nodes and callers. A node's message counts only for a current attempt.

use std::time::Duration;

use super::attempt::{Attempt, AttemptState, Commit};
use super::event::{Effect, Effects, JobEvent};
use super::failing::Failure;
use super::machine::{Machine, Phase};
use super::outcome::{Ended, NodeResult, Reject};
use super::{JobState, JobStep};
use crate::planted::{self, Flaw};

impl Machine {
    pub(super) fn on_message(&mut self, message: JobEvent, out: &mut Effects) {
        let number = match &message {
            JobEvent::Cancel { reason } => {
                let ended = Ended::Cancelled((*reason).to_owned());
                return match self.phase {
                    Phase::Open => self.end(ended, out),
                    _ => out.push(Effect::Ignored),
                };
            }
            JobEvent::OnWire { attempt }
            | JobEvent::NotSent { attempt }
            | JobEvent::Ack { attempt }
            | JobEvent::Reject { attempt, .. }
            | JobEvent::Partial { attempt, .. }
            | JobEvent::Result { attempt, .. }
            | JobEvent::NodeGone { attempt }
            | JobEvent::NodeBack { attempt }
            | JobEvent::Dropped { attempt }
            | JobEvent::TurnClosed { attempt } => *attempt,
        };
        let told = |attempt: &Attempt| attempt.is_live() && attempt.state != AttemptState::Sending;
        let mut at = self.position(number);
        if planted::on(Flaw::AttemptNotFenced) {
            at = at.or_else(|| self.attempts.iter().position(told));
        }
        let open = self.is_open() || planted::on(Flaw::SecondAnswerTaken);
        match at.filter(|at| open && told(&self.attempts[*at])) {
            Some(at) => self.on_node_message(at, message, out),
            None => out.push(Effect::Ignored),
        }
    }

    /// A node's message about a current attempt.
    fn on_node_message(&mut self, at: usize, message: JobEvent, out: &mut Effects) {
        match message {
            JobEvent::OnWire { .. } | JobEvent::Ack { .. } => self.accepted(at, out),
            JobEvent::Partial { attempt, body } => {
                self.accepted(at, out);
                out.push(Effect::Partial { attempt, body: *body });
            }
            JobEvent::NodeBack { .. } => {
                if let AttemptState::Away(commit) = self.attempts[at].state {
                    let due = self.exec_due(self.attempts[at].sent_at);
                    self.attempts[at].state = AttemptState::Running(commit);
                    self.attempts[at].due = due;
                }
            }
            JobEvent::NodeGone { .. } => match self.attempts[at].state {
                AttemptState::Running(commit) => {
                    let grace = Duration::from_millis(self.policy.reconnect_grace_ms);
                    self.attempts[at].state = AttemptState::Away(commit);
                    self.attempts[at].due = (self.now + grace).min(self.request.deadline);
                }
                AttemptState::Away(_) => {}
                _ => self.fail(at, Failure::node_gone(), out),
            },
            // The node acked it: only the receipt was lost.
            JobEvent::NotSent { .. } if self.attempts[at].is_accepted() => {}
            JobEvent::NotSent { .. } => {
                self.not_begun();
                self.fail(at, Failure::node_gone(), out);
            }
            JobEvent::Dropped { .. } => self.fail(at, Failure::dropped(), out),
            JobEvent::TurnClosed { .. } => self.answer(at, no_text(), out),
            JobEvent::Reject { reason, .. } => self.rejected(at, *reason, out),
            JobEvent::Result { .. }
                if planted::on(Flaw::AnswerBeforeAckIgnored)
                    && !self.attempts[at].is_accepted() => {}
            JobEvent::Result { result, .. } => match *result {
                NodeResult::Success(body) => self.answer(at, Ended::Done(body), out),
                NodeResult::Empty { body, reason } => {
                    self.answer(at, Ended::Empty { body: Some(body), reason }, out);
                }
                NodeResult::Failure { code, message, missing_model } => {
                    self.node_failed(at, code, &message, missing_model, out);
                }
            },
            JobEvent::Cancel { .. } => unreachable!("answered before"),
        }
    }

    /// The node has the job. A repeated ack changes nothing.
    fn accepted(&mut self, at: usize, out: &mut Effects) {
        if self.attempts[at].state != AttemptState::Sent {
            return;
        }
        self.attempts[at].state = AttemptState::Running(Commit::Due);
        self.attempts[at].due = self.exec_due(self.now);
        if self.state == JobState::Dispatched {
            self.step(JobStep::Ack);
        }
        out.push(Effect::Accepted { attempt: self.attempts[at].number });
    }

    /// No node began the last dispatch: it does not count.
    pub(super) fn not_begun(&mut self) {
        self.dispatches = self.dispatches.saturating_sub(1);
        self.rejected += 1;
    }

    fn rejected(&mut self, at: usize, reason: Reject, out: &mut Effects) {
        self.not_begun();
        let attempt = &self.attempts[at];
        let failure = match reason {
            Reject::Busy => {
                self.busy.push(attempt.node.clone());
                Failure::busy()
            }
            Reject::MissingModel(model) => {
                out.push(Effect::NoteGap { attempt: attempt.number, model });
                Failure::missing_model()
            }
            Reject::Other(text) => Failure::refused(&text),
        };
        self.fail(at, failure, out);
    }
}

/// The ending of a part whose speech an older agent added to a later part of its turn.
pub(super) fn no_text() -> Ended {
    Ended::Empty { body: None, reason: "NO_TEXT_ASSIGNED".to_owned() }
}
