//! A small file with what a start has to know of the time before.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The name of the file. A directory without it is not a store.
pub(super) const NAME: &str = "state";

/// What it says that it is.
const FORMAT: &str = "lingua store";

/// Its size: a part of one page, so that it is written as a whole.
const SIZE: usize = 512;

/// What is in it: one line of JSON, filled up with spaces.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) format: String,
    pub(super) schema: u32,
    /// The run of the operating system in which it was written; empty where it has no name.
    pub(super) boot: String,
    /// Nobody writes any more, and all is on disk.
    pub(super) stopped: bool,
    /// A batch of this number was written.
    pub(super) number: u64,
    /// The store's time.
    pub(super) now_ms: u64,
    /// The time before ended with a loss, and that is not noted elsewhere yet.
    pub(super) lost: bool,
}

impl State {
    /// Of a store that is open.
    pub(super) fn new(number: u64, now_ms: u64) -> Self {
        State {
            format: FORMAT.to_owned(),
            schema: super::SCHEMA,
            boot: boot(),
            stopped: false,
            number,
            now_ms,
            lost: false,
        }
    }

    /// Reads it; `None` if it is not one.
    pub(super) fn read(directory: &Path) -> io::Result<Option<State>> {
        let text = std::fs::read(directory.join(NAME))?;
        let state = serde_json::from_slice::<State>(&text).ok();
        Ok(state.filter(|state| state.format == FORMAT))
    }

    /// Whether what the operating system was given may be lost: it was not asked to write it, and did not live on.
    pub(super) fn is_power_cut(&self) -> bool {
        let now = boot();
        self.lost || !self.stopped && (now.is_empty() || self.boot != now)
    }
}

/// The file, to be written again and again.
pub(super) struct StateFile(File);

impl StateFile {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(StateFile(file))
    }

    pub(super) fn write(&self, state: &State) -> io::Result<()> {
        let mut line = serde_json::to_vec(state)?;
        line.resize(SIZE - 1, b' ');
        line.push(b'\n');
        self.0.write_all_at(&line, 0)
    }

    /// As [`StateFile::write`], and on disk.
    pub(super) fn write_through(&self, state: &State) -> io::Result<()> {
        self.write(state)?;
        self.0.sync_all()
    }
}

/// The name of this run of the operating system.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
