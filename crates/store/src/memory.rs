//! The embedded store: one process, no server, nothing on disk.
//!
//! Each trait has its own locks, held for the few steps of one call and never over an await. Where a
//! call needs two, the order is fixed: owners before jobs, nodes before their feed. Nothing runs in
//! the background: entries carry their end, are checked when looked at, and every write sweeps a few
//! that are over.
//!
//! - `nodes` with its `feed`, and `slots` in the same shards: a grant sees the record it is for.
//! - `jobs`, `owners`, `bus`, `once`: one file per trait.
//! - `expiring` on a `slab`, `prehashed`, `sharded`, `waiting`: what they are made of.

use std::sync::Arc;

use lingua_core::Moment;
use tokio::sync::watch;

use crate::backend::{Backend, Status};
use crate::clock::Clock;

mod bus;
mod expiring;
mod feed;
mod jobs;
mod nodes;
mod once;
mod owners;
mod prehashed;
mod sharded;
mod slab;
mod slots;
mod waiting;

/// All that one process keeps. Every clone of the [`Backend`] made by [`MemoryStore::open`] sees the
/// same, so two engines on two clones are two instances.
pub struct MemoryStore {
    clock: Clock,
    nodes: nodes::Nodes,
    jobs: jobs::Jobs,
    owners: owners::Owners,
    bus: bus::Bus,
    once: once::Windows,
    /// Kept so that those who wait for a change of status wait, instead of seeing it end.
    status: watch::Sender<Status>,
}

impl MemoryStore {
    /// An empty store on this clock, always up.
    pub fn open(clock: Clock) -> Backend {
        let store = Arc::new(MemoryStore::new(clock));
        let status = store.status.subscribe();
        Backend {
            nodes: store.clone(),
            slots: store.clone(),
            jobs: store.clone(),
            owners: store.clone(),
            bus: store.clone(),
            once: store,
            status,
            pulse: Arc::default(),
            description: "embedded (memory)".into(),
        }
    }

    fn new(clock: Clock) -> Self {
        MemoryStore {
            clock,
            nodes: nodes::Nodes::default(),
            jobs: jobs::Jobs::default(),
            owners: owners::Owners::default(),
            bus: bus::Bus::default(),
            once: once::Windows::default(),
            status: watch::Sender::new(Status::Up { connection: 1 }),
        }
    }
}

/// The epoch or fence after `previous`. The clock is its floor, so that it rises over a loss of what
/// was known, too.
fn next_epoch(previous: Option<u64>, now: Moment) -> u64 {
    previous.map_or(0, |epoch| epoch.saturating_add(1)).max(now.as_millis())
}

#[cfg(test)]
mod tests;
