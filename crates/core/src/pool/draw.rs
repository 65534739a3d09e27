//! Members drawn from a pool.

use super::guild::{Part, Unlisted};
use super::index::PoolIx;
use super::listing::{Listing, Place, first_seat};
use super::{Fleet, NodeIx};
use crate::chance::Chance;

/// What a spot of a pool stands for.
enum Spot {
    Member(NodeIx),
    /// Nobody now.
    Vacant,
    /// Nobody, and no other spot of this entry stands for anybody.
    Hollow {
        /// The guild is there and belongs to the pool.
        alive: bool,
    },
}

/// Members drawn together, or spots of which more than half have one: enough for what an idle fleet is
/// asked for.
const DRAWN_AT_ONCE: usize = 8;

/// Members up to which all are handed out instead of some drawn again and again.
const FEW: usize = 64;

/// Some members of a pool.
pub(crate) struct Hand<const N: usize> {
    members: [NodeIx; N],
    len: usize,
}

impl<const N: usize> Hand<N> {
    const EMPTY: Self = Hand { members: [0; N], len: 0 };

    pub fn members(&mut self) -> &mut [NodeIx] {
        &mut self.members[..self.len]
    }
}

impl Fleet {
    /// All members of this part of the pool, if they are few.
    pub(crate) fn few(&mut self, at: PoolIx, part: Part) -> Option<Hand<FEW>> {
        let listing = self.pools.get(at).listing(part);
        let only = listing.only().map(|entry| self.guilds.seats(entry.guild).part(part));
        if only.unwrap_or(listing.spots() as usize) > FEW {
            return None;
        }
        let (mut hand, guilds) = (Hand::EMPTY, listing.entries(0).len());
        for entry in 0..guilds {
            let place = Place { block: 0, entry, seat: 0 };
            if let Spot::Member(_) = self.look(at, part, &place) {
                let guild = self.pools.get(at).listing(part).entry(&place).guild;
                let members = &self.guilds.members(guild)[..self.guilds.seats(guild).part(part)];
                hand.members[hand.len..hand.len + members.len()].copy_from_slice(members);
                hand.len += members.len();
            }
        }
        Some(hand)
    }

    /// Some members of this part of the pool, each drawn by itself with the same chance for all;
    /// `None` if there is none at all, and an empty hand after a draw without luck.
    ///
    /// Several at once, because what is looked at lies all over the memory, and the processor fetches
    /// for the next what does not depend on what it finds for the first.
    pub(crate) fn draw(
        &mut self,
        at: PoolIx,
        part: Part,
        chance: &mut Chance,
    ) -> Option<Hand<DRAWN_AT_ONCE>> {
        let Fleet { pools, guilds, .. } = self;
        let listing = pools.get(at).listing(part);
        let mut hand = Hand::EMPTY;
        if let Some(entry) = listing.only() {
            let seats = guilds.seats(entry.guild);
            let members = &guilds.members(entry.guild)[..seats.part(part)];
            if entry.is_good(seats.serial) && !members.is_empty() {
                hand.len = DRAWN_AT_ONCE;
                hand.members().fill_with(|| members[chance.below(members.len())]);
                return Some(hand);
            }
        }
        if listing.spots() == 0 {
            return None;
        }
        let places: [Place; DRAWN_AT_ONCE] =
            std::array::from_fn(|_| listing.locate(chance.below(listing.spots() as usize) as u32));
        let mut odd = [false; DRAWN_AT_ONCE];
        for (place, odd) in places.iter().zip(&mut odd) {
            let entry = listing.entry(place);
            let seats = guilds.seats(entry.guild);
            let (good, members) = (entry.is_good(seats.serial), seats.part(part));
            let taken = good && place.seat < members;
            *odd = !(good && first_seat(place.block) < members);
            hand.members[hand.len] = guilds.member(entry.guild, if taken { place.seat } else { 0 });
            hand.len += usize::from(taken);
        }
        for (place, _) in places.iter().zip(odd).filter(|(_, odd)| *odd) {
            self.tidy(at, part, place);
        }
        Some(hand)
    }

    /// The spots as they are now: the number of them is the last.
    pub(crate) fn ends(&self, at: PoolIx, part: Part) -> Vec<u32> {
        self.pools.get(at).listing(part).ends().to_vec()
    }

    /// The member for which the spot stands, of spots as they were when `ends` were taken.
    pub(crate) fn member_at(
        &mut self,
        at: PoolIx,
        part: Part,
        ends: &[u32],
        spot: u32,
    ) -> Option<NodeIx> {
        match self.look(at, part, &Listing::locate_in(ends, spot)) {
            Spot::Member(ix) => Some(ix),
            Spot::Vacant | Spot::Hollow { .. } => None,
        }
    }

    fn look(&mut self, at: PoolIx, part: Part, place: &Place) -> Spot {
        let Fleet { pools, guilds, .. } = self;
        let pool = pools.get_mut(at);
        let Some(entry) = pool.listing(part).get(place) else { return Spot::Vacant };
        let (guild, seats) = (entry.guild, *guilds.seats(entry.guild));
        if !entry.is_of(seats.serial) {
            return Spot::Hollow { alive: false };
        }
        if !entry.is_checked() {
            let belongs = pool.admits(guilds.profile(guild));
            pool.listing_mut(part).check(place, belongs);
            if !belongs {
                return Spot::Hollow { alive: false };
            }
        }
        let members = seats.part(part);
        if place.seat < members {
            Spot::Member(guilds.member(guild, place.seat))
        } else if first_seat(place.block) < members {
            Spot::Vacant
        } else {
            Spot::Hollow { alive: true }
        }
    }

    /// Takes the entry off the list if it stands for nobody, until its guild, if that is alive, has
    /// somebody in that block again.
    fn tidy(&mut self, at: PoolIx, part: Part, place: &Place) {
        let Spot::Hollow { alive } = self.look(at, part, place) else { return };
        let Fleet { pools, guilds, .. } = self;
        if alive {
            let pool = pools.get(at);
            let guild = pool.listing(part).entry(place).guild;
            let block = place.block as u8;
            let note = Unlisted { pool: at, pool_serial: pool.serial(), block };
            guilds.note_unlisted(guild, part, note, |note| pools.is_gone(note));
        }
        pools.unlist(at, part, place);
        self.moves += 1;
    }
}

#[cfg(test)]
mod tests;
