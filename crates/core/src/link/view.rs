//! Queries of a node's machine. They change nothing.

use std::sync::Arc;
use std::time::Duration;

use super::Supports;
use super::attempt::Attempt;
use super::breaker::{Breaker, BreakerState};
use super::event::{Kinds, Vitals};
use super::health::{Audience, HealthFacts};
use super::machine::{Connection, Machine, Reporting};
use super::reputation::Reputation;
use super::trust::{Arrival, Trust};
use crate::eligibility::Standing;
use crate::ids::JobId;
use crate::node::{Health, NodeProfile, Order};
use crate::planted::{self, Flaw};
use crate::time::{Moment, millis};

impl<K: Kinds> Machine<K> {
    /// The epoch of the latest registration.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the node has a connection.
    pub fn is_connected(&self) -> bool {
        matches!(self.connection, Connection::Connected { .. })
    }

    /// The protocol features of the node's present connection.
    pub fn supports(&self) -> Option<Supports> {
        match self.connection {
            Connection::Connected { supports } => Some(supports),
            Connection::Disconnected { .. } => None,
        }
    }

    /// The same, if the connection of this epoch is the present one.
    pub fn supports_of(&self, epoch: u64) -> Option<Supports> {
        let older = planted::on(Flaw::OlderConnectionHeard);
        self.supports().filter(|_| epoch == self.epoch || older)
    }

    /// What the node can do, with its version.
    pub fn profile(&self) -> (&Arc<NodeProfile>, u64) {
        (&self.profile, self.version)
    }

    /// The node's health, as this audience sees it.
    pub fn health(&self, audience: Audience) -> Health {
        let Reporting { unreconciled_until, unvouched_until, .. } = self.reporting;
        let held_back = [self.inhibited_until, unreconciled_until, unvouched_until];
        let facts = HealthFacts {
            connected: self.is_connected(),
            declared: self.declared,
            order: self.order,
            breaker: self.breaker.state(),
            aside: self.breaker.is_aside(),
            overdue: self.freshness.is_overdue(),
            held_back: held_back.into_iter().flatten().any(|until| until > self.now),
        };
        facts.health(audience)
    }

    /// Whether its heartbeat is not overdue.
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.freshness.is_fresh(now.max(self.now))
    }

    /// Slots open to jobs now.
    pub fn open_slots(&self) -> u32 {
        let declared = self.profile.max_slots;
        match self.breaker.state() {
            // One job as a probe, beside abandoned attempts that keep their slots for a while.
            BreakerState::Probing => {
                let abandoned = self.attempts.abandoned_slots(self.now);
                u32::try_from(abandoned).map_or(declared, |slots| (slots + 1).min(declared))
            }
            BreakerState::Closed | BreakerState::Open { .. } => self.trust.open(declared),
        }
    }

    /// Slots taken by the attempts of this machine.
    pub fn slots_taken(&self) -> u32 {
        u32::try_from(self.attempts.slots_taken(self.now, None)).unwrap_or(u32::MAX)
    }

    /// Whether nothing is lost with this machine: no connection, no attempt.
    pub fn is_forgettable(&self) -> bool {
        !self.is_connected() && self.attempts.is_empty()
    }

    /// Attempts that the node has or may have.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt<K>> {
        self.attempts.iter()
    }

    /// How many attempts are not abandoned.
    pub fn wanted(&self) -> usize {
        self.attempts.iter().filter(|held| held.is_wanted()).count()
    }

    /// Whether the node has an attempt of this job.
    pub fn has_job(&self, job: &JobId) -> bool {
        self.attempts.contains(job)
    }

    /// The listener of this attempt, unless it is abandoned.
    pub fn listener(&self, job: &JobId, attempt: u32) -> Option<&K::Listener> {
        let held = self.attempts.get(job, attempt).filter(|held| held.is_wanted())?;
        Some(&held.listener)
    }

    /// The node as choosing sees it.
    pub fn standing(&self) -> Standing {
        Standing {
            health: self.health(Audience::Choosing),
            fresh: self.freshness.is_fresh(self.now),
            overloaded: self.overload.is_overloaded(),
            trusted: self.trusted_slots(),
            missing_models: self.gaps.iter().map(|(model, _)| model.clone()).collect(),
        }
    }

    /// What the store is told with each heartbeat.
    pub fn vitals(&self) -> Vitals {
        Vitals {
            open_slots: self.open_slots(),
            health: self.health(Audience::Instances),
            overloaded: self.overload.is_overloaded(),
            fresh_for: self.freshness.fresh_for(),
        }
    }

    /// What an administrator wants of the node.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The state of its breaker.
    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// What is remembered of the node: jobs done and failed, breaker and trust.
    pub fn reputation(&self) -> Reputation {
        Reputation {
            breaker: self.breaker.memory(self.now),
            trust: self.arrival.map(|arrival| self.trust.memory(arrival)),
            ..self.past.clone()
        }
    }

    /// How long it gets no jobs because it is not known what it runs, unless it reports that.
    pub fn held_for(&self) -> Option<Duration> {
        let until = self.reporting.unvouched_until.filter(|_| self.is_connected());
        until.map(|until| self.now.until(until))
    }

    /// Jobs that succeeded and failed on it while this machine had it.
    pub fn totals_here(&self) -> (u64, u64) {
        let (done, failed) = self.recalled;
        (self.past.done.saturating_sub(done), self.past.failed.saturating_sub(failed))
    }

    /// Slots that are chosen like those of any other node; more are a last resort.
    pub fn trusted_slots(&self) -> u32 {
        self.trust.trusted(self.profile.max_slots)
    }

    /// How long a running job's slot lasts without a message from the node.
    pub fn running_lease(&self) -> Duration {
        let heartbeat = millis(self.freshness.heartbeat());
        Duration::from_millis(self.policy.timing.running_lease_for_ms(heartbeat))
    }

    /// The node's trust if it is admitted in this way, and its breaker.
    pub fn trust_and_breaker(&self, arrival: Arrival) -> (Trust, Breaker) {
        (self.trust_of(arrival), self.breaker)
    }

    /// The node's trust if it is admitted in this way.
    pub(super) fn trust_of(&self, arrival: Arrival) -> Trust {
        let as_before = self.arrival == Some(arrival);
        if as_before { self.trust } else { Trust::new(self.policy.slow_start, arrival) }
    }
}
