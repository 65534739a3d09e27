//! Which of any number of keys have the most events, within a fixed size.
//!
//! A key that nobody has seen gets a name of its own while names are left. Behind that the *space-saving*
//! sketch counts: a new key takes the place of the lightest one that is followed, with its weight. So a key that
//! has a real share is always followed, however many others come once.

use std::hash::Hash;

use crate::hash;

/// What a review leaves of a weight: it halves in 35 of them.
const KEPT: f64 = 0.98;

/// How much heavier than a key with a name another one has to be to take its place.
const CLEARLY: f64 = 2.0;

/// The busiest of any number of keys.
#[derive(Clone, Debug)]
pub struct Busiest<K> {
    names: usize,
    followed: usize,
    weights: hash::HashMap<K, f64>,
    named: hash::HashSet<K>,
}

impl<K: Copy + Eq + Ord + Hash> Busiest<K> {
    /// Follows four times as many keys as it gives names to.
    pub fn new(names: usize) -> Self {
        Busiest {
            names,
            followed: names * 4,
            weights: hash::HashMap::default(),
            named: hash::HashSet::default(),
        }
    }

    /// Counts an event of a key; says whether the key has a name.
    pub fn note(&mut self, key: K) -> bool {
        if let Some(weight) = self.weights.get_mut(&key) {
            *weight += 1.0;
            return self.named.contains(&key);
        }
        let mut weight = 1.0;
        if self.weights.len() >= self.followed
            && let Some(lightest) = self.lightest(|key| !self.named.contains(key))
        {
            weight += self.weights.remove(&lightest).unwrap_or(0.0);
        }
        self.weights.insert(key, weight);
        self.named.len() < self.names && self.named.insert(key)
    }

    /// Whether the key has a name.
    pub fn is_named(&self, key: &K) -> bool {
        self.named.contains(key)
    }

    /// Lets what was counted fade, and gives names of quiet keys to keys that are clearly busier. Those that lost
    /// their name are returned.
    pub fn review(&mut self) -> Vec<K> {
        self.weights.values_mut().for_each(|weight| *weight *= KEPT);
        let mut lost = Vec::new();
        while self.named.len() >= self.names {
            let Some(quiet) = self.lightest(|key| self.named.contains(key)) else { break };
            let Some(busy) = self.heaviest_unnamed() else { break };
            if self.weights[&busy] <= CLEARLY * self.weights[&quiet] {
                break;
            }
            self.named.remove(&quiet);
            self.named.insert(busy);
            lost.push(quiet);
        }
        lost
    }

    fn lightest(&self, among: impl Fn(&K) -> bool) -> Option<K> {
        let keys = self.weights.iter().filter(|(key, _)| among(key));
        keys.min_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(b.0))).map(|(key, _)| *key)
    }

    fn heaviest_unnamed(&self) -> Option<K> {
        let keys = self.weights.iter().filter(|(key, _)| !self.named.contains(key));
        keys.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0))).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_name_from_its_first_event_while_names_are_left() {
        let mut busiest = Busiest::new(2);
        assert!(busiest.note(1) && busiest.note(2) && !busiest.note(3));
        assert!(busiest.is_named(&1) && !busiest.is_named(&3));
    }

    #[test]
    fn a_busy_key_takes_the_name_of_a_quiet_one_and_keeps_it_from_equals() {
        let mut busiest = Busiest::new(2);
        for key in [1, 2, 2, 3, 3] {
            busiest.note(key);
        }
        assert_eq!(busiest.review(), [0; 0], "twice as much is not clearly more");
        busiest.note(3);
        assert_eq!(busiest.review(), [1]);
        assert!(busiest.is_named(&3) && !busiest.is_named(&1));
        assert_eq!(busiest.review(), [0; 0]);
    }

    #[test]
    fn a_flood_of_keys_that_come_once_takes_no_name_and_no_room() {
        let mut busiest = Busiest::new(4);
        for round in 0..10_000_u64 {
            for busy in 0..4 {
                busiest.note(busy);
            }
            busiest.note(100 + round);
            if round % 100 == 0 {
                assert_eq!(busiest.review(), [0; 0], "round {round}");
            }
        }
        assert!((0..4).all(|busy| busiest.is_named(&busy)));
        assert_eq!(busiest.weights.len(), 16);
    }

    #[test]
    fn what_was_busy_long_ago_makes_room() {
        let mut busiest = Busiest::new(1);
        for _ in 0..1_000 {
            busiest.note('a');
        }
        let mut reviews = 0;
        loop {
            (0..100).for_each(|_| _ = busiest.note('b'));
            reviews += 1;
            if busiest.review() == ['a'] {
                break;
            }
            assert!(reviews < 100);
        }
        assert!(reviews > 5, "not at the first chance");
    }
}
