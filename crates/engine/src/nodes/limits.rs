//! How much of what one node says reaches the store, so that a node that lies costs the store little.
//!
//! Registrations and lookups of jobs beyond the limit are refused. Updates of the node's record are
//! written later instead, the newest one for all: nothing of them is lost. Registrations are counted
//! here, for they come before a node has a machine; the rest is the machine's.

use std::collections::HashMap;
use std::time::Duration;

use lingua_core::limits::MAX_SLOTS;
use lingua_core::link::Policy;
use lingua_core::rate::{Gcra, Rate};
use lingua_core::{Moment, NodeId};
use parking_lot::Mutex;

use crate::settings::{NodeLimits, Settings};

/// Names of the limits, as the configuration and the metrics have them.
pub(super) const REGISTRATIONS: &str = "node_registrations_per_min";
pub(super) const UPDATES: &str = "node_updates_per_s";
pub(super) const LOOKUPS: &str = "node_lookups_per_s";

const SECOND: Duration = Duration::from_secs(1);

/// Registrations are counted for so many nodes before those that are as new are dropped.
const COUNTED: usize = 4_096;

/// How often one node may register.
pub(super) fn registrations(limits: &NodeLimits) -> Rate {
    let per_min = limits.registrations_per_min;
    Rate::new(per_min, SECOND * 60, per_min)
}

/// What the machines of nodes go by.
pub(super) fn policy(settings: &Settings) -> Policy {
    let updates_per_s = settings.node_limits.updates_per_s;
    Policy {
        timing: settings.timing,
        breaker: settings.breaker,
        slow_start: settings.slow_start,
        overload_above: settings.overload,
        updates: Rate::new(updates_per_s, SECOND, updates_per_s),
        lookups: lookups(&settings.node_limits),
    }
}

/// How many jobs that nobody here knows one node may name.
fn lookups(limits: &NodeLimits) -> Rate {
    let per_s = limits.lookups_per_s;
    // Two reports of a node with all slots taken, one after the other.
    Rate::new(per_s, SECOND, per_s.max(2 * MAX_SLOTS))
}

/// Registrations by node. They are counted before anything else is known of a node, and of nodes that
/// are refused too.
pub(super) struct Registrations {
    rate: Rate,
    counted: Mutex<Counted>,
}

struct Counted {
    by_node: HashMap<NodeId, Gcra, lingua_core::hash::Quality>,
    /// How many there may be before it is worth looking for those to drop.
    most: usize,
}

impl Registrations {
    pub fn new(rate: Rate) -> Self {
        let counted = Counted { by_node: HashMap::default(), most: COUNTED };
        Registrations { rate, counted: Mutex::new(counted) }
    }

    /// One more of this node; the error says how long to wait.
    pub fn take(&self, node: &NodeId, now: Moment) -> Result<(), Duration> {
        let mut counted = self.counted.lock();
        let Counted { by_node, most } = &mut *counted;
        if by_node.len() >= *most {
            by_node.retain(|_, used| !used.is_unused(now));
            *most = COUNTED.max(2 * by_node.len());
        }
        match by_node.get_mut(node) {
            Some(used) => used.take(self.rate, 1, now),
            None => {
                let mut used = Gcra::default();
                let taken = used.take(self.rate, 1, now);
                by_node.insert(node.clone(), used);
                taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: usize) -> NodeId {
        NodeId::new(format!("n-{n}")).unwrap()
    }

    fn limits() -> NodeLimits {
        NodeLimits { registrations_per_min: 60, updates_per_s: 10, lookups_per_s: 64 }
    }

    #[test]
    fn a_minute_of_registrations_may_come_at_once_and_each_node_has_its_own() {
        let (counted, now) = (Registrations::new(registrations(&limits())), Moment::ZERO);
        let burst = |n| (0..500).filter(|_| counted.take(&node(n), now).is_ok()).count();
        assert_eq!((burst(1), burst(2)), (60, 60));
        let later = now + Duration::from_secs(10);
        assert_eq!((0..500).filter(|_| counted.take(&node(1), later).is_ok()).count(), 10);
    }

    #[test]
    fn counts_of_nodes_that_are_as_new_are_dropped_and_no_others() {
        let (counted, now) = (Registrations::new(registrations(&limits())), Moment::ZERO);
        while counted.take(&node(0), now).is_ok() {}
        for n in 1..COUNTED {
            counted.take(&node(n), now).unwrap();
        }
        let later = now + Duration::from_secs(2);
        counted.take(&node(COUNTED), later).unwrap();
        assert_eq!(counted.counted.lock().by_node.len(), 2, "the flooder and the newest");
        let left = (0..500).filter(|_| counted.take(&node(0), later).is_ok()).count();
        assert_eq!(left, 2, "its count was kept");
    }

    #[test]
    fn a_node_with_all_slots_taken_may_name_all_of_its_jobs_twice() {
        let (mut used, now) = (Gcra::default(), Moment::ZERO);
        let rate = lookups(&limits());
        used.take(rate, MAX_SLOTS, now).unwrap();
        used.take(rate, MAX_SLOTS, now).unwrap();
        used.take(rate, 1, now).unwrap_err();
        // And again with every heartbeat of a current agent.
        used.take(rate, MAX_SLOTS, now + 5 * SECOND).unwrap();
    }
}
