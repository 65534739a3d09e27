//! The pools themselves: which guilds are in each, bounded in number and size.

use super::SafeMap;
use super::guild::{GuildIx, Guilds, Part, Unlisted};
use super::listing::{Entry, Listing, Place};
use super::signature::{Sieve, Signature};
use crate::eligibility::{Need, Route, Standing, WhyNot, why_not};
use crate::ids::TenantId;
use crate::limits::MAX_POOLS;
use crate::node::NodeProfile;

/// What all jobs that choose from one pool have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolKey {
    /// The direction, in the most special tags that some node lists.
    pub route: Route,
    /// The answer must be spoken.
    pub speech: bool,
}

/// How much is kept ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolBounds {
    /// Pools.
    pub pools: usize,
    /// Pools that no node's abilities fit. They answer questions for pairs that nobody serves, and
    /// make room for each other only, so that such questions never push out a pool that is of use.
    pub empty_pools: usize,
    /// Entries of all pools together, of eight bytes each: for every set of equal abilities in a
    /// pool two, and two more whenever the nodes that have them double in number.
    pub memberships: usize,
}

impl Default for PoolBounds {
    /// [`MAX_POOLS`], a sixteenth of them empty, and 16 million entries: 128 MB, or eighty pairs
    /// that all of 100,000 nodes serve of which no two have the same abilities.
    fn default() -> Self {
        PoolBounds { pools: MAX_POOLS, empty_pools: MAX_POOLS / 16, memberships: 16_000_000 }
    }
}

/// A pool's place; reused when it made room for another.
pub(crate) type PoolIx = u32;

/// Guilds that a new pool asks the predicate about: a tenth of a millisecond, and enough for the pools
/// of any fleet but one of very many different nodes to hold nobody who does not belong there.
const CHECKED_AT_ONCE: usize = 1024;

/// The guilds of one pool. Nothing here changes when a node comes, goes, fills up or gets a free
/// slot, unless its guild gets larger than ever or a block of it comes to life again.
#[derive(Debug)]
pub(super) struct Pool {
    key: PoolKey,
    probe: Need,
    sieve: Sieve,
    /// Never given to another pool.
    serial: u64,
    listings: [Listing; 2],
    /// Entries of guilds that are gone, about.
    dead: usize,
    last_used: u64,
}

impl Pool {
    /// A pool with all guilds that pass its sieve. The predicate is asked of the first of them now,
    /// and of the others when they are first met: this must not take long, however many there are.
    pub fn build(key: PoolKey, guilds: &mut Guilds) -> Self {
        let probe = Need {
            route: key.route,
            speech: key.speech,
            services: Vec::new(),
            models: Vec::new(),
            tenant: TenantId::new("-").expect("a dash is an id"),
            named: true,
        };
        let sieve = Sieve::new(&key.route, key.speech, guilds.bits());
        let listings = [Listing::default(), Listing::default()];
        let mut pool = Pool { key, probe, sieve, serial: 0, listings, dead: 0, last_used: 0 };
        let mut checks = CHECKED_AT_ONCE;
        for (ix, _) in guilds.signatures().filter(|(_, signature)| sieve.passes(signature)) {
            let checked = checks > 0;
            checks = checks.saturating_sub(1);
            if checked && !pool.admits(guilds.profile(ix)) {
                continue;
            }
            let entry = Entry::new(ix, guilds.seats(ix).serial, checked);
            for part in [Part::Free, Part::All] {
                for block in 0..guilds.blocks(ix, part) {
                    pool.listing_mut(part).push_only(block, entry);
                }
            }
        }
        pool.listings.iter_mut().for_each(Listing::count);
        pool
    }

    pub fn key(&self) -> &PoolKey {
        &self.key
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether nodes of these abilities may belong here.
    pub fn may_admit(&self, signature: &Signature) -> bool {
        self.sieve.passes(signature)
    }

    /// Whether nodes of these abilities belong here. Which tenants and jobs a node takes is asked
    /// for each job, not here.
    pub fn admits(&self, profile: &NodeProfile) -> bool {
        let mut why = why_not(profile, &Standing::READY, &self.probe).iter();
        why.all(|reason| reason == WhyNot::Tenant)
    }

    pub fn listing(&self, part: Part) -> &Listing {
        &self.listings[part as usize]
    }

    pub fn listing_mut(&mut self, part: Part) -> &mut Listing {
        &mut self.listings[part as usize]
    }

    /// The guilds that belong here and have members.
    pub fn guilds<'a>(&'a self, guilds: &'a Guilds) -> impl Iterator<Item = GuildIx> + 'a {
        let mine = |e: &&Entry| e.is_checked() || self.admits(guilds.profile(e.guild));
        self.alive(guilds).filter(mine).map(|entry| entry.guild)
    }

    /// How many nodes are listed, those included of whom the predicate has not been asked.
    pub fn members(&self, guilds: &Guilds) -> usize {
        self.alive(guilds).map(|entry| guilds.seats(entry.guild).all as usize).sum()
    }

    fn alive<'a>(&'a self, guilds: &'a Guilds) -> impl Iterator<Item = &'a Entry> {
        // Whoever has a member has one in the first block.
        let entries = self.listing(Part::All).entries(0).iter();
        entries.filter(|entry| entry.is_of(guilds.seats(entry.guild).serial))
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.listings.iter().map(Listing::len).sum()
    }
}

/// All pools kept ready, the least recently used making room for new ones.
#[derive(Debug, Default)]
pub(super) struct Pools {
    bounds: PoolBounds,
    by_key: SafeMap<PoolKey, PoolIx>,
    slots: Vec<Option<Pool>>,
    vacant: Vec<PoolIx>,
    memberships: usize,
    uses: u64,
}

impl Pools {
    pub fn new(bounds: PoolBounds) -> Self {
        Pools { bounds, ..Pools::default() }
    }

    pub fn find(&mut self, key: &PoolKey) -> Option<PoolIx> {
        let at = self.by_key.get(key).copied()?;
        self.uses += 1;
        self.get_mut(at).last_used = self.uses;
        Some(at)
    }

    pub fn get(&self, at: PoolIx) -> &Pool {
        self.slots[at as usize].as_ref().expect("nodes and keys name only pools that are there")
    }

    pub fn get_mut(&mut self, at: PoolIx) -> &mut Pool {
        self.slots[at as usize].as_mut().expect("nodes and keys name only pools that are there")
    }

    #[cfg(test)]
    pub fn slots(&self) -> &[Option<Pool>] {
        &self.slots
    }

    #[cfg(test)]
    pub fn memberships(&self) -> usize {
        self.memberships
    }

    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.slots.iter().flatten()
    }

    /// Lists a block of a guild in every pool in which the guild may belong.
    pub fn list(&mut self, guild: GuildIx, guilds: &Guilds, part: Part, block: usize) {
        let entry = Entry::new(guild, guilds.seats(guild).serial, false);
        let signature = guilds.signature(guild);
        for pool in self.slots.iter_mut().flatten().filter(|pool| pool.may_admit(signature)) {
            pool.listing_mut(part).push(block, entry);
            self.memberships += 1;
        }
    }

    /// Lists a block again in a pool that took it off the list, if that pool is still there.
    pub fn list_again(&mut self, note: &Unlisted, part: Part, entry: Entry) {
        let pool = self.slots[note.pool as usize].as_mut();
        if let Some(pool) = pool.filter(|pool| pool.serial == note.pool_serial) {
            pool.listing_mut(part).push(usize::from(note.block), entry);
            self.memberships += 1;
        }
    }

    /// Takes an entry off a list.
    pub fn unlist(&mut self, at: PoolIx, part: Part, place: &Place) {
        self.get_mut(at).listing_mut(part).remove(place);
        self.memberships -= 1;
    }

    /// A guild was closed. Its entries mean nothing any more and go when they are half of a pool.
    pub fn forget(&mut self, signature: &Signature, blocks: usize, guilds: &Guilds) {
        for pool in self.slots.iter_mut().flatten().filter(|pool| pool.may_admit(signature)) {
            pool.dead += blocks;
            let before = pool.len();
            if pool.dead * 2 > before {
                let alive = |e: &Entry| e.is_of(guilds.seats(e.guild).serial);
                pool.listings.iter_mut().for_each(|listing| listing.retain(alive));
                pool.dead = 0;
                self.memberships -= before - pool.len();
            }
        }
    }

    pub fn is_gone(&self, note: &Unlisted) -> bool {
        let pool = self.slots[note.pool as usize].as_ref();
        pool.is_none_or(|pool| pool.serial != note.pool_serial)
    }

    /// Puts a new pool in, and others out as far as they are too many with it.
    pub fn add(&mut self, mut pool: Pool) -> PoolIx {
        if pool.is_empty() {
            let mut empty = self.by_age();
            empty.retain(|at| self.get(*at).is_empty());
            let over = (empty.len() + 1).saturating_sub(self.bounds.empty_pools);
            empty.into_iter().take(over).for_each(|at| self.remove(at));
        }
        while self.by_key.len() >= self.bounds.pools.max(1) {
            let oldest = self.by_key.values().min_by_key(|at| self.get(**at).last_used);
            let oldest = *oldest.expect("at least one");
            self.remove(oldest);
        }
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as PoolIx
        });
        self.uses += 1;
        (pool.serial, pool.last_used) = (self.uses, self.uses);
        self.memberships += pool.len();
        self.by_key.insert(pool.key, at);
        self.slots[at as usize] = Some(pool);
        self.keep_bounds();
        at
    }

    /// Puts out the longest unused of the pools that have entries, until all together are within
    /// bounds; the latest stays whatever its size.
    pub fn keep_bounds(&mut self) {
        if self.memberships <= self.bounds.memberships {
            return;
        }
        let mut filled = self.by_age();
        filled.retain(|at| !self.get(*at).is_empty());
        filled.pop();
        for at in filled {
            if self.memberships <= self.bounds.memberships {
                break;
            }
            self.remove(at);
        }
    }

    fn by_age(&self) -> Vec<PoolIx> {
        let mut all: Vec<PoolIx> = self.by_key.values().copied().collect();
        all.sort_unstable_by_key(|at| self.get(*at).last_used);
        all
    }

    fn remove(&mut self, at: PoolIx) {
        let pool = self.slots[at as usize].take().expect("named pools are there");
        self.by_key.remove(&pool.key);
        self.memberships -= pool.len();
        self.vacant.push(at);
    }
}
