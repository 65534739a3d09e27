//! The machine of one job: its state, and the events that concern an attempt under way.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Attempt, AttemptState, Commit};
use super::event::{BudgetAnswer, CommitAnswer, Effect, Effects, Event, Link, NotSent, Pace};
use super::failing::Failure;
use super::outcome::{Ended, Refusal};
use super::relay::Relay;
use super::search::{Search, SearchStep};
use super::{JobState, JobStep, Policy, Request};
use crate::budget::step_timeout;
use crate::ids::NodeId;
use crate::outcome::Code;
use crate::planted::{self, Flaw};
use crate::time::Moment;

/// A job without a session that is open for so long has its deadline watched by all instances. Most jobs
/// end sooner.
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// The pause before the store is asked again to watch the deadline.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// One job. The documentation of the module says what it guarantees.
pub struct Machine {
    pub(super) policy: Arc<Policy>,
    pub(super) request: Request,
    /// The latest moment seen; time never runs backwards here.
    pub(super) now: Moment,
    pub(super) state: JobState,
    pub(super) phase: Phase,
    pub(super) search: Option<Search>,
    /// The attempts that hold a slot, or may.
    pub(super) attempts: Vec<Attempt>,
    /// The highest attempt number that the store knows.
    pub(super) number: u32,
    /// Dispatches that were not refused by their node.
    pub(super) dispatches: u32,
    pub(super) rejected: u32,
    /// Nodes that failed or refused this job.
    pub(super) excluded: Vec<NodeId>,
    /// Nodes that rejected the job as busy.
    pub(super) busy: Vec<NodeId>,
    /// Nodes that miss a model and are asked all the same, because no other is left.
    pub(super) unmarked: Vec<NodeId>,
    /// How long it has been in the queue.
    pub(super) waited: Duration,
    pub(super) record: Record,
    pub(super) hedge: Hedge,
    pub(super) watch: Watch,
    /// The legs, of a job by way of another language.
    pub(super) relay: Option<Relay>,
    /// Why the last attempt failed.
    pub(super) failure: Option<Refusal>,
}

#[derive(Clone)]
pub(super) enum Phase {
    /// Not yet submitted.
    New,
    Open,
    /// The store is told of the ending, and which attempt answered if one did.
    Finishing(Box<Ended>, Option<u32>),
    Over,
}

/// The job's record in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record {
    Missing,
    Asked,
    Written,
}

/// A job is hedged at most once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hedge {
    Unused,
    Used,
}

/// Whether any instance ends the job at its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watch {
    NotDue,
    At(Moment),
    Asked,
    On,
}

impl Machine {
    /// A job that begins now.
    pub fn new(policy: Arc<Policy>, request: Request, now: Moment) -> Self {
        let watch = match request.in_session {
            true => Watch::NotDue,
            false => Watch::At(now + WATCH_AFTER),
        };
        Machine {
            policy,
            request,
            now,
            state: JobState::New,
            phase: Phase::New,
            search: None,
            attempts: Vec::new(),
            number: 0,
            dispatches: 0,
            rejected: 0,
            excluded: Vec::new(),
            busy: Vec::new(),
            unmarked: Vec::new(),
            waited: Duration::ZERO,
            record: Record::Missing,
            hedge: Hedge::Unused,
            watch,
            relay: None,
            failure: None,
        }
    }

    /// Handles an event. The effects are to be performed in their order.
    pub fn on_event(&mut self, now: Moment, event: Event, out: &mut Effects) {
        self.now = self.now.max(now);
        match event {
            Event::Submitted => self.on_submitted(out),
            Event::Chosen { node, source, passed_over } => {
                self.on_chosen(node, source, passed_over, out);
            }
            Event::NoneChosen(verdict) => self.on_none_chosen(verdict, out),
            Event::OldestMark(node) => self.on_oldest_mark(node, out),
            Event::AnotherWay(way) => self.on_another_way(way, out),
            Event::LegBegun { leg, refused } => self.on_leg_begun(leg, refused, out),
            Event::Leg { leg, news } if self.is_running(leg) => self.on_leg(leg, news, out),
            Event::Leg { .. } => out.push(Effect::Ignored),
            Event::LackDescribed(refusal) => self.on_lack_described(refusal, out),
            Event::Reserved { attempt, slot, record } => {
                self.on_reserved(attempt, slot, record, out);
            }
            Event::Recorded { attempt, answer } => self.on_recorded(attempt, answer, out),
            Event::AssignmentWritten { attempt, answer } => {
                self.on_assignment_written(attempt, answer, out);
            }
            Event::Sent { attempt, link } => self.on_sent(attempt, link, out),
            Event::NotSent { attempt, reason } => self.on_not_sent(attempt, reason, out),
            Event::Committed { attempt, answer } => self.on_committed(attempt, answer, out),
            Event::Finished(answer) => self.on_finished(answer, out),
            Event::Queued(answer) => self.on_queued(answer, out),
            Event::Called(wakeup) => self.on_called(wakeup, out),
            Event::RetryBudget(answer) => self.on_retry_budget(answer, out),
            Event::Watched(on) => self.on_watched(on),
            Event::Idle => self.on_idle(out),
            Event::Timer => self.on_timer(out),
            Event::Message(message) => self.on_message(message, out),
        }
    }

    /// Where the job is.
    pub fn state(&self) -> JobState {
        self.state
    }

    /// Whether it has ended and no slot of it is left to release.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over) && self.attempts.is_empty()
    }

    /// Dispatches that were not refused by their node.
    pub fn dispatches(&self) -> u32 {
        self.dispatches
    }

    /// Whether any instance was asked to end the job at its deadline.
    pub fn is_watched(&self) -> bool {
        self.watch == Watch::On
    }

    /// Whether a commit was put off until no other event waits: [`Event::Idle`] is to follow.
    pub fn awaits_idle(&self) -> bool {
        self.attempts.iter().any(|attempt| commit_of(attempt) == Some(Commit::Due))
    }

    /// When [`Event::Timer`] is to follow; `None` once only answers are awaited.
    pub fn timer(&self) -> Option<Moment> {
        if !matches!(self.phase, Phase::Open) {
            return None;
        }
        let attempts = self.attempts.iter().filter_map(Attempt::timer).min();
        let queue = self.search.as_ref().and_then(Search::timer);
        let watch = match self.watch {
            Watch::At(at) => Some(at),
            Watch::NotDue | Watch::Asked | Watch::On => None,
        };
        let others = [attempts, queue, watch, self.hedge_at()];
        Some(others.into_iter().flatten().fold(self.request.deadline, Moment::min))
    }

    /// How long sending and the ack may take together. A node that acks by HTTP calls has longer.
    pub fn placing(&self, by_call: bool) -> Duration {
        let timing = &self.policy.timing;
        let own = Duration::from_millis(timing.send_ms + timing.ack_ms_of(by_call));
        step_timeout(self.now, self.request.deadline, own).unwrap_or_default()
    }

    /// Nodes that the job cannot use now: those that failed or refused it, and those that have it.
    pub fn unwanted(&self) -> impl Iterator<Item = &NodeId> {
        let live = self.attempts.iter().filter(|attempt| attempt.is_live());
        self.excluded.iter().chain(&self.busy).chain(live.map(|attempt| &attempt.node))
    }

    /// Nodes that failed or refused the job.
    pub fn excluded(&self) -> &[NodeId] {
        &self.excluded
    }

    /// Nodes whose mark no longer counts for this job.
    pub fn unmarked(&self) -> &[NodeId] {
        &self.unmarked
    }

    /// Whether this job may ignore that the node is marked as missing a model.
    pub fn may_unmark(&self, node: &NodeId) -> bool {
        let Request { preferred, strict, .. } = &self.request;
        let wanted = preferred.as_ref().filter(|_| *strict).is_none_or(|only| only == node);
        wanted && !self.unmarked.contains(node) && !self.excluded.contains(node)
    }

    pub(super) fn step(&mut self, step: JobStep) {
        if let Some(next) = self.state.after(step) {
            self.state = next;
        } else {
            debug_assert!(false, "not a legal step of a job: {:?} {step:?}", self.state);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    pub(super) fn position(&self, number: u32) -> Option<usize> {
        self.attempts.iter().position(|attempt| attempt.number == number)
    }

    pub(super) fn may_dispatch_again(&self) -> bool {
        let (timing, deadline) = (&self.policy.timing, self.request.deadline);
        timing.may_dispatch_again(self.dispatches, self.now, deadline)
    }

    pub(super) fn exec_due(&self, from: Moment) -> Moment {
        let exec = Duration::from_millis(self.policy.timing.exec_max_ms);
        (from + exec).min(self.request.deadline)
    }

    /// Sends an attempt whose slot is granted.
    pub(super) fn send(&mut self, at: usize, out: &mut Effects) {
        let due = self.now + self.placing(true);
        let attempt = &mut self.attempts[at];
        (attempt.state, attempt.sent_at, attempt.due) = (AttemptState::Sending, self.now, due);
        out.push(Effect::Send { attempt: attempt.number });
    }

    fn on_sent(&mut self, number: u32, link: Link, out: &mut Effects) {
        let Some(at) = self.position(number) else { return };
        if self.attempts[at].state != AttemptState::Sending {
            return;
        }
        let live = self.attempts.iter().filter(|attempt| attempt.is_live()).count();
        let (hedge, first) = (live > 1, self.dispatches == 0 && self.rejected == 0);
        self.dispatches += 1;
        if !hedge {
            self.step(JobStep::Grant);
            self.step(JobStep::Send);
        }
        let timing = &self.policy.timing;
        let placing = Duration::from_millis(timing.send_ms + timing.ack_ms_of(link.calls));
        let deadline = self.request.deadline;
        let attempt = &mut self.attempts[at];
        attempt.state = AttemptState::Sent;
        attempt.due = (attempt.sent_at + placing).min(deadline);
        attempt.link = link;
        let source = attempt.source;
        out.push(Effect::Dispatched { attempt: number, source, hedge, first });
        if self.request.in_turn {
            out.push(Effect::BindTurn { attempt: number });
        }
        if self.search.take().is_some_and(|search| search.owes_share()) {
            out.push(Effect::ChargeShare);
        }
    }

    fn on_not_sent(&mut self, number: u32, reason: NotSent, out: &mut Effects) {
        let Some(at) = self.position(number) else { return };
        if self.attempts[at].state != AttemptState::Sending {
            return;
        }
        let source = self.attempts.remove(at).source;
        let pace = match reason {
            NotSent::Full => Pace::AfterRest,
            NotSent::Unreachable => Pace::Now,
        };
        if !planted::on(Flaw::UnsentSlotKept) {
            out.push(Effect::Release { attempt: number, pace });
        }
        self.refused(source, out);
    }

    fn on_committed(&mut self, number: u32, answer: CommitAnswer, out: &mut Effects) {
        let Some(at) = self.position(number) else { return };
        let attempt = &mut self.attempts[at];
        let state = match attempt.state {
            AttemptState::Running(Commit::Asked) => AttemptState::Running(Commit::Done),
            AttemptState::Away(Commit::Asked) => AttemptState::Away(Commit::Done),
            _ => return,
        };
        attempt.state = state;
        // If the store did not answer, the node's next report restores the lease.
        if answer == CommitAnswer::Lost {
            let late = Refusal::new(Code::AckTimeout, "the ack came after the slot was gone");
            self.fail(at, Failure::kept(late), out);
        }
    }

    fn on_idle(&mut self, out: &mut Effects) {
        for attempt in &mut self.attempts {
            if commit_of(attempt) == Some(Commit::Due) {
                attempt.state = match attempt.state {
                    AttemptState::Away(_) => AttemptState::Away(Commit::Asked),
                    _ => AttemptState::Running(Commit::Asked),
                };
                out.push(Effect::Commit { attempt: attempt.number });
            }
        }
    }

    fn on_watched(&mut self, on: bool) {
        if self.watch == Watch::Asked {
            self.watch = if on { Watch::On } else { Watch::At(self.now + WATCH_AGAIN) };
        }
    }

    fn on_retry_budget(&mut self, answer: BudgetAnswer, out: &mut Effects) {
        let Some(step) = self.search.as_ref().map(|search| search.step) else { return };
        match (step, answer) {
            (SearchStep::HedgeBudget, BudgetAnswer::Allowed) => self.begin_search(out),
            (SearchStep::HedgeBudget, BudgetAnswer::Spent) => self.search = None,
            (SearchStep::RetryBudget, BudgetAnswer::Allowed) => self.back_off(out),
            (SearchStep::RetryBudget, BudgetAnswer::Spent) => {
                out.push(Effect::RetryRefused);
                self.end_with_failure(out);
            }
            _ => {}
        }
    }
}

fn commit_of(attempt: &Attempt) -> Option<Commit> {
    match attempt.state {
        AttemptState::Running(commit) | AttemptState::Away(commit) => Some(commit),
        _ => None,
    }
}

pub(super) fn deadline_passed() -> Refusal {
    Refusal::new(Code::JobTimeout, "the job's deadline passed")
}
