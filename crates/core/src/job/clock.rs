//! What is due by the clock: the deadline, the end of waiting, a hedge, an attempt without an ack or answer.

use std::time::Duration;

use super::attempt::{Attempt, AttemptState};
use super::event::{Effect, Effects};
use super::failing::Failure;
use super::inbound::no_text;
use super::machine::{Hedge, Machine, Watch, deadline_passed};
use super::outcome::Ended;
use super::search::Search;
use super::{JobState, JobStep};
use crate::planted::{self, Flaw};
use crate::time::Moment;

impl Machine {
    /// When a hedge may begin: at most one for a job, beside an accepted attempt without an answer.
    pub(super) fn hedge_at(&self) -> Option<Moment> {
        let after = Duration::from_millis(self.policy.hedge_after_ms?);
        let mut live = self.attempts.iter().filter(|attempt| attempt.is_live());
        let (Some(only), None) = (live.next(), live.next()) else { return None };
        let may = only.is_accepted() && self.hedge == Hedge::Unused && self.search.is_none();
        (may && self.may_dispatch_again()).then(|| only.sent_at + after)
    }

    /// Does what is due. Each step removes what made it due, so the loop ends.
    pub(super) fn on_timer(&mut self, out: &mut Effects) {
        while self.is_open() && self.timer().is_some_and(|at| at <= self.now) {
            if self.search.as_ref().and_then(Search::timer).is_some_and(|at| at <= self.now) {
                match self.is_backing_off() {
                    true => self.retry(out),
                    false => self.queue_timed_out(out),
                }
            } else if self.now >= self.request.deadline {
                self.overdue(out);
            } else if matches!(self.watch, Watch::At(at) if at <= self.now) {
                self.watch = Watch::Asked;
                out.push(Effect::Watch);
            } else if self.hedge_at().is_some_and(|at| at <= self.now) {
                self.hedge = Hedge::Used;
                self.search = Some(Search::hedge());
                if planted::on(Flaw::HedgeWithoutBudget) {
                    self.begin_search(out);
                    continue;
                }
                out.push(Effect::AskRetryBudget);
            } else if let Some(at) = self
                .attempts
                .iter()
                .position(|live| live.timer().is_some_and(|due| due <= self.now))
            {
                self.attempt_timed_out(at, out);
            }
        }
    }

    fn overdue(&mut self, out: &mut Effects) {
        match self.attempts.iter().position(|live| self.was_kept(live)) {
            Some(at) => self.answer(at, no_text(), out),
            None => self.end(Ended::Failed(deadline_passed()), out),
        }
    }

    fn attempt_timed_out(&mut self, at: usize, out: &mut Effects) {
        let failure = match self.attempts[at].state {
            AttemptState::Away(_) => Failure::node_gone(),
            AttemptState::Running(_) if self.was_kept(&self.attempts[at]) => {
                return self.answer(at, no_text(), out);
            }
            AttemptState::Running(_) => Failure::exec_timeout(),
            AttemptState::Sending => {
                // The answer to `Send` is missing: it may be on the connection.
                self.rejected += 1;
                self.search = None;
                if self.state == JobState::Selecting {
                    self.step(JobStep::Grant);
                    self.step(JobStep::Send);
                }
                Failure::ack_timeout()
            }
            _ => Failure::ack_timeout(),
        };
        self.fail(at, failure, out);
    }

    /// Whether an older agent may have kept the speech for a later part of the turn. It sends no result then.
    fn was_kept(&self, attempt: &Attempt) -> bool {
        attempt.is_accepted() && attempt.link.keeps_speech && self.request.in_turn
    }
}
