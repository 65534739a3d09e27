//! Drawing members of a pool at random.

use super::block_list::{BlockList, Location, first_position};
use super::capability_class::{Subset, Unlisted};
use super::index::PoolIx;
use super::{Fleet, NodeIx};
use crate::chance::Chance;

/// What is at a cell of a pool.
enum Cell {
    Member(NodeIx),
    /// No member now.
    Vacant,
    /// No member, nor at any other cell of this block.
    EmptyBlock {
        /// The class exists and belongs to the pool.
        alive: bool,
    },
}

/// Cells drawn at once. More than half of them have a member: enough for a job in an idle fleet.
const BATCH: usize = 8;

/// A pool of so many members is read as a whole instead of being drawn from.
const SMALL_POOL: usize = 64;

/// Some members of a pool.
pub(crate) struct Sample<const N: usize> {
    members: [NodeIx; N],
    len: usize,
}

impl<const N: usize> Sample<N> {
    const EMPTY: Self = Sample { members: [0; N], len: 0 };

    pub fn members(&mut self) -> &mut [NodeIx] {
        &mut self.members[..self.len]
    }
}

impl Fleet {
    /// All members of the pool in this subset, if the pool is small.
    pub(crate) fn small_pool(&mut self, at: PoolIx, subset: Subset) -> Option<Sample<SMALL_POOL>> {
        let list = self.pools.get(at).list(subset);
        let only = list.only_class().map(|entry| self.classes.head(entry.class).count(subset));
        if only.unwrap_or(list.cells() as usize) > SMALL_POOL {
            return None;
        }
        let (mut sample, classes) = (Sample::EMPTY, list.entries(0).len());
        for entry in 0..classes {
            let location = Location { block: 0, entry, position: 0 };
            if let Cell::Member(_) = self.cell_at(at, subset, &location) {
                let class = self.pools.get(at).list(subset).entry(&location).class;
                let members =
                    &self.classes.members(class)[..self.classes.head(class).count(subset)];
                sample.members[sample.len..sample.len + members.len()].copy_from_slice(members);
                sample.len += members.len();
            }
        }
        Some(sample)
    }

    /// Draws some members of the pool in this subset with replacement, each with the same probability.
    /// `None` if there is no cell; the sample is empty if no drawn cell has a member.
    ///
    /// Draws a batch, so that the processor loads the memory of several members at the same time.
    pub(crate) fn draw(
        &mut self,
        at: PoolIx,
        subset: Subset,
        chance: &mut Chance,
    ) -> Option<Sample<BATCH>> {
        let Fleet { pools, classes, .. } = self;
        let list = pools.get(at).list(subset);
        let mut sample = Sample::EMPTY;
        if let Some(entry) = list.only_class() {
            let head = classes.head(entry.class);
            let members = &classes.members(entry.class)[..head.count(subset)];
            if entry.is_valid(head.serial) && !members.is_empty() {
                sample.len = BATCH;
                sample.members().fill_with(|| members[chance.below(members.len())]);
                return Some(sample);
            }
        }
        if list.cells() == 0 {
            return None;
        }
        let locations: [Location; BATCH] =
            std::array::from_fn(|_| list.locate(chance.below(list.cells() as usize) as u32));
        let mut empty = [false; BATCH];
        for (location, empty) in locations.iter().zip(&mut empty) {
            let entry = list.entry(location);
            let head = classes.head(entry.class);
            let (valid, members) = (entry.is_valid(head.serial), head.count(subset));
            let taken = valid && location.position < members;
            *empty = !(valid && first_position(location.block) < members);
            sample.members[sample.len] =
                classes.member(entry.class, if taken { location.position } else { 0 });
            sample.len += usize::from(taken);
        }
        for (location, _) in locations.iter().zip(empty).filter(|(_, empty)| *empty) {
            self.unlist_if_empty(at, subset, location);
        }
        Some(sample)
    }

    /// A copy of [`BlockList::ends`]; the last is the number of cells.
    pub(crate) fn ends(&self, at: PoolIx, subset: Subset) -> Vec<u32> {
        self.pools.get(at).list(subset).ends().to_vec()
    }

    /// The member at a cell, counted as when `ends` was copied.
    pub(crate) fn member_at(
        &mut self,
        at: PoolIx,
        subset: Subset,
        ends: &[u32],
        cell: u32,
    ) -> Option<NodeIx> {
        match self.cell_at(at, subset, &BlockList::locate_in(ends, cell)) {
            Cell::Member(ix) => Some(ix),
            Cell::Vacant | Cell::EmptyBlock { .. } => None,
        }
    }

    fn cell_at(&mut self, at: PoolIx, subset: Subset, location: &Location) -> Cell {
        let Fleet { pools, classes, .. } = self;
        let pool = pools.get_mut(at);
        let Some(entry) = pool.list(subset).get(location) else { return Cell::Vacant };
        let (class, head) = (entry.class, *classes.head(entry.class));
        if !entry.is_current(head.serial) {
            return Cell::EmptyBlock { alive: false };
        }
        if !entry.is_checked() {
            let belongs = pool.admits(classes.profile(class));
            pool.list_mut(subset).check(location, belongs);
            if !belongs {
                return Cell::EmptyBlock { alive: false };
            }
        }
        let members = head.count(subset);
        if location.position < members {
            Cell::Member(classes.member(class, location.position))
        } else if first_position(location.block) < members {
            Cell::Vacant
        } else {
            Cell::EmptyBlock { alive: true }
        }
    }

    /// Takes the block off the list if it is empty. If its class exists, the block is listed again when it
    /// has a member.
    fn unlist_if_empty(&mut self, at: PoolIx, subset: Subset, location: &Location) {
        let Cell::EmptyBlock { alive } = self.cell_at(at, subset, location) else { return };
        let Fleet { pools, classes, .. } = self;
        if alive {
            let pool = pools.get(at);
            let class = pool.list(subset).entry(location).class;
            let block = location.block as u8;
            let note = Unlisted { pool: at, pool_serial: pool.serial(), block };
            classes.note_unlisted(class, subset, note, |note| pools.is_gone(note));
        }
        pools.unlist(at, subset, location);
        self.layout_version += 1;
    }
}

#[cfg(test)]
mod tests;
