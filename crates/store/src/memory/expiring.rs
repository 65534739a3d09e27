//! A map whose entries end by themselves, without a task and without a timer.
//!
//! An entry that is over is not found any more, whether it still takes room or not. Every write also
//! removes a few that are over, more than it can add, so the room taken follows what is alive.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::Hash;

use foldhash::fast::RandomState;
use lingua_core::Moment;

/// Entries looked at by one write. One would keep pace; more shrink what a burst left behind, and
/// still cost well under a microsecond.
pub(super) const SWEPT_PER_WRITE: usize = 8;

/// Ends are kept to within so many milliseconds: what is over does not take room for much longer, and
/// there are few lists.
const GRAIN_MS: u64 = 16;

/// The maps of the embedded store.
pub(super) type Map<K, V> = HashMap<K, V, RandomState>;

/// Keys in the order of their ends, coarsely: both ways in constant time.
pub(super) struct Ends<K> {
    lists: BTreeMap<u64, Vec<K>>,
    /// Nothing is over before this, so most looks end here.
    earliest: u64,
}

impl<K> Default for Ends<K> {
    fn default() -> Self {
        Ends { lists: BTreeMap::new(), earliest: u64::MAX }
    }
}

impl<K> Ends<K> {
    /// Notes that `key` ends at `until`.
    pub(super) fn push(&mut self, until: Moment, key: K) {
        let end = until.as_millis() / GRAIN_MS + 1;
        self.earliest = self.earliest.min(end);
        self.lists.entry(end).or_default().push(key);
    }

    /// Takes out one key whose end was before `now`.
    pub(super) fn pop(&mut self, now: Moment) -> Option<K> {
        let due = now.as_millis() / GRAIN_MS;
        if self.earliest > due {
            return None;
        }
        let Some(mut first) = self.lists.first_entry() else {
            self.earliest = u64::MAX;
            return None;
        };
        self.earliest = *first.key();
        if self.earliest > due {
            return None;
        }
        let key = first.get_mut().pop();
        if first.get().is_empty() {
            first.remove();
        }
        key
    }
}

/// A map from keys to values, each until a moment.
///
/// Only sweeping takes an entry out, so each has exactly one place among the ends, however often it
/// is written again.
pub(super) struct Expiring<K, V> {
    entries: Map<K, Lasting<V>>,
    ends: Ends<K>,
}

struct Lasting<V> {
    value: V,
    until: Moment,
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Expiring { entries: Map::default(), ends: Ends::default() }
    }
}

impl<K: Clone + Eq + Hash, V> Expiring<K, V> {
    /// The value of `key`, unless it is over.
    pub(super) fn get(&self, now: Moment, key: &K) -> Option<&V> {
        let entry = self.entries.get(key).filter(|entry| entry.until > now)?;
        Some(&entry.value)
    }

    /// The value of `key` to change, unless it is over. Its end stays.
    pub(super) fn get_mut(&mut self, now: Moment, key: &K) -> Option<&mut V> {
        let entry = self.entries.get_mut(key).filter(|entry| entry.until > now)?;
        Some(&mut entry.value)
    }

    /// Puts `value` under `key` until then, over whatever was there.
    pub(super) fn put(&mut self, now: Moment, key: K, value: V, until: Moment) {
        self.sweep(now);
        let value = Lasting { value, until };
        match self.entries.entry(key) {
            Entry::Occupied(mut slot) => {
                slot.insert(value);
            }
            Entry::Vacant(slot) => {
                self.ends.push(until, slot.key().clone());
                slot.insert(value);
            }
        }
    }

    /// Puts a value under `key` until then if there is none, or gives the one that is there.
    pub(super) fn put_new(
        &mut self,
        now: Moment,
        key: K,
        until: Moment,
        value: impl FnOnce() -> V,
    ) -> Option<&V> {
        self.sweep(now);
        match self.entries.entry(key) {
            Entry::Occupied(slot) => {
                let entry = slot.into_mut();
                if entry.until > now {
                    return Some(&entry.value);
                }
                *entry = Lasting { value: value(), until };
            }
            Entry::Vacant(slot) => {
                self.ends.push(until, slot.key().clone());
                slot.insert(Lasting { value: value(), until });
            }
        }
        None
    }

    fn sweep(&mut self, now: Moment) {
        for _ in 0..SWEPT_PER_WRITE {
            let Some(key) = self.ends.pop(now) else { return };
            let Entry::Occupied(slot) = self.entries.entry(key) else { continue };
            let until = slot.get().until;
            if until > now {
                self.ends.push(until, slot.key().clone());
            } else {
                slot.remove();
            }
        }
    }

    /// Entries that take room, over or not.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn noted<K, V>(map: &Expiring<K, V>) -> usize {
        map.ends.lists.values().map(Vec::len).sum()
    }

    #[test]
    fn an_entry_is_not_found_from_its_end_on() {
        let mut map = Expiring::default();
        map.put(at(0), 1, 'a', at(10));
        assert_eq!(map.get(at(9), &1), Some(&'a'));
        assert_eq!(map.get(at(10), &1), None);
        assert_eq!(map.put_new(at(9), 1, at(20), || 'b'), Some(&'a'));
        assert_eq!(map.put_new(at(10), 1, at(20), || 'b'), None);
        assert_eq!(map.get(at(10), &1), Some(&'b'));
    }

    #[test]
    fn the_room_taken_follows_what_is_alive() {
        let mut map = Expiring::default();
        let life = Duration::from_secs(10);
        for n in 0..100_000_u64 {
            let now = at(n);
            map.put(now, n, (), now + life);
        }
        assert!(map.len() < 12_000, "10 s of 1000 a second and what a second adds: {}", map.len());
        assert_eq!(noted(&map), map.len());
    }

    #[test]
    fn a_burst_is_swept_by_the_few_writes_that_follow() {
        let mut map = Expiring::default();
        for n in 0..8_000_u64 {
            map.put(at(0), n, (), at(1));
        }
        for n in 0..1_001_u64 {
            map.put(at(60_000), 10_000 + n, (), at(120_000));
        }
        assert_eq!(map.len(), 1_001);
    }

    #[test]
    fn an_entry_written_again_and_again_has_one_place_among_the_ends() {
        let mut map = Expiring::default();
        for n in 0..10_000_u64 {
            let now = at(n * 100);
            map.put(now, "key", n, now + Duration::from_secs(5));
        }
        assert_eq!((map.len(), noted(&map)), (1, 1));
        assert!(map.get(at(1_000_000), &"key").is_some());
    }
}
