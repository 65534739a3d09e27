//! The pools themselves: dense lists of members, bounded in number and size.

use super::{FastMap, Node, NodeIx, SafeMap};
use crate::eligibility::{Need, Route, WhyNot};
use crate::ids::TenantId;
use crate::limits::MAX_POOLS;

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
    /// Pools without any member. They answer questions for pairs that nobody serves, and make room
    /// for each other only, so that such questions never push out a pool that is of use.
    pub empty_pools: usize,
    /// Members of all pools together.
    pub memberships: usize,
}

impl Default for PoolBounds {
    /// [`MAX_POOLS`], a sixteenth of them empty, and 4 million memberships: about 120 MB, or forty
    /// pairs that all of 100,000 nodes serve.
    fn default() -> Self {
        PoolBounds { pools: MAX_POOLS, empty_pools: MAX_POOLS / 16, memberships: 4_000_000 }
    }
}

/// A pool's place; reused when it made room for another.
pub(crate) type PoolIx = u32;

/// The members of one pool, in two parts: first those that may have a free slot, then those known
/// to be full.
///
/// A node that fills up stays in the first part until somebody looks at it there and moves it; a
/// node that gets a free slot moves back at once. So every move back pays for one look, placing a
/// job costs nothing here however many pools the node is in, and a free slot is found in O(1) in a
/// fleet that is otherwise full.
#[derive(Debug)]
pub(crate) struct Pool {
    key: PoolKey,
    probe: Need,
    members: Vec<NodeIx>,
    roomy: usize,
    position: FastMap<NodeIx, u32>,
    /// Rises with every change of the order of members.
    order: u64,
    last_used: u64,
}

impl Pool {
    pub fn new(key: PoolKey) -> Self {
        let probe = Need {
            route: key.route,
            speech: key.speech,
            services: Vec::new(),
            models: Vec::new(),
            tenant: TenantId::new("-").expect("a dash is an id"),
            named: false,
        };
        let (members, position) = (Vec::new(), FastMap::default());
        Pool { key, probe, members, roomy: 0, position, order: 0, last_used: 0 }
    }

    pub fn key(&self) -> &PoolKey {
        &self.key
    }

    /// Whether the node belongs here. Its allow-list is asked for each job, not here.
    pub fn admits(&self, node: &Node) -> bool {
        node.why_not(&self.probe).iter().all(|reason| reason == WhyNot::Tenant)
    }

    pub fn members(&self) -> &[NodeIx] {
        &self.members
    }

    /// How many of the first members may have a free slot; the others are full.
    pub fn roomy(&self) -> usize {
        self.roomy
    }

    pub fn order(&self) -> u64 {
        self.order
    }

    pub fn reserve(&mut self, members: usize) {
        self.members.reserve(members);
        self.position.reserve(members);
    }

    pub fn insert(&mut self, node: NodeIx, full: bool) {
        let end = self.members.len();
        self.members.push(node);
        self.position.insert(node, end as u32);
        self.order += 1;
        if !full {
            self.swap(end, self.roomy);
            self.roomy += 1;
        }
    }

    pub fn set_full(&mut self, node: NodeIx) {
        if let Some(at) = self.find(node).filter(|at| *at < self.roomy) {
            self.roomy -= 1;
            self.swap(at, self.roomy);
        }
    }

    pub fn set_roomy(&mut self, node: NodeIx) {
        if let Some(at) = self.find(node).filter(|at| *at >= self.roomy) {
            self.swap(at, self.roomy);
            self.roomy += 1;
        }
    }

    fn remove(&mut self, node: NodeIx) {
        self.set_full(node);
        if let Some(at) = self.find(node) {
            self.swap(at, self.members.len() - 1);
            self.members.pop();
            self.position.remove(&node);
        }
    }

    #[cfg(test)]
    pub fn position_of(&self, node: NodeIx) -> Option<usize> {
        self.find(node)
    }

    fn find(&self, node: NodeIx) -> Option<usize> {
        self.position.get(&node).map(|at| *at as usize)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.order += 1;
        if a != b {
            self.members.swap(a, b);
            self.position.insert(self.members[a], a as u32);
            self.position.insert(self.members[b], b as u32);
        }
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

    pub fn iter_mut_with_ix(&mut self) -> impl Iterator<Item = (PoolIx, &mut Pool)> {
        (0..).zip(&mut self.slots).filter_map(|(at, pool)| Some((at, pool.as_mut()?)))
    }

    pub fn leave(&mut self, at: PoolIx, node: NodeIx) {
        self.get_mut(at).remove(node);
        self.memberships -= 1;
    }

    pub fn joined(&mut self, pools: usize) {
        self.memberships += pools;
    }

    /// Which pools must go before one with so many members comes.
    pub fn make_room(&self, members: usize) -> Vec<PoolIx> {
        let mut by_age = self.by_age();
        let mut gone = Vec::new();
        if members == 0 {
            let empty = by_age.iter().filter(|at| self.get(**at).members.is_empty());
            let over = (empty.clone().count() + 1).saturating_sub(self.bounds.empty_pools);
            gone.extend(empty.take(over));
            by_age.retain(|at| !gone.contains(at));
        }
        let over = (by_age.len() + 1).saturating_sub(self.bounds.pools);
        gone.extend(by_age.drain(..over.min(by_age.len())));
        let freed: usize = gone.iter().map(|at| self.get(*at).members.len()).sum();
        gone.extend(self.largest_first_out(by_age, self.memberships - freed + members, 0));
        gone
    }

    /// Which pools must go because joining nodes made them too large together; one always stays.
    pub fn over_bounds(&self) -> Vec<PoolIx> {
        if self.memberships <= self.bounds.memberships {
            return Vec::new();
        }
        self.largest_first_out(self.by_age(), self.memberships, 1)
    }

    /// The longest unused pools with members, until `total` is within bounds or `stay` are left.
    fn largest_first_out(&self, by_age: Vec<PoolIx>, total: usize, stay: usize) -> Vec<PoolIx> {
        let mut excess = total.saturating_sub(self.bounds.memberships);
        let filled: Vec<PoolIx> =
            by_age.into_iter().filter(|at| !self.get(*at).members.is_empty()).collect();
        let may_go = filled.len().saturating_sub(stay);
        let mut gone = Vec::new();
        for at in filled.into_iter().take(may_go) {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(self.get(at).members.len());
            gone.push(at);
        }
        gone
    }

    fn by_age(&self) -> Vec<PoolIx> {
        let mut all: Vec<PoolIx> = self.by_key.values().copied().collect();
        all.sort_unstable_by_key(|at| self.get(*at).last_used);
        all
    }

    /// The place the next pool will have.
    pub fn vacancy(&mut self) -> PoolIx {
        self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as PoolIx
        })
    }

    pub fn add(&mut self, at: PoolIx, mut pool: Pool) {
        self.uses += 1;
        pool.last_used = self.uses;
        self.memberships += pool.members.len();
        self.by_key.insert(pool.key, at);
        self.slots[at as usize] = Some(pool);
    }

    pub fn take(&mut self, at: PoolIx) -> Pool {
        let pool = self.slots[at as usize].take().expect("named pools are there");
        self.by_key.remove(&pool.key);
        self.memberships -= pool.members.len();
        self.vacant.push(at);
        pool
    }
}
