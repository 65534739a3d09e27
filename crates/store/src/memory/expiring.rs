//! A map whose entries end by themselves, without a task and without a timer.
//!
//! An entry that is over is not found any more, whether it still takes room or not. Every write also
//! removes a few that are over, more than it can add, so the room taken follows what is alive.

use std::collections::{BTreeMap, HashMap};

use hashbrown::HashTable;
use lingua_core::Moment;
use lingua_core::hash::Fast;

use super::slab::{Place, Slab};

/// Entries looked at by one write. One would keep pace; more shrink what a burst left behind, and
/// still cost well under a microsecond.
pub(super) const SWEPT_PER_WRITE: usize = 8;

/// Ends are kept to within this part of the time that is left until then: what is over does not take
/// room for much longer, and there are few lists.
const GRAINS: u64 = 64;

/// The maps of the embedded store.
pub(super) type Map<K, V> = HashMap<K, V, Fast>;

/// Keys in the order of their ends, coarsely: both ways in constant time.
#[derive(Clone)]
pub(super) struct Ends<K> {
    /// What is over, taken from the lists and to be handed out.
    over: Vec<K>,
    /// The list that was written to last, and its end: most ends come in the order of time.
    open: (Moment, Vec<K>),
    /// The other lists by their ends.
    lists: BTreeMap<Moment, Vec<K>>,
    /// Nothing in any list is over before this, so most looks end here.
    earliest: Moment,
}

/// An end that does not come.
const NEVER: Moment = Moment::from_millis(u64::MAX);

impl<K> Default for Ends<K> {
    fn default() -> Self {
        let open = (NEVER, Vec::new());
        Ends { over: Vec::new(), open, lists: BTreeMap::new(), earliest: NEVER }
    }
}

impl<K> Ends<K> {
    /// Notes that `key` ends at `until`.
    pub(super) fn push(&mut self, now: Moment, until: Moment, key: K) {
        let end = listed_end(now, until);
        if self.open.0 != end {
            self.turn_to(end);
        }
        self.open.1.push(key);
    }

    /// Takes out one key whose end was before `now`.
    pub(super) fn pop(&mut self, now: Moment) -> Option<K> {
        if self.over.is_empty() && self.earliest <= now {
            self.take_over(now);
        }
        self.over.pop()
    }

    /// Makes the list of this end the one that is written to.
    fn turn_to(&mut self, end: Moment) {
        self.earliest = self.earliest.min(end);
        let next = self.lists.remove(&end);
        let before = std::mem::replace(&mut self.open.0, end);
        if !self.open.1.is_empty() {
            let list = std::mem::replace(&mut self.open.1, next.unwrap_or_default());
            self.lists.insert(before, list);
        } else if let Some(next) = next {
            self.open.1 = next;
        }
    }

    /// Takes the earliest list, if it is over.
    fn take_over(&mut self, now: Moment) {
        let open = if self.open.1.is_empty() { NEVER } else { self.open.0 };
        let first = self.lists.first_key_value().map_or(NEVER, |(end, _)| *end);
        self.earliest = open.min(first);
        if self.earliest > now {
            return;
        }
        if open < first {
            self.over = std::mem::replace(&mut self.open, (NEVER, Vec::new())).1;
        } else if let Some(list) = self.lists.remove(&first) {
            self.over = list;
        }
    }
}

/// The end of the list for what lasts from `now` to `until`: not before that, and later by less than
/// its part.
fn listed_end(now: Moment, until: Moment) -> Moment {
    let part = until.as_millis().saturating_sub(now.as_millis()) / GRAINS;
    let grain = 1 << part.max(1).ilog2();
    Moment::from_millis(until.as_millis().checked_next_multiple_of(grain).unwrap_or(u64::MAX))
}

/// A map from keys to values, each until a moment. It is given the hash of a key along with the key:
/// whoever has a map has found it by that hash already.
///
/// Only sweeping takes an entry out, so each has exactly one place among the ends, however often it
/// is written again.
#[derive(Clone)]
pub(super) struct Expiring<K, V> {
    places: HashTable<Place>,
    entries: Slab<Lasting<K, V>>,
    ends: Ends<Place>,
}

/// In this order, so that a sweep, by looking at the end and the hash, asks for the memory before and
/// behind the value at once: it drops the value, and the next entry is written there.
#[repr(C)]
#[derive(Clone)]
struct Lasting<K, V> {
    until: Moment,
    value: V,
    hash: u64,
    key: K,
}

impl<K, V> Lasting<K, V> {
    fn renew(&mut self, value: V, until: Moment) {
        self.value = value;
        self.until = until;
    }
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Expiring { places: HashTable::new(), entries: Slab::default(), ends: Ends::default() }
    }
}

impl<K: Eq, V> Expiring<K, V> {
    /// The value of `key`, unless it is over.
    pub(super) fn get(&self, now: Moment, hash: u64, key: &K) -> Option<&V> {
        let entry = self.entries.at(self.find(hash, key)?);
        (entry.until > now).then_some(&entry.value)
    }

    /// The value of `key` to change, and its end, unless it is over. The end stays.
    pub(super) fn get_mut(&mut self, now: Moment, hash: u64, key: &K) -> Option<(&mut V, Moment)> {
        let entry = self.entries.at_mut(self.find(hash, key)?);
        (entry.until > now).then_some((&mut entry.value, entry.until))
    }

    /// Puts `value` under `key` until then, over whatever was there.
    pub(super) fn put(&mut self, now: Moment, hash: u64, key: K, value: V, until: Moment) {
        self.sweep(now);
        match self.find(hash, &key) {
            Some(place) => self.entries.at_mut(place).renew(value, until),
            None => self.insert(now, Lasting { until, value, hash, key }),
        }
    }

    /// Puts a value under `key` until then if there is none, or gives the one that is there.
    pub(super) fn put_new(
        &mut self,
        now: Moment,
        hash: u64,
        key: K,
        until: Moment,
        value: impl FnOnce() -> V,
    ) -> Option<&V> {
        self.sweep(now);
        match self.find(hash, &key) {
            Some(place) if self.entries.at(place).until > now => {
                return Some(&self.entries.at(place).value);
            }
            Some(place) => self.entries.at_mut(place).renew(value(), until),
            None => self.insert(now, Lasting { until, value: value(), hash, key }),
        }
        None
    }

    fn find(&self, hash: u64, key: &K) -> Option<Place> {
        self.places.find(hash, |place| self.entries.at(*place).key == *key).copied()
    }

    /// Puts in what is not there.
    fn insert(&mut self, now: Moment, entry: Lasting<K, V>) {
        let (hash, until) = (entry.hash, entry.until);
        let place = self.entries.insert(entry);
        self.places.insert_unique(hash, place, |place| self.entries.at(*place).hash);
        self.ends.push(now, until, place);
    }

    /// Removes a few that are over; step by step for all of them instead of one after the other. They
    /// were not looked at for long, and the processor then waits for all of their memory at once.
    fn sweep(&mut self, now: Moment) {
        let mut over = [(Place::default(), 0); SWEPT_PER_WRITE];
        let mut found = 0;
        for _ in 0..SWEPT_PER_WRITE {
            let Some(place) = self.ends.pop(now) else { break };
            let Lasting { until, hash, .. } = *self.entries.at(place);
            over[found] = (place, hash);
            if until > now {
                self.ends.push(now, until, place);
            } else {
                found += 1;
            }
        }
        for (place, hash) in &over[..found] {
            if let Ok(entry) = self.places.find_entry(*hash, |known| known == place) {
                entry.remove();
            }
        }
        for (place, _) in &over[..found] {
            self.entries.remove(*place);
        }
    }

    /// Entries that take room, over or not.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn noted<K, V>(map: &Expiring<K, V>) -> usize {
        let Ends { over, open, lists, .. } = &map.ends;
        over.len() + open.1.len() + lists.values().map(Vec::len).sum::<usize>()
    }

    #[test]
    fn an_entry_is_not_found_from_its_end_on() {
        let mut map = Expiring::default();
        map.put(at(0), 1, 1, 'a', at(10));
        assert_eq!(map.get(at(9), 1, &1), Some(&'a'));
        assert_eq!(map.get(at(10), 1, &1), None);
        assert_eq!(map.put_new(at(9), 1, 1, at(20), || 'b'), Some(&'a'));
        assert_eq!(map.put_new(at(10), 1, 1, at(20), || 'b'), None);
        assert_eq!(map.get(at(10), 1, &1), Some(&'b'));
    }

    #[test]
    fn the_room_taken_follows_what_is_alive() {
        let mut map = Expiring::default();
        let life = Duration::from_secs(10);
        for n in 0..100_000_u64 {
            let now = at(n);
            map.put(now, hash(n), n, (), now + life);
        }
        assert!(map.len() < 12_000, "10 s of 1000 a second and what a second adds: {}", map.len());
        assert_eq!(noted(&map), map.len());
    }

    #[test]
    fn a_burst_is_swept_by_the_few_writes_that_follow() {
        let mut map = Expiring::default();
        for n in 0..8_000_u64 {
            map.put(at(0), hash(n), n, (), at(1));
        }
        for n in 0..1_001_u64 {
            map.put(at(60_000), hash(10_000 + n), 10_000 + n, (), at(120_000));
        }
        assert_eq!(map.len(), 1_001);
    }

    #[test]
    fn ends_come_out_when_they_are_over_and_soon_after() {
        for lasting in [1, 2, 63, 64, 1_000, 75_000, 604_800_000_u64] {
            let (now, until) = (at(1_234_567), at(1_234_567 + lasting));
            let end = listed_end(now, until);
            let late = end.since(until).as_millis() as u64;
            assert!(end >= until && late <= lasting / GRAINS, "{lasting}: {late} late");
            let mut ends = Ends::default();
            ends.push(now, until, 'a');
            assert_eq!(ends.pop(until - Duration::from_millis(1)), None);
            assert_eq!((ends.pop(end), ends.pop(end)), (Some('a'), None));
        }
    }

    #[test]
    fn ends_in_any_order_come_out_each_once() {
        let mut ends = Ends::default();
        let untils: Vec<u64> = (0..1_000).map(|n| 1 + n * 7_919 % 1_009).collect();
        for until in &untils {
            ends.push(at(0), at(*until), *until);
        }
        let (mut pushed, mut popped) = (untils.len(), 0);
        for now in 0..2_000 {
            while let Some(until) = ends.pop(at(now)) {
                assert!(until <= now, "{until} is not over at {now}");
                popped += 1;
                if until < 900 && until % 3 == 0 {
                    ends.push(at(now), at(now + 50), now + 50);
                    pushed += 1;
                }
            }
        }
        assert_eq!(popped, pushed);
    }

    #[test]
    fn an_entry_written_again_and_again_has_one_place_among_the_ends() {
        let mut map = Expiring::default();
        for n in 0..10_000_u64 {
            let now = at(n * 100);
            map.put(now, 1, "key", n, now + Duration::from_secs(5));
        }
        assert_eq!((map.len(), noted(&map)), (1, 1));
        assert!(map.get(at(1_000_000), 1, &"key").is_some());
    }
}
