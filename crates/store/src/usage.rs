//! What was used, by day: every process posts what it counted, and the sum of all is the day's.

use async_trait::async_trait;
pub use lingua_core::usage::{Day, KEPT_DAYS};

use crate::error::{Error, Result};
use crate::instance::Instance;

/// Processes that may post for one day. More are refused: something restarts all the time.
pub const MAX_WRITERS: usize = 256;

/// Bytes of what one process counted on one day.
pub const MAX_USAGE_BYTES: usize = 512 * 1024;

/// What became of a posting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// It is what the process counted on that day.
    Kept,
    /// A later one of the process is there; nothing changed.
    Older,
    /// Too many processes posted for that day; nothing changed.
    Full,
}

/// What was used, by day.
#[async_trait]
pub trait UsageDays: Send + Sync {
    /// Replaces what this process counted on that day. `serial` rises with every posting of a process for
    /// the day, so that one that comes late or twice changes nothing. A day is forgotten after [`KEPT_DAYS`].
    async fn post(&self, day: Day, me: &Instance, serial: u64, counts: &[u8]) -> Result<Posted>;

    /// What every process counted on that day, in no order.
    async fn posted(&self, day: Day) -> Result<Vec<Vec<u8>>>;
}

/// Refuses what is too large.
pub(crate) fn check_counts(counts: &[u8]) -> Result<()> {
    if counts.len() > MAX_USAGE_BYTES {
        return Err(Error::Invalid("a process posts at most 512 KiB for a day"));
    }
    Ok(())
}
