//! One lock per share of the keys instead of one for all.

use std::hash::{BuildHasher, Hash};

use lingua_core::hash::Fast;
use parking_lot::{Mutex, MutexGuard};

/// `N` values of the same kind, each behind its own lock; a key always finds the same one.
pub(super) struct Sharded<T, const N: usize> {
    hasher: Fast,
    shards: [Shard<T>; N],
}

/// Two locks never share a cache line, nor the pair of lines that a processor fetches together.
#[derive(Default)]
#[repr(align(128))]
struct Shard<T>(Mutex<T>);

impl<T: Default, const N: usize> Default for Sharded<T, N> {
    fn default() -> Self {
        let shards = std::array::from_fn(|_| Shard::default());
        Sharded { hasher: Fast::default(), shards }
    }
}

impl<T: Clone, const N: usize> Clone for Sharded<T, N> {
    fn clone(&self) -> Self {
        let copied = |n: usize| Shard(Mutex::new(self.shards[n].0.lock().clone()));
        Sharded { hasher: self.hasher.clone(), shards: std::array::from_fn(copied) }
    }
}

impl<T, const N: usize> Sharded<T, N> {
    /// The share that `key` belongs to, and the key's hash for the maps in it: they use its lowest
    /// and highest bits, and so are filled evenly by keys that share those in the middle.
    pub(super) fn of<K: Hash + ?Sized>(&self, key: &K) -> (u64, MutexGuard<'_, T>) {
        let hash = self.hasher.hash_one(key);
        (hash, self.shards[(hash >> 40) as usize % N].0.lock())
    }

    /// The share with this number, if there is one.
    pub(super) fn at(&self, number: usize) -> Option<MutexGuard<'_, T>> {
        self.shards.get(number).map(|shard| shard.0.lock())
    }
}
