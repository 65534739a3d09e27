//! Reads what a directory has, and finds out what was lost.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use lingua_core::Moment;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::base::{self, Changes};
use super::keeper::{Keeper, Wishes};
use super::lock::{self, Lock, NoLock};
use super::log::{self, Log, Read};
use super::state::{self, State, StateFile};
use super::{Entry, Journal, Kind, SCHEMA, Shared};
use crate::backend::Status;
use crate::clock::Clock;
use crate::error::OpenError;

/// Files that others keep beside a store.
const NEIGHBOURS: [&str; 2] = ["cluster.key", "lost+found"];

/// A directory that was read. Nothing in it was changed but the lock.
pub(crate) struct Opened {
    directory: PathBuf,
    lock: Lock,
    /// The number of the last batch, and of the last log.
    last: u64,
    log: u64,
    /// Everything that was kept and is not over, in the order of kinds.
    pub(crate) entries: Vec<Entry>,
    /// What was written last may be lost: leases may be missing that nodes still work on.
    pub(crate) is_new_generation: bool,
    /// The store's time. It goes on from what it was, whatever the date says.
    pub(crate) clock: Clock,
}

/// Reads the directory, or makes it.
pub(crate) fn read(directory: &Path, clock: Clock) -> Result<Opened, OpenError> {
    make(directory)?;
    let is_store = look(directory)?;
    let lock = Lock::take(directory).map_err(|error| match error {
        NoLock::Held(by) => OpenError::InUse { store: name(directory), by },
        NoLock::Io(error) => unusable(directory, &error),
    })?;
    // Once more: somebody may have made it until now.
    let contents = match is_store || look(directory)? {
        true => read_files(directory)?,
        false => Contents::default(),
    };
    let clock = clock.not_before(contents.latest);
    let entries = entries(directory, contents.changes, clock.now())?;
    Ok(Opened {
        directory: directory.to_owned(),
        lock,
        last: contents.last,
        log: contents.log,
        entries,
        is_new_generation: contents.lost,
        clock,
    })
}

impl Opened {
    /// From now on changes are kept in it.
    pub(crate) fn begin(self, status: Arc<watch::Sender<Status>>) -> Result<Journal, OpenError> {
        let Opened { directory, lock, last, log, is_new_generation, clock, .. } = self;
        let unusable = |error: io::Error| unusable(&directory, &error);
        let log = Log::create(&directory, log + 1, last).map_err(unusable)?;
        let file = StateFile::open(&directory).map_err(unusable)?;
        let state = State::new(last, clock.now().as_millis());
        file.write_through(&State { lost: is_new_generation, ..state }).map_err(unusable)?;
        File::open(&directory).and_then(|it| it.sync_all()).map_err(unusable)?;
        let shared = Arc::new(Shared {
            directory: directory.clone(),
            clock,
            pending: Mutex::default(),
            log: Mutex::new(log),
            written: AtomicU64::new(last),
            on_disk: watch::Sender::new(last),
            failing: AtomicBool::new(false),
            status,
            wishes: Mutex::new(Wishes::default()),
            wake: Condvar::new(),
            _lock: lock,
        });
        let keeper = Keeper::start(Arc::clone(&shared), file).map_err(unusable)?;
        Ok(Journal { shared, keeper: Mutex::new(Some(keeper)) })
    }

    /// Of an entry that cannot be read.
    pub(crate) fn unreadable(&self, entry: &Entry) -> OpenError {
        torn(&self.directory, base::NAME, format!("an entry of the kind {:?}", entry.kind))
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn unusable(directory: &Path, error: &io::Error) -> OpenError {
    OpenError::Unusable { store: name(directory), why: error.to_string() }
}

fn torn(directory: &Path, file: &str, why: impl ToString) -> OpenError {
    OpenError::Torn { file: name(&directory.join(file)), why: why.to_string() }
}

/// Makes the directory, for this user alone.
fn make(directory: &Path) -> Result<(), OpenError> {
    if directory.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| unusable(directory, &error))
}

/// Whether there is a store; refuses what is something else.
fn look(directory: &Path) -> Result<bool, OpenError> {
    let unusable = |error: io::Error| unusable(directory, &error);
    if directory.join(state::NAME).try_exists().map_err(unusable)? {
        return Ok(true);
    }
    for entry in fs::read_dir(directory).map_err(unusable)? {
        let found = entry.map_err(unusable)?.file_name().to_string_lossy().into_owned();
        if found != lock::NAME && !NEIGHBOURS.contains(&&*found) {
            return Err(OpenError::Foreign { store: name(directory), found });
        }
    }
    Ok(false)
}

/// What the files say.
#[derive(Default)]
struct Contents {
    changes: Changes,
    last: u64,
    log: u64,
    latest: Moment,
    lost: bool,
}

fn read_files(directory: &Path) -> Result<Contents, OpenError> {
    let unusable = |error: io::Error| unusable(directory, &error);
    let foreign =
        |found: &str| OpenError::Foreign { store: name(directory), found: found.to_owned() };
    let state = State::read(directory).map_err(unusable)?.ok_or_else(|| foreign(state::NAME))?;
    if state.schema > SCHEMA {
        let found = state.schema.to_string();
        return Err(OpenError::Schema { store: name(directory), found });
    }
    let (mut changes, mut last) = base::read(directory).map_err(|error| match error {
        redb::Error::Io(error) if !is_content(&error) => unusable(error),
        error => torn(directory, base::NAME, error),
    })?;
    let (mut latest, mut log) = (Moment::from_millis(state.now_ms), 0);
    for (number, path) in log::all(directory).map_err(unusable)? {
        log = number;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let read = Read::file(&path).map_err(unusable)?.ok_or_else(|| foreign(&file))?;
        last = base::collect(&read, last, &mut changes, &mut latest).ok_or_else(|| {
            torn(directory, &file, format!("what was written after step {last} is missing"))
        })?;
    }
    let lost = state.is_power_cut();
    if last < state.number && !lost {
        let why = format!("it ends with step {last}, and {} were written", state.number);
        return Err(torn(directory, &format!("log.{log:010}"), why));
    }
    if lost {
        tracing::warn!(
            store = name(directory),
            missing = state.number.saturating_sub(last),
            "the machine stopped while the store was open: what was written last may be missing, and nodes \
             get jobs once they have said what they run"
        );
    }
    Ok(Contents { changes, last, log, latest, lost })
}

/// Whether what is wrong is in the file, and not with the disk.
fn is_content(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

/// What was kept and is not over.
fn entries(directory: &Path, changes: Changes, now: Moment) -> Result<Vec<Entry>, OpenError> {
    let mut entries = Vec::with_capacity(changes.len());
    for (name, change) in changes {
        let Some((until, value)) = change.filter(|(until, _)| *until > now) else { continue };
        let number = name.first().copied().unwrap_or_default();
        let key = std::str::from_utf8(name.get(1..).unwrap_or_default()).ok();
        let (Some(kind), Some(key)) = (Kind::of(number), key) else {
            return Err(torn(directory, base::NAME, format!("an entry of the kind {number}")));
        };
        let key = key.split('\0').map(str::to_owned).collect();
        entries.push(Entry { kind, key, until, value });
    }
    Ok(entries)
}
