//! The machine of one node: `on_event(now, Event) -> Effects`.
//!
//! It decides about the node's connection and the attempts on it. Its owner performs the effects and feeds back
//! the answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Supports;
use super::attempt::{Attempt, Attempts};
use super::breaker::{Breaker, BreakerPolicy, BreakerState, Fault};
use super::event::{Effect, Effects, Event, Heartbeat, Kinds, News, Registered, ToNode};
use super::freshness::Freshness;
use super::inbound::Unclaimed;
use super::overload::{Overload, OverloadPolicy, Percents, Thresholds};
use super::record::RecordSync;
use super::reputation::Reputation;
use super::trust::{Arrival, SlowStart, Trust};
use crate::budget::Timing;
use crate::ids::ModelId;
use crate::node::{Health, NodeProfile, Order};
use crate::planted::{self, Flaw};
use crate::rate::{Gcra, Rate};
use crate::time::Moment;

/// After a reconnect a node has so long to send the results that it made while it was disconnected.
pub const GRACE_FOR_LATE_RESULTS: Duration = Duration::from_secs(2);

/// A node to which nothing could be sent is not chosen for so long.
pub const INHIBITION: Duration = Duration::from_secs(1);

/// A node that has had no connection for so long is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(600);

/// A result of an unknown job is kept for so long, for the instance of the job to adopt the attempt.
pub const ADOPTION: Duration = Duration::from_millis(1_500);

/// Results that are kept for [`ADOPTION`]; one more replaces the oldest.
pub const MAX_UNCLAIMED: usize = 8;

/// Gaps that are kept here; the store remembers further ones.
pub const MAX_GAPS: usize = 64;

/// The settings of the machine; the same for all nodes of an instance.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Spans of time.
    pub timing: Timing,
    /// When a failing node gets no jobs, and when it is probed.
    pub breaker: BreakerPolicy,
    /// Which nodes start slowly, and how.
    pub slow_start: SlowStart,
    /// How much of each resource is too much.
    pub overload_above: Thresholds,
    /// The rate of updates of the node's record.
    pub updates: Rate,
    /// The rate of lookups of jobs that the node names and this instance does not know.
    pub lookups: Rate,
}

/// The connection of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Connection {
    Connected { supports: Supports },
    Disconnected { since: Moment },
}

/// How the node reports what it runs, and what waits for its report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Reporting {
    /// It lists what it runs in its heartbeats.
    pub lists_running: bool,
    /// It came from another instance and may still run jobs whose leases expire soon: it is not chosen until it
    /// has reported what it runs, at most until then.
    pub unreconciled_until: Option<Moment>,
    /// It may run jobs of which neither the store nor this process knows: it is not chosen until it has
    /// reported what it runs, at most until then.
    pub unvouched_until: Option<Moment>,
    /// The same moment, until the store is told of it.
    pub hold_until: Option<Moment>,
    /// What it runs by its last report over this connection; `None` before the first.
    pub reported: Option<Vec<crate::slots::LeaseToken>>,
}

/// One node: its connection, its record, and the attempts that it has. It outlives a connection, so that a
/// node that reconnects finds its jobs.
pub struct Machine<K: Kinds> {
    pub(super) policy: Arc<Policy>,
    /// The latest moment seen; time never runs backwards here.
    pub(super) now: Moment,
    pub(super) connection: Connection,
    /// Epoch of the latest registration.
    pub(super) epoch: u64,
    pub(super) profile: Arc<NodeProfile>,
    pub(super) version: u64,
    pub(super) declared: Health,
    pub(super) overload: Overload,
    pub(super) order: Order,
    pub(super) breaker: Breaker,
    pub(super) trust: Trust,
    /// How it was last admitted; `None` if it never was.
    pub(super) arrival: Option<Arrival>,
    pub(super) freshness: Freshness,
    pub(super) inhibited_until: Option<Moment>,
    pub(super) reporting: Reporting,
    pub(super) attempts: Attempts<K>,
    pub(super) unclaimed: VecDeque<Unclaimed<K>>,
    pub(super) gaps: Vec<(ModelId, Moment)>,
    pub(super) sync: RecordSync,
    /// Jobs that it did and failed. `breaker` and `trust` follow from them.
    pub(super) past: Reputation,
    /// Jobs done and failed before this machine counted.
    pub(super) recalled: (u64, u64),
    /// The rate at which probes may be requested.
    pub(super) probe_requests: Gcra,
    /// Jobs that had ended on it at the last heartbeat.
    pub(super) ended_at_beat: u64,
    timer: Option<Moment>,
}

impl<K: Kinds> Machine<K> {
    /// A node that has not registered yet.
    pub fn new(policy: Arc<Policy>, now: Moment) -> Self {
        let heartbeat = Duration::from_millis(policy.timing.heartbeat_ms);
        Machine {
            now,
            connection: Connection::Disconnected { since: now },
            epoch: 0,
            profile: Arc::new(NodeProfile::none()),
            version: 0,
            declared: Health::Registering,
            overload: Overload::default(),
            order: Order::Serve,
            breaker: Breaker::new(&policy.breaker),
            trust: Trust::new(policy.slow_start, Arrival::Open),
            arrival: None,
            freshness: Freshness::new(heartbeat, now),
            inhibited_until: None,
            reporting: Reporting::default(),
            attempts: Attempts::default(),
            unclaimed: VecDeque::new(),
            gaps: Vec::new(),
            sync: RecordSync::default(),
            past: Reputation::default(),
            recalled: (0, 0),
            probe_requests: Gcra::default(),
            ended_at_beat: 0,
            timer: None,
            policy,
        }
    }

    /// Handles an event. The effects are to be performed in their order.
    pub fn on_event(&mut self, now: Moment, event: Event<K>) -> Effects<K> {
        self.now = self.now.max(now);
        let mut out = Effects::new();
        self.catch_up(&mut out);
        match event {
            Event::Registered(registered) => self.on_registered(*registered, &mut out),
            Event::Heartbeat { epoch, beat } => self.on_heartbeat(epoch, beat, &mut out),
            Event::Message { epoch, message } => self.on_message(epoch, message, &mut out),
            Event::AssignWanted { attempt, assignment } => {
                self.on_assign(attempt, assignment, &mut out);
            }
            Event::Adopted(attempt) => self.on_adopted(attempt, &mut out),
            Event::GivenUp { job, attempt, reason, slot } => {
                self.on_given_up(job, attempt, reason, slot, &mut out);
            }
            Event::AttemptFailed { job, attempt, failed } => {
                self.on_attempt_failed(&job, attempt, failed, &mut out)
            }
            Event::CancelSent { token } => self.on_cancel_sent(token, &mut out),
            Event::Ended { job, attempt } => drop(self.attempts.remove(&job, attempt)),
            Event::Abandoned { job, attempt, slot } => {
                let lease = self.running_lease();
                self.attempts.abandon(&job, attempt, slot, lease);
            }
            Event::Extended { token, lease } => self.extend(token, lease),
            Event::NotQueued { token } => self.on_not_queued(token, &mut out),
            Event::SendFailed { epoch, job, attempt } => {
                self.on_send_failed(epoch, job, attempt, &mut out);
            }
            Event::Faulted => self.count_fault(Fault::Job, &mut out),
            Event::FailureNoted { at_ms, job, code } => {
                self.past.note_failure(at_ms, job, &code);
                self.sync.pending.reputation = true;
            }
            Event::ProbeRequested => self.on_probe_requested(&mut out),
            Event::Answered { epoch, answer } => self.on_answer(epoch, answer, &mut out),
            Event::StoreIsBack => self.on_store_back(),
            Event::Ordered(order) => self.on_ordered(order, &mut out),
            Event::GapNoted { model, until } => self.on_gap(model, until, &mut out),
            Event::GapsClosed(models) => self.close_gaps(&models, &mut out),
            Event::MovedAway { epoch } => self.on_moved_away(epoch, &mut out),
            Event::Disconnected { epoch } => self.on_disconnected(epoch, &mut out),
            Event::Tick => {}
        }
        self.start_sync(&mut out);
        self.set_timer(&mut out);
        out
    }

    fn on_registered(&mut self, new: Registered, out: &mut Effects<K>) {
        if new.epoch <= self.epoch {
            return;
        }
        let same_connection = new.over.is_some_and(|over| over == self.epoch);
        if self.is_connected() && !same_connection {
            out.push(Effect::CloseOlder);
        }
        if same_connection {
            self.attempts.renumber(self.epoch, new.epoch);
        }
        let was_known = self.epoch > 0;
        if planted::on(Flaw::RegistrationForgetsAttempts) {
            self.attempts.take();
        }
        self.sync.tell_now();
        if !was_known || new.moved {
            self.recall(new.reputation);
        }
        if self.past.since_ms == 0 {
            self.past.since_ms = new.at_ms;
        }
        self.trust = self.trust_of(new.arrival);
        (self.epoch, self.arrival, self.order) = (new.epoch, Some(new.arrival), new.order);
        (self.profile, self.version) = (new.profile, new.version);
        (self.declared, self.overload) = (new.health, Overload::default());
        self.report_resources(new.percents, new.supports);
        self.connection = Connection::Connected { supports: new.supports };
        self.freshness = Freshness::new(new.heartbeat, self.now);
        self.freshness.alive(self.now);
        self.inhibited_until = None;
        // It reports what it runs with its first heartbeat, unless it did so with the registration.
        let silent = new.moved && new.supports.any() && new.running.is_none();
        let silent = silent && !planted::on(Flaw::NewcomerNotReconciled);
        self.reporting = Reporting {
            lists_running: new.lists_running,
            unreconciled_until: silent.then(|| self.now + new.heartbeat * 2),
            unvouched_until: new.hold.map(|hold| self.now + hold),
            hold_until: new.hold.map(|hold| self.now + hold),
            reported: None,
        };
        self.tell_all(|| News::NodeBack, out);
        if let Some(running) = new.running {
            // A report that is refused here is refused again with the next heartbeat, which has an answer.
            let _ = self.note_running(running, out);
        }
        self.sync.pending.beat |= was_known || self.overload.is_overloaded();
        self.sync.pending.renew |= was_known;
        self.tell_aside(out);
        out.push(Effect::FleetChanged);
    }

    fn on_heartbeat(&mut self, epoch: u64, beat: Heartbeat, out: &mut Effects<K>) {
        let Some(supports) = self.supports_of(epoch) else { return };
        self.alive();
        if let Some((profile, version)) = beat.profile
            && version != self.version
        {
            (self.profile, self.version) = (profile, version);
            self.sync.pending.put = true;
        }
        if let Some(health) = beat.health {
            self.declared = health;
        }
        self.report_resources(beat.percents, supports);
        self.reporting.lists_running |= beat.running.is_some();
        match (beat.running, beat.running_count) {
            (Some(running), _) => {
                if let Err(refused) = self.note_running(running, out) {
                    out.push(refused);
                }
            }
            (None, Some(count)) => self.sync.pending.count = Some((count, self.now)),
            (None, None) => {}
        }
        self.sync.pending.beat = true;
        self.sync.pending.renew = true;
        let ended = self.past.done + self.past.failed;
        if ended == self.ended_at_beat {
            out.push(Effect::Idle);
        }
        self.ended_at_beat = ended;
        out.push(Effect::FleetChanged);
    }

    fn report_resources(&mut self, percents: Percents, supports: Supports) {
        // An agent that reports three times less often has to report it twice: a peak of a moment
        // would keep others before it for long.
        let reports = if supports.any() { 1 } else { 2 };
        let policy = OverloadPolicy { above: self.policy.overload_above, reports };
        self.overload.report(percents, policy);
    }

    fn on_disconnected(&mut self, epoch: u64, out: &mut Effects<K>) {
        if self.supports_of(epoch).is_some() {
            self.lose_connection(out);
            self.sync.pending.beat = true;
        }
    }

    /// The connection is gone.
    pub(super) fn lose_connection(&mut self, out: &mut Effects<K>) {
        self.connection = Connection::Disconnected { since: self.now };
        self.tell_all(|| News::NodeGone, out);
        out.push(Effect::FleetChanged);
    }

    fn on_moved_away(&mut self, epoch: u64, out: &mut Effects<K>) {
        if epoch <= self.epoch {
            return;
        }
        if self.is_connected() {
            out.push(Effect::Send(ToNode::Superseded));
            self.lose_connection(out);
        }
        self.epoch = epoch;
        out.push(Effect::Detached(self.attempts.take()));
    }

    fn on_ordered(&mut self, order: Order, out: &mut Effects<K>) {
        if self.order == order {
            return;
        }
        self.order = order;
        self.sync.pending.beat = true;
        if self.is_connected() {
            if order == Order::Serve && self.breaker.is_aside() {
                self.tell_aside(out);
            } else {
                let command = if order == Order::Serve { "resume" } else { "drain" };
                let reason = "by an administrator".into();
                out.push(Effect::Send(ToNode::Control { command, reason }));
            }
            if order == Order::Block {
                out.push(Effect::Send(ToNode::Blocked));
            }
        }
        out.push(Effect::FleetChanged);
    }

    fn on_gap(&mut self, model: ModelId, until: Moment, out: &mut Effects<K>) {
        self.gaps.retain(|(known, _)| *known != model);
        if self.gaps.len() < MAX_GAPS {
            self.gaps.push((model, until));
        }
        out.push(Effect::FleetChanged);
    }

    fn close_gaps(&mut self, models: &[ModelId], out: &mut Effects<K>) {
        let before = self.gaps.len();
        self.gaps.retain(|(gap, _)| !models.contains(gap));
        if self.gaps.len() < before {
            out.push(Effect::FleetChanged);
        }
    }

    /// Does what was due by now, also if the tick for it has not come.
    fn catch_up(&mut self, out: &mut Effects<K>) {
        let now = self.now;
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.timer = None;
        let mut changed = false;
        if self.is_connected() && self.freshness.tick(now) {
            out.push(Effect::Overdue);
            changed = true;
        }
        if self.breaker.tick(now) {
            self.sync.pending.reputation = true;
            self.tell_aside(out);
            changed = true;
        }
        // The jobs that it may have run are over: the store may grant slots on it.
        let vouched = self.reporting.unvouched_until.take_if(|until| *until <= now).is_some();
        changed |= vouched;
        self.sync.pending.beat |= changed;
        for until in [&mut self.inhibited_until, &mut self.reporting.unreconciled_until] {
            changed |= until.take_if(|until| *until <= now).is_some();
        }
        let gaps = self.gaps.len();
        self.gaps.retain(|(_, until)| *until > now);
        changed |= gaps != self.gaps.len();
        let lapsed = self.attempts.lapse(now);
        for token in lapsed.missing {
            self.drop_attempt(token, out);
        }
        let freed = !lapsed.freed.is_empty();
        out.extend(lapsed.freed.into_iter().filter_map(|held| held.slot).map(Effect::SlotFreed));
        if freed && self.breaker.state() == BreakerState::Probing {
            // The slots of abandoned attempts are open beside the probe's: that is one fewer now.
            self.sync.pending.beat = true;
            changed = true;
        }
        while self.unclaimed.front().is_some_and(|kept| kept.until <= now) {
            out.extend(self.unclaimed.pop_front().map(|kept| Effect::Orphaned(kept.message)));
        }
        if changed {
            out.push(Effect::FleetChanged);
        }
        if self.forgettable_at().is_some_and(|at| at <= now) {
            // The effect is repeated after as long, if the machine is still there.
            self.connection = Connection::Disconnected { since: now };
            out.push(Effect::Forget);
        }
    }

    /// Asks for a timer, unless an earlier one is set.
    fn set_timer(&mut self, out: &mut Effects<K>) {
        let due = self.next_due();
        if let Some(at) = due
            && self.timer.is_none_or(|set| at < set)
        {
            self.timer = Some(at);
            out.push(Effect::SetTimer(at));
        }
    }

    /// The earliest moment at which time alone may change something.
    fn next_due(&self) -> Option<Moment> {
        let fresh = if self.is_connected() { self.freshness.due() } else { None };
        let quick = [
            fresh,
            self.breaker.due(),
            self.inhibited_until,
            self.reporting.unreconciled_until,
            self.reporting.unvouched_until,
            self.attempts.due(),
            self.sync.due(),
            self.unclaimed.front().map(|kept| kept.until),
            self.forgettable_at(),
        ];
        let gaps = self.gaps.iter().map(|(_, until)| *until);
        quick.into_iter().flatten().chain(gaps).min()
    }

    fn forgettable_at(&self) -> Option<Moment> {
        match self.connection {
            Connection::Disconnected { since } if self.attempts.is_empty() => {
                Some(since + FORGET_AFTER)
            }
            Connection::Disconnected { .. } | Connection::Connected { .. } => None,
        }
    }

    /// Notes a heartbeat.
    fn alive(&mut self) {
        self.freshness.alive(self.now);
        self.inhibited_until = None;
    }

    /// Tells the listeners of all attempts that are not abandoned.
    fn tell_all(&self, news: impl Fn() -> News<K::Payload>, out: &mut Effects<K>) {
        let wanted = self.attempts.iter().filter(|held| held.is_wanted());
        out.extend(wanted.map(|held| tell(held, news())));
    }
}

pub(super) fn tell<K: Kinds>(held: &Attempt<K>, news: News<K::Payload>) -> Effect<K> {
    Effect::Tell { listener: held.listener.clone(), attempt: held.token.attempt, news }
}
