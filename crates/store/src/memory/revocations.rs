//! The revocation list.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::Moment;
use parking_lot::Mutex;

use super::MemoryStore;
use crate::error::Result;
use crate::rates::Name;
use crate::revocations::{MAX_REVOCATIONS, Revocations, kept_ms};

/// Few, and read as a whole.
pub(super) type Entries = Mutex<HashMap<Name, Moment>>;

#[async_trait]
impl Revocations for MemoryStore {
    async fn add(&self, entry: &Name, keep_for: Duration) -> Result<bool> {
        let keep_for = Duration::from_millis(kept_ms(keep_for)?);
        let now = self.clock.now();
        let mut entries = self.revocations.lock();
        entries.retain(|_, until| *until > now);
        if !entries.contains_key(entry) && entries.len() >= MAX_REVOCATIONS {
            return Ok(false);
        }
        let until = entries.entry(entry.clone()).or_insert(now);
        *until = (*until).max(now + keep_for);
        Ok(true)
    }

    async fn list(&self) -> Result<Vec<Name>> {
        let now = self.clock.now();
        let entries = self.revocations.lock();
        let live = entries.iter().filter(|(_, until)| **until > now);
        Ok(live.map(|(entry, _)| entry.clone()).collect())
    }
}
