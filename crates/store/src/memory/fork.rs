//! A copy of everything, as a replica has it: for simulations of a store that loses its last writes.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::deadlines::Deadlines;
use super::history::AllSeries;
use super::nodes::Nodes;
use super::{MemoryStore, Status};
use crate::clock::Clock;
use crate::nodes::NODE_SHARDS;

impl MemoryStore {
    /// A store that has at this moment what this one has, on a clock of its own. It is of another
    /// generation: no node gets a grant until it has said what it runs.
    pub fn fork(&self, clock: Clock) -> Arc<MemoryStore> {
        Arc::new(MemoryStore {
            clock,
            nodes: self.nodes.fork(),
            reputations: self.reputations.clone(),
            jobs: self.jobs.clone(),
            deadlines: Deadlines(copied(&self.deadlines.0)),
            requests: self.requests.clone(),
            turns: self.turns.clone(),
            owners: self.owners.clone(),
            tasks: copied(&self.tasks),
            parts: copied(&self.parts),
            bus: self.bus.copy(),
            rates: self.rates.clone(),
            revocations: copied(&self.revocations),
            history: AllSeries(copied(&self.history.0)),
            usage: copied(&self.usage),
            status: Arc::new(watch::Sender::new(Status::Up { connection: 1 })),
            journal: None,
        })
    }
}

impl Nodes {
    fn fork(&self) -> Self {
        let forked = Nodes { shards: self.shards.clone(), feed: self.feed.copy() };
        for mut shard in (0..NODE_SHARDS as usize).filter_map(|n| forked.shards.at(n)) {
            let records = shard.nodes.values_mut().filter_map(|node| node.record.as_mut());
            records.for_each(|record| record.confirmed = false);
        }
        forked
    }
}

pub(super) fn copied<T: Clone>(locked: &Mutex<T>) -> Mutex<T> {
    Mutex::new(locked.lock().clone())
}
