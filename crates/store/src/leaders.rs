//! Which instance leads a task.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::instance::Instance;

/// Leader election by lease: at most one instance leads a task at a time.
#[async_trait]
pub trait Leaders: Send + Sync {
    /// Makes `instance` the leader of `task` if nobody else is, or extends its lead. The fencing
    /// number grows with every change of leader; a leader's effects carry it.
    async fn lead(&self, task: Task, instance: &Instance, ttl: Duration) -> Result<Lead>;

    /// Gives up the lead, if it is still this one.
    async fn resign(&self, task: Task, instance: &Instance, fence: u64) -> Result<()>;
}

/// A task that one instance does for all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Task {
    /// Ends watched jobs whose deadline passed.
    Deadlines,
    /// Writes the snapshot.
    Snapshot,
    /// Forgets what is long gone.
    Janitor,
}

impl Task {
    /// All of them.
    pub const ALL: [Task; 3] = [Task::Deadlines, Task::Snapshot, Task::Janitor];

    /// A stable word for keys, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Task::Deadlines => "deadlines",
            Task::Snapshot => "snapshot",
            Task::Janitor => "janitor",
        }
    }
}

/// What became of a wish to lead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lead {
    /// The caller leads, with this fencing number.
    Leading {
        /// Grows with every change of leader.
        fence: u64,
    },
    /// Somebody else does.
    Held {
        /// The instance that leads.
        by: Instance,
    },
}
