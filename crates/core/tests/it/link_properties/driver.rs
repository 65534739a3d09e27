//! Plays what happens to a node, with the real ledger of leases as the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::budget::Timing;
use lingua_core::link::event::{Answer, Call, Heartbeat, Registered, ToNode};
use lingua_core::link::{
    Arrival, BreakerPolicy, BreakerState, Effect, Event, FORGET_AFTER, NewAttempt, PUT_ASIDE_AFTER,
    Percents, Policy, Reputation, SlowStart, Supports, Thresholds,
};
use lingua_core::node::{Declaration, Health, NodeProfile, Order};
use lingua_core::rate::Rate;
use lingua_core::slots::{Confirmed, Leases};
use lingua_core::{JobId, LeaseToken, Moment};

use super::checker::*;
use super::{Op, Running};

const SECOND: Duration = Duration::from_secs(1);

fn policy() -> Policy {
    Policy {
        timing: Timing::stable(),
        breaker: BreakerPolicy { failures: 3, first_pause_ms: 500, longest_pause_ms: 4_000 },
        slow_start: SlowStart::All,
        overload_above: Thresholds::of_all(95.0),
        updates: Rate::new(10, SECOND, 10),
        lookups: Rate::new(LOOKUPS_PER_S, SECOND, LOOKUP_BURST),
    }
}

pub(super) fn job(n: u32) -> JobId {
    format!("{n:026}").parse().unwrap()
}

/// An agent of the oldest kind, one of ours, and one that keeps all but obeys nothing.
fn supports(which: u8) -> Supports {
    let all =
        Supports { ack: true, cancel: true, tokens: true, result_ack: true, ..Supports::default() };
    match which {
        0 => Supports::default(),
        1 => all,
        _ => Supports { cancel: false, tokens: false, ..all },
    }
}

pub(super) struct Driver {
    pub(super) node: Node,
    pub(super) checker: Checker,
    pub(super) ledger: Leases,
    /// Slots that the store grants, by the last vitals.
    pub(super) max: u32,
    /// What the node works on.
    pub(super) runs: Vec<LeaseToken>,
    lists: bool,
    pub(super) supports: Supports,
    pub(super) now: Moment,
    pub(super) made: u32,
    pub(super) slots: u32,
    moved_away: bool,
    /// What the store knows of the node, and since when.
    kept: Option<Reputation>,
    kept_at: Moment,
}

impl Driver {
    pub fn new() -> Self {
        Driver {
            node: Node::new(Arc::new(policy()), Moment::ZERO),
            checker: Checker::default(),
            ledger: Leases::default(),
            max: 0,
            runs: Vec::new(),
            lists: false,
            supports: Supports::default(),
            now: Moment::ZERO,
            made: 0,
            slots: 0,
            moved_away: false,
            kept: None,
            kept_at: Moment::ZERO,
        }
    }

    pub(super) fn feed(&mut self, event: Event<Plain>) {
        let is_tick = matches!(event, Event::Tick);
        let effects = self.node.on_event(self.now, event);
        for effect in &effects {
            if let Effect::Release { token, .. } = effect {
                self.ledger.release(self.now, *token);
            }
        }
        self.checker.after(&self.node, self.now, is_tick, effects);
        for message in std::mem::take(&mut self.checker.sent) {
            match message {
                ToNode::Assign(token) => self.runs.push(token),
                ToNode::Cancel { job, attempt, .. } if self.supports.cancel => {
                    self.runs.retain(|token| (token.job, token.attempt) != (job, attempt));
                }
                _ => {}
            }
        }
        for token in std::mem::take(&mut self.checker.cancels) {
            self.feed(Event::CancelSent { token });
        }
    }

    /// Feeds an event that must change nothing: time is up to date before it.
    pub(super) fn feed_without_effect(&mut self, event: Event<Plain>) {
        self.feed(Event::Tick);
        let before: Vec<_> = self.node.attempts().map(|held| held.token).collect();
        let effects = self.node.on_event(self.now, event);
        for effect in effects {
            let harmless = match effect {
                Effect::Stale(_) | Effect::LookupLimited | Effect::Orphaned(_) => true,
                // A result may be kept for a while, until its job is known.
                Effect::SetTimer(at) => {
                    self.checker.timer = Some(at);
                    true
                }
                _ => false,
            };
            assert!(harmless, "it had an effect");
        }
        let after: Vec<_> = self.node.attempts().map(|held| held.token).collect();
        assert_eq!(before, after);
    }

    fn wait(&mut self, ms: u64, late: bool) {
        let until = self.now + Duration::from_millis(ms);
        while let Some(at) = self.checker.timer.filter(|at| *at <= until) {
            self.now = if late { until } else { self.now.max(at) };
            self.checker.timer = None;
            self.feed(Event::Tick);
        }
        self.now = until;
    }

    pub(super) fn pick(&self, which: u8) -> Option<LeaseToken> {
        let mut tokens: Vec<_> = self.checker.accounts.values().map(|a| a.token).collect();
        tokens.sort_unstable_by_key(|token| token.nonce);
        tokens.get(usize::from(which) % tokens.len().max(1)).copied()
    }

    pub(super) fn new_token(&mut self) -> LeaseToken {
        self.made += 1;
        LeaseToken { job: job(self.made), attempt: 1, nonce: u128::from(self.made) }
    }

    pub(super) fn slot(&mut self) -> Option<u32> {
        self.slots += 1;
        Some(self.slots)
    }

    pub(super) fn attempt(
        &self,
        token: LeaseToken,
        wanted_until: Option<Moment>,
    ) -> NewAttempt<u128> {
        NewAttempt {
            token,
            turn: "turn".to_owned(),
            index: u64::from(self.made),
            listener: token.nonce,
            lease: Duration::from_secs(3),
            wanted_until,
        }
    }

    fn running(&mut self, running: Running) -> (Option<Vec<(JobId, u32)>>, Option<u32>) {
        let name = |token: &LeaseToken| (token.job, token.attempt);
        match running {
            Running::Unsaid => (None, None),
            Running::True => (Some(self.runs.iter().map(name).collect()), None),
            Running::Lie { known, unknown } => {
                let known = self.checker.accounts.values().take(usize::from(known));
                let known: Vec<_> = known.map(|account| name(&account.token)).collect();
                let unknown = (0..u32::from(unknown)).map(|n| (job(1_000_000 + n), 1));
                (Some(known.into_iter().chain(unknown).collect()), None)
            }
            Running::Count { more } => {
                (None, Some(self.runs.len() as u32 + u32::from(more).saturating_sub(1)))
            }
        }
    }

    pub fn register(&mut self, over: bool, which: u8, says: Running, moved: bool, slots: u32) {
        let declaration = Declaration {
            semantic: lingua_core::lang::LangSet::new([lingua_core::Lang::new("en").unwrap()])
                .unwrap(),
            max_slots: slots,
            ..Declaration::default()
        };
        let profile = NodeProfile::from_declaration(declaration).unwrap();
        let (over, epoch) = (over && self.node.is_connected(), self.node.epoch() + 1);
        let over = over.then(|| self.node.epoch());
        if let Some(over) = over {
            for account in self.checker.accounts.values_mut() {
                if account.sent_over == Some(over) {
                    account.sent_over = Some(epoch);
                }
            }
        }
        let running = self.running(says).0;
        (self.lists, self.checker.recalls) = (running.is_some(), true);
        self.supports = supports(which);
        self.feed(Event::Registered(Box::new(Registered {
            epoch,
            over,
            profile: Arc::new(profile),
            version: u64::from(slots),
            health: Health::Ready,
            supports: self.supports,
            arrival: Arrival::Open,
            order: Order::Serve,
            heartbeat: Duration::from_secs(5),
            lists_running: self.lists,
            running,
            moved,
            hold: moved.then_some(Duration::from_secs(20)),
            at_ms: self.now.as_millis() + 1,
            reputation: self.kept.clone().map(|kept| kept.aged(self.now.since(self.kept_at))),
            percents: Percents::default(),
        })));
        self.max = self.node.vitals().open_slots;
    }

    fn keep(&mut self, known: Option<Box<Reputation>>) {
        if let Some(known) = known {
            (self.kept, self.kept_at) = (Some(*known), self.now);
        }
    }

    /// Another process has the node from now on, and knows what the store knows: it leaves a failing
    /// node alone for as long, and trusts a node as far, as the process before did when it wrote that.
    fn handed_over(&mut self) {
        self.wait(60_000, false);
        let epoch = self.node.epoch();
        while self.checker.call.is_some() {
            self.answer(false, false);
        }
        let Some(kept) = self.kept.clone() else { return };
        let age = self.now.since(self.kept_at);
        let mut next = Node::new(Arc::new(policy()), self.now);
        let told = Registered {
            epoch: epoch + 1,
            over: None,
            profile: Arc::clone(self.node.profile().0),
            version: 1,
            health: Health::Ready,
            supports: self.supports,
            arrival: Arrival::Open,
            order: Order::Serve,
            heartbeat: Duration::from_secs(5),
            lists_running: false,
            running: None,
            moved: true,
            hold: None,
            at_ms: self.now.as_millis(),
            reputation: Some(kept.clone().aged(age)),
            percents: Percents::default(),
        };
        next.on_event(self.now, Event::Registered(Box::new(told)));
        let (before, begins) = (kept.aged(age), next.reputation());
        assert_eq!((begins.done, begins.failed), (before.done, before.failed));
        assert_eq!((begins.since_ms, begins.trust), (before.since_ms, before.trust));
        assert_eq!(begins.breaker.openings, before.breaker.openings);
        assert_eq!(next.aside().is_some(), before.breaker.openings >= PUT_ASIDE_AFTER);
        let left = before.breaker.open_ms.unwrap_or(0);
        match next.breaker() {
            BreakerState::Open { until } => {
                assert_eq!(until.since(self.now).as_millis() as u64, left);
            }
            BreakerState::Probing => assert!(left == 0 && before.breaker.openings > 0),
            BreakerState::Closed => assert_eq!(before.breaker.openings, 0),
        }
    }

    fn answer(&mut self, fails: bool, other: bool) {
        let Some((epoch, call)) = self.checker.call.take() else { return };
        let wanted = std::mem::take(&mut self.checker.wanted_at_call);
        let current = epoch == self.node.epoch();
        let mut reported = None;
        let answer = match call {
            _ if fails => Answer::Failed,
            Call::Put(vitals, known) | Call::Beat(vitals, known) if current && !other => {
                self.max = vitals.open_slots;
                self.keep(known);
                Answer::Kept { confirmed: !self.made.is_multiple_of(3) }
            }
            Call::Put(_, known) => {
                self.keep(known);
                Answer::Stored
            }
            Call::Beat(..) => Answer::PutAgain,
            Call::LookUp(jobs) => Answer::Found(jobs.iter().map(|_| None).collect()),
            Call::Confirm(report) => match report.running {
                _ if other => Answer::NoRecord,
                Some(running) => {
                    let confirmed = self.ledger.confirm(
                        self.now,
                        &running,
                        report.lease,
                        report.grace,
                        self.max,
                        false,
                    );
                    reported = Some((running, confirmed.clone()));
                    Answer::Confirmed(confirmed)
                }
                None => Answer::Confirmed(Confirmed::default()),
            },
            Call::Renew { tokens, lease } => {
                let renew =
                    |token: &LeaseToken| self.ledger.renew(self.now, token, lease).is_some();
                Answer::Renewed(tokens.into_iter().filter(renew).collect())
            }
        };
        self.feed(Event::Answered { epoch, answer });
        if let Some((running, confirmed)) = reported.filter(|_| current) {
            self.agrees(&running, &confirmed, &wanted);
        }
    }

    /// After a report nothing counts that the store took back or that the node lost with an earlier
    /// connection.
    fn agrees(&self, running: &[LeaseToken], confirmed: &Confirmed, wanted: &HashSet<u128>) {
        for held in self.node.attempts() {
            let token = held.token;
            assert!(!confirmed.unknown.contains(&token), "the store has no slot for it");
            let counts = held.takes_slot(self.now) && held.is_wanted();
            // What came since the store was asked is none of the report's business.
            let was_wanted = wanted.contains(&token.nonce);
            if !counts || !was_wanted || running.contains(&token) {
                continue;
            }
            let account = &self.checker.accounts[&token.nonce];
            let earlier = account.sent_over != Some(self.node.epoch());
            assert!(!earlier, "the node lost it with an earlier connection");
        }
    }

    pub fn play(&mut self, op: Op) {
        if self.moved_away {
            return;
        }
        match op {
            Op::Wait { ms, late } => self.wait(ms, late),
            Op::Register { over, supports, running, moved, slots } => {
                self.register(over, supports, running, moved, slots);
            }
            Op::Beat { stale, running, percent } => {
                let (running, running_count) = self.running(running);
                let percents = Percents { cpu: Some(percent.into()), ..Percents::default() };
                let beat = Heartbeat { running, running_count, percents, ..Heartbeat::default() };
                match (stale, self.node.epoch()) {
                    (_, 0) => {}
                    (true, epoch) => {
                        self.feed_without_effect(Event::Heartbeat { epoch: epoch - 1, beat });
                    }
                    (false, epoch) => self.feed(Event::Heartbeat { epoch, beat }),
                }
            }
            Op::JobMessage { which, fence, kind } => self.message(which, fence, kind),
            Op::Assign { granted } => self.assign(granted),
            Op::AssignAgain { which } => self.assign_again(which),
            Op::Adopt { known } => self.adopt(known),
            Op::Answer { fails, other } => self.answer(fails, other),
            Op::StoreBack { lost } => {
                if lost {
                    self.ledger = Leases::default();
                }
                self.feed(Event::StoreIsBack);
            }
            Op::Order(which) => {
                let order = [Order::Serve, Order::Drain, Order::Block][usize::from(which)];
                self.feed(Event::Ordered(order));
            }
            Op::Gap { ms } => self.gap(ms),
            Op::Faulted => self.fault(),
            Op::ProbeRequested => self.feed(Event::ProbeRequested),
            Op::Disconnect { stale: true } if self.node.epoch() > 0 => {
                let epoch = self.node.epoch() - 1;
                self.feed_without_effect(Event::Disconnected { epoch });
            }
            Op::Disconnect { .. } => {
                let epoch = self.node.epoch();
                self.feed(Event::Disconnected { epoch });
            }
            Op::MoveAway { stale: true } => {
                let epoch = self.node.epoch();
                self.feed_without_effect(Event::MovedAway { epoch });
            }
            Op::MoveAway { stale: false } => {
                self.moved_away = true;
                let epoch = self.node.epoch() + 1;
                self.feed(Event::MovedAway { epoch });
            }
            Op::GiveUp { which, .. }
            | Op::End { which }
            | Op::Abandon { which }
            | Op::NotQueued { which }
            | Op::SendFailed { which, .. } => {
                if let Some(token) = self.pick(which) {
                    self.play_job(op, token);
                }
            }
        }
    }

    fn fault(&mut self) {
        let (at_ms, job, code) = (self.now.as_millis(), job(1), "GPU_LOST".to_owned());
        self.feed(Event::Faulted);
        self.feed(Event::FailureNoted { at_ms, job, code });
    }

    fn gap(&mut self, ms: u64) {
        let model = lingua_core::ModelId::new("nmt-1").unwrap();
        self.feed(Event::GapNoted { model, until: self.now + Duration::from_millis(ms) });
    }

    /// Every node is forgotten once it is gone and nobody waits for anything on it.
    pub fn finish(mut self) {
        if self.moved_away {
            return;
        }
        let epoch = self.node.epoch();
        self.feed(Event::Disconnected { epoch });
        while let Some(token) = self.pick(0) {
            self.play_job(Op::End { which: 0 }, token);
        }
        self.handed_over();
        self.checker.forget = false;
        self.wait(FORGET_AFTER.as_millis() as u64 * 2 + 1_000, false);
        assert!(self.checker.forget && self.node.is_forgettable(), "a node that stays for ever");
    }
}
