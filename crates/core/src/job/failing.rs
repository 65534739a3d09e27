//! A failed attempt: try another node, wait for the hedge, or end. And the one ending.

use std::time::Duration;

use super::attempt::AttemptState;
use super::event::{Effect, Effects, Fault, FinishAnswer, Pace};
use super::machine::{Hedge, Machine, Phase, Record};
use super::outcome::{Ended, Refusal, is_code, is_fault};
use super::search::{Search, SearchKind, SearchStep};
use super::{JobState, JobStep, MAX_REJECTED};
use crate::outcome::{Code, Retry};
use crate::planted::{self, Flaw};

/// How an attempt ends without an answer.
pub(super) struct Failure {
    refusal: Refusal,
    fault: Fault,
    slot: SlotFate,
}

/// What becomes of the slot of a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlotFate {
    /// The node has nothing of the attempt any more: it is released.
    Free,
    /// The node rejected the job as busy: the slot is released, and counts as taken here for a moment.
    Rest,
    /// The node may still work: it is told to stop, and releases the slot.
    Stop,
}

impl Failure {
    fn new(refusal: Refusal, fault: Fault, slot: SlotFate) -> Self {
        Failure { refusal, fault, slot }
    }

    pub fn node_gone() -> Self {
        let refusal = Refusal::new(Code::NodeUnavailable, "the node's connection was lost");
        Failure::new(refusal, Fault::ConnectionLost, SlotFate::Stop)
    }

    pub fn dropped() -> Self {
        let refusal = Refusal::new(Code::NodeUnavailable, "the node no longer has the job");
        Failure::new(refusal, Fault::Dropped, SlotFate::Free)
    }

    pub fn exec_timeout() -> Self {
        let refusal = Refusal::new(Code::JobTimeout, "the node took too long");
        Failure::new(refusal, Fault::Attempt, SlotFate::Stop)
    }

    pub fn ack_timeout() -> Self {
        let refusal = Refusal::new(Code::AckTimeout, "the node did not accept the job in time");
        Failure::new(refusal, Fault::Attempt, SlotFate::Stop)
    }

    /// The node may work on, and the failure does not count against it.
    pub fn kept(refusal: Refusal) -> Self {
        Failure::new(refusal, Fault::None, SlotFate::Stop)
    }

    pub fn busy() -> Self {
        let full = "the node has no slot free by its own count";
        Failure::new(Refusal::new(Code::AllNodesBusy, full), Fault::None, SlotFate::Rest)
    }

    pub fn missing_model() -> Self {
        let refusal = Refusal::new(Code::ModelNotAvailable, "the node misses a model");
        Failure::new(refusal, Fault::None, SlotFate::Free)
    }

    pub fn refused(text: &str) -> Self {
        let text: String = text.chars().take(200).collect();
        let detail = format!("the node refused the job: {text}");
        Failure::new(Refusal::new(Code::NodeUnavailable, detail), Fault::None, SlotFate::Free)
    }
}

impl Machine {
    pub(super) fn node_failed(
        &mut self,
        at: usize,
        code: String,
        message: &str,
        missing_model: Option<String>,
        out: &mut Effects,
    ) {
        let attempt = self.attempts[at].number;
        if self.attempts[at].link.result_ack {
            // Whatever becomes of the job, the node need not repeat the result.
            out.push(Effect::AcknowledgeResult { attempt });
        }
        let message: String = message.chars().take(512).collect();
        let known = Code::parse(&code).filter(|code| code.retry() == Retry::OtherNode);
        if known == Some(Code::ModelNotAvailable) {
            out.push(Effect::NoteGap { attempt, model: missing_model });
        }
        let fault = if is_fault(&code) { Fault::Attempt } else { Fault::None };
        let mut refusal = Refusal::new(known.unwrap_or(Code::ProcessingError), message);
        if known.is_none() && is_code(&code) {
            refusal.node_code = Some(code);
        }
        self.fail(at, Failure::new(refusal, fault, SlotFate::Free), out);
    }

    /// An attempt is over without an answer.
    pub(super) fn fail(&mut self, at: usize, failure: Failure, out: &mut Effects) {
        let Failure { refusal, fault, slot } = failure;
        let attempt = &self.attempts[at];
        let (number, code) = (attempt.number, refusal.code);
        out.push(Effect::AttemptFailed {
            attempt: number,
            code,
            text: refusal.code_text().to_owned(),
            fault,
            wasted: self.now.since(attempt.sent_at),
        });
        let again = slot == SlotFate::Rest || planted::on(Flaw::FailedNodeChosenAgain);
        if !again && !self.excluded.contains(&attempt.node) {
            self.excluded.push(attempt.node.clone());
        }
        match slot {
            SlotFate::Stop => {
                self.attempts.remove(at);
                out.push(abandon(number, "given_up"));
            }
            SlotFate::Free | SlotFate::Rest => {
                let pace = if slot == SlotFate::Rest { Pace::AfterRest } else { Pace::Now };
                self.attempts.remove(at);
                out.push(Effect::Release { attempt: number, pace });
            }
        }
        if self.attempts.iter().any(|attempt| attempt.is_live()) {
            return;
        }
        self.failure = Some(refusal);
        match &mut self.search {
            // The hedge is the job's only attempt now.
            Some(search) if search.step != SearchStep::HedgeBudget => {
                search.kind = SearchKind::Sole;
                self.step(JobStep::Retry);
                self.step(JobStep::Select);
                out.push(Effect::Selecting);
            }
            _ => self.again(code, out),
        }
    }

    /// Whether and how the job goes on after a failed attempt.
    fn again(&mut self, code: Code, out: &mut Effects) {
        if !self.may_dispatch_again() || self.rejected > MAX_REJECTED {
            return self.end_with_failure(out);
        }
        self.search = Some(Search::new(SearchKind::Sole, SearchStep::RetryBudget));
        // A retry of a job that no node began is not charged to the budget.
        let refused = self.rejected > 0 && self.dispatches == 0;
        if refused || matches!(code, Code::AllNodesBusy | Code::ModelNotAvailable) {
            return self.retry(out);
        }
        out.push(Effect::AskRetryBudget);
    }

    /// A retry is allowed: it follows after a pause, if there is time for one.
    pub(super) fn back_off(&mut self, out: &mut Effects) {
        let timing = &self.policy.timing;
        let doubled = self.policy.retry_backoff_ms << self.dispatches.saturating_sub(1).min(4);
        let placing = Duration::from_millis(timing.send_ms + timing.ack_ms);
        let left = self.now.until(self.request.deadline).saturating_sub(placing);
        let pause = Duration::from_millis(doubled).min(left);
        if pause.is_zero() {
            return self.retry(out);
        }
        let until = self.now + pause;
        self.show_retry(out);
        if let Some(search) = &mut self.search {
            search.step = SearchStep::BackingOff { until };
        }
    }

    pub(super) fn is_backing_off(&self) -> bool {
        self.search.as_ref().is_some_and(|s| matches!(s.step, SearchStep::BackingOff { .. }))
    }

    pub(super) fn retry(&mut self, out: &mut Effects) {
        if planted::on(Flaw::DeadlineOfEachTry) {
            self.request.deadline = self.request.deadline + Duration::from_secs(30);
        }
        if !self.is_backing_off() {
            self.show_retry(out);
        }
        self.begin_search(out);
    }

    fn show_retry(&mut self, out: &mut Effects) {
        let code = self.failure.as_ref().map_or(Code::InternalError, |failure| failure.code);
        self.step(JobStep::Retry);
        out.push(Effect::Retrying(code));
    }

    pub(super) fn end_with_failure(&mut self, out: &mut Effects) {
        let unknown = || Refusal::new(Code::InternalError, "an attempt failed");
        let failure = self.failure.clone().unwrap_or_else(unknown);
        self.end(Ended::Failed(failure), out);
    }

    /// An attempt answered.
    pub(super) fn answer(&mut self, at: usize, ended: Ended, out: &mut Effects) {
        let attempt = self.attempts[at].number;
        self.attempts[at].state = AttemptState::Answering;
        self.end_search(out);
        self.phase = Phase::Finishing(Box::new(ended), Some(attempt));
        out.push(Effect::FinishByAnswer { attempt, by_owner: self.hedge == Hedge::Used });
    }

    /// The job ends without an answer.
    pub(super) fn end(&mut self, ended: Ended, out: &mut Effects) {
        let reason = match &ended {
            Ended::Cancelled(_) => "cancelled",
            Ended::Failed(refusal) if refusal.code == Code::JobTimeout => "deadline",
            _ => "given_up",
        };
        self.stop_all(reason, out);
        self.stop_leg(reason, out);
        self.end_search(out);
        if self.record == Record::Missing {
            return self.close(ended, out);
        }
        let state = state_of(&ended);
        out.push(Effect::Finish { state, code: ended.code().to_owned() });
        self.phase = Phase::Finishing(Box::new(ended), None);
    }

    fn stop_all(&mut self, reason: &'static str, out: &mut Effects) {
        for attempt in self.attempts.extract_if(.., |attempt| attempt.is_live()) {
            out.push(Effect::AttemptStopped { attempt: attempt.number, reason });
            out.push(abandon(attempt.number, reason));
        }
    }

    /// Ends the search. A slot that was granted is released; one that was requested is released when the store
    /// grants it.
    fn end_search(&mut self, out: &mut Effects) {
        if let Some(search) = self.search.take()
            && matches!(search.step, SearchStep::JoiningQueue | SearchStep::Waiting { .. })
        {
            out.push(Effect::LeaveQueue);
        }
        self.attempts.retain_mut(|attempt| {
            let number = attempt.number;
            match attempt.state {
                AttemptState::Reserving => {
                    attempt.state = AttemptState::Discarded;
                    return !planted::on(Flaw::AskedSlotKept);
                }
                AttemptState::Recording => {
                    out.push(Effect::Release { attempt: number, pace: Pace::Now });
                }
                AttemptState::Sending => {
                    out.push(abandon(number, "given_up"));
                }
                _ => return true,
            }
            false
        });
    }

    pub(super) fn on_finished(&mut self, answer: FinishAnswer, out: &mut Effects) {
        let Phase::Finishing(ended, by) = &mut self.phase else { return };
        let mut ended = std::mem::replace(&mut **ended, Ended::Cancelled(String::new()));
        let Some(number) = *by else {
            if answer == FinishAnswer::Refused && matches!(ended, Ended::Done(_)) {
                // The legs answered, but the job had been ended before.
                out.push(Effect::Ignored);
                ended = Ended::Failed(late());
            }
            return self.close(ended, out);
        };
        let at = self.position(number).expect("the attempt that answers is kept until then");
        let attempt = self.attempts.remove(at);
        if answer == FinishAnswer::Refused {
            out.push(Effect::Ignored);
            ended = Ended::Failed(late());
        }
        if attempt.link.result_ack {
            out.push(Effect::AcknowledgeResult { attempt: number });
        }
        let counts = matches!(ended, Ended::Done(_));
        let took = counts.then(|| self.now.since(attempt.sent_at));
        out.push(Effect::AttemptAnswered { attempt: number, took });
        self.stop_all("other_copy_won", out);
        self.close(ended, out);
    }

    fn close(&mut self, ended: Ended, out: &mut Effects) {
        self.state = state_of(&ended);
        self.phase = Phase::Over;
        out.push(Effect::End(ended));
    }

    /// Another instance has the job: this one has nothing to do with it.
    pub(super) fn detach(&mut self, out: &mut Effects) {
        self.end_search(out);
        self.phase = Phase::Over;
        out.push(Effect::Detach);
    }
}

/// A node that may still work keeps its slot until whoever has its connection knows that it stopped, so that it
/// never gets more than it can do.
fn abandon(attempt: u32, reason: &'static str) -> Effect {
    match planted::on(Flaw::AbandonedSlotReleased) {
        true => Effect::Release { attempt, pace: Pace::Now },
        false => Effect::Abandon { attempt, reason },
    }
}

fn late() -> Refusal {
    Refusal::new(Code::JobTimeout, "the job had been ended before")
}

fn state_of(ended: &Ended) -> JobState {
    match ended {
        Ended::Done(_) | Ended::Empty { .. } => JobState::Done,
        Ended::Failed(_) => JobState::Failed,
        Ended::Cancelled(_) => JobState::Cancelled,
    }
}
