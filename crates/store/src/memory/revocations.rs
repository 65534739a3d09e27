//! The revocation list.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::Moment;
use parking_lot::Mutex;

use super::MemoryStore;
use crate::error::Result;
use crate::journal::{Entry, Kind};
use crate::rates::Name;
use crate::revocations::{MAX_REVOCATIONS, Revocations, kept_ms};

/// Few, and read as a whole.
pub(super) type Entries = Mutex<HashMap<Name, Moment>>;

#[async_trait]
impl Revocations for MemoryStore {
    async fn add(&self, entry: &Name, keep_for: Duration) -> Result<bool> {
        let keep_for = Duration::from_millis(kept_ms(keep_for)?);
        let now = self.change()?;
        {
            let mut entries = self.revocations.lock();
            entries.retain(|_, until| *until > now);
            if !entries.contains_key(entry) && entries.len() >= MAX_REVOCATIONS {
                return Ok(false);
            }
            let until = entries.entry(entry.clone()).or_insert(now);
            *until = (*until).max(now + keep_for);
            self.note(|journal| {
                journal.note_bytes(Kind::Revocation, &[entry.as_str()], *until, &[]);
            });
        }
        self.kept_on_disk(true).await
    }

    async fn list(&self) -> Result<Vec<Name>> {
        let now = self.clock.now();
        let entries = self.revocations.lock();
        let live = entries.iter().filter(|(_, until)| **until > now);
        Ok(live.map(|(entry, _)| entry.clone()).collect())
    }
}

impl MemoryStore {
    /// Puts back a revocation that was kept; `None` if it cannot be read.
    pub(super) fn put_back_revocation(&self, entry: &Entry) -> Option<()> {
        self.revocations.lock().insert(Name::new(entry.key.first()?).ok()?, entry.until);
        Some(())
    }
}
