//! Nodes by their names.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use super::NodeIx;
use crate::ids::NodeId;

/// The name in each place, and the places by name.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Vec<Option<NodeId>>,
    /// Eight bytes for each, so that all stay close to the processor: a part of the hash, which a
    /// table that grows asks for again, and the place, where the name itself is.
    places: HashTable<(u32, NodeIx)>,
    /// Strangers choose names: no one can make them collide.
    hasher: foldhash::quality::RandomState,
    /// Who was chosen last, and is probably spoken of next.
    latest: NodeIx,
}

impl Names {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Places, vacant ones included.
    pub fn places(&self) -> usize {
        self.names.len()
    }

    pub fn get(&self, ix: NodeIx) -> Option<&NodeId> {
        self.names.get(ix as usize)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = NodeIx> {
        (0..).zip(&self.names).filter(|(_, name)| name.is_some()).map(|(ix, _)| ix)
    }

    pub fn find(&self, id: &NodeId) -> Option<NodeIx> {
        if self.get(self.latest).is_some_and(|name| std::ptr::eq(name.as_str(), id.as_str())) {
            return Some(self.latest);
        }
        let part = self.part(id);
        let found = self.places.find(spread(part), |place| self.is_at(place, part, id));
        found.map(|(_, ix)| *ix)
    }

    /// Takes a note of who was chosen.
    pub fn choose(&mut self, ix: NodeIx) {
        self.latest = ix;
    }

    /// Puts a new name into a vacant place, or behind all others.
    pub fn insert(&mut self, ix: NodeIx, id: NodeId) {
        let part = self.part(&id);
        self.places.insert_unique(spread(part), (part, ix), |(part, _)| spread(*part));
        if self.names.len() == ix as usize {
            self.names.push(None);
        }
        self.names[ix as usize] = Some(id);
    }

    pub fn remove(&mut self, id: &NodeId) -> Option<NodeIx> {
        let ix = self.find(id)?;
        let part = self.part(id);
        let entry = self.places.find_entry(spread(part), |(_, other)| *other == ix);
        entry.expect("whoever has a place is found by name").remove();
        self.names[ix as usize] = None;
        Some(ix)
    }

    fn part(&self, id: &NodeId) -> u32 {
        self.hasher.hash_one(id) as u32
    }

    fn is_at(&self, place: &(u32, NodeIx), part: u32, id: &NodeId) -> bool {
        place.0 == part && self.names[place.1 as usize].as_ref() == Some(id)
    }
}

/// The table looks at the highest and the lowest bits.
fn spread(part: u32) -> u64 {
    u64::from(part).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
