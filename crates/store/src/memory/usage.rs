//! What was used, by day.

use std::collections::BTreeMap;

use async_trait::async_trait;
use lingua_core::Moment;
use parking_lot::Mutex;

use super::MemoryStore;
use crate::error::Result;
use crate::instance::Instance;
use crate::journal::{Entry, Kind};
use crate::usage::{Day, MAX_WRITERS, Posted, UsageDays, check_counts};

/// By day and process: the last serial and what came with it.
pub(super) type Days = Mutex<BTreeMap<Day, BTreeMap<String, (u64, Vec<u8>)>>>;

#[async_trait]
impl UsageDays for MemoryStore {
    async fn post(&self, day: Day, me: &Instance, serial: u64, counts: &[u8]) -> Result<Posted> {
        check_counts(counts)?;
        let now = self.change()?;
        let writer = format!("{}:{:016x}", me.id, me.boot);
        let mut days = self.usage.lock();
        days.retain(|day, _| day.forgotten() > now);
        if day.forgotten() <= now {
            return Ok(Posted::Kept);
        }
        let writers = days.entry(day).or_default();
        if writers.get(&writer).is_some_and(|(last, _)| *last >= serial) {
            return Ok(Posted::Older);
        }
        if writers.len() >= MAX_WRITERS && !writers.contains_key(&writer) {
            return Ok(Posted::Full);
        }
        self.note(|journal| {
            let key = [&*format!("{:08x}", day.0), &writer];
            journal.note_bytes(Kind::Usage, &key, day.forgotten(), &stored(serial, counts));
        });
        writers.insert(writer, (serial, counts.to_vec()));
        drop(days);
        self.kept(Posted::Kept)
    }

    async fn posted(&self, day: Day) -> Result<Vec<Vec<u8>>> {
        if day.forgotten() <= self.clock.now() {
            return Ok(Vec::new());
        }
        let days = self.usage.lock();
        let writers = days.get(&day).into_iter().flat_map(BTreeMap::values);
        Ok(writers.map(|(_, counts)| counts.clone()).collect())
    }
}

/// The serial in front of the counts.
fn stored(serial: u64, counts: &[u8]) -> Vec<u8> {
    [&serial.to_be_bytes()[..], counts].concat()
}

impl MemoryStore {
    /// Puts back what a process counted; `None` if it cannot be read.
    pub(super) fn put_back_usage(&self, now: Moment, entry: &Entry) -> Option<()> {
        let day = Day(u32::from_str_radix(entry.key.first()?, 16).ok()?);
        let writer = entry.key.get(1)?.to_string();
        let (serial, counts) = entry.value.split_first_chunk::<8>()?;
        if day.forgotten() > now {
            let kept = (u64::from_be_bytes(*serial), counts.to_vec());
            self.usage.lock().entry(day).or_default().insert(writer, kept);
        }
        Some(())
    }
}
