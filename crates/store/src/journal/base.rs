//! The database that logs are brought into.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lingua_core::Moment;
use redb::{
    Builder, Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition,
    TableError,
};

use super::frame::Found;
use super::log::Read;

/// The name of the file.
pub(super) const NAME: &str = "base.redb";

/// Kind and key -> end and value.
const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");
/// The number of the last batch that is in it.
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
const APPLIED: &str = "applied";

/// Pages kept in memory while a log is brought in.
const CACHE_BYTES: usize = 8 << 20;

/// Entries by kind and key, each with its end and value; what is no more has none.
pub(super) type Changes = BTreeMap<Vec<u8>, Option<(Moment, Vec<u8>)>>;

/// The name of an entry.
pub(super) fn name(found: &Found<'_>) -> Vec<u8> {
    let mut name = Vec::with_capacity(1 + found.key.len());
    name.push(found.kind);
    name.extend_from_slice(found.key);
    name
}

/// Notes what the batches of this log after `applied` change, and gives the number of the last of them.
/// `None` if a batch between is missing.
pub(super) fn collect(
    log: &Read,
    mut applied: u64,
    changes: &mut Changes,
    latest: &mut Moment,
) -> Option<u64> {
    for batch in log.batches() {
        *latest = (*latest).max(batch.now);
        if batch.number <= applied {
            continue;
        }
        if batch.number != applied + 1 {
            return None;
        }
        applied = batch.number;
        for found in batch.entries() {
            let value = found.value.map(|value| (found.until, value.to_vec()));
            changes.insert(name(&found), value);
        }
    }
    Some(applied)
}

/// The database as a whole, with the number of the last batch in it. Nothing if there is none yet.
pub(super) fn read(directory: &Path) -> Result<(Changes, u64), redb::Error> {
    let path = directory.join(NAME);
    let mut entries = Changes::new();
    if !path.exists() {
        return Ok((entries, 0));
    }
    // Opening it to write would write. Only one that a kill interrupted has to be put right.
    let view = match Builder::new().set_cache_size(CACHE_BYTES).open_read_only(&path) {
        Err(DatabaseError::RepairAborted) => open(path)?.begin_read()?,
        base => base?.begin_read()?,
    };
    let facts = match view.open_table(FACTS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok((entries, 0)),
        facts => facts?,
    };
    let applied = facts.get(APPLIED)?.map_or(0, |number| number.value());
    for entry in view.open_table(ENTRIES)?.iter()? {
        let (name, value) = entry?;
        let Some((until, value)) = value.value().split_first_chunk() else {
            return Err(redb::StorageError::Corrupted("an entry without an end".to_owned()).into());
        };
        let until = Moment::from_millis(u64::from_le_bytes(*until));
        entries.insert(name.value().to_vec(), Some((until, value.to_vec())));
    }
    Ok((entries, applied))
}

/// Brings changes in, all or none, and takes out what is over if `tidy`. On disk when it returns.
pub(super) fn apply(
    directory: &Path,
    changes: &Changes,
    applied: u64,
    now: Moment,
    tidy: bool,
) -> Result<(), redb::Error> {
    let base = open(directory.join(NAME))?;
    let mut change = base.begin_write()?;
    change.set_durability(Durability::Immediate)?;
    {
        let mut entries = change.open_table(ENTRIES)?;
        if tidy {
            entries.retain(|_, value| end(value) > now)?;
        }
        let mut value = Vec::new();
        for (name, change) in changes {
            match change {
                Some((until, bytes)) if *until > now => {
                    value.clear();
                    value.extend_from_slice(&until.as_millis().to_le_bytes());
                    value.extend_from_slice(bytes);
                    entries.insert(&name[..], &value[..])?;
                }
                _ => {
                    entries.remove(&name[..])?;
                }
            }
        }
        change.open_table(FACTS)?.insert(APPLIED, applied)?;
    }
    change.commit()?;
    Ok(())
}

fn open(path: PathBuf) -> Result<Database, redb::Error> {
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    Ok(Builder::new().set_cache_size(CACHE_BYTES).create_file(file)?)
}

fn end(value: &[u8]) -> Moment {
    let end = value.first_chunk().map_or(0, |end| u64::from_le_bytes(*end));
    Moment::from_millis(end)
}
