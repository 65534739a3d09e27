//! An attempt comes to nothing: try elsewhere, wait for the other copy, or end. And the one ending.

use std::time::Duration;

use super::attempt::AttemptState;
use super::event::{Blame, Effect, Effects, FinishAnswer, Pace};
use super::machine::{Hedge, Machine, Phase, Record};
use super::outcome::{Ended, Refusal, is_code, is_fault};
use super::search::{Search, SearchKind, SearchStep};
use super::{JobState, JobStep, MAX_REJECTED};
use crate::outcome::{Code, Retry};
use crate::planted::{self, Flaw};

/// How an attempt ends without an answer.
pub(super) struct Failure {
    refusal: Refusal,
    blame: Blame,
    slot: SlotFate,
}

/// What becomes of the slot of a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlotFate {
    /// The node has nothing of the attempt any more: it is released.
    Free,
    /// The node has no slot free by its own count: it is released and left alone for a moment.
    Rest,
    /// The node may still work: it is told to stop.
    Stop,
}

impl Failure {
    fn new(refusal: Refusal, blame: Blame, slot: SlotFate) -> Self {
        Failure { refusal, blame, slot }
    }

    pub fn node_gone() -> Self {
        let refusal = Refusal::new(Code::NodeUnavailable, "the node's connection was lost");
        Failure::new(refusal, Blame::ConnectionLost, SlotFate::Stop)
    }

    pub fn dropped() -> Self {
        let refusal = Refusal::new(Code::NodeUnavailable, "the node no longer has the job");
        Failure::new(refusal, Blame::Dropped, SlotFate::Free)
    }

    pub fn exec_timeout() -> Self {
        let refusal = Refusal::new(Code::JobTimeout, "the node took too long");
        Failure::new(refusal, Blame::Attempt, SlotFate::Stop)
    }

    pub fn ack_timeout() -> Self {
        let refusal = Refusal::new(Code::AckTimeout, "the node did not accept the job in time");
        Failure::new(refusal, Blame::Attempt, SlotFate::Stop)
    }

    /// The node may work on, and nothing counts against it.
    pub fn kept(refusal: Refusal) -> Self {
        Failure::new(refusal, Blame::None, SlotFate::Stop)
    }

    pub fn busy() -> Self {
        let full = "the node has no slot free by its own count";
        Failure::new(Refusal::new(Code::AllNodesBusy, full), Blame::None, SlotFate::Rest)
    }

    pub fn missing_model() -> Self {
        let refusal = Refusal::new(Code::ModelNotAvailable, "the node misses a model");
        Failure::new(refusal, Blame::None, SlotFate::Free)
    }

    pub fn refused(text: &str) -> Self {
        let text: String = text.chars().take(200).collect();
        let detail = format!("the node refused the job: {text}");
        Failure::new(Refusal::new(Code::NodeUnavailable, detail), Blame::None, SlotFate::Free)
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
            // What became of the job is not the node's concern: it need not say this again.
            out.push(Effect::AcknowledgeResult { attempt });
        }
        let message: String = message.chars().take(512).collect();
        let known = Code::parse(&code).filter(|code| code.retry() == Retry::OtherNode);
        if known == Some(Code::ModelNotAvailable) {
            out.push(Effect::NoteGap { attempt, model: missing_model });
        }
        let blame = if is_fault(&code) { Blame::Attempt } else { Blame::None };
        let mut refusal = Refusal::new(known.unwrap_or(Code::ProcessingError), message);
        if known.is_none() && is_code(&code) {
            refusal.node_code = Some(code);
        }
        self.fail(at, Failure::new(refusal, blame, SlotFate::Free), out);
    }

    /// An attempt is over without an answer.
    pub(super) fn fail(&mut self, at: usize, failure: Failure, out: &mut Effects) {
        let Failure { refusal, blame, slot } = failure;
        let attempt = &self.attempts[at];
        let (number, code) = (attempt.number, refusal.code);
        out.push(Effect::AttemptFailed {
            attempt: number,
            code,
            text: refusal.code_text().to_owned(),
            blame,
            wasted: self.now.since(attempt.sent_at),
        });
        let again = slot == SlotFate::Rest || planted::on(Flaw::FailedNodeChosenAgain);
        if !again && !self.excluded.contains(&attempt.node) {
            self.excluded.push(attempt.node.clone());
        }
        match slot {
            SlotFate::Stop => self.stop(at, "given_up", out),
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
            // The second copy takes the place of the first.
            Some(search) if search.step != SearchStep::HedgeBudget => {
                search.kind = SearchKind::Sole;
                self.step(JobStep::Retry);
                self.step(JobStep::Select);
                out.push(Effect::Selecting);
            }
            _ => self.again(code, out),
        }
    }

    /// Has the node of an attempt told to stop.
    fn stop(&mut self, at: usize, reason: &'static str, out: &mut Effects) {
        let attempt = &mut self.attempts[at];
        attempt.state = AttemptState::Stopping;
        out.push(Effect::CancelOnNode { attempt: attempt.number, reason });
    }

    /// A node that may still work and cannot be told to stop keeps its slot until the lease lapses, so
    /// that it never gets more than it can do.
    pub(super) fn on_cancel_posted(&mut self, number: u32, obeys: bool, out: &mut Effects) {
        let stopping = |at: &usize| self.attempts[*at].state == AttemptState::Stopping;
        let Some(at) = self.position(number).filter(stopping) else { return };
        self.attempts.remove(at);
        out.push(match obeys || planted::on(Flaw::AbandonedSlotReleased) {
            true => Effect::Release { attempt: number, pace: Pace::Now },
            false => Effect::Abandon { attempt: number },
        });
    }

    /// Whether and how the job goes on after a failed attempt.
    fn again(&mut self, code: Code, out: &mut Effects) {
        if !self.may_dispatch_again() || self.rejected > MAX_REJECTED {
            return self.end_with_failure(out);
        }
        self.search = Some(Search::new(SearchKind::Sole, SearchStep::RetryBudget));
        // A job that no node began costs nothing to try again.
        let refused = self.rejected > 0 && self.dispatches == 0;
        if refused || matches!(code, Code::AllNodesBusy | Code::ModelNotAvailable) {
            return self.retry(out);
        }
        out.push(Effect::AskRetryBudget);
    }

    /// A retry is allowed: it follows after a pause, as long as there is time for one.
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

    /// An attempt brought the ending.
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
        for at in 0..self.attempts.len() {
            if self.attempts[at].is_live() {
                out.push(Effect::AttemptStopped { attempt: self.attempts[at].number, reason });
                self.stop(at, reason, out);
            }
        }
    }

    /// Ends the search. A slot that was granted is released; of one that is being asked for the
    /// answer is awaited.
    fn end_search(&mut self, out: &mut Effects) {
        if let Some(search) = self.search.take()
            && matches!(search.step, SearchStep::JoiningQueue | SearchStep::Waiting { .. })
        {
            out.push(Effect::LeaveQueue);
        }
        for at in 0..self.attempts.len() {
            match self.attempts[at].state {
                AttemptState::Reserving => self.attempts[at].state = AttemptState::Discarded,
                AttemptState::Sending => self.stop(at, "given_up", out),
                _ => {}
            }
        }
        if planted::on(Flaw::AskedSlotKept) {
            self.attempts.retain(|attempt| attempt.state != AttemptState::Discarded);
        }
        self.attempts.retain(|attempt| {
            let granted = attempt.state == AttemptState::Recording;
            if granted {
                out.push(Effect::Release { attempt: attempt.number, pace: Pace::Now });
            }
            !granted
        });
    }

    pub(super) fn on_finished(&mut self, answer: FinishAnswer, out: &mut Effects) {
        let Phase::Finishing(ended, by) = &mut self.phase else { return };
        let mut ended = std::mem::replace(&mut **ended, Ended::Cancelled(String::new()));
        let Some(number) = *by else {
            if answer == FinishAnswer::Refused && matches!(ended, Ended::Done(_)) {
                // Of two jobs in place of one.
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
