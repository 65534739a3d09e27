//! The six traits together, as an engine holds them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::bus::InstanceBus;
use crate::error::Error;
use crate::jobs::JobBook;
use crate::nodes::NodeDirectory;
use crate::once::OnceWindow;
use crate::owners::OwnerTable;
use crate::slots::SlotLedger;

/// One store with all it can do. Cheap to clone.
#[derive(Clone)]
pub struct Backend {
    /// Who is there and what they can do.
    pub nodes: Arc<dyn NodeDirectory>,
    /// Who holds which slot until when.
    pub slots: Arc<dyn SlotLedger>,
    /// Which attempt of a job counts.
    pub jobs: Arc<dyn JobBook>,
    /// Who speaks for a session or a task.
    pub owners: Arc<dyn OwnerTable>,
    /// How one instance tells another.
    pub bus: Arc<dyn InstanceBus>,
    /// What happens once per window.
    pub once: Arc<dyn OnceWindow>,
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
}

/// How the line to a store does, counted since it was opened. A store in this process has none, and
/// nothing is counted.
#[derive(Debug, Default)]
pub struct Pulse {
    ping_us: AtomicU64,
    errors: [AtomicU64; Pulse::KINDS.len()],
}

impl Pulse {
    /// The kinds of calls without an answer, as [`Error`] has them.
    pub const KINDS: [&str; 3] = ["down", "unknown", "refused"];

    /// How long the last look at the store took, or how long its answer was waited for in vain.
    pub fn ping(&self) -> Duration {
        Duration::from_micros(self.ping_us.load(Ordering::Relaxed))
    }

    /// Calls without an answer, in the order of [`Pulse::KINDS`].
    pub fn errors(&self) -> [u64; Pulse::KINDS.len()] {
        std::array::from_fn(|kind| self.errors[kind].load(Ordering::Relaxed))
    }

    pub(crate) fn looked(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.ping_us.store(us, Ordering::Relaxed);
    }

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
