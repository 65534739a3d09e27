//! Hashers of maps: seeded by chance, or in a fixed order for a simulation.
//!
//! A map's order depends on its hasher's seed. What is chosen by that order differs between two runs of one program, so a
//! simulation fixes the seed of every map that its thread makes. Everybody else gets the random seeds of
//! `foldhash`, against keys that strangers choose.

use std::cell::Cell;
use std::hash::BuildHasher;

use foldhash::{SharedSeed, fast, quality};

thread_local! {
    static ORDER: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Maps that this thread makes from now on have the order that follows from this number; with `None` they have a
/// random one again.
pub fn fix_order(seed: Option<u64>) {
    ORDER.set(seed);
}

/// A map with a [`Quality`] hasher.
pub type HashMap<K, V> = std::collections::HashMap<K, V, Quality>;

/// A set with a [`Quality`] hasher.
pub type HashSet<K> = std::collections::HashSet<K, Quality>;

/// For keys that strangers choose.
#[derive(Clone, Debug)]
pub struct Quality(quality::SeedableRandomState);

/// For keys that are our own.
#[derive(Clone, Debug)]
pub struct Fast(fast::SeedableRandomState);

impl Default for Quality {
    fn default() -> Self {
        let fixed =
            |seed| quality::SeedableRandomState::with_seed(seed, SharedSeed::global_fixed());
        Quality(ORDER.get().map_or_else(quality::SeedableRandomState::random, fixed))
    }
}

impl Default for Fast {
    fn default() -> Self {
        let fixed = |seed| fast::SeedableRandomState::with_seed(seed, SharedSeed::global_fixed());
        Fast(ORDER.get().map_or_else(fast::SeedableRandomState::random, fixed))
    }
}

impl BuildHasher for Quality {
    type Hasher = quality::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

impl BuildHasher for Fast {
    type Hasher = fast::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Vec<u32> {
        let mut map = HashMap::default();
        map.extend((0..1_000).map(|key| (key, ())));
        let fast: std::collections::HashSet<u32, Fast> = (0..1_000).collect();
        map.into_keys().chain(fast).collect()
    }

    #[test]
    fn maps_have_the_same_order_for_the_same_number_only() {
        fix_order(Some(1));
        let one = order();
        assert_eq!(order(), one);
        fix_order(Some(2));
        assert_ne!(order(), one);
        fix_order(None);
        assert_ne!(order(), order());
    }
}
