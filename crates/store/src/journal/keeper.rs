//! The thread that does what may take long: waits for the disk, and brings logs into the database.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use lingua_core::Moment;

use super::Shared;
use super::base::{self, Changes};
use super::log::{self, Log, Read};
use super::state::{State, StateFile};

/// Between two looks at what was written: so often the state says how far it is.
const LOOK: Duration = Duration::from_millis(250);

/// A log of this size is brought into the database: its entries are sorted in memory, in about twice the room.
const FULL_BYTES: u64 = 16 << 20;

/// A log that is as old is, too: so long a start may have to read.
const OLD: Duration = Duration::from_secs(30);

/// What is over is taken out of the database so often.
const TIDY: Duration = Duration::from_secs(120);

/// With a log of this size no more is taken until it is in the database.
pub(super) const TOO_MUCH_BYTES: u64 = 16 * FULL_BYTES;

/// What callers want of the keeper.
#[derive(Default, Debug)]
pub(super) struct Wishes {
    /// Everything up to this number on disk.
    pub(super) sync: u64,
    pub(super) stop: bool,
}

pub(super) struct Keeper {
    shared: Arc<Shared>,
    state: StateFile,
    /// What the state says.
    noted: u64,
    /// Logs that are not in the database, the oldest first.
    sealed: VecDeque<PathBuf>,
    /// They could not be brought in yet, though it is time.
    owes: bool,
    /// When the present log was begun, and when the database was tidied.
    begun: Moment,
    tidied: Moment,
    /// How many times the disk took what was written again.
    connection: u64,
}

impl Keeper {
    pub(super) fn start(shared: Arc<Shared>, state: StateFile) -> io::Result<JoinHandle<()>> {
        let present = shared.log.lock().id;
        let logs = log::all(&shared.directory)?;
        let before = logs.into_iter().filter(|(number, _)| *number < present);
        let sealed = before.map(|(_, path)| path).collect();
        let now = shared.clock.now();
        let noted = shared.written.load(Ordering::Acquire);
        let keeper = Keeper {
            shared,
            state,
            noted,
            sealed,
            owes: false,
            begun: now,
            tidied: now,
            connection: 1,
        };
        Builder::new().name("store".to_owned()).spawn(move || keeper.run())
    }

    fn run(mut self) {
        loop {
            let (sync, stop) = self.wait();
            let done = self.work(sync, stop);
            match done {
                Ok(()) => {
                    if self.shared.failing.load(Ordering::Acquire) {
                        self.connection += 1;
                        self.shared.recover(self.connection);
                    }
                }
                Err(error) => {
                    let directory = self.shared.directory.display();
                    self.shared.fail(&format!("{directory}: {error}"));
                }
            }
            if stop {
                return;
            }
        }
    }

    /// Waits for a wish, or the next look.
    fn wait(&self) -> (u64, bool) {
        let mut wishes = self.shared.wishes.lock();
        let is_new =
            |wishes: &super::Wishes| wishes.stop || wishes.sync > *self.shared.on_disk.borrow();
        // What fails is tried again after a while, not at once.
        if !is_new(&wishes) || self.shared.failing.load(Ordering::Acquire) && !wishes.stop {
            self.shared.wake.wait_for(&mut wishes, LOOK);
        }
        (wishes.sync, wishes.stop)
    }

    fn work(&mut self, sync: u64, stop: bool) -> Result<(), Trouble> {
        self.shared.flush().map_err(Trouble::Flush)?;
        let now = self.shared.clock.now();
        let (length, is_empty) = {
            let log = self.shared.log.lock();
            (log.length, log.is_empty())
        };
        let is_due = length >= FULL_BYTES || self.begun + OLD <= now;
        if is_due && !is_empty && !stop {
            self.turn(now)?;
        }
        self.owes |= is_due;
        if self.owes && !stop {
            self.bring_in(now)?;
            self.owes = false;
        }
        if sync > *self.shared.on_disk.borrow() || stop {
            self.sync()?;
        }
        self.note(now, stop)
    }

    /// Goes on with the next log.
    fn turn(&mut self, now: Moment) -> Result<(), Trouble> {
        let shared = &self.shared;
        let (id, last) = {
            let log = shared.log.lock();
            (log.id + 1, log.number())
        };
        let mut next = Log::create(&shared.directory, id, last)?;
        let mut log = shared.log.lock();
        // What was written while the file was made.
        next.follow(&mut log);
        let before = std::mem::replace(&mut *log, next);
        drop(log);
        self.sealed.push_back(before.path);
        self.begun = now;
        Ok(())
    }

    /// Brings the logs before into the database, and removes them.
    fn bring_in(&mut self, now: Moment) -> Result<(), Trouble> {
        let directory = &self.shared.directory;
        let (mut changes, mut latest) = (Changes::new(), Moment::ZERO);
        let mut applied = None;
        for path in &self.sealed {
            let log = Read::file(path)?.ok_or(Trouble::Log)?;
            let Some(first) = log.batches().next() else { continue };
            let before = applied.unwrap_or(first.number.saturating_sub(1));
            applied =
                Some(base::collect(&log, before, &mut changes, &mut latest).ok_or(Trouble::Log)?);
        }
        if let Some(applied) = applied {
            let tidy = self.tidied + TIDY <= now;
            base::apply(directory, &changes, applied, now, tidy)?;
            if tidy {
                self.tidied = now;
            }
        }
        while let Some(path) = self.sealed.front() {
            fs::remove_file(path)?;
            self.sealed.pop_front();
        }
        Ok(())
    }

    /// Everything that was written is on disk after it.
    fn sync(&mut self) -> Result<(), Trouble> {
        let shared = &self.shared;
        let (file, number) = {
            let log = shared.log.lock();
            (Arc::clone(&log.file), log.number())
        };
        // Also what is in logs that are not in the database yet, and that there are such files.
        for path in &self.sealed {
            File::open(path)?.sync_data()?;
        }
        file.sync_data()?;
        File::open(&shared.directory)?.sync_all()?;
        shared.on_disk.send_replace(number);
        Ok(())
    }

    /// Writes down how far everything is.
    fn note(&mut self, now: Moment, stop: bool) -> Result<(), Trouble> {
        let written = self.shared.written.load(Ordering::Acquire);
        let state = State::new(written, now.as_millis());
        if stop {
            self.state.write_through(&State { stopped: true, ..state })?;
        } else if written != self.noted {
            self.state.write(&state)?;
        }
        self.noted = written;
        Ok(())
    }
}

/// Why nothing can be kept.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Flush(String),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Base(#[from] redb::Error),
    #[error("a log is not as it was written")]
    Log,
}
