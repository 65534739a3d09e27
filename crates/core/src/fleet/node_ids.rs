//! Node ids by index, and indexes by id.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use super::NodeIx;
use crate::ids::NodeId;

#[derive(Debug, Default)]
pub(super) struct NodeIds {
    ids: Vec<Option<NodeId>>,
    /// Half of the hash, and the index. Eight bytes each, so that many fit into the cache.
    by_hash: HashTable<(u32, NodeIx)>,
    /// Randomly seeded, because nodes choose their ids.
    hasher: crate::hash::Quality,
    /// The node that was chosen last: the next question is probably about it.
    latest: NodeIx,
}

impl NodeIds {
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Indexes, unused ones included.
    pub fn capacity(&self) -> usize {
        self.ids.len()
    }

    pub fn get(&self, ix: NodeIx) -> Option<&NodeId> {
        self.ids.get(ix as usize)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = NodeIx> {
        (0..).zip(&self.ids).filter(|(_, id)| id.is_some()).map(|(ix, _)| ix)
    }

    pub fn find(&self, id: &NodeId) -> Option<NodeIx> {
        if self.get(self.latest).is_some_and(|latest| std::ptr::eq(latest.as_str(), id.as_str())) {
            return Some(self.latest);
        }
        let hash = self.half_hash(id);
        let found = self.by_hash.find(spread(hash), |entry| self.is_at(entry, hash, id));
        found.map(|(_, ix)| *ix)
    }

    /// Notes which node was chosen.
    pub fn note_chosen(&mut self, ix: NodeIx) {
        self.latest = ix;
    }

    /// Puts a new id at an unused index, or at the end.
    pub fn insert(&mut self, ix: NodeIx, id: NodeId) {
        let hash = self.half_hash(&id);
        self.by_hash.insert_unique(spread(hash), (hash, ix), |(hash, _)| spread(*hash));
        if self.ids.len() == ix as usize {
            self.ids.push(None);
        }
        self.ids[ix as usize] = Some(id);
    }

    pub fn remove(&mut self, id: &NodeId) -> Option<NodeIx> {
        let ix = self.find(id)?;
        let hash = self.half_hash(id);
        let entry = self.by_hash.find_entry(spread(hash), |(_, other)| *other == ix);
        entry.expect("every id is in the table").remove();
        self.ids[ix as usize] = None;
        Some(ix)
    }

    fn half_hash(&self, id: &NodeId) -> u32 {
        self.hasher.hash_one(id) as u32
    }

    fn is_at(&self, entry: &(u32, NodeIx), hash: u32, id: &NodeId) -> bool {
        entry.0 == hash && self.ids[entry.1 as usize].as_ref() == Some(id)
    }
}

/// The table uses the highest and the lowest bits of a hash.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
