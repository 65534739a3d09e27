//! Series of points, one per step.

use std::collections::{HashMap, VecDeque};

use async_trait::async_trait;
use lingua_core::Moment;
use parking_lot::Mutex;

use super::MemoryStore;
use crate::error::Result;
use crate::history::{History, Series, check_point};
use crate::journal::{Entry, Kind};
use crate::rates::Name;

#[derive(Default)]
pub(super) struct AllSeries(pub(super) Mutex<HashMap<Name, Kept>>);

#[derive(Clone)]
pub(super) struct Kept {
    /// Of the last point.
    step: u64,
    points: VecDeque<Vec<u8>>,
    until: Moment,
}

#[async_trait]
impl History for MemoryStore {
    async fn append(&self, series: &Series, point: &[u8]) -> Result<bool> {
        let step_ms = series.checked()?;
        check_point(point)?;
        let now = self.change()?;
        let step = now.as_millis() / step_ms;
        let mut all = self.history.0.lock();
        all.retain(|_, kept| kept.until > now);
        let empty = || Kept { step: 0, points: VecDeque::new(), until: now };
        let kept = all.entry(series.name.clone()).or_insert_with(empty);
        if !kept.points.is_empty() && kept.step >= step {
            return Ok(false);
        }
        kept.step = step;
        kept.until = now + series.keep();
        kept.points.push_back(point.to_vec());
        while kept.points.len() > series.points as usize {
            kept.points.pop_front();
        }
        self.note(|journal| {
            let key = [series.name.as_str(), &format!("{step:016x}")];
            journal.note_bytes(Kind::Point, &key, kept.until, point);
        });
        drop(all);
        self.kept(true)
    }

    async fn last(&self, series: &Series, count: u32) -> Result<Vec<Vec<u8>>> {
        series.checked()?;
        let now = self.clock.now();
        let all = self.history.0.lock();
        let Some(kept) = all.get(&series.name).filter(|kept| kept.until > now) else {
            return Ok(Vec::new());
        };
        let left_out = kept.points.len().saturating_sub(count as usize);
        Ok(kept.points.iter().skip(left_out).cloned().collect())
    }
}

impl MemoryStore {
    /// Puts back a point that was kept; `None` if it cannot be read. Points come in the order of their steps.
    pub(super) fn put_back_point(&self, entry: &Entry) -> Option<()> {
        let name = Name::new(entry.key.first()?).ok()?;
        let step = u64::from_str_radix(entry.key.get(1)?, 16).ok()?;
        let mut all = self.history.0.lock();
        let empty = || Kept { step, points: VecDeque::new(), until: entry.until };
        let kept = all.entry(name).or_insert_with(empty);
        (kept.step, kept.until) = (step, entry.until);
        kept.points.push_back(entry.value.clone());
        Some(())
    }
}
