//! The embedded store: one process, no server. With a journal what it has is kept on disk too.
//!
//! Each trait has its own locks, held for the few steps of one call and never over an await. Where a
//! call needs two, the order is fixed: owners before jobs, nodes before their feed and reputations. Nothing runs in
//! the background: entries carry their end, are checked when looked at, and every write sweeps a few
//! that are over.
//!
//! - `nodes` with its `feed`, and `slots` in the same shards: a grant sees the record it is for.
//! - `bus` holds presence too: that an instance lives and what is in its inbox belong together.
//! - `reputations` knows an owner by the record in those shards.
//! - `jobs`, `deadlines`, `requests`, `turns`, `owners`, `leaders`, `snapshots`, `rates`, `revocations`,
//!   `history`, `usage`: one file per trait.
//! - `kept`: what the journal has of each of them, and how it is put back.
//! - `fork`: a copy as a replica has it, for simulations.
//! - `expiring` on a `slab`, `prehashed`, `sharded`, `waiting`: what they are made of.

use std::sync::Arc;

use lingua_core::Moment;
use tokio::sync::watch;

use crate::backend::{Backend, Closing, Status};
use crate::clock::Clock;
use crate::journal::Journal;

mod bus;
mod deadlines;
mod expiring;
mod feed;
mod fork;
mod history;
mod jobs;
mod kept;
mod leaders;
mod nodes;
mod owners;
mod prehashed;
mod rates;
mod reputations;
mod requests;
mod revocations;
mod sharded;
mod slab;
mod slots;
mod snapshots;
mod turns;
mod usage;
mod waiting;

/// All that one process keeps. Every clone of the [`Backend`] made by [`MemoryStore::open`] sees the
/// same, so two engines on two clones are two instances.
pub struct MemoryStore {
    clock: Clock,
    nodes: nodes::Nodes,
    reputations: reputations::Known,
    jobs: jobs::Jobs,
    deadlines: deadlines::Deadlines,
    requests: requests::Requests,
    turns: turns::Turns,
    owners: owners::Owners,
    tasks: leaders::Tasks,
    parts: snapshots::Parts,
    bus: bus::Bus,
    rates: rates::Windows,
    revocations: revocations::Entries,
    history: history::AllSeries,
    usage: usage::Days,
    /// Kept so that those who wait for a change of status wait, instead of seeing it end.
    status: Arc<watch::Sender<Status>>,
    /// What is changed is noted there, and answered when it is kept.
    journal: Option<Journal>,
}

impl MemoryStore {
    /// An empty store on this clock, always up.
    pub fn open(clock: Clock) -> Backend {
        Arc::new(MemoryStore::new(clock)).backend()
    }

    /// The store as an engine holds it.
    pub fn backend(self: Arc<Self>) -> Backend {
        let store = self;
        let status = store.status.subscribe();
        let description = match &store.journal {
            Some(journal) => format!("embedded (file {})", journal.directory().display()),
            None => "embedded (memory)".to_owned(),
        };
        Backend {
            nodes: store.clone(),
            feed: store.clone(),
            orders: store.clone(),
            reputations: store.clone(),
            slots: store.clone(),
            jobs: store.clone(),
            deadlines: store.clone(),
            requests: store.clone(),
            turns: store.clone(),
            owners: store.clone(),
            leaders: store.clone(),
            snapshots: store.clone(),
            presence: store.clone(),
            bus: store.clone(),
            rates: store.clone(),
            revocations: store.clone(),
            history: store.clone(),
            usage: store.clone(),
            closing: store.journal.is_some().then(|| store.clone() as Arc<dyn Closing>),
            status,
            pulse: Arc::default(),
            description: description.into(),
        }
    }

    /// An empty store on this clock.
    pub fn new(clock: Clock) -> Self {
        MemoryStore {
            clock,
            nodes: nodes::Nodes::default(),
            reputations: reputations::Known::default(),
            jobs: jobs::Jobs::default(),
            deadlines: deadlines::Deadlines::default(),
            requests: requests::Requests::default(),
            turns: turns::Turns::default(),
            owners: owners::Owners::default(),
            tasks: leaders::Tasks::default(),
            parts: snapshots::Parts::default(),
            bus: bus::Bus::default(),
            rates: rates::Windows::default(),
            revocations: revocations::Entries::default(),
            history: history::AllSeries::default(),
            usage: usage::Days::default(),
            status: Arc::new(watch::Sender::new(Status::Up { connection: 1 })),
            journal: None,
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
