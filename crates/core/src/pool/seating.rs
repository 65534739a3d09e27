//! Nodes in their guilds, and guilds in the pools, as both come, go and change.

use std::sync::Arc;

use super::guild::{Growth, GuildIx, Part};
use super::listing::Entry;
use super::node::{NO_SEAT, Post};
use super::{Fleet, NodeIx, THERE};
use crate::node::NodeProfile;

impl Fleet {
    /// One node more of these abilities. If it is the first, pools list its guild.
    pub(super) fn enter_guild(&mut self, profile: &Arc<NodeProfile>) -> GuildIx {
        let (guild, first) = self.guilds.admit(profile);
        if first {
            self.tags.learn(profile);
            for part in [Part::Free, Part::All] {
                self.pools.list(guild, &self.guilds, part, 0);
            }
            self.pools.keep_bounds();
            self.moves += 1;
        }
        guild
    }

    /// One node fewer. If it was the last, the guild is no more.
    pub(super) fn leave_guild(&mut self, guild: GuildIx) {
        if self.guilds.dismiss(guild) {
            let blocks =
                self.guilds.blocks(guild, Part::Free) + self.guilds.blocks(guild, Part::All);
            let signature = *self.guilds.signature(guild);
            let profile = self.guilds.close(guild);
            self.tags.forget(&profile);
            self.pools.forget(&signature, blocks, &self.guilds);
            self.moves += 1;
        }
    }

    /// Moves the node to the guild of its profile, without a seat there.
    pub(super) fn change_guild(&mut self, ix: NodeIx) {
        self.leave_seat(ix);
        let profile = self.about(ix).profile.clone();
        let guild = self.enter_guild(&profile);
        let old = std::mem::replace(&mut self.posts[ix as usize].guild, guild);
        self.leave_guild(old);
    }

    /// Gives the node a seat, or takes it away, as its record wants it now.
    pub(super) fn reseat(&mut self, ix: NodeIx) {
        let about = self.abouts[ix as usize].as_ref().expect(THERE);
        let load = &mut self.loads[ix as usize];
        load.set_latency(about.latency_ms);
        load.set_open(about.profile.tenants.is_none());
        load.set_last_resort(about.is_last_resort(load.used()));
        let takes_jobs = about.takes_jobs();
        let Post { guild, seat } = self.posts[ix as usize];
        if !takes_jobs {
            self.leave_seat(ix);
        } else if seat == NO_SEAT {
            self.posts[ix as usize].seat = self.guilds.seats(guild).all;
            let growth = self.guilds.enter(guild, ix);
            self.follow(guild, Part::All, growth);
            self.sort_in(ix);
        }
    }

    pub(super) fn leave_seat(&mut self, ix: NodeIx) {
        let Post { mut seat, guild } = self.posts[ix as usize];
        if seat == NO_SEAT {
            return;
        }
        let free = self.guilds.seats(guild).free;
        if seat < free {
            self.swap_seats(guild, seat, free - 1);
            self.guilds.narrow(guild);
            seat = free - 1;
        }
        let last = self.guilds.seats(guild).all - 1;
        self.swap_seats(guild, seat, last);
        self.guilds.leave(guild);
        self.posts[ix as usize].seat = NO_SEAT;
        self.moves += 1;
    }

    /// Changes the load of a node, and moves it when it fills up or gets a free slot.
    pub(super) fn set_load(&mut self, ix: NodeIx, used: u32, max: u32) {
        let load = &mut self.loads[ix as usize];
        let was_full = load.is_full();
        load.set_slots(used, max);
        let about = self.abouts[ix as usize].as_ref().expect(THERE);
        load.set_last_resort(about.is_last_resort(load.used()));
        if load.is_full() != was_full && self.posts[ix as usize].seat != NO_SEAT {
            self.sort_in(ix);
        }
    }

    /// Moves a seated node among those with a free slot or among the full ones, as it is.
    fn sort_in(&mut self, ix: NodeIx) {
        let Post { seat, guild } = self.posts[ix as usize];
        let (full, free) = (self.load(ix).is_full(), self.guilds.seats(guild).free);
        if !full && seat >= free {
            self.swap_seats(guild, seat, free);
            let growth = self.guilds.widen(guild);
            self.follow(guild, Part::Free, growth);
        } else if full && seat < free {
            self.swap_seats(guild, seat, free - 1);
            self.guilds.narrow(guild);
        }
        self.moves += 1;
    }

    fn swap_seats(&mut self, guild: GuildIx, a: u32, b: u32) {
        if a != b {
            let [at_a, at_b] = self.guilds.swap(guild, a, b);
            self.posts[at_a as usize].seat = a;
            self.posts[at_b as usize].seat = b;
        }
    }

    /// Lets the pools list what they have to because a guild grew.
    fn follow(&mut self, guild: GuildIx, part: Part, growth: Growth) {
        match growth {
            Growth::Within => {}
            Growth::Beyond(block) => {
                self.pools.list(guild, &self.guilds, part, block);
                self.pools.keep_bounds();
            }
            Growth::Again(block) => {
                let entry = Entry::new(guild, self.guilds.seats(guild).serial, true);
                for note in self.guilds.take_unlisted(guild, part, block) {
                    self.pools.list_again(&note, part, entry);
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
