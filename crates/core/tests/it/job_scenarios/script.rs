//! A job machine that is told one event after the other, with all its effects kept.

use std::sync::Arc;

use bytes::Bytes;
use lingua_core::budget::Timing;
use lingua_core::fleet::Fallbacks;
use lingua_core::fleet::select::{Source, Verdict};
use lingua_core::job::event::{
    AssignAnswer, BudgetAnswer, FinishAnswer, QueueAnswer, RecordAnswer, SlotAnswer,
};
use lingua_core::job::{
    Effect, Ended, Event, JobEvent, JobState, Link, Machine, NodeMessage, NodeResult, Policy,
    Reject, Request,
};
use lingua_core::{Moment, NodeId};

pub const GRACE_MS: u64 = 2_000;
pub const QUEUE_MS: u64 = 1_000;

pub struct Script {
    machine: Machine,
    now: u64,
    effects: Vec<Effect>,
    written: bool,
}

pub fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub fn body() -> NodeMessage {
    Bytes::from_static(b"{}").into()
}

pub fn success(attempt: u32) -> JobEvent {
    JobEvent::Result { attempt, result: Box::new(NodeResult::Success(body())) }
}

pub fn failure(attempt: u32, code: &str) -> JobEvent {
    let (code, message) = (code.to_owned(), "in its own words".to_owned());
    let result = NodeResult::Failure { code, message, missing_model: None };
    JobEvent::Result { attempt, result: Box::new(result) }
}

pub fn reject(attempt: u32, reason: Reject) -> JobEvent {
    JobEvent::Reject { attempt, reason: Box::new(reason) }
}

impl Script {
    /// A job of a session that chooses its first node.
    pub fn begin() -> Self {
        Script::with(|_, _| {})
    }

    pub fn with(change: impl FnOnce(&mut Policy, &mut Request)) -> Self {
        let timing = Timing { queue_max_ms: QUEUE_MS, ..Timing::stable() };
        let mut policy = Policy {
            timing,
            hedge_after_ms: None,
            reconnect_grace_ms: GRACE_MS,
            retry_backoff_ms: 0,
        };
        let mut request = Request {
            deadline: Moment::from_millis(75_000),
            preferred: None,
            strict: false,
            in_turn: false,
            in_session: true,
            speech: false,
            fallbacks: Fallbacks::NONE,
        };
        change(&mut policy, &mut request);
        let machine = Machine::new(Arc::new(policy), request, Moment::ZERO);
        let mut script = Script { machine, now: 0, effects: Vec::new(), written: false };
        script.tell(Event::Submitted);
        script
    }

    /// One that waits for its node's ack.
    pub fn dispatched() -> Self {
        let mut script = Script::begin();
        script.place(1, "a");
        script
    }

    /// One that its node has.
    pub fn accepted() -> Self {
        Script::begin().into_accepted()
    }

    pub fn into_accepted(mut self) -> Self {
        self.place(1, "a");
        self.message(JobEvent::Ack { attempt: 1 });
        self
    }

    pub fn after(&mut self, ms: u64) -> &mut Self {
        self.now += ms;
        self
    }

    pub fn tell(&mut self, event: Event) {
        self.effects.clear();
        self.machine.on_event(Moment::from_millis(self.now), event, &mut self.effects);
    }

    /// Tells more, and keeps what came of the last event.
    fn tell_too(&mut self, event: Event) {
        self.machine.on_event(Moment::from_millis(self.now), event, &mut self.effects);
    }

    pub fn message(&mut self, message: JobEvent) {
        self.tell(Event::Message(message));
    }

    pub fn chosen(&mut self, name: &str) {
        self.tell(Event::Chosen { node: node(name), source: Source::Sample, passed_over: None });
    }

    pub fn none_left(&mut self, verdict: Verdict) {
        self.tell(Event::NoneChosen(verdict));
    }

    /// The first slot, which is asked for together with the record.
    pub fn granted(&mut self, attempt: u32) {
        self.written = true;
        let (slot, record) = (SlotAnswer::Granted, RecordAnswer::Written);
        self.tell(Event::Reserved { attempt, slot, record });
    }

    /// A slot of a job whose record is there.
    pub fn granted_later(&mut self, attempt: u32) {
        let (slot, record) = (SlotAnswer::Granted, RecordAnswer::NotAsked);
        self.tell(Event::Reserved { attempt, slot, record });
        self.tell(Event::AssignmentWritten { attempt, answer: AssignAnswer::Written });
    }

    pub fn sent(&mut self, attempt: u32) {
        self.tell(Event::Sent { attempt, link: Link::default() });
    }

    /// All the way onto a node.
    pub fn place(&mut self, attempt: u32, name: &str) {
        self.chosen(name);
        match self.written {
            true => self.granted_later(attempt),
            false => self.granted(attempt),
        }
        self.sent(attempt);
    }

    pub fn budget(&mut self, allowed: bool) {
        let answer = if allowed { BudgetAnswer::Allowed } else { BudgetAnswer::Spent };
        self.tell(Event::RetryBudget(answer));
    }

    pub fn queued(&mut self) {
        self.tell(Event::Queued(QueueAnswer::Joined));
    }

    pub fn queue_full(&mut self) {
        self.tell(Event::Queued(QueueAnswer::Full));
    }

    pub fn accepted_ending(&mut self) {
        self.tell_too(Event::Finished(FinishAnswer::Accepted));
    }

    pub fn refused_ending(&mut self) {
        self.tell_too(Event::Finished(FinishAnswer::Refused));
    }

    /// The timer goes off.
    pub fn timer(&mut self) {
        self.now += self.timer_in();
        self.tell(Event::Timer);
    }

    /// In how many milliseconds the timer goes off.
    pub fn timer_in(&self) -> u64 {
        self.machine.timer().expect("it waits for something").as_millis() - self.now
    }

    pub fn state(&self) -> JobState {
        self.machine.state()
    }

    pub fn is_over(&self) -> bool {
        self.machine.is_over()
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How it ended, by the last event.
    pub fn ending(&self) -> Ended {
        let ending = |effect: &Effect| match effect {
            Effect::End(ended) => Some(ended.clone()),
            _ => None,
        };
        self.effects.iter().find_map(ending).expect("it ended")
    }

    /// The last event had such an effect.
    #[track_caller]
    pub fn sees(&self, is: impl Fn(&Effect) -> bool) {
        assert!(self.effects.iter().any(is), "there was no such effect");
    }

    /// The last event had no such effect.
    #[track_caller]
    pub fn sees_none(&self, is: impl Fn(&Effect) -> bool) {
        assert!(!self.effects.iter().any(is), "there was such an effect");
    }
}
