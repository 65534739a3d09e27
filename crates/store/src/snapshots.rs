//! The snapshot of all instances: each posts its part, a leader publishes the whole.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::leaders::Task;
use crate::nodes::Fenced;

/// Bytes of what one instance says of itself for the snapshot.
pub const MAX_PART_BYTES: usize = 64 * 1024;

/// Bytes of what a leader publishes.
pub const MAX_PUBLISHED_BYTES: usize = 512 * 1024;

/// Parts of the snapshot by instance, and what leaders published last.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Keeps for `ttl` what an instance says of itself; what it said before is replaced.
    async fn post_part(&self, me: &Instance, part: &[u8], ttl: Duration) -> Result<()>;

    /// What every instance said of itself, as far as its time is not over.
    async fn parts(&self) -> Result<Vec<Vec<u8>>>;

    /// Replaces what leaders of the task have published, if `fence` is the newest; otherwise nothing
    /// changes, and the answer is the newer fence.
    async fn publish(&self, task: Task, fence: u64, what: &[u8]) -> Result<Fenced>;

    /// What a leader of the task published last, however long ago.
    async fn published(&self, task: Task) -> Result<Option<Vec<u8>>>;
}

/// Refuses a part that is too large.
pub(crate) fn check_part(part: &[u8]) -> Result<()> {
    if part.len() > MAX_PART_BYTES {
        return Err(Error::Invalid("a part of the snapshot has at most 64 KiB"));
    }
    Ok(())
}

/// Refuses what is too large to be published.
pub(crate) fn check_published(what: &[u8]) -> Result<()> {
    if what.len() > MAX_PUBLISHED_BYTES {
        return Err(Error::Invalid("a leader publishes at most 512 KiB"));
    }
    Ok(())
}
