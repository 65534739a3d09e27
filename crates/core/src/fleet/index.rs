//! The pools: which classes are in each. Bounded in number and size.

use super::SafeMap;
use super::block_list::{BlockList, Entry, Location};
use super::capability_class::{CapabilityClasses, ClassIx, Subset, Unlisted};
use super::signature::{Signature, SignatureFilter};
use crate::eligibility::{Form, Need, Route, Standing, WhyNot, why_not};
use crate::ids::TenantId;
use crate::inventory::Asks;
use crate::limits::MAX_POOLS;
use crate::node::NodeProfile;

/// What all jobs that choose from one pool have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PoolKey {
    /// The direction, in the most specific tags that a node lists.
    pub route: Route,
    /// The answer must be spoken.
    pub speech: bool,
    /// What is to be translated is a text.
    pub typed: bool,
    /// What is asked for by name, in versions that nodes list.
    pub asks: Asks,
}

impl PoolKey {
    fn form(&self) -> Form {
        Form { speech: self.speech, typed: self.typed }
    }
}

/// How much is kept ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolBounds {
    /// Pools that were asked for.
    pub pools: usize,
    /// Pools without nodes, for pairs that nobody serves. They replace only each other, so that such
    /// questions evict no pool that is in use.
    pub empty_pools: usize,
    /// Pools of jobs that ask for something by name. They replace only each other: callers can ask for more
    /// combinations than there are pairs.
    pub asking_pools: usize,
    /// Entries of all pools together, of eight bytes each: two for each capability class in a pool, and
    /// two more each time the class doubles.
    pub entries: usize,
}

impl Default for PoolBounds {
    /// [`MAX_POOLS`], a sixteenth of them empty, a quarter asking for something by name, and 16 million entries: 128 MB, or eighty pairs
    /// served by 100,000 nodes of which no two have the same capabilities.
    fn default() -> Self {
        PoolBounds {
            pools: MAX_POOLS,
            empty_pools: MAX_POOLS / 16,
            asking_pools: MAX_POOLS / 4,
            entries: 16_000_000,
        }
    }
}

/// The index of a pool. Reused after the pool was evicted.
pub(crate) type PoolIx = u32;

/// Classes that a new pool checks at once: a tenth of a millisecond. The others are checked when they are
/// first drawn.
const CHECKED_AT_ONCE: usize = 1024;

/// The classes of one pool. It does not change when a node joins, leaves, fills up or gets a free slot, unless
/// its class becomes larger than ever or gets a member in a block that was unlisted.
#[derive(Debug)]
pub(super) struct Pool {
    key: PoolKey,
    probe: Need,
    filter: SignatureFilter,
    /// Unique to the pool.
    serial: u64,
    lists: [BlockList; 2],
    /// Entries of removed classes, about.
    dead: usize,
    last_used: u64,
}

impl Pool {
    /// A pool with all classes that pass its filter. The predicate is asked of the first of them now,
    /// and of the others when they are first met: this must not take long, however many there are.
    pub fn build(key: PoolKey, classes: &mut CapabilityClasses) -> Self {
        let probe = Need {
            route: key.route,
            speech: key.speech,
            typed: key.typed,
            asks: key.asks.clone(),
            tenant: TenantId::new("-").expect("a dash is an id"),
            named: true,
        };
        let filter = SignatureFilter::new(&key.route, key.form(), &key.asks, classes.bits());
        let lists = [BlockList::default(), BlockList::default()];
        let mut pool = Pool { key, probe, filter, serial: 0, lists, dead: 0, last_used: 0 };
        let mut checks = CHECKED_AT_ONCE;
        for (ix, _) in classes.signatures().filter(|(_, signature)| filter.passes(signature)) {
            let checked = checks > 0;
            checks = checks.saturating_sub(1);
            if checked && !pool.admits(classes.profile(ix)) {
                continue;
            }
            let entry = Entry::new(ix, classes.head(ix).serial, checked);
            for subset in [Subset::Free, Subset::All] {
                for block in 0..classes.blocks(ix, subset) {
                    pool.list_mut(subset).push_uncounted(block, entry);
                }
            }
        }
        pool.lists.iter_mut().for_each(BlockList::count);
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
        self.filter.passes(signature)
    }

    /// Whether nodes of these abilities belong here. Which tenants and jobs a node takes is asked
    /// for each job, not here.
    pub fn admits(&self, profile: &NodeProfile) -> bool {
        let mut why = why_not(profile, &Standing::READY, &self.probe).iter();
        why.all(|reason| reason == WhyNot::Tenant)
    }

    pub fn list(&self, subset: Subset) -> &BlockList {
        &self.lists[subset as usize]
    }

    pub fn list_mut(&mut self, subset: Subset) -> &mut BlockList {
        &mut self.lists[subset as usize]
    }

    /// The classes that belong here and have members.
    pub fn classes<'a>(
        &'a self,
        classes: &'a CapabilityClasses,
    ) -> impl Iterator<Item = ClassIx> + 'a {
        let mine = |e: &&Entry| e.is_checked() || self.admits(classes.profile(e.class));
        self.alive(classes).filter(mine).map(|entry| entry.class)
    }

    /// How many members its classes have, those of unchecked classes included.
    pub fn members(&self, classes: &CapabilityClasses) -> usize {
        self.alive(classes).map(|entry| classes.head(entry.class).all as usize).sum()
    }

    fn alive<'a>(&'a self, classes: &'a CapabilityClasses) -> impl Iterator<Item = &'a Entry> {
        // A class with members has one in the first block.
        let entries = self.list(Subset::All).entries(0).iter();
        entries.filter(|entry| entry.is_current(classes.head(entry.class).serial))
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.lists.iter().map(BlockList::len).sum()
    }
}

/// All pools that are kept ready. The least recently used is evicted for a new one.
#[derive(Debug, Default)]
pub(super) struct Pools {
    bounds: PoolBounds,
    by_key: SafeMap<PoolKey, PoolIx>,
    slots: Vec<Option<Pool>>,
    vacant: Vec<PoolIx>,
    entries: usize,
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
        self.slots[at as usize].as_ref().expect("keys and selectors refer only to existing pools")
    }

    pub fn get_mut(&mut self, at: PoolIx) -> &mut Pool {
        self.slots[at as usize].as_mut().expect("keys and selectors refer only to existing pools")
    }

    #[cfg(test)]
    pub fn slots(&self) -> &[Option<Pool>] {
        &self.slots
    }

    #[cfg(test)]
    pub fn entries(&self) -> usize {
        self.entries
    }

    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.slots.iter().flatten()
    }

    /// Lists a block of a class in every pool to which the class may belong.
    pub fn list_block(
        &mut self,
        class: ClassIx,
        classes: &CapabilityClasses,
        subset: Subset,
        block: usize,
    ) {
        let entry = Entry::new(class, classes.head(class).serial, false);
        let signature = classes.signature(class);
        for pool in self.slots.iter_mut().flatten().filter(|pool| pool.may_admit(signature)) {
            pool.list_mut(subset).push(block, entry);
            self.entries += 1;
        }
    }

    /// Lists a block again in the pool that unlisted it, if that pool still exists.
    pub fn list_again(&mut self, note: &Unlisted, subset: Subset, entry: Entry) {
        let pool = self.slots[note.pool as usize].as_mut();
        if let Some(pool) = pool.filter(|pool| pool.serial == note.pool_serial) {
            pool.list_mut(subset).push(usize::from(note.block), entry);
            self.entries += 1;
        }
    }

    /// Takes an entry off a list.
    pub fn unlist(&mut self, at: PoolIx, subset: Subset, location: &Location) {
        self.get_mut(at).list_mut(subset).remove(location);
        self.entries -= 1;
    }

    /// A class was removed. Its entries are removed when they make half of a pool.
    pub fn class_removed(
        &mut self,
        signature: &Signature,
        blocks: usize,
        classes: &CapabilityClasses,
    ) {
        for pool in self.slots.iter_mut().flatten().filter(|pool| pool.may_admit(signature)) {
            pool.dead += blocks;
            let before = pool.len();
            if pool.dead * 2 > before {
                let alive = |e: &Entry| e.is_current(classes.head(e.class).serial);
                pool.lists.iter_mut().for_each(|list| list.retain(alive));
                pool.dead = 0;
                self.entries -= before - pool.len();
            }
        }
    }

    pub fn is_gone(&self, note: &Unlisted) -> bool {
        let pool = self.slots[note.pool as usize].as_ref();
        pool.is_none_or(|pool| pool.serial != note.pool_serial)
    }

    /// Adds a pool, and evicts others if there are too many.
    pub fn add(&mut self, mut pool: Pool) -> PoolIx {
        if pool.is_empty() {
            self.make_room(self.bounds.empty_pools, Pool::is_empty);
        }
        if !pool.key.asks.is_none() {
            self.make_room(self.bounds.asking_pools, |pool| !pool.key.asks.is_none());
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
        self.entries += pool.len();
        self.by_key.insert(pool.key.clone(), at);
        self.slots[at as usize] = Some(pool);
        self.keep_bounds();
        at
    }

    /// Evicts the least recently used of these pools until one more is within the bound.
    fn make_room(&mut self, bound: usize, is_one: impl Fn(&Pool) -> bool) {
        let mut such = self.by_age();
        such.retain(|at| is_one(self.get(*at)));
        let over = (such.len() + 1).saturating_sub(bound);
        such.into_iter().take(over).for_each(|at| self.remove(at));
    }

    /// Evicts the least recently used pools with entries until all together are within bounds. The most
    /// recently used stays, whatever its size.
    pub fn keep_bounds(&mut self) {
        if self.entries <= self.bounds.entries {
            return;
        }
        let mut filled = self.by_age();
        filled.retain(|at| !self.get(*at).is_empty());
        filled.pop();
        for at in filled {
            if self.entries <= self.bounds.entries {
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
        self.entries -= pool.len();
        self.vacant.push(at);
    }
}
