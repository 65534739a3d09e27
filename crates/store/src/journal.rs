//! What one process keeps on disk of the state that it has in memory.
//!
//! The memory backend answers; every change of it is noted here as an *entry*: a [`Kind`], a key, an end and the
//! value after the change. The last entry of a key counts. A step notes its entries under the locks of what it
//! changes, so their order is the order of the changes, and is answered once they are with the operating system:
//! a killed process loses nothing that it answered. [`Kind`]s that must survive a power cut are answered once
//! they are on disk.
//!
//! **Another thing to keep** is a variant of [`Kind`] with the next number, a struct of what is kept of it, a note where
//! it changes, and a line in `memory::kept` that puts it back. **Another field** of a thing that is kept is a field of that
//! struct with a default: entries of the version before do not have it.
//!
//! - [`kind`]: what there is. [`frame`]: entries and batches as bytes. [`log`]: the file that batches are appended to.
//! - [`base`]: the database (redb) that logs are brought into now and then. A transaction takes a log over as a whole.
//! - [`state`]: a small file with what a start has to know. [`lock`]: one process at a time.
//! - [`opening`]: reads all of them and finds out what was lost. [`keeper`]: the thread that does what may take long.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lingua_core::Moment;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::backend::Status;
use crate::clock::Clock;
use crate::error::{Error, Result};

mod base;
mod frame;
mod keeper;
mod kind;
mod lock;
mod log;
mod opening;
mod state;

pub(crate) use kind::Kind;
pub(crate) use opening::read;

use keeper::Wishes;
use lock::Lock;
use log::Log;

/// The layout of all files here. A reader of a version reads those before it too.
pub(crate) const SCHEMA: u32 = 1;

/// How long the disk may take to have what must be on it.
const SYNC: Duration = Duration::from_secs(10);

/// An end that does not come.
pub(crate) const NEVER: Moment = Moment::from_millis(u64::MAX);

/// An entry as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// The parts of its key.
    pub(crate) key: Vec<String>,
    /// It counts until then.
    pub(crate) until: Moment,
    pub(crate) value: Vec<u8>,
}

impl Entry {
    /// A part of the key, read.
    pub(crate) fn id<T: FromStr>(&self, part: usize) -> Option<T> {
        self.key.get(part)?.parse().ok()
    }

    /// The value, read.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_slice(&self.value).ok()
    }
}

/// The journal of one open directory.
#[derive(Debug)]
pub(crate) struct Journal {
    shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// What callers and the keeper share.
#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    clock: Clock,
    /// Noted and not yet written.
    pending: Mutex<frame::Pending>,
    /// The file that is written to. Who needs both locks this one first.
    log: Mutex<Log>,
    /// The number of the last batch that is with the operating system.
    written: AtomicU64,
    /// The number of the last batch that is on disk.
    on_disk: watch::Sender<u64>,
    /// Nothing can be written at the moment.
    failing: AtomicBool,
    status: Arc<watch::Sender<Status>>,
    wishes: Mutex<Wishes>,
    wake: Condvar,
    /// Held for as long as anybody may write.
    _lock: Lock,
}

impl Journal {
    /// Refuses while nothing can be kept: what is not kept must not be answered.
    pub(crate) fn ready(&self) -> Result<()> {
        if self.shared.failing.load(Ordering::Relaxed) {
            return Err(Error::Down(self.shared.reason()));
        }
        Ok(())
    }

    /// Notes what `key` is from now on, as JSON.
    pub(crate) fn note(&self, kind: Kind, key: &[&str], until: Moment, value: &impl Serialize) {
        self.shared.pending.lock().put(kind, key, until, |bytes| {
            serde_json::to_writer(bytes, value).expect("what is kept has only string keys");
        });
    }

    /// Notes what `key` is from now on, as it is.
    pub(crate) fn note_bytes(&self, kind: Kind, key: &[&str], until: Moment, value: &[u8]) {
        self.shared.pending.lock().put(kind, key, until, |bytes| bytes.extend_from_slice(value));
    }

    /// Notes that `key` is no more.
    pub(crate) fn note_end(&self, kind: Kind, key: &[&str]) {
        self.shared.pending.lock().remove(kind, key);
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.shared.directory
    }

    /// Hands everything that was noted to the operating system. What others noted goes along.
    pub(crate) fn flush(&self) -> Result<()> {
        self.shared.flush().map_err(Error::Unknown)
    }

    /// Waits until everything that was noted is on disk.
    pub(crate) async fn sync(&self) -> Result<()> {
        self.flush()?;
        let wanted = self.shared.written.load(Ordering::Acquire);
        let mut on_disk = self.shared.on_disk.subscribe();
        self.shared.wish(|wishes| wishes.sync = wishes.sync.max(wanted));
        let arrived = on_disk.wait_for(|number| *number >= wanted);
        match tokio::time::timeout(SYNC, arrived).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::Unknown("the disk does not answer".to_owned())),
        }
    }

    /// Writes everything to disk, notes that nothing is missing, and ends: nothing is kept any more.
    pub(crate) fn close(&self) {
        let Some(keeper) = self.keeper.lock().take() else { return };
        self.shared.wish(|wishes| wishes.stop = true);
        if keeper.join().is_err() {
            tracing::error!("the keeper of the store ended by a panic");
        }
        self.shared.failing.store(true, Ordering::Release);
        self.shared.status.send_replace(Status::Down { reason: "the store is closed".to_owned() });
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn flush(&self) -> std::result::Result<(), String> {
        let mut log = self.log.lock();
        let written = log.write(&self.pending, self.clock.now());
        let (number, length) = (log.number(), log.length);
        drop(log);
        match written {
            Ok(()) => {
                self.written.fetch_max(number, Ordering::AcqRel);
                if length > keeper::TOO_MUCH_BYTES {
                    self.fail("the disk does not keep up");
                }
                Ok(())
            }
            Err(error) => {
                let reason = format!("{}: {error}", self.directory.display());
                self.fail(&reason);
                Err(reason)
            }
        }
    }

    fn wish(&self, wish: impl FnOnce(&mut Wishes)) {
        wish(&mut self.wishes.lock());
        self.wake.notify_one();
    }

    /// From now on every change is refused.
    fn fail(&self, reason: &str) {
        if !self.failing.swap(true, Ordering::AcqRel) {
            tracing::error!(reason, "the store cannot write and refuses all work until it can");
        }
        let down = Status::Down { reason: reason.to_owned() };
        self.status.send_if_modified(|status| {
            let is_news = *status != down;
            *status = down;
            is_news
        });
    }

    /// Changes are taken again.
    fn recover(&self, connection: u64) {
        if self.failing.swap(false, Ordering::AcqRel) {
            tracing::info!("the store writes again");
            self.status.send_replace(Status::Up { connection });
        }
    }

    fn reason(&self) -> String {
        match &*self.status.borrow() {
            Status::Down { reason } => reason.clone(),
            Status::Up { .. } => "the store cannot write".to_owned(),
        }
    }
}
