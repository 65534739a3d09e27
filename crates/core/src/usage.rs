//! What was used on one day, as counts that can be added.
//!
//! Rows are bounded: what comes first has rows of its own, all else is counted as [`OTHER`]. So sums stay right
//! whatever is asked for.

mod day;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use day::{Day, KEPT_DAYS};

/// The name of what has no row of its own.
pub const OTHER: &str = "other";

/// Rows of pairs and tenants that one process counts on a day.
pub const MAX_SPOKEN: usize = 1_000;

/// Rows of services, models and nodes that one process counts on a day.
pub const MAX_WORKED: usize = 3_000;

/// A pair as it is written, and a tenant.
pub type SpokenKey = (String, String);

/// A service, its model and the node that it runs on.
pub type WorkedKey = (String, String, String);

/// What was said, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spoken {
    /// Sentences that became a job which ended.
    pub sentences: u64,
    /// Speech of them, in milliseconds.
    pub speech_ms: u64,
    /// Ended with a result.
    pub results: u64,
    /// Nothing was said.
    pub empty: u64,
    /// Ended without a result.
    pub failed: u64,
    /// Nobody wanted them any more.
    pub cancelled: u64,
}

/// What a service worked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Worked {
    /// Jobs that it had a part in and that were answered.
    pub jobs: u64,
    /// Speech of those, in milliseconds.
    pub speech_ms: u64,
    /// Attempts that failed on its node.
    pub failed: u64,
}

/// What can be added.
pub trait Sum: Copy + Default {
    /// Adds another one; stops at what fits.
    fn add(&mut self, other: &Self);
}

impl Sum for Spoken {
    fn add(&mut self, other: &Self) {
        for (to, from) in [
            (&mut self.sentences, other.sentences),
            (&mut self.speech_ms, other.speech_ms),
            (&mut self.results, other.results),
            (&mut self.empty, other.empty),
            (&mut self.failed, other.failed),
            (&mut self.cancelled, other.cancelled),
        ] {
            *to = to.saturating_add(from);
        }
    }
}

impl Sum for Worked {
    fn add(&mut self, other: &Self) {
        self.jobs = self.jobs.saturating_add(other.jobs);
        self.speech_ms = self.speech_ms.saturating_add(other.speech_ms);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// What was used on one day.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DayUsage {
    /// Most people at the same time.
    pub people: u64,
    /// By pair and tenant.
    #[serde(with = "rows")]
    pub spoken: BTreeMap<SpokenKey, Spoken>,
    /// By service, model and node.
    #[serde(with = "rows")]
    pub worked: BTreeMap<WorkedKey, Worked>,
}

impl DayUsage {
    /// Counts something said.
    pub fn say(&mut self, key: SpokenKey, count: &Spoken) {
        let other = || (OTHER.to_owned(), OTHER.to_owned());
        row(&mut self.spoken, key, MAX_SPOKEN, other).add(count);
    }

    /// Counts some work.
    pub fn work(&mut self, key: WorkedKey, count: &Worked) {
        // The service is known by its type where nobody can say more.
        let other = || (OTHER.to_owned(), OTHER.to_owned(), OTHER.to_owned());
        row(&mut self.worked, key, MAX_WORKED, other).add(count);
    }

    /// Adds what another process counted on the same day. People at the same time are not added: the most that
    /// anybody saw is the day's.
    pub fn add(&mut self, other: &DayUsage) {
        self.people = self.people.max(other.people);
        for (key, count) in &other.spoken {
            self.spoken.entry(key.clone()).or_default().add(count);
        }
        for (key, count) in &other.worked {
            self.worked.entry(key.clone()).or_default().add(count);
        }
    }

    /// Sums of one thing that was counted, by a part of its key.
    pub fn spoken_by<'a>(&'a self, part: impl Fn(&'a SpokenKey) -> &'a str) -> Sums<'a, Spoken> {
        sums(&self.spoken, part)
    }

    /// The same for work.
    pub fn worked_by<'a>(&'a self, part: impl Fn(&'a WorkedKey) -> &'a str) -> Sums<'a, Worked> {
        sums(&self.worked, part)
    }
}

/// Sums by name.
pub type Sums<'a, T> = BTreeMap<&'a str, T>;

fn sums<'a, K, T: Sum>(rows: &'a BTreeMap<K, T>, part: impl Fn(&'a K) -> &'a str) -> Sums<'a, T> {
    let mut sums: Sums<'_, T> = Sums::new();
    for (key, count) in rows {
        sums.entry(part(key)).or_default().add(count);
    }
    sums
}

fn row<K: Ord, T: Sum>(
    rows: &mut BTreeMap<K, T>,
    key: K,
    most: usize,
    other: impl FnOnce() -> K,
) -> &mut T {
    let key = if rows.len() < most || rows.contains_key(&key) { key } else { other() };
    rows.entry(key).or_default()
}

/// A map as a list of rows: JSON has no keys of several parts.
mod rows {
    use super::*;

    pub fn serialize<K: Serialize, T: Serialize, S: Serializer>(
        rows: &BTreeMap<K, T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(rows)
    }

    pub fn deserialize<'de, K, T, D>(from: D) -> Result<BTreeMap<K, T>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        T: Deserialize<'de> + Sum,
        D: Deserializer<'de>,
    {
        let mut rows: BTreeMap<K, T> = BTreeMap::new();
        for (key, count) in Vec::<(K, T)>::deserialize(from)? {
            rows.entry(key).or_default().add(&count);
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(day: &mut DayUsage, pair: &str, tenant: &str, sentences: u64) {
        let count = Spoken { sentences, speech_ms: 10 * sentences, ..Spoken::default() };
        day.say((pair.to_owned(), tenant.to_owned()), &count);
    }

    #[test]
    fn days_of_several_processes_are_added() {
        let (mut one, mut other) = (DayUsage::default(), DayUsage::default());
        said(&mut one, "en->zh", "acme", 2);
        said(&mut one, "en->zh", "other co", 3);
        said(&mut other, "en->zh", "acme", 5);
        let work = Worked { jobs: 1, speech_ms: 20, failed: 0 };
        other.work(("asr".into(), "whisper@3".into(), "n".into()), &work);
        (one.people, other.people) = (7, 4);
        one.add(&other);
        assert_eq!(one.people, 7, "people at the same time are not added");
        let by_tenant = one.spoken_by(|(_, tenant)| tenant);
        assert_eq!((by_tenant["acme"].sentences, by_tenant["other co"].speech_ms), (7, 30));
        assert_eq!(one.spoken_by(|(pair, _)| pair)["en->zh"].sentences, 10);
        assert_eq!(one.worked_by(|(_, model, _)| model)["whisper@3"], work);
    }

    #[test]
    fn beyond_the_bound_everything_is_counted_as_other() {
        let mut day = DayUsage::default();
        for n in 0..2 * MAX_SPOKEN {
            said(&mut day, &format!("p{n}"), "t", 1);
            said(&mut day, "p0", "t", 1);
        }
        assert_eq!(day.spoken.len(), MAX_SPOKEN + 1);
        let by_pair = day.spoken_by(|(pair, _)| pair);
        assert_eq!(by_pair["p0"].sentences, 1 + 2 * MAX_SPOKEN as u64, "it was there first");
        assert_eq!(by_pair[OTHER].sentences, MAX_SPOKEN as u64);
    }
}
