//! The fleet as one instance sees it, and the pools in it.
//!
//! A pool is a directed language pair, with or without speech, and the nodes that serve it. It is an
//! index derived from the node records in this [`Fleet`] and nothing else: it is built when a pair
//! is first asked for and kept right by every change of a node, in the same call. So a node is in
//! its pools the moment it is put and out of them the moment it loses the ability, and there is
//! nothing that could expire, be half written or be left behind.
//!
//! Pools are a hint that is never too small: every node that may take a job is in the pool of that
//! job, and what the pair does not say (tenant, models, further services) is asked of each member by
//! the same predicate before it is chosen, and once more by the store.
//!
//! What changes cost, with P pools kept ready (at most [`MAX_POOLS`](crate::limits::MAX_POOLS)):
//! - choosing: O(1) for each member looked at, see [`crate::select`];
//! - a placement or its end, a load report: O(1) amortised, in however many pools the node is;
//! - a node that becomes unavailable or leaves: one step for each pool it is in;
//! - a new or changed profile, or a node that becomes available: one predicate for each of the P
//!   pools, because only the predicate knows which of them it serves. Such changes are rare beside
//!   jobs, and P is the number of pairs in use;
//! - a first question for a pair: one predicate for each node.

mod explain;
mod index;
mod node;
mod tags;

pub use explain::{Ability, Explanation, Shortage};
pub(crate) use index::{Pool, PoolIx};
pub use index::{PoolBounds, PoolKey};
pub(crate) use node::Brief;
pub use node::{Node, NodeEntry, ProfileVersion};

use std::collections::HashMap;
use std::sync::Arc;

use crate::eligibility::{Need, Route, Standing};
use crate::ids::NodeId;
use crate::node::NodeProfile;
use crate::slots::Usage;
use index::Pools;
use node::availability;
use tags::Tags;

type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
/// For keys that strangers choose: no one can make them collide.
type SafeMap<K, V> = HashMap<K, V, foldhash::quality::RandomState>;

/// Where a node stands in the fleet. Reused after the node left, so it goes with a serial.
pub(crate) type NodeIx = u32;

/// The fleet view of one instance with its pools.
#[derive(Debug, Default)]
pub struct Fleet {
    nodes: Vec<Option<Node>>,
    /// In the places of the nodes.
    briefs: Vec<Brief>,
    vacant: Vec<NodeIx>,
    by_id: SafeMap<NodeId, NodeIx>,
    last_serial: u64,
    tags: Tags,
    pools: Pools,
    /// What was found missing, until a node changes: saying no again costs no second scan.
    shortages: SafeMap<Need, Option<Shortage>>,
    scans: u64,
}

impl Fleet {
    /// An empty fleet that keeps at most so many pools ready.
    pub fn with_bounds(bounds: PoolBounds) -> Self {
        Fleet { pools: Pools::new(bounds), ..Fleet::default() }
    }

    /// Takes over what the store says about a node, as a whole. Whatever was here before, all pools
    /// are right afterwards; saying the same again changes nothing and costs O(1).
    pub fn put(&mut self, id: NodeId, entry: NodeEntry) {
        let NodeEntry { profile, version, standing, usage } = entry;
        let Some(ix) = self.by_id.get(&id).copied() else {
            let ix = self.settle(id, profile, version, standing, usage.unwrap_or_default());
            self.rejoin(ix);
            return;
        };
        let node = self.nodes[ix as usize].as_mut().expect("named nodes are there");
        let other = !Arc::ptr_eq(&node.profile, &profile) && node.profile != profile;
        let moved = other || availability(&node.standing) != availability(&standing);
        if other || node.standing != standing {
            self.shortages.clear();
        }
        if other {
            self.tags.forget(&node.profile);
            self.tags.learn(&profile);
            node.max = profile.max_slots;
        }
        (node.profile, node.version, node.standing) = (profile, version, standing);
        if let Some(usage) = usage {
            node.used = usage.used();
        }
        if moved {
            self.rejoin(ix);
        }
        self.note_load(ix);
    }

    /// The node's standing changed and nothing else did. Says whether the node is known.
    pub fn set_standing(&mut self, id: &NodeId, standing: Standing) -> bool {
        let Some(ix) = self.by_id.get(id).copied() else { return false };
        let node = self.nodes[ix as usize].as_mut().expect("named nodes are there");
        if node.standing == standing {
            return true;
        }
        let moved = availability(&node.standing) != availability(&standing);
        node.standing = standing;
        self.shortages.clear();
        if moved {
            self.rejoin(ix);
        }
        true
    }

    /// The node is gone. Says whether it was known.
    pub fn remove(&mut self, id: &NodeId) -> bool {
        let Some(ix) = self.by_id.remove(id) else { return false };
        self.leave_all(ix);
        let node = self.nodes[ix as usize].take().expect("named nodes are there");
        self.tags.forget(&node.profile);
        self.vacant.push(ix);
        self.shortages.clear();
        true
    }

    /// Keeps only the nodes that `keep` wants, as after a full resync with the store.
    pub fn retain(&mut self, mut keep: impl FnMut(&NodeId) -> bool) {
        let gone: Vec<NodeId> = self.by_id.keys().filter(|id| !keep(id)).cloned().collect();
        for id in &gone {
            self.remove(id);
        }
    }

    /// The node with this name.
    pub fn get(&self, id: &NodeId) -> Option<&Node> {
        self.by_id.get(id).map(|ix| self.node(*ix))
    }

    /// All nodes, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flatten()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// A job of ours was granted a slot on the node: counts at once, before any report.
    pub fn placed(&mut self, id: &NodeId) {
        self.load(id, |node| node.used = node.used.saturating_add(1));
    }

    /// A job of ours gave its slot back.
    pub fn ended(&mut self, id: &NodeId) {
        self.load(id, |node| node.used = node.used.saturating_sub(1));
    }

    /// The true load, as a refusal or a report carries it.
    pub fn true_load(&mut self, id: &NodeId, used: u32, max: u32) {
        self.load(id, |node| (node.used, node.max) = (used, max));
    }

    /// A job on the node ended after so long. A failed one is told with the time it wasted, so that
    /// failing fast does not look like being fast.
    pub fn took(&mut self, id: &NodeId, latency_ms: u32) {
        self.load(id, |node| {
            let mean = node.latency_ms.map_or(u64::from(latency_ms), |old| {
                (u64::from(old) * 7 + u64::from(latency_ms)) / 8
            });
            node.latency_ms = Some(u32::try_from(mean).unwrap_or(u32::MAX));
        });
    }

    /// One member of the pool, each with the same chance, full or not.
    pub fn pick(&mut self, route: Route, speech: bool, chance: u64) -> Option<&Node> {
        let (pool, _) = self.pool_of(route, speech)?;
        let members = self.pool(pool).members();
        let at = (u128::from(chance) * members.len() as u128) >> 64;
        members.get(at as usize).map(|ix| self.node(*ix))
    }

    /// The members of the pool that jobs of this kind choose from: every node that serves the pair
    /// and takes jobs, and at times some more (see [`Fleet::key`]). Nodes that take only jobs that
    /// name them are in no pool.
    pub fn members(&mut self, route: Route, speech: bool) -> impl Iterator<Item = &Node> {
        let pool = self.pool_of(route, speech);
        let members = pool.map_or(&[][..], |(pool, _)| self.pool(pool).members());
        members.iter().map(|ix| self.node(*ix))
    }

    /// The pools kept ready, with the number of members of each.
    pub fn pools(&self) -> impl Iterator<Item = (&PoolKey, usize)> {
        self.pools.iter().map(|pool| (pool.key(), pool.members().len()))
    }

    /// How often the whole fleet was looked through to build a pool or to say what is missing.
    pub fn scans(&self) -> u64 {
        self.scans
    }

    /// The pool in which jobs of this kind look for a node; `None` if no node can serve them.
    ///
    /// Tags that no node tells apart share a pool: a pair in which nobody lists `en-AU` is the pair
    /// with `en`. So the number of pools follows from what nodes say, not from what clients ask,
    /// and a language that no node mentions is answered without looking at any node.
    pub fn key(&self, route: Route, speech: bool) -> Option<PoolKey> {
        self.tags.key(route, speech).map(|(key, _)| key)
    }

    /// For each reason how many nodes it keeps from the job, and how many may take it. O(nodes).
    pub fn explain(&self, need: &Need) -> Explanation {
        Explanation::of(self.nodes(), need)
    }

    /// What the fleet lacks for the job; `None` if some node may take it. Its text is the sentence
    /// for the caller. O(nodes) the first time, O(1) until a node changes, and O(1) for a language
    /// that no node mentions.
    pub fn shortage(&mut self, need: &Need) -> Option<Shortage> {
        const KEPT: usize = 256;
        if let Some(missing) = self.tags.unheard_of(need) {
            return Some(Shortage::Missing(missing));
        }
        if let Some(known) = self.shortages.get(need) {
            return known.clone();
        }
        self.scans += 1;
        let found = Shortage::of(self.nodes(), need);
        if self.shortages.len() == KEPT {
            self.shortages.clear();
        }
        self.shortages.insert(need.clone(), found.clone());
        found
    }

    fn settle(
        &mut self,
        id: NodeId,
        profile: Arc<NodeProfile>,
        version: ProfileVersion,
        standing: Standing,
        usage: Usage,
    ) -> NodeIx {
        self.tags.learn(&profile);
        self.shortages.clear();
        self.last_serial += 1;
        let node = Node {
            id: id.clone(),
            serial: self.last_serial,
            used: usage.used(),
            max: profile.max_slots,
            latency_ms: None,
            pools: Vec::new(),
            full_in: Vec::new(),
            profile,
            version,
            standing,
        };
        let ix = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.briefs.push(Brief::default());
            NodeIx::try_from(self.nodes.len() - 1).expect("fewer than 2^32 nodes")
        });
        self.briefs[ix as usize] = node.brief();
        self.nodes[ix as usize] = Some(node);
        self.by_id.insert(id, ix);
        ix
    }

    fn load(&mut self, id: &NodeId, change: impl FnOnce(&mut Node)) {
        let Some(ix) = self.by_id.get(id).copied() else { return };
        change(self.nodes[ix as usize].as_mut().expect("named nodes are there"));
        self.note_load(ix);
    }

    /// Writes the brief anew, and puts a node that has a free slot back among the roomy ones
    /// wherever it was listed as full.
    fn note_load(&mut self, ix: NodeIx) {
        let node = self.nodes[ix as usize].as_mut().expect("told of nodes that are there");
        self.briefs[ix as usize] = node.brief();
        if !node.is_full() {
            for pool in node.full_in.drain(..) {
                self.pools.get_mut(pool).set_roomy(ix);
            }
        }
    }

    /// Brings the node's membership in every pool up to date with its record.
    fn rejoin(&mut self, ix: NodeIx) {
        self.leave_all(ix);
        let node = self.nodes[ix as usize].as_mut().expect("told of nodes that are there");
        if node.profile.private || !availability(&node.standing) {
            return;
        }
        for (at, pool) in self.pools.iter_mut_with_ix() {
            if pool.admits(node) {
                join(node, ix, at, pool);
            }
        }
        self.pools.joined(node.pools.len());
        for gone in self.pools.over_bounds() {
            self.drop_pool(gone);
        }
    }

    fn leave_all(&mut self, ix: NodeIx) {
        let node = self.nodes[ix as usize].as_mut().expect("told of nodes that are there");
        node.full_in.clear();
        for pool in node.pools.drain(..) {
            self.pools.leave(pool, ix);
        }
    }
}

fn join(node: &mut Node, ix: NodeIx, at: PoolIx, pool: &mut Pool) {
    node.pools.push(at);
    if node.is_full() {
        node.full_in.push(at);
    }
    pool.insert(ix, node.is_full());
}

/// What choosing needs to see.
impl Fleet {
    pub(crate) fn node(&self, ix: NodeIx) -> &Node {
        self.nodes[ix as usize].as_ref().expect("pools hold only nodes that are there")
    }

    pub(crate) fn brief(&self, ix: NodeIx) -> Brief {
        self.briefs[ix as usize]
    }

    /// The node that stood there, if it is still the same one.
    pub(crate) fn node_if(&self, ix: NodeIx, serial: u64) -> Option<&Node> {
        self.nodes.get(ix as usize)?.as_ref().filter(|node| node.serial == serial)
    }

    pub(crate) fn index_of(&self, id: &NodeId) -> Option<NodeIx> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn pool(&self, at: PoolIx) -> &Pool {
        self.pools.get(at)
    }

    /// The pool for such jobs, built now if this is the first question for it, and whether every
    /// member has all that the pair asks for.
    pub(crate) fn pool_of(&mut self, route: Route, speech: bool) -> Option<(PoolIx, bool)> {
        let (key, exact) = self.tags.key(route, speech)?;
        if let Some(at) = self.pools.find(&key) {
            return Some((at, exact));
        }
        self.scans += 1;
        let mut pool = Pool::new(key);
        let admitted: Vec<NodeIx> = (0..)
            .zip(&self.nodes)
            .filter(|(_, node)| node.as_ref().is_some_and(|node| pool.admits(node)))
            .map(|(ix, _)| ix)
            .collect();
        pool.reserve(admitted.len());
        for gone in self.pools.make_room(admitted.len()) {
            self.drop_pool(gone);
        }
        let at = self.pools.vacancy();
        for ix in &admitted {
            let node = self.nodes[*ix as usize].as_mut().expect("found a moment ago");
            join(node, *ix, at, &mut pool);
        }
        self.pools.add(at, pool);
        Some((at, exact))
    }

    /// Lists a full node behind the roomy ones of this pool, until it has a free slot again.
    pub(crate) fn set_full(&mut self, at: PoolIx, ix: NodeIx) {
        self.pools.get_mut(at).set_full(ix);
        let node = self.nodes[ix as usize].as_mut().expect("pools hold only nodes that are there");
        node.full_in.push(at);
    }

    fn drop_pool(&mut self, at: PoolIx) {
        for ix in self.pools.take(at).members() {
            let node =
                self.nodes[*ix as usize].as_mut().expect("pools hold only nodes that are there");
            node.pools.retain(|pool| *pool != at);
            node.full_in.retain(|pool| *pool != at);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
