//! A node's health: one formula of its own report, its owner's orders and its failures.

use super::breaker::BreakerState;
use crate::node::{Health, Order};

/// Everything that a node's health follows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthFacts {
    /// It has a connection.
    pub connected: bool,
    /// The health that it declares.
    pub declared: Health,
    /// What an administrator wants of it.
    pub order: Order,
    /// The state of its breaker.
    pub breaker: BreakerState,
    /// It is put aside and was told to drain, so that it declares to drain is not its own wish.
    pub aside: bool,
    /// Its heartbeat is overdue.
    pub overdue: bool,
    /// It gets no jobs for a moment: a send failed, or it has not reported yet what it runs.
    pub held_back: bool,
}

/// Who asks for the health. They differ in what degrades a node for a moment: people see that beside the
/// health, other instances do not get heartbeats, and choosing decides about the next job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// People, in answers and on the dashboard.
    People,
    /// Other instances, by the record in the store.
    Instances,
    /// The choice of a node for a job, on this instance.
    Choosing,
}

impl HealthFacts {
    /// The node's health, as this audience sees it.
    pub fn health(&self, audience: Audience) -> Health {
        let hindered = match audience {
            Audience::People => false,
            Audience::Instances => self.overdue,
            Audience::Choosing => self.held_back,
        };
        match (self.declared, self.order, self.breaker) {
            _ if !self.connected => Health::Offline,
            (Health::Ready, Order::Drain | Order::Block, _) => Health::Draining,
            (Health::Ready, Order::Serve, BreakerState::Open { .. }) => Health::Degraded,
            (Health::Draining, Order::Serve, _) if self.aside => Health::Degraded,
            (Health::Ready, Order::Serve, _) if hindered => Health::Degraded,
            (declared, ..) => declared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Moment;

    const READY: HealthFacts = HealthFacts {
        connected: true,
        declared: Health::Ready,
        order: Order::Serve,
        breaker: BreakerState::Closed,
        aside: false,
        overdue: false,
        held_back: false,
    };

    #[test]
    fn the_strongest_fact_decides() {
        let open = BreakerState::Open { until: Moment::ZERO };
        for (facts, health) in [
            (READY, Health::Ready),
            (HealthFacts { connected: false, ..READY }, Health::Offline),
            (HealthFacts { declared: Health::Registering, ..READY }, Health::Registering),
            (
                HealthFacts { declared: Health::Registering, order: Order::Drain, ..READY },
                Health::Registering,
            ),
            (HealthFacts { order: Order::Drain, ..READY }, Health::Draining),
            (HealthFacts { order: Order::Block, breaker: open, ..READY }, Health::Draining),
            (HealthFacts { breaker: open, ..READY }, Health::Degraded),
            (HealthFacts { breaker: BreakerState::Probing, ..READY }, Health::Ready),
            (
                HealthFacts { breaker: open, aside: true, declared: Health::Draining, ..READY },
                Health::Degraded,
            ),
            (HealthFacts { declared: Health::Draining, ..READY }, Health::Draining),
        ] {
            for audience in [Audience::People, Audience::Instances, Audience::Choosing] {
                assert_eq!(facts.health(audience), health, "{facts:?}");
            }
        }
    }

    #[test]
    fn a_passing_hindrance_is_seen_by_those_whom_it_concerns() {
        let overdue = HealthFacts { overdue: true, ..READY };
        assert_eq!(overdue.health(Audience::Instances), Health::Degraded);
        assert_eq!(overdue.health(Audience::People), Health::Ready);
        let held_back = HealthFacts { held_back: true, ..READY };
        assert_eq!(held_back.health(Audience::Choosing), Health::Degraded);
        assert_eq!(held_back.health(Audience::Instances), Health::Ready);
    }
}
