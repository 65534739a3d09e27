//! A day by the minute: what the leader writes into the store, and what every instance keeps of it.

use std::collections::{BTreeMap, VecDeque};

use lingua_store::History;
use lingua_store::history::Series;

use super::part::Part;
use super::view::{Latency, Point, Snapshot};
use crate::metrics::Counts;

/// How far apart the points are.
pub const MINUTE_MS: u64 = 60_000;

/// Codes of one point; the rest is counted as `other`.
const MAX_CODES: usize = 40;

/// What the leader counts until a minute is over.
#[derive(Default)]
pub(super) struct Minute {
    began_ms: Option<u64>,
    last_ms: u64,
    ended: BTreeMap<String, u64>,
    dispatch: Counts,
    job: Counts,
    sentence: Counts,
    waiting: u64,
    sessions: u64,
    slots: u64,
    used: u64,
}

impl Minute {
    /// Takes in one snapshot and the parts that it was made of. Of what goes up and down the highest is
    /// kept: a minute of full slots is not to look calm.
    pub fn add(&mut self, parts: &[Part], snapshot: &Snapshot) {
        let began_ms = snapshot.at_ms.saturating_sub(snapshot.interval_ms);
        self.began_ms.get_or_insert(began_ms);
        self.last_ms = snapshot.at_ms;
        for part in parts {
            self.dispatch.add(&part.dispatch);
            self.job.add(&part.job);
            self.sentence.add(&part.sentence);
        }
        for (code, count) in &snapshot.work.ended {
            let sum = self.ended.entry(code.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        self.waiting = self.waiting.max(snapshot.work.waiting);
        self.sessions = self.sessions.max(snapshot.work.sessions);
        self.slots = self.slots.max(snapshot.nodes.slots);
        self.used = self.used.max(snapshot.nodes.used);
    }

    /// Whether the clock's minute has turned since it began.
    pub fn is_over(&self) -> bool {
        self.began_ms.is_some_and(|began_ms| began_ms / MINUTE_MS < self.last_ms / MINUTE_MS)
    }

    pub fn point(&self) -> Point {
        let ended = self.ended.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let span_ms = self.last_ms.saturating_sub(self.began_ms.unwrap_or(self.last_ms)).max(1);
        let ended_per_s = ended as f64 * 1_000.0 / span_ms as f64;
        Point {
            at_ms: self.last_ms,
            ended_per_s: (ended_per_s * 100.0).round() / 100.0,
            ended: bounded(&self.ended),
            latency: Latency {
                dispatch: self.dispatch.quantiles(),
                job: self.job.quantiles(),
                sentence: self.sentence.quantiles(),
            },
            waiting: self.waiting,
            sessions: self.sessions,
            slots: self.slots,
            used: self.used,
        }
    }
}

/// The codes that most jobs ended with.
fn bounded(ended: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut codes: Vec<_> = ended.iter().map(|(code, count)| (code.clone(), *count)).collect();
    codes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rest = codes.split_off(codes.len().min(MAX_CODES));
    let rest = rest.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
    codes.extend((rest > 0).then(|| ("other".to_owned(), rest)));
    codes.into_iter().collect()
}

/// Writes the minute down if it is over. A store that has a point of this minute already gets this one
/// with the next snapshot: instances and store do not turn their minutes at the same moment.
pub(super) async fn write(minute: &mut Minute, history: &dyn History) {
    if !minute.is_over() {
        return;
    }
    let point = serde_json::to_vec(&minute.point()).expect("a point has only string keys");
    match history.append(&Series::snapshots(), &point).await {
        Ok(true) => *minute = Minute::default(),
        Ok(false) => {}
        Err(error) => tracing::debug!(%error, "the point of a minute is written later"),
    }
}

/// The last day, as this instance has read it.
#[derive(Default)]
pub(super) struct Day {
    points: VecDeque<Point>,
    read_ms: Option<u64>,
}

impl Day {
    pub fn points(&self) -> Vec<Point> {
        self.points.iter().cloned().collect()
    }

    /// How many points are to be read now, if any: all at first, then every minute those that may be new.
    pub fn wants(&self, now_ms: u64) -> Option<u32> {
        let Some(read_ms) = self.read_ms else { return Some(Series::snapshots().points) };
        // A clock that was put back begins anew.
        let passed = now_ms.checked_sub(read_ms).map(|passed| passed / MINUTE_MS);
        match passed {
            Some(0) => None,
            Some(passed) => Some(u32::try_from(passed + 2).unwrap_or(u32::MAX)),
            None => Some(Series::snapshots().points),
        }
    }

    /// Takes in what was read. Points that cannot be read are of a later version and left out.
    pub fn add(&mut self, now_ms: u64, read: &[Vec<u8>]) {
        self.read_ms = Some(now_ms);
        let read = read.iter().filter_map(|point| serde_json::from_slice::<Point>(point).ok());
        for point in read {
            if self.points.back().is_none_or(|last| last.at_ms < point.at_ms) {
                self.points.push_back(point);
            }
        }
        let most = Series::snapshots().points as usize;
        let day_ms = most as u64 * MINUTE_MS;
        let is_old = |point: &Point| point.at_ms.saturating_add(day_ms) < now_ms;
        while self.points.len() > most || self.points.front().is_some_and(is_old) {
            self.points.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{NodeCounts, Work};
    use super::*;

    fn snapshot(at_ms: u64, ok: u64, used: u64) -> Snapshot {
        Snapshot {
            at_ms,
            interval_ms: 5_000,
            nodes: NodeCounts { slots: 8, used, ..NodeCounts::default() },
            work: Work { ended: [("ok".to_owned(), ok)].into(), ..Work::default() },
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_minute_has_the_sum_of_what_ended_and_the_highest_of_what_was_taken() {
        let mut minute = Minute::default();
        for (n, used) in [3, 8, 2].into_iter().enumerate() {
            minute.add(&[], &snapshot(60_000 + 5_000 * (n as u64 + 1), 10, used));
        }
        assert!(!minute.is_over(), "it began at 60 s");
        minute.add(&[], &snapshot(120_000, 30, 1));
        assert!(minute.is_over());
        let point = minute.point();
        assert_eq!((point.at_ms, point.ended["ok"], point.used, point.slots), (120_000, 60, 8, 8));
        assert_eq!(point.ended_per_s, 1.0, "60 within 60 s");
    }

    #[test]
    fn a_minute_with_many_codes_fits_into_a_point() {
        let mut one = snapshot(60_000, 1, 1);
        one.work.ended = (0..500).map(|n| (format!("CODE_{n:058}"), u64::MAX / 1_000)).collect();
        let mut minute = Minute::default();
        minute.add(&[], &one);
        let point = minute.point();
        assert_eq!(point.ended.len(), MAX_CODES + 1);
        let bytes = serde_json::to_vec(&point).unwrap().len();
        assert!(bytes < lingua_store::history::MAX_POINT_BYTES, "{bytes}");
    }

    #[test]
    fn a_day_reads_all_once_and_then_what_is_new() {
        let written = |at_ms| {
            let mut minute = Minute::default();
            minute.add(&[], &snapshot(at_ms, 1, 1));
            serde_json::to_vec(&minute.point()).unwrap()
        };
        let mut day = Day::default();
        let begin = 10 * 24 * 60 * MINUTE_MS;
        assert_eq!(day.wants(begin), Some(1_440));
        day.add(begin, &[written(begin - 120_000), written(begin - 60_000), b"later".to_vec()]);
        assert_eq!(day.wants(begin + 59_000), None);
        assert_eq!(day.wants(begin + 61_000), Some(3));
        day.add(begin + 61_000, &[written(begin - 60_000), written(begin)]);
        let times: Vec<_> = day.points().iter().map(|point| point.at_ms).collect();
        assert_eq!(times, [begin - 120_000, begin - 60_000, begin]);
        day.add(begin + 1_439 * MINUTE_MS, &[]);
        assert_eq!(day.points().len(), 2, "what is older than a day goes");
    }
}
