//! The revocation list, which all instances read.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::rates::Name;

/// The list of revoked tokens and subjects. Each entry expires by itself.
#[async_trait]
pub trait Revocations: Send + Sync {
    /// Adds an entry for so long. One that is on the list stays for the longer of the two. `false` if
    /// [`MAX_REVOCATIONS`] are on it.
    async fn add(&self, entry: &Name, keep_for: Duration) -> Result<bool>;

    /// All entries, in no order.
    async fn list(&self) -> Result<Vec<Name>>;
}

/// Entries at the same time: every instance reads all of them again and again.
pub const MAX_REVOCATIONS: usize = 10_000;

/// The longest that an entry stays.
const MAX_KEPT: Duration = Duration::from_secs(400 * 24 * 3600);

/// Whole milliseconds that an entry may stay.
pub(crate) fn kept_ms(keep_for: Duration) -> Result<u64> {
    match lingua_core::time::millis(keep_for) {
        ms @ 1.. if keep_for <= MAX_KEPT => Ok(ms),
        _ => Err(Error::Invalid("a revocation stays from 1 ms to 400 days")),
    }
}
