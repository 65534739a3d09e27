//! A map that is given the hash of a key along with the key.
//!
//! Whoever has such a map has found it among others by that hash already.

use hashbrown::HashTable;

/// A map from keys to values.
#[derive(Clone)]
pub(super) struct Prehashed<K, V>(HashTable<Pair<K, V>>);

#[derive(Clone)]
struct Pair<K, V> {
    hash: u64,
    key: K,
    value: V,
}

impl<K, V> Default for Prehashed<K, V> {
    fn default() -> Self {
        Prehashed(HashTable::new())
    }
}

impl<K: Eq, V> Prehashed<K, V> {
    /// The value of `key`.
    pub(super) fn get(&self, hash: u64, key: &K) -> Option<&V> {
        self.0.find(hash, |pair| pair.key == *key).map(|pair| &pair.value)
    }

    /// The value of `key`, to change.
    pub(super) fn get_mut(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        self.0.find_mut(hash, |pair| pair.key == *key).map(|pair| &mut pair.value)
    }

    /// The value of `key`, to change; made if it is not there.
    pub(super) fn get_or_insert_with(
        &mut self,
        hash: u64,
        key: &K,
        value: impl FnOnce() -> V,
    ) -> &mut V
    where
        K: Clone,
    {
        let pair = match self.0.find_entry(hash, |pair| pair.key == *key) {
            Ok(pair) => pair.into_mut(),
            Err(absent) => {
                let pair = Pair { hash, key: key.clone(), value: value() };
                absent.into_table().insert_unique(hash, pair, |pair| pair.hash).into_mut()
            }
        };
        &mut pair.value
    }

    /// Takes `key` out.
    pub(super) fn remove(&mut self, hash: u64, key: &K) {
        if let Ok(pair) = self.0.find_entry(hash, |pair| pair.key == *key) {
            pair.remove();
        }
    }

    /// All values, to change, in no order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|pair| &mut pair.value)
    }

    /// All of them, to change the values, in no order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|pair| (&pair.key, &mut pair.value))
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|pair| (&pair.key, &pair.value))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
