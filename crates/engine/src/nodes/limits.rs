//! How much of what one node says reaches the store, so that a node that lies costs the store little.
//!
//! Registrations and lookups of jobs beyond the limit are refused. Updates of the node's record are
//! written later instead, the newest one for all: nothing of them is lost.

use std::collections::HashMap;
use std::time::Duration;

use lingua_core::NodeId;
use lingua_core::limits::MAX_SLOTS;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Connection, Nodes};
use crate::job::Refusal;
use crate::rate::{Gcra, Rate};
use crate::settings::NodeLimits;

/// Names of the limits, as the configuration and the metrics have them.
const REGISTRATIONS: &str = "node_registrations_per_min";
pub(super) const UPDATES: &str = "node_updates_per_s";
const LOOKUPS: &str = "node_lookups_per_s";

/// Registrations are counted for so many nodes before those that are as new are dropped.
const COUNTED: usize = 4_096;

/// What one node may have the store do.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRates {
    pub registrations: Rate,
    pub updates: Rate,
    pub lookups: Rate,
}

impl NodeRates {
    pub fn new(limits: NodeLimits) -> Self {
        let NodeLimits { registrations_per_min, updates_per_s, lookups_per_s } = limits;
        let second = Duration::from_secs(1);
        NodeRates {
            registrations: Rate::new(registrations_per_min, second * 60, registrations_per_min),
            updates: Rate::new(updates_per_s, second, updates_per_s),
            // Two reports of a node with all slots taken, one after the other.
            lookups: Rate::new(lookups_per_s, second, lookups_per_s.max(2 * MAX_SLOTS)),
        }
    }
}

/// What one registered node has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreUse {
    pub updates: Gcra,
    pub lookups: Gcra,
}

/// Registrations by node. They are counted before anything else is known of a node, and of nodes that
/// are refused too.
pub(super) struct Registrations {
    rate: Rate,
    counted: Mutex<Counted>,
}

struct Counted {
    by_node: HashMap<NodeId, Gcra, foldhash::quality::RandomState>,
    /// How many there may be before it is worth looking for those to drop.
    most: usize,
}

impl Registrations {
    pub fn new(rate: Rate) -> Self {
        let counted = Counted { by_node: HashMap::default(), most: COUNTED };
        Registrations { rate, counted: Mutex::new(counted) }
    }

    /// One more of this node; the error says how long to wait.
    pub fn take(&self, node: &NodeId, now: Instant) -> Result<(), Duration> {
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

impl Nodes {
    /// Whether the node may register once more.
    pub(super) fn may_register(&self, id: &NodeId) -> Result<(), Refusal> {
        self.registrations.take(id, Instant::now()).map_err(|wait| {
            let most = self.shared.settings.node_limits.registrations_per_min;
            let detail = format!("a node may register {most} times a minute");
            self.limited(REGISTRATIONS, detail, wait)
        })
    }

    /// Whether the node may have one more job looked up that this instance does not know.
    pub fn may_look_up(&self, from: &Connection) -> Result<(), Refusal> {
        self.look_up(&mut from.node.lock().store_use, 1)
    }

    /// The same for so many jobs together.
    pub(super) fn look_up(&self, used: &mut StoreUse, jobs: usize) -> Result<(), Refusal> {
        let cost = u32::try_from(jobs).unwrap_or(u32::MAX);
        used.lookups.take(self.rates.lookups, cost, Instant::now()).map_err(|wait| {
            let most = self.shared.settings.node_limits.lookups_per_s;
            let detail = format!(
                "{jobs} jobs that this instance does not know; a node may name {most} a second"
            );
            self.limited(LOOKUPS, detail, wait)
        })
    }

    fn limited(&self, limit: &'static str, detail: String, wait: Duration) -> Refusal {
        self.shared.metrics.limited(limit);
        Refusal::new(Code::RateLimited, detail).retry_after(millis(wait).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: usize) -> NodeId {
        NodeId::new(format!("n-{n}")).unwrap()
    }

    fn rates() -> NodeRates {
        NodeRates::new(NodeLimits {
            registrations_per_min: 60,
            updates_per_s: 10,
            lookups_per_s: 64,
        })
    }

    #[tokio::test]
    async fn a_minute_of_registrations_may_come_at_once_and_each_node_has_its_own() {
        let (counted, now) = (Registrations::new(rates().registrations), Instant::now());
        let burst = |n| (0..500).filter(|_| counted.take(&node(n), now).is_ok()).count();
        assert_eq!((burst(1), burst(2)), (60, 60));
        let later = now + Duration::from_secs(10);
        assert_eq!((0..500).filter(|_| counted.take(&node(1), later).is_ok()).count(), 10);
    }

    #[tokio::test]
    async fn counts_of_nodes_that_are_as_new_are_dropped_and_no_others() {
        let (counted, now) = (Registrations::new(rates().registrations), Instant::now());
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

    #[tokio::test]
    async fn a_node_with_all_slots_taken_may_name_all_of_its_jobs_twice() {
        let (mut used, now) = (StoreUse::default(), Instant::now());
        let rate = rates().lookups;
        used.lookups.take(rate, MAX_SLOTS, now).unwrap();
        used.lookups.take(rate, MAX_SLOTS, now).unwrap();
        used.lookups.take(rate, 1, now).unwrap_err();
        // And again with every heartbeat of a current agent.
        used.lookups.take(rate, MAX_SLOTS, now + Duration::from_secs(5)).unwrap();
    }
}
