//! A node for the scenarios, and its effects in words.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::budget::Timing;
use lingua_core::link::event::{
    Answer, Call, Heartbeat, JobMessage, MessageKind, News, Registered, ToNode, TokenClaim,
};
use lingua_core::link::{
    Arrival, BreakerPolicy, Effect, Event, Kinds, Machine, NewAttempt, Percents, Policy, SlowStart,
    Supports, Thresholds,
};
use lingua_core::node::{Declaration, Health, NodeProfile, Order};
use lingua_core::rate::Rate;
use lingua_core::slots::Confirmed;
use lingua_core::{JobId, LeaseToken, Moment};

pub(super) struct Plain;

impl Kinds for Plain {
    type Listener = &'static str;
    type Assignment = &'static str;
    type Payload = &'static str;
    type Slot = &'static str;
}

pub(super) const OURS: Supports = Supports {
    ack: true,
    cancel: true,
    binary_audio: false,
    text: false,
    tokens: false,
    other: false,
    result_ack: true,
    calls: false,
};

/// A node, and what it was told to do, in words.
pub(super) struct Node {
    pub(super) machine: Machine<Plain>,
    pub(super) now: Moment,
    pub(super) epoch: u64,
}

impl Node {
    pub(super) fn new() -> Self {
        let second = Duration::from_secs(1);
        let policy = Policy {
            timing: Timing::stable(),
            breaker: BreakerPolicy { failures: 2, first_pause_ms: 500, longest_pause_ms: 1_000 },
            slow_start: SlowStart::Off,
            overload_above: Thresholds::of_all(95.0),
            updates: Rate::new(100, second, 100),
            lookups: Rate::new(10, second, 10),
        };
        let machine = Machine::new(Arc::new(policy), Moment::ZERO);
        Node { machine, now: Moment::ZERO, epoch: 0 }
    }

    pub(super) fn feed(&mut self, event: Event<Plain>) -> Vec<String> {
        let effects = self.machine.on_event(self.now, event);
        effects.into_iter().filter_map(worded).collect()
    }

    pub(super) fn wait(&mut self, wait: Duration) -> Vec<String> {
        self.now = self.now + wait;
        self.feed(Event::Tick)
    }

    pub(super) fn register(
        &mut self,
        supports: Supports,
        running: Option<Vec<(JobId, u32)>>,
    ) -> Vec<String> {
        self.register_as(supports, running, false)
    }

    /// The same, perhaps of a node that another instance had.
    pub(super) fn register_as(
        &mut self,
        supports: Supports,
        running: Option<Vec<(JobId, u32)>>,
        moved: bool,
    ) -> Vec<String> {
        self.epoch += 1;
        let semantic = [lingua_core::Lang::new("en").unwrap()];
        let declaration = Declaration {
            semantic: lingua_core::lang::LangSet::new(semantic).unwrap(),
            max_slots: 2,
            ..Declaration::default()
        };
        let registered = Registered {
            epoch: self.epoch,
            over: None,
            profile: Arc::new(NodeProfile::from_declaration(declaration).unwrap()),
            version: 1,
            health: Health::Ready,
            supports,
            arrival: Arrival::Local,
            order: Order::Serve,
            heartbeat: Duration::from_secs(5),
            lists_running: running.is_some(),
            running,
            moved,
            hold: None,
            at_ms: 1,
            reputation: None,
            percents: Percents::default(),
        };
        self.feed(Event::Registered(Box::new(registered)))
    }

    pub(super) fn assign(&mut self, n: u32) -> Vec<String> {
        let attempt = NewAttempt {
            token: token(n),
            turn: "turn".to_owned(),
            index: u64::from(n),
            listener: "job",
            lease: Duration::from_secs(3),
            wanted_until: None,
        };
        self.feed(Event::AssignWanted { attempt, assignment: "work" })
    }

    pub(super) fn says(&mut self, n: u32, kind: MessageKind) -> Vec<String> {
        let (job, attempt, token) = (token(n).job, Some(1), TokenClaim::Absent);
        let message = JobMessage { job, attempt, token, kind, payload: "said" };
        self.feed(Event::Message { epoch: self.epoch, message })
    }

    /// The node reports what it runs, and the store answers so.
    pub(super) fn reports(&mut self, running: &[u32], confirmed: Confirmed) -> Vec<String> {
        let running = running.iter().map(|n| (token(*n).job, 1)).collect();
        let beat = Heartbeat { running: Some(running), ..Heartbeat::default() };
        let mut words = self.feed(Event::Heartbeat { epoch: self.epoch, beat });
        words.extend(self.answer(Answer::Kept { confirmed: true }));
        words.extend(self.answer(Answer::Confirmed(confirmed)));
        words
    }

    pub(super) fn answer(&mut self, answer: Answer) -> Vec<String> {
        self.feed(Event::Answered { epoch: self.epoch, answer })
    }
}

pub(super) fn token(n: u32) -> LeaseToken {
    LeaseToken { job: format!("{n:026}").parse().unwrap(), attempt: 1, nonce: u128::from(n) }
}

/// An effect in words; those about choosing and time are left out.
pub(super) fn worded(effect: Effect<Plain>) -> Option<String> {
    Some(match effect {
        Effect::Send(ToNode::Assign(_)) => "assign".into(),
        Effect::Send(ToNode::Control { command, reason }) => format!("{command}: {reason}"),
        Effect::PutAside => "put aside".into(),
        Effect::BackInService => "back in service".into(),
        Effect::ProbeRefused { retry_after } => format!("again in {} s", retry_after.as_secs()),
        Effect::Send(ToNode::Cancel { reason, frees, .. }) => {
            format!("cancel {reason}{}", if frees.is_some() { ", then release" } else { "" })
        }
        Effect::Tell { news, .. } => match news {
            News::Message(kind, _) => format!("tell {}", kind.as_str()),
            News::NotSent => "tell not sent".into(),
            News::NodeGone => "tell gone".into(),
            News::NodeBack => "tell back".into(),
            News::Dropped => "tell dropped".into(),
            News::TurnClosed => "tell turn closed".into(),
        },
        Effect::NotAssigned(why) => format!("{why:?}"),
        Effect::Release { slot, .. } => format!("release {}", slot.unwrap_or("nothing")),
        Effect::SlotFreed(slot) => format!("freed {slot}"),
        Effect::LookupLimited => "lookup limited".to_owned(),
        Effect::Stale(kind) => format!("stale {}", kind.as_str()),
        Effect::Orphaned(_) => "orphaned".into(),
        Effect::ReportRefused { unknown, .. } => format!("{unknown} unknown are too many"),
        Effect::Store { call: Call::LookUp(jobs), .. } => format!("look {} up", jobs.len()),
        Effect::BreakerOpened => "breaker opened".into(),
        _ => return None,
    })
}
