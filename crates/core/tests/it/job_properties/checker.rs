//! Plays the owner of a job machine: answers its questions in any order and in any way, tells it what
//! is wrong, late and repeated, and checks every effect.
//!
//! - A slot is released, abandoned or ended with the job exactly once, and only after its grant.
//! - Only an attempt with a slot is sent. At most one is current, two while hedging.
//! - Dispatches are bounded, and so is their time.
//! - The job ends or detaches exactly once, and after that only slots are given back.
//! - Mail about an attempt that is not current changes nothing.
//! - At its timer the machine does something about it.
//! - By way of another language: one leg at a time, the second after the first, none that outlives the job.

mod answers;
mod legs;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use lingua_core::budget::Timing;
use lingua_core::fleet::Fallbacks;
use lingua_core::fleet::select::{Passed, Source, Verdict};
use lingua_core::job::event::{
    BudgetAnswer, FinishAnswer, QueueAnswer, RecordAnswer, SlotAnswer, Wakeup,
};
use lingua_core::job::{
    Effect, Event, JobEvent, Leg, MAX_REJECTED, Machine, NodeMessage, NodeResult, Policy, Refusal,
    Reject, Request,
};
use lingua_core::outcome::Code;
use lingua_core::{Moment, NodeId};

use answers::{assign_answer, commit_answer, failure, record_answer, send_answer};

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// One of the open questions is answered in one of the ways.
    Answer(u8, u8),
    /// A node or a caller says something.
    Message(u32, u8),
    /// The timer goes off when it is due.
    Timer,
    /// Time passes without the timer being heard.
    Pass(u16),
    /// Nothing else waits.
    Idle,
    /// It is called out of the queue.
    Call(u8),
    /// A leg's job tells something.
    Leg(bool, u8),
}

/// A question that the machine asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Question {
    Choose,
    OldestMark,
    AnotherWay(Fallbacks),
    BeginLeg(Leg),
    Lack,
    Reserve { attempt: u32, with_record: bool },
    Record(Option<u32>),
    Assignment(u32),
    Send(u32),
    Commit(u32),
    Finish,
    Queue,
    Budget,
    Watch,
}

pub struct Harness {
    machine: Machine,
    hedging: bool,
    deadline: Moment,
    now: u64,
    open: Vec<Question>,
    /// Attempts with a slot.
    granted: BTreeSet<u32>,
    /// Attempts whose node's word counts.
    current: BTreeSet<u32>,
    dispatched: u32,
    budget_given: u32,
    endings: u32,
    queued: bool,
    /// The leg that runs.
    leg: Option<Leg>,
    first_done: bool,
}

const NODES: usize = 5;

fn node(n: usize) -> NodeId {
    NodeId::new(format!("n{}", n % NODES)).unwrap()
}

impl Harness {
    pub fn new(shape: u16) -> Self {
        let bit = |n: u16| shape & (1 << n) != 0;
        let hedging = bit(0);
        let policy = Policy {
            timing: Timing { max_attempts: 1 + u32::from(shape >> 8) % 3, ..Timing::stable() },
            hedge_after_ms: hedging.then_some(1_500),
            reconnect_grace_ms: 2_000,
            retry_backoff_ms: if bit(9) { 300 } else { 0 },
        };
        let deadline = Moment::from_millis(if bit(1) { 75_000 } else { 6_000 });
        let request = Request {
            deadline,
            preferred: bit(2).then(|| node(0)),
            strict: bit(3),
            in_turn: bit(4),
            in_session: bit(5),
            speech: bit(6),
            fallbacks: Fallbacks { captions: bit(7), pivot: bit(10), original: bit(11) },
        };
        let machine = Machine::new(Arc::new(policy), request, Moment::ZERO);
        let mut harness = Harness {
            machine,
            hedging,
            deadline,
            now: 0,
            open: Vec::new(),
            granted: BTreeSet::new(),
            current: BTreeSet::new(),
            dispatched: 0,
            budget_given: 0,
            endings: 0,
            queued: false,
            leg: None,
            first_done: false,
        };
        harness.tell(Event::Submitted);
        harness
    }

    pub fn step(&mut self, step: Step) {
        match step {
            Step::Answer(which, how) => self.answer(which, how),
            Step::Message(attempt, kind) => self.message(attempt, kind),
            Step::Timer => self.timer(),
            Step::Pass(ms) => self.now += u64::from(ms),
            Step::Idle => self.tell(Event::Idle),
            Step::Call(how) if self.queued => {
                self.queued = false;
                let wakeup = match how % 3 {
                    0 => Wakeup::Slot(node(usize::from(how) / 3)),
                    1 => Wakeup::Look,
                    _ => Wakeup::Leave,
                };
                self.tell(Event::Called(wakeup));
            }
            Step::Call(_) => {}
            Step::Leg(second, kind) => {
                self.leg_news(if second { Leg::Second } else { Leg::First }, kind);
            }
        }
    }

    /// Answers all that is open and lets all timers go off: the job must be over, and hold nothing.
    pub fn finish(mut self) {
        for round in 0..2_000u32 {
            if self.machine.is_over() {
                break;
            }
            match self.open.is_empty() {
                false => self.answer(0, (round % 251) as u8),
                true => self.timer(),
            }
            if let Some(leg) = self.leg.filter(|_| round % 7 == 3) {
                self.leg_news(leg, (round % 8) as u8);
            }
        }
        assert!(self.machine.is_over(), "the job did not end");
        assert_eq!(self.endings, 1);
        assert!(self.granted.is_empty(), "slots are left: {:?}", self.granted);
        assert!(!self.queued);
    }

    fn timer(&mut self) {
        let Some(at) = self.machine.timer() else { return };
        self.now = self.now.max(at.as_millis());
        self.tell(Event::Timer);
        let next = self.machine.timer();
        assert!(
            next.is_none_or(|next| next.as_millis() > self.now),
            "a timer that is due was not answered"
        );
    }

    fn message(&mut self, attempt: u32, kind: u8) {
        let body = || Box::new(NodeMessage::from(Bytes::from_static(b"{}")));
        let result = |result| JobEvent::Result { attempt, result: Box::new(result) };
        let reject = |reason| JobEvent::Reject { attempt, reason: Box::new(reason) };
        let message = match kind % 20 {
            0 => JobEvent::OnWire { attempt },
            1 => JobEvent::NotSent { attempt },
            2..=4 => JobEvent::Ack { attempt },
            5 => reject(Reject::Busy),
            6 => reject(Reject::MissingModel(None)),
            7 => reject(Reject::Other("no".into())),
            8 => JobEvent::Partial { attempt, body: body() },
            9 => result(NodeResult::Success(*body())),
            10 => result(NodeResult::Empty { body: *body(), reason: "SILENCE".into() }),
            11 => result(failure("MODEL_NOT_AVAILABLE")),
            12 => result(failure("GPU_ON_FIRE")),
            13 | 14 => JobEvent::NodeGone { attempt },
            15 | 16 => JobEvent::NodeBack { attempt },
            17 => JobEvent::Dropped { attempt },
            18 => JobEvent::TurnClosed { attempt },
            _ => JobEvent::Cancel { reason: "test" },
        };
        let is_cancel = matches!(message, JobEvent::Cancel { .. });
        let current = self.current.contains(&attempt) || is_cancel && self.endings == 0;
        let before = (self.machine.timer(), self.machine.state(), self.machine.dispatches());
        let effects = self.tell_raw(Event::Message(message));
        if !current {
            assert!(matches!(effects[..], [Effect::Ignored]), "a stale message had an effect");
            let after = (self.machine.timer(), self.machine.state(), self.machine.dispatches());
            // Time passes for everybody.
            assert_eq!((before.1, before.2), (after.1, after.2));
        }
        self.check(effects);
    }

    fn answer(&mut self, which: u8, how: u8) {
        if self.open.is_empty() {
            return;
        }
        let question = self.open.remove(usize::from(which) % self.open.len());
        let event = match question {
            Question::Choose => self.choose(how),
            Question::OldestMark => {
                let found = (0..NODES).map(node).find(|node| self.machine.may_unmark(node));
                Event::OldestMark(found.filter(|_| how.is_multiple_of(2)))
            }
            Question::AnotherWay(ways) => Event::AnotherWay(self.another_way(ways, how)),
            Question::BeginLeg(leg) => self.begin_leg(leg, how),
            Question::Lack => Event::LackDescribed(Refusal::new(Code::AllNodesBusy, "full")),
            Question::Reserve { attempt, with_record } => self.reserve(attempt, with_record, how),
            Question::Record(attempt) => Event::Recorded { attempt, answer: record_answer(how) },
            Question::Assignment(attempt) => {
                Event::AssignmentWritten { attempt, answer: assign_answer(how) }
            }
            Question::Send(attempt) => send_answer(attempt, how),
            Question::Commit(attempt) => Event::Committed { attempt, answer: commit_answer(how) },
            Question::Finish if how.is_multiple_of(5) => Event::Finished(FinishAnswer::Refused),
            Question::Finish => Event::Finished(FinishAnswer::Accepted),
            Question::Queue if how.is_multiple_of(5) => Event::Queued(QueueAnswer::Full),
            Question::Queue => {
                // A job that left meanwhile is not called.
                self.queued = self.endings == 0;
                Event::Queued(QueueAnswer::Joined)
            }
            Question::Budget if how.is_multiple_of(3) => Event::RetryBudget(BudgetAnswer::Spent),
            Question::Budget => {
                self.budget_given += 1;
                Event::RetryBudget(BudgetAnswer::Allowed)
            }
            Question::Watch => Event::Watched(how.is_multiple_of(2)),
        };
        // The node may speak once the assignment is on its connection, and not before.
        if let Event::Sent { attempt, .. } = &event
            && self.granted.contains(attempt)
        {
            self.current.insert(*attempt);
        }
        self.tell(event);
    }

    fn reserve(&mut self, attempt: u32, with_record: bool, how: u8) -> Event {
        let slot = match how % 8 {
            0 | 1 => SlotAnswer::Refused,
            2 => SlotAnswer::StoreDown,
            _ => SlotAnswer::Granted,
        };
        if slot == SlotAnswer::Granted {
            self.granted.insert(attempt);
        }
        let record = if with_record { record_answer(how / 8) } else { RecordAnswer::NotAsked };
        Event::Reserved { attempt, slot, record }
    }

    fn choose(&mut self, how: u8) -> Event {
        let first = usize::from(how);
        let mut free = (first..first + NODES).map(node);
        let chosen = free.find(|node| !self.machine.unwanted().any(|not| not == node));
        match chosen.filter(|_| !how.is_multiple_of(4)) {
            Some(node) => {
                let source = match how % 5 {
                    0 | 1 => Source::Full,
                    2 => Source::Preferred,
                    _ => Source::Sample,
                };
                let passed_over = how.is_multiple_of(7).then_some(Passed::Unknown);
                Event::Chosen { node, source, passed_over }
            }
            None => Event::NoneChosen(match how % 5 {
                0 => Verdict::NoneEligible,
                1 => Verdict::OnlyFailed,
                2 => Verdict::PreferredNotCapable(Passed::Excluded),
                3 => Verdict::PreferredBusy,
                _ => Verdict::Busy,
            }),
        }
    }

    fn tell(&mut self, event: Event) {
        let effects = self.tell_raw(event);
        self.check(effects);
    }

    fn tell_raw(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.machine.on_event(Moment::from_millis(self.now), event, &mut effects);
        effects
    }

    fn check(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if self.endings > 0 {
                assert!(
                    matches!(
                        effect,
                        Effect::Release { .. } | Effect::Abandon { .. } | Effect::Ignored
                    ),
                    "something followed the ending"
                );
            }
            self.check_one(effect);
        }
        let most = if self.hedging { 2 } else { 1 };
        assert!(self.current.len() <= most, "too many attempts count: {:?}", self.current);
        assert!(self.dispatched <= 3 + MAX_REJECTED + 1);
        let timer = self.machine.timer();
        assert!(timer.is_none_or(|at| at <= self.deadline), "it goes on after its deadline");
        if self.endings > 0 {
            assert!(self.current.is_empty(), "an attempt outlived its job");
            assert!(self.leg.is_none(), "a leg outlived its job");
        }
    }

    fn check_one(&mut self, effect: Effect) {
        match effect {
            Effect::Choose { .. } => self.open.push(Question::Choose),
            Effect::FindOldestMark => self.open.push(Question::OldestMark),
            Effect::FindAnotherWay(ways) => self.open.push(Question::AnotherWay(ways)),
            Effect::BeginLeg { .. } | Effect::CancelLeg { .. } | Effect::LegOver { .. } => {
                self.check_leg(&effect);
            }
            Effect::DescribeLack(_) => self.open.push(Question::Lack),
            Effect::Reserve { attempt, with_record } => {
                assert!(!self.granted.contains(&attempt));
                self.open.push(Question::Reserve { attempt, with_record });
            }
            Effect::WriteAssignment { attempt } => {
                assert!(self.granted.contains(&attempt));
                self.open.push(Question::Assignment(attempt));
            }
            Effect::WriteRecord { attempt } => self.open.push(Question::Record(attempt)),
            Effect::Send { attempt } => {
                assert!(self.granted.contains(&attempt), "sent without a slot");
                self.open.push(Question::Send(attempt));
            }
            Effect::Commit { attempt } => self.open.push(Question::Commit(attempt)),
            Effect::Release { attempt, .. } | Effect::Abandon { attempt, .. } => {
                self.resolve(attempt);
            }
            Effect::FinishByAnswer { attempt, .. } => {
                self.resolve(attempt);
                self.open.push(Question::Finish);
            }
            Effect::Finish { .. } => self.open.push(Question::Finish),
            Effect::JoinQueue => self.open.push(Question::Queue),
            Effect::LeaveQueue => {
                self.queued = false;
                self.open.retain(|question| *question != Question::Queue);
            }
            Effect::AskRetryBudget => self.open.push(Question::Budget),
            Effect::Watch => self.open.push(Question::Watch),
            Effect::Dispatched { hedge, .. } => {
                self.dispatched += 1;
                assert_eq!(hedge, self.current.len() > 1);
            }
            Effect::End(_) | Effect::Detach => self.endings += 1,
            Effect::AttemptFailed { code, .. } => self.check_exclusion(code),
            Effect::AcknowledgeResult { .. }
            | Effect::BindTurn { .. }
            | Effect::ChargeShare
            | Effect::RefundShare
            | Effect::RetryRefused
            | Effect::SearchEnded
            | Effect::SwitchToText
            | Effect::SwitchToOriginal
            | Effect::LegPlaced { .. }
            | Effect::LegAccepted { .. }
            | Effect::Selecting
            | Effect::Waiting
            | Effect::Waited(_)
            | Effect::Accepted { .. }
            | Effect::Partial { .. }
            | Effect::AttemptStopped { .. }
            | Effect::AttemptAnswered { .. }
            | Effect::NoteGap { .. }
            | Effect::Retrying(_)
            | Effect::Note(_)
            | Effect::Ignored => {}
        }
    }

    /// No other attempt goes to a node that failed, unless that only has no slot free.
    fn check_exclusion(&self, code: Code) {
        let is_excluded = !self.machine.excluded().is_empty();
        assert!(is_excluded || code == Code::AllNodesBusy, "it may go there again");
    }

    fn resolve(&mut self, attempt: u32) {
        assert!(self.granted.remove(&attempt), "a slot that the job does not have: {attempt}");
        self.current.remove(&attempt);
    }
}
