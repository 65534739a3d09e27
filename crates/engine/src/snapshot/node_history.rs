//! What nodes did, by the minute: in the memory of the instance that has their connection.

use std::collections::{HashMap, VecDeque};

use lingua_core::NodeId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::minutes::MINUTE_MS;

/// Points of one node at most: a day.
const MAX_POINTS: usize = 1_440;

/// Points of all nodes of one instance, about 24 MB. With more nodes than 694 each has less than a day,
/// but an hour at least.
const MAX_ALL: usize = 1_000_000;
const LEAST_POINTS: usize = 60;

/// One minute of a node.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug, Default)]
pub struct NodePoint {
    /// When the minute began, in epoch milliseconds.
    pub at_ms: u64,
    /// Slots open to jobs, the most of that minute.
    pub slots: u32,
    /// Slots taken, the most of that minute.
    pub used: u32,
    /// Jobs it did.
    pub done: u32,
    /// Jobs it failed.
    pub failed: u32,
}

impl NodePoint {
    /// The same minute of the same node as another instance saw it.
    fn add(&mut self, other: &NodePoint) {
        self.slots = self.slots.max(other.slots);
        self.used = self.used.max(other.used);
        self.done = self.done.saturating_add(other.done);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// A node at one moment.
pub(super) struct Sample {
    pub id: NodeId,
    /// Slots open and taken.
    pub slots: (u32, u32),
    /// Counted since this instance knows the node.
    pub done: u64,
    pub failed: u64,
}

#[derive(Default)]
pub(super) struct NodeHistory(Mutex<HashMap<NodeId, Past>>);

#[derive(Default)]
struct Past {
    /// Counted before.
    done: u64,
    failed: u64,
    points: VecDeque<NodePoint>,
}

impl NodeHistory {
    /// Takes in how all nodes stand now.
    pub fn sample(&self, now_ms: u64, samples: Vec<Sample>) {
        let at_ms = now_ms - now_ms % MINUTE_MS;
        let mut nodes = self.0.lock();
        for Sample { id, slots, done, failed } in samples {
            if nodes.len() >= MAX_ALL / LEAST_POINTS && !nodes.contains_key(&id) {
                continue;
            }
            let past = nodes.entry(id).or_default();
            // A count that is lower than before began anew.
            let grown = |now: u64, before: u64| {
                u32::try_from(now.checked_sub(before).unwrap_or(now)).unwrap_or(u32::MAX)
            };
            let (slots, used) = slots;
            let (did, lost) = (grown(done, past.done), grown(failed, past.failed));
            let point = NodePoint { at_ms, slots, used, done: did, failed: lost };
            (past.done, past.failed) = (done, failed);
            match past.points.back_mut().filter(|last| last.at_ms == at_ms) {
                Some(last) => last.add(&point),
                None => past.points.push_back(point),
            }
        }
        let most = (MAX_ALL / nodes.len().max(1)).clamp(LEAST_POINTS, MAX_POINTS);
        let oldest = at_ms.saturating_sub(MAX_POINTS as u64 * MINUTE_MS);
        nodes.retain(|_, past| {
            while past.points.len() > most || past.points.front().is_some_and(|p| p.at_ms < oldest)
            {
                past.points.pop_front();
            }
            !past.points.is_empty()
        });
    }

    /// The oldest first.
    pub fn of(&self, id: &NodeId) -> Vec<NodePoint> {
        let nodes = self.0.lock();
        nodes.get(id).map(|past| past.points.iter().copied().collect()).unwrap_or_default()
    }
}

/// What several instances saw of one node, as one; the oldest first.
pub fn merged(seen: impl IntoIterator<Item = NodePoint>) -> Vec<NodePoint> {
    let mut all: std::collections::BTreeMap<u64, NodePoint> = std::collections::BTreeMap::new();
    for point in seen {
        let minute = all
            .entry(point.at_ms)
            .or_insert(NodePoint { at_ms: point.at_ms, ..NodePoint::default() });
        minute.add(&point);
    }
    let too_many = all.len().saturating_sub(MAX_POINTS);
    all.into_values().skip(too_many).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(id: &str, slots: (u32, u32), done: u64, failed: u64) -> Sample {
        Sample { id: id.parse().unwrap(), slots, done, failed }
    }

    fn point(at_ms: u64, slots: u32, used: u32, done: u32, failed: u32) -> NodePoint {
        NodePoint { at_ms, slots, used, done, failed }
    }

    #[test]
    fn a_minute_has_the_most_slots_and_all_jobs_of_it() {
        let (history, node) = (NodeHistory::default(), "n".parse().unwrap());
        history.sample(60_000, vec![sample("n", (4, 1), 2, 0)]);
        history.sample(65_000, vec![sample("n", (4, 3), 7, 1)]);
        history.sample(119_999, vec![sample("n", (4, 0), 7, 1)]);
        // The node is another life: its counts begin anew.
        history.sample(120_000, vec![sample("n", (8, 2), 3, 0)]);
        assert_eq!(history.of(&node), [point(60_000, 4, 3, 7, 1), point(120_000, 8, 2, 3, 0)]);
    }

    #[test]
    fn a_day_is_kept_and_less_of_very_many_nodes() {
        let history = NodeHistory::default();
        for minute in 0..1_500 {
            history.sample(minute * 60_000, vec![sample("n", (1, 1), minute, 0)]);
        }
        assert_eq!(history.of(&"n".parse().unwrap()).len(), MAX_POINTS);
        let many = |minute: u64| {
            let samples = (0..10_000).map(|n| sample(&format!("n-{n}"), (1, 1), minute, 0));
            history.sample(minute * 60_000, samples.collect());
        };
        for minute in 1_500..1_620 {
            many(minute);
        }
        let kept = history.of(&"n-7".parse().unwrap()).len();
        assert!((LEAST_POINTS..=MAX_ALL / 10_000).contains(&kept), "{kept}");
        let all: usize = history.0.lock().values().map(|past| past.points.len()).sum();
        assert!(all <= MAX_ALL, "{all}");
        history.sample(9_000 * 60_000, Vec::new());
        assert!(history.0.lock().is_empty(), "nodes that are gone for a day are forgotten");
    }

    #[test]
    fn what_two_instances_saw_is_one_history() {
        let owner = [point(60_000, 4, 2, 1, 0), point(120_000, 4, 4, 2, 0)];
        let other = [point(120_000, 0, 0, 3, 1), point(180_000, 0, 0, 1, 0)];
        let all = merged(owner.into_iter().chain(other));
        let wanted =
            [point(60_000, 4, 2, 1, 0), point(120_000, 4, 4, 5, 1), point(180_000, 0, 0, 1, 0)];
        assert_eq!(all, wanted);
    }
}
