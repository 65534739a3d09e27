//! All traits together, as an engine holds them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::bus::Inboxes;
#[cfg(feature = "redis")]
use crate::error::Error;
use crate::history::History;
use crate::jobs::{JobDeadlines, JobRecords};
use crate::leaders::Leaders;
use crate::nodes::{NodeFeed, NodeOrders, NodeRecords};
use crate::owners::SessionOwners;
use crate::presence::Presence;
use crate::rates::RateLimits;
use crate::reputations::Reputations;
use crate::requests::RequestIds;
use crate::revocations::Revocations;
use crate::slots::SlotLeases;
use crate::snapshots::Snapshots;
use crate::turns::TurnBindings;
use crate::usage::UsageDays;

/// One store with all it can do. Cheap to clone.
#[derive(Clone)]
pub struct Backend {
    /// Node records.
    pub nodes: Arc<dyn NodeRecords>,
    /// How instances learn of node records.
    pub feed: Arc<dyn NodeFeed>,
    /// What administrators want of nodes.
    pub orders: Arc<dyn NodeOrders>,
    /// What is known of nodes beyond their connections.
    pub reputations: Arc<dyn Reputations>,
    /// Slot leases of nodes.
    pub slots: Arc<dyn SlotLeases>,
    /// Job records.
    pub jobs: Arc<dyn JobRecords>,
    /// Deadlines of jobs that any instance looks after.
    pub deadlines: Arc<dyn JobDeadlines>,
    /// Request ids of HTTP callers.
    pub requests: Arc<dyn RequestIds>,
    /// Nodes of turns.
    pub turns: Arc<dyn TurnBindings>,
    /// Session owners.
    pub owners: Arc<dyn SessionOwners>,
    /// Leaders of tasks.
    pub leaders: Arc<dyn Leaders>,
    /// Parts of the snapshot, and the published whole.
    pub snapshots: Arc<dyn Snapshots>,
    /// Which instances are alive.
    pub presence: Arc<dyn Presence>,
    /// Messages between instances.
    pub bus: Arc<dyn Inboxes>,
    /// Windows and rate limits.
    pub rates: Arc<dyn RateLimits>,
    /// The revocation list.
    pub revocations: Arc<dyn Revocations>,
    /// What charts show of the past.
    pub history: Arc<dyn History>,
    /// What was used, by day.
    pub usage: Arc<dyn UsageDays>,
    /// How it is left, if that takes anything.
    pub closing: Option<Arc<dyn Closing>>,
    /// Whether the store answers; changes are seen at once.
    pub status: watch::Receiver<Status>,
    /// How its line does.
    pub pulse: Arc<Pulse>,
    /// For people: which store this is, without secrets.
    pub description: Arc<str>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backend({})", self.description)
    }
}

/// How a store is left.
#[async_trait]
pub trait Closing: Send + Sync {
    /// See [`Backend::close`].
    async fn close(&self);
}

impl Backend {
    /// The end of using it: what is still on its way is written to disk. A store that is not closed loses nothing
    /// that it answered, as long as the machine lives on.
    pub async fn close(&self) {
        if let Some(closing) = &self.closing {
            closing.close().await;
        }
    }
}

/// Whether the store answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    /// It does. `connection` grows with every reconnect: whoever sees it grow asserts again what it
    /// owns, because the store may have lost it.
    Up {
        /// How many times the store has been reached anew.
        connection: u64,
    },
    /// It does not; calls are refused at once.
    Down {
        /// Why, for people.
        reason: String,
    },
}

impl Status {
    /// Whether the store answers.
    pub fn is_up(&self) -> bool {
        matches!(self, Status::Up { .. })
    }

    /// The number of the connection that stands. While it is the same, nothing was lost: an answer was
    /// late at most.
    pub fn connection(&self) -> Option<u64> {
        match self {
            Status::Up { connection } => Some(*connection),
            Status::Down { .. } => None,
        }
    }
}

/// How the line to a store does, counted since it was opened. A store in this process has none, and
/// nothing is counted.
#[derive(Debug, Default)]
pub struct Pulse {
    ping_us: AtomicU64,
    errors: [AtomicU64; Pulse::KINDS.len()],
}

impl Pulse {
    /// The kinds of calls without an answer, as [`crate::Error`] has them.
    pub const KINDS: [&str; 3] = ["down", "unknown", "refused"];

    /// How long the last look at the store took, or how long its answer was waited for in vain.
    pub fn ping(&self) -> Duration {
        Duration::from_micros(self.ping_us.load(Ordering::Relaxed))
    }

    /// Calls without an answer, in the order of [`Pulse::KINDS`].
    pub fn errors(&self) -> [u64; Pulse::KINDS.len()] {
        std::array::from_fn(|kind| self.errors[kind].load(Ordering::Relaxed))
    }

    #[cfg(feature = "redis")]
    pub(crate) fn looked(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.ping_us.store(us, Ordering::Relaxed);
    }

    #[cfg(feature = "redis")]
    pub(crate) fn failed(&self, error: Error) -> Error {
        let kind = match &error {
            Error::Down(_) => 0,
            Error::Unknown(_) => 1,
            Error::Refused(_) => 2,
            // The store answered, or was not asked.
            Error::Corrupt { .. } | Error::Invalid(_) => return error,
        };
        self.errors[kind].fetch_add(1, Ordering::Relaxed);
        error
    }
}

/// How long the store may take for what.
#[derive(Clone, Debug)]
pub struct Options {
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// Until a step is answered; then its outcome is unknown.
    pub response_timeout: Duration,
    /// Between two looks whether the store still answers.
    pub ping_interval: Duration,
    /// Steps on their way at the same time, per server; more wait their turn.
    pub max_in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connect_timeout: Duration::from_millis(800),
            response_timeout: Duration::from_millis(500),
            ping_interval: Duration::from_millis(250),
            max_in_flight: 1024,
        }
    }
}
