//! The file that batches are appended to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lingua_core::Moment;
use parking_lot::Mutex;

use super::frame::{self, Batch, Pending};

/// With this a log begins.
const MAGIC: &[u8; 16] = b"lingua log 1\n\0\0\0";

/// Before the number of a log in the name of its file.
const PREFIX: &str = "log.";

/// An open log.
#[derive(Debug)]
pub(super) struct Log {
    /// Shared with who syncs it, so that nobody waits for the disk to append.
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    /// Which one it is; the next has the next number.
    pub(super) id: u64,
    /// Bytes of whole batches.
    pub(super) length: u64,
    /// The number of the last batch.
    last: u64,
    /// A batch on its way: one that could not be written is written before all others.
    batch: Pending,
}

impl Log {
    /// A new log whose first batch comes after the one with this number.
    pub(super) fn create(directory: &Path, id: u64, last: u64) -> io::Result<Log> {
        let path = directory.join(format!("{PREFIX}{id:010}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all_at(MAGIC, 0)?;
        let length = MAGIC.len() as u64;
        Ok(Log { file: Arc::new(file), path, id, length, last, batch: Pending::default() })
    }

    /// The number of the last batch that was written.
    pub(super) fn number(&self) -> u64 {
        self.last
    }

    /// Whether it has no batch.
    pub(super) fn is_empty(&self) -> bool {
        self.length == MAGIC.len() as u64
    }

    /// Appends what is pending as one batch. What could not be written is kept for the next time.
    pub(super) fn write(&mut self, pending: &Mutex<Pending>, now: Moment) -> io::Result<()> {
        loop {
            if self.batch.is_empty() {
                std::mem::swap(&mut self.batch, &mut *pending.lock());
            }
            if self.batch.is_empty() {
                return Ok(());
            }
            let batch = self.batch.seal(self.last + 1, now);
            self.file.write_all_at(batch, self.length)?;
            self.length += batch.len() as u64;
            self.last += 1;
            self.batch.clear();
        }
    }

    /// Goes on where the log before ends, with what that one could not write.
    pub(super) fn follow(&mut self, before: &mut Log) {
        self.last = before.last;
        std::mem::swap(&mut self.batch, &mut before.batch);
    }
}

/// The logs in a directory, the oldest first.
pub(super) fn all(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if let Some(id) = entry.file_name().to_str().and_then(number) {
            found.push((id, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The number of the log with this file name.
pub(super) fn number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// A log as it was read: its batches end where a whole one does not follow.
pub(super) struct Read(Vec<u8>);

impl Read {
    /// Reads it; `None` if it is not a log. An empty file is one that was about to be begun.
    pub(super) fn file(path: &Path) -> io::Result<Option<Read>> {
        let bytes = std::fs::read(path)?;
        let is_log = bytes.starts_with(MAGIC) || MAGIC.starts_with(&bytes);
        Ok(is_log.then_some(Read(bytes)))
    }

    pub(super) fn batches(&self) -> impl Iterator<Item = Batch<'_>> {
        let mut rest = self.0.get(MAGIC.len()..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (batch, behind) = frame::first(rest)?;
            rest = behind;
            Some(batch)
        })
    }
}
