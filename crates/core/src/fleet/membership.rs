//! Keeps classes and pools up to date when nodes join, leave or change.

use std::sync::Arc;

use super::block_list::Entry;
use super::capability_class::{ClassIx, Growth, Subset};
use super::node::{Membership, NO_POSITION};
use super::{Fleet, NodeIx, PRESENT};
use crate::node::NodeProfile;

impl Fleet {
    /// Adds a node to the class of these capabilities. If it is the first, pools list the class.
    pub(super) fn join_class(&mut self, profile: &Arc<NodeProfile>) -> ClassIx {
        let (class, first) = self.classes.join(profile);
        if first {
            self.tags.add(profile);
            self.offers.add(profile);
            for subset in [Subset::Free, Subset::All] {
                self.pools.list_block(class, &self.classes, subset, 0);
            }
            self.pools.keep_bounds();
            self.layout_version += 1;
        }
        class
    }

    /// Removes a node from a class. If it was the last, the class is removed.
    pub(super) fn leave_class(&mut self, class: ClassIx) {
        if self.classes.leave(class) {
            let blocks =
                self.classes.blocks(class, Subset::Free) + self.classes.blocks(class, Subset::All);
            let signature = *self.classes.signature(class);
            let profile = self.classes.remove(class);
            self.tags.remove(&profile);
            self.offers.remove(&profile);
            self.pools.class_removed(&signature, blocks, &self.classes);
            self.layout_version += 1;
        }
    }

    /// Moves the node to the class of its profile; it is no member there yet.
    pub(super) fn change_class(&mut self, ix: NodeIx) {
        self.remove_member(ix);
        let profile = self.state(ix).profile.clone();
        let class = self.join_class(&profile);
        let old = std::mem::replace(&mut self.memberships[ix as usize].class, class);
        self.leave_class(old);
    }

    /// Makes the node a member of its class if it takes jobs, and removes it if not.
    pub(super) fn update_membership(&mut self, ix: NodeIx) {
        self.set_facts(ix);
        let takes_jobs = self.state(ix).takes_jobs();
        let Membership { class, position } = self.memberships[ix as usize];
        if !takes_jobs {
            self.remove_member(ix);
        } else if position == NO_POSITION {
            self.memberships[ix as usize].position = self.classes.head(class).all;
            let growth = self.classes.push_member(class, ix);
            self.list_growth(class, Subset::All, growth);
            self.sort_by_free_slot(ix);
        }
    }

    /// Copies the facts that choosing reads from the node's record.
    pub(super) fn set_facts(&mut self, ix: NodeIx) {
        let state = self.states[ix as usize].as_ref().expect(PRESENT);
        let load = &mut self.loads[ix as usize];
        load.set_latency(state.latency_ms);
        load.set_open(state.profile.tenants.is_none());
        load.set_last_resort(state.is_last_resort(load.used()));
        self.regions[ix as usize] = self.region_names.number(state.profile.region.as_ref());
        self.costs[ix as usize] = state.profile.cost_micros;
    }

    /// Removes the node from the members of its class.
    pub(super) fn remove_member(&mut self, ix: NodeIx) {
        let Membership { mut position, class } = self.memberships[ix as usize];
        if position == NO_POSITION {
            return;
        }
        let free = self.classes.head(class).free;
        if position < free {
            self.swap_positions(class, position, free - 1);
            self.classes.shrink_free(class);
            position = free - 1;
        }
        let last = self.classes.head(class).all - 1;
        self.swap_positions(class, position, last);
        self.classes.pop_member(class);
        self.memberships[ix as usize].position = NO_POSITION;
        self.layout_version += 1;
    }

    /// Changes the load of a node, and its position if it became full or got a free slot.
    pub(super) fn set_load(&mut self, ix: NodeIx, used: u32, max: u32) {
        let load = &mut self.loads[ix as usize];
        let was_full = load.is_full();
        load.set_slots(used, max);
        let state = self.states[ix as usize].as_ref().expect(PRESENT);
        load.set_last_resort(state.is_last_resort(load.used()));
        if load.is_full() != was_full && self.memberships[ix as usize].position != NO_POSITION {
            self.sort_by_free_slot(ix);
        }
    }

    /// Moves a member among those with a free slot or among the full ones.
    fn sort_by_free_slot(&mut self, ix: NodeIx) {
        let Membership { position, class } = self.memberships[ix as usize];
        let (full, free) = (self.load(ix).is_full(), self.classes.head(class).free);
        if !full && position >= free {
            self.swap_positions(class, position, free);
            let growth = self.classes.grow_free(class);
            self.list_growth(class, Subset::Free, growth);
        } else if full && position < free {
            self.swap_positions(class, position, free - 1);
            self.classes.shrink_free(class);
        }
        self.layout_version += 1;
    }

    fn swap_positions(&mut self, class: ClassIx, a: u32, b: u32) {
        if a != b {
            let [at_a, at_b] = self.classes.swap(class, a, b);
            self.memberships[at_a as usize].position = a;
            self.memberships[at_b as usize].position = b;
        }
    }

    /// Lists the blocks that pools need because a class grew.
    fn list_growth(&mut self, class: ClassIx, subset: Subset, growth: Growth) {
        match growth {
            Growth::Covered => {}
            Growth::NewBlock(block) => {
                self.pools.list_block(class, &self.classes, subset, block);
                self.pools.keep_bounds();
            }
            Growth::RefilledBlock(block) => {
                let entry = Entry::new(class, self.classes.head(class).serial, true);
                for note in self.classes.take_unlisted(class, subset, block) {
                    self.pools.list_again(&note, subset, entry);
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
