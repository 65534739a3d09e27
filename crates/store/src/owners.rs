//! Who speaks for a session, and who leads a task.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{Moment, SessionKey};

use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::nodes::Fenced;

/// How long an epoch is remembered after its lease, so that it is never given twice.
pub const EPOCH_MEMORY: Duration = Duration::from_secs(24 * 3600);

/// Bytes of what one owner leaves to the next.
pub const MAX_STATE_BYTES: usize = 64 * 1024;

/// Bytes of what a leader publishes.
pub const MAX_PUBLISHED_BYTES: usize = 512 * 1024;

/// The table of owners. An epoch is never given twice for one subject, rises with every claim, and
/// rises over a loss of the store's data too. After a higher epoch is accepted the older owner
/// changes nothing (I9). Every method is atomic per subject and safe to repeat.
#[async_trait]
pub trait OwnerTable: Send + Sync {
    /// Makes `instance` the owner of the session, whoever was it before: a person's newest
    /// connection wins.
    async fn claim(
        &self,
        session: &SessionKey,
        instance: &Instance,
        ttl: Duration,
    ) -> Result<Claimed>;

    /// Extends the ownership by this epoch. One that lapsed and that nobody claimed since, or that a
    /// store lost with its data, is back by it.
    async fn renew(
        &self,
        session: &SessionKey,
        instance: &Instance,
        epoch: u64,
        ttl: Duration,
    ) -> Result<Fenced>;

    /// Ends the ownership by this epoch. The epoch itself is remembered.
    async fn release(&self, session: &SessionKey, epoch: u64) -> Result<Fenced>;

    /// The owner, if its lease is not over.
    async fn owner(&self, session: &SessionKey) -> Result<Option<Owner>>;

    /// Keeps for `keep_for` what the next owner needs to go on, if `epoch` is the current one.
    async fn save(
        &self,
        session: &SessionKey,
        epoch: u64,
        state: &[u8],
        keep_for: Duration,
    ) -> Result<Fenced>;

    /// What the last owner saved.
    async fn load(&self, session: &SessionKey) -> Result<Option<Vec<u8>>>;

    /// Makes `instance` the leader of `task` if nobody else is, or extends its lead. The fencing
    /// number grows with every change of leader; a leader's effects carry it.
    async fn lead(&self, task: Task, instance: &Instance, ttl: Duration) -> Result<Lead>;

    /// Replaces what leaders of the task have published, if `fence` is the newest; otherwise nothing
    /// changes, and the answer is the newer fence.
    async fn publish(&self, task: Task, fence: u64, what: &[u8]) -> Result<Fenced>;

    /// What a leader of the task published last, however long ago.
    async fn published(&self, task: Task) -> Result<Option<Vec<u8>>>;

    /// Gives up the lead, if it is still this one.
    async fn resign(&self, task: Task, instance: &Instance, fence: u64) -> Result<()>;
}

/// Refuses what is too large to be published.
pub(crate) fn check_published(what: &[u8]) -> Result<()> {
    if what.len() > MAX_PUBLISHED_BYTES {
        return Err(Error::Invalid("a leader publishes at most 512 KiB"));
    }
    Ok(())
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

/// A new ownership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimed {
    /// Its epoch.
    pub epoch: u64,
    /// The owner whose lease was not over, if it was another one: it is to be told.
    pub replaced: Option<Instance>,
}

/// Who owns a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The instance.
    pub instance: Instance,
    /// The epoch.
    pub epoch: u64,
    /// The lease's end.
    pub until: Moment,
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
        /// Who.
        by: Instance,
    },
}
