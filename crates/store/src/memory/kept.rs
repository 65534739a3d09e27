//! What the journal has of this store, and how it is put back.
//!
//! A step that changes something begins with [`MemoryStore::change`], notes what is so now while it has the lock of it,
//! and answers through [`MemoryStore::kept`] without that lock. What must survive a power cut answers through
//! [`MemoryStore::kept_on_disk`]. Without a journal all of these do nothing.
//!
//! Not kept is what is between living instances, because nobody else lives when a store is opened: presence, inboxes, the
//! feed of changes, and the parts of the snapshot.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use lingua_core::Moment;

use super::MemoryStore;
use super::nodes::Profiles;
use crate::backend::{Backend, Closing};
use crate::clock::Clock;
use crate::error::{OpenError, Result};
use crate::journal::{self, Entry, Journal, Kind};

impl MemoryStore {
    /// The store that is kept in this directory, on this clock. It is made if there is none.
    pub fn open_in(directory: &Path, clock: Clock) -> std::result::Result<Backend, OpenError> {
        let opened = journal::read(directory, clock)?;
        let mut store = MemoryStore::new(opened.clock.clone());
        store.put_back(&opened.entries).map_err(|entry| opened.unreadable(entry))?;
        let is_new_generation = opened.is_new_generation;
        store.journal = Some(opened.begin(Arc::clone(&store.status))?);
        if is_new_generation {
            store.begin_generation();
        }
        Ok(Arc::new(store).backend())
    }

    /// The time of a change; refuses while nothing can be kept.
    pub(super) fn change(&self) -> Result<Moment> {
        if let Some(journal) = &self.journal {
            journal.ready()?;
        }
        Ok(self.clock.now())
    }

    /// Notes something in the journal, if there is one.
    pub(super) fn note(&self, note: impl FnOnce(&Journal)) {
        if let Some(journal) = &self.journal {
            note(journal);
        }
    }

    /// The answer, once what was noted survives this process.
    pub(super) fn kept<T>(&self, answer: T) -> Result<T> {
        if let Some(journal) = &self.journal {
            journal.flush()?;
        }
        Ok(answer)
    }

    /// The answer, once what was noted survives the machine.
    pub(super) async fn kept_on_disk<T>(&self, answer: T) -> Result<T> {
        if let Some(journal) = &self.journal {
            journal.sync().await?;
        }
        Ok(answer)
    }

    /// Puts back what was kept; gives the first entry that cannot be read.
    fn put_back<'a>(&self, entries: &'a [Entry]) -> std::result::Result<(), &'a Entry> {
        let now = self.clock.now();
        let (mut profiles, mut leases) = (Profiles::default(), Vec::new());
        for entry in entries {
            let done = match entry.kind {
                Kind::Profile | Kind::Node | Kind::Gaps | Kind::Order => {
                    self.put_back_node(entry, &mut profiles)
                }
                Kind::Lease => {
                    leases.push(entry);
                    Some(())
                }
                Kind::Job => self.put_back_job(now, entry),
                Kind::Deadline => self.put_back_deadline(entry),
                Kind::Request => self.put_back_request(now, entry),
                Kind::Turn => self.put_back_turn(now, entry),
                Kind::Owner | Kind::Saved => self.put_back_session(now, entry),
                Kind::Leader | Kind::Published => self.put_back_task(entry),
                Kind::Window | Kind::Rate => self.put_back_rate(now, entry),
                Kind::Revocation => self.put_back_revocation(entry),
                Kind::Point => self.put_back_point(entry),
                Kind::Usage => self.put_back_usage(now, entry),
                Kind::Reputation => self.put_back_reputation(now, entry),
            };
            done.ok_or(entry)?;
        }
        self.put_back_leases(&leases)
    }
}

#[async_trait]
impl Closing for MemoryStore {
    async fn close(&self) {
        if let Some(journal) = &self.journal {
            // Waits for the disk, when nobody has anything else to do any more.
            journal.close();
        }
    }
}
