//! The nodes as one instance sees them, with an index by language pair.
//!
//! - A *pool* holds the nodes that serve a directed language pair, with or without speech. It is derived from the
//!   node records in this [`Fleet`]: built when a pair is first asked for, and updated in the same call as a
//!   record. So a node is in its pools as soon as it is put, and out of them as soon as it loses the
//!   capability. Nothing can expire or be left behind.
//! - A *capability class* holds all nodes with equal capabilities, which are in the same pools. A pool is a list
//!   of classes. A change of a node is a change of its class, and all pools see it.
//! - The *members* of a class are its nodes that take jobs, in one array: first those with a free slot, then the
//!   full ones. A node's index in it is its *position*.
//! - A *selector* ([`select`]) gives a job one candidate after the other, ranked by one of the [`RankRule`]s.
//!
//! A pool may hold too many nodes and never too few: every node that may take a job is in the pool of that job.
//! What the pair does not say (tenant, models, further services) is checked for each member before it is chosen,
//! and once more by the store.
//!
//! Costs, with P pools (at most [`MAX_POOLS`](crate::limits::MAX_POOLS)) and C classes:
//! - choosing: O(1) for each member looked at, see [`select`];
//! - a change of a node's usage, a node that joins, leaves or becomes unavailable: O(1) amortised;
//! - the first node of a class, its last, or one that doubles the class: O(P);
//! - the first question for a pair: O(C), a few nanoseconds for each.

mod block_list;
mod capability_class;
mod draw;
mod explain;
mod index;
mod membership;
mod node;
mod node_ids;
mod offers;
mod regions;
mod rules;
pub mod select;
mod services_down;
mod signature;
mod tags;
mod ways;

pub use explain::{Ability, Counts, Explanation, Shortage};
pub use index::{PoolBounds, PoolKey};
pub use node::{Node, NodeEntry, ProfileVersion, per_second_of_speech};
pub use rules::RankRule;
pub use ways::{AnswerForm, Fallbacks, Way, legs, original};

use std::collections::HashMap;
use std::sync::Arc;

use crate::chance::Chance;
use crate::eligibility::{Form, Need, Route, Standing};
use crate::ids::{NodeId, Region};
use crate::inventory::Asks;
use crate::lang::Lang;
use capability_class::{CapabilityClasses, Subset};
use index::{Pool, PoolIx, Pools};
use node::{Load, Membership, NO_POSITION, NodeState};
use node_ids::NodeIds;
use offers::Offers;
use regions::{RegionIx, Regions};
use services_down::ServicesDown;
use signature::Signature;
use tags::LanguageTags;

/// Randomly seeded, for keys that nodes and clients choose.
type SafeMap<K, V> = HashMap<K, V, crate::hash::Quality>;

/// The index of a node. Reused after the node left; its serial tells it from a later one.
type NodeIx = u32;

/// The nodes that one instance knows, with their pools.
#[derive(Debug, Default)]
pub struct Fleet {
    // What is known of each node, as parallel vectors. Choosing among very many nodes waits for memory: it reads
    // only `loads` of most of them, which fit into the cache.
    loads: Vec<Load>,
    ids: NodeIds,
    versions: Vec<ProfileVersion>,
    memberships: Vec<Membership>,
    states: Vec<Option<NodeState>>,
    // Apart from `loads` because only some ranking rules read them.
    costs: Vec<u32>,
    regions: Vec<RegionIx>,
    region_names: Regions,
    /// Where this instance runs.
    region: Option<Region>,
    vacant: Vec<NodeIx>,
    last_serial: u64,
    tags: LanguageTags,
    offers: Offers,
    classes: CapabilityClasses,
    pools: Pools,
    /// What was found missing, until a node changes. So the same answer costs no second scan.
    shortages: SafeMap<Need, Option<Shortage>>,
    services_down: ServicesDown,
    scans: u64,
    /// Increases when anything but the load of a node changes.
    record_version: u64,
    /// Increases when a member changes its position or a pool its list.
    layout_version: u64,
}

impl Fleet {
    /// An empty fleet that keeps at most so many pools ready.
    pub fn with_bounds(bounds: PoolBounds) -> Self {
        Fleet { pools: Pools::new(bounds), ..Fleet::default() }
    }

    /// The same fleet as an instance in this region sees it.
    pub fn in_region(mut self, region: Option<Region>) -> Self {
        self.region = region;
        self
    }

    /// Adds a node or replaces what is known of it. Putting the same again changes nothing and costs O(1).
    pub fn put(&mut self, id: NodeId, entry: NodeEntry) {
        let Some(ix) = self.index_of(&id) else {
            return self.insert(id, entry);
        };
        let NodeEntry { profile, version, standing } = entry;
        let state = self.states[ix as usize].as_mut().expect(PRESENT);
        let other = !Arc::ptr_eq(&state.profile, &profile) && state.profile != profile;
        let changed = other || state.standing != standing;
        if other {
            self.services_down.remove(&state.profile);
            self.services_down.add(&profile);
        }
        (state.profile, state.standing) = (profile, standing);
        let max = if other { state.profile.max_slots } else { self.load(ix).max() };
        self.versions[ix as usize] = version;
        self.set_load(ix, self.load(ix).used(), max);
        if other {
            self.change_class(ix);
        }
        if changed {
            self.changed();
            self.update_membership(ix);
        }
    }

    /// Changes the node's standing and nothing else. Returns whether the node is known.
    pub fn set_standing(&mut self, id: &NodeId, standing: Standing) -> bool {
        let Some(ix) = self.index_of(id) else { return false };
        let state = self.states[ix as usize].as_mut().expect(PRESENT);
        if state.standing != standing {
            state.standing = standing;
            self.changed();
            self.update_membership(ix);
        }
        true
    }

    /// Removes the node. Returns whether it was known.
    pub fn remove(&mut self, id: &NodeId) -> bool {
        let Some(ix) = self.ids.remove(id) else { return false };
        self.remove_member(ix);
        self.leave_class(self.memberships[ix as usize].class);
        if let Some(state) = self.states[ix as usize].take() {
            self.services_down.remove(&state.profile);
        }
        self.vacant.push(ix);
        self.changed();
        true
    }

    /// Removes all nodes but those that `keep` accepts, as after a full resync with the store.
    pub fn retain(&mut self, mut keep: impl FnMut(&NodeId) -> bool) {
        let ids = self.nodes().map(|node| node.id());
        let gone: Vec<NodeId> = ids.filter(|id| !keep(id)).cloned().collect();
        for id in &gone {
            self.remove(id);
        }
    }

    /// The node with this id.
    pub fn get(&self, id: &NodeId) -> Option<Node<'_>> {
        self.index_of(id).map(|ix| self.node(ix))
    }

    /// All nodes, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.ids.iter().map(|ix| self.node(ix))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.ids.len() == 0
    }

    /// Sets how many of the node's slots are taken, and how many there are.
    pub fn set_usage(&mut self, id: &NodeId, used: u32, max: u32) {
        let Some(ix) = self.index_of(id) else { return };
        self.set_load(ix, used, max);
    }

    /// Adds the latency of a job, for each second of its speech, to the node's moving average. A failed job counts with the time it took, so
    /// that failing fast does not look like being fast.
    pub fn record_latency(&mut self, id: &NodeId, latency_ms: u32) {
        let Some(ix) = self.index_of(id) else { return };
        let state = self.states[ix as usize].as_mut().expect(PRESENT);
        let mean = state
            .latency_ms
            .map_or(u64::from(latency_ms), |old| (u64::from(old) * 7 + u64::from(latency_ms)) / 8);
        state.latency_ms = Some(u32::try_from(mean).unwrap_or(u32::MAX));
        self.loads[ix as usize].set_latency(state.latency_ms);
    }

    /// Halves the node's average latency, for a node that has been idle for a while. Otherwise a node that
    /// was slow once would get no job while quicker ones are idle.
    pub fn decay_latency(&mut self, id: &NodeId) {
        let Some(ix) = self.index_of(id) else { return };
        let state = self.states[ix as usize].as_mut().expect(PRESENT);
        state.latency_ms = state.latency_ms.map(|ms| ms / 2);
        self.loads[ix as usize].set_latency(state.latency_ms);
    }

    /// A random member of the pool, each with the same probability, full or not.
    pub fn pick(&mut self, route: Route, speech: bool, chance: u64) -> Option<Node<'_>> {
        let (at, _) = self.pool_of(route, Form { speech, typed: false }, &Asks::NONE)?;
        let mut chance = Chance::new(chance);
        loop {
            if let Some(ix) = self.draw(at, Subset::All, &mut chance)?.members().first().copied() {
                return Some(self.node(ix));
            }
        }
    }

    /// The members of the pool for such jobs: every node that serves the pair and takes jobs, and sometimes
    /// more (see [`Fleet::key`]). Nodes that take only jobs that name them are in no pool.
    pub fn members(&mut self, route: Route, speech: bool) -> impl Iterator<Item = Node<'_>> {
        self.members_of(route, Form { speech, typed: false }, &Asks::NONE)
    }

    /// The same for jobs like this one.
    pub fn members_for(&mut self, need: &Need) -> impl Iterator<Item = Node<'_>> {
        self.members_of(need.route, need.form(), &need.asks)
    }

    fn members_of(
        &mut self,
        route: Route,
        form: Form,
        asks: &Asks,
    ) -> impl Iterator<Item = Node<'_>> + use<'_> {
        let at = self.pool_of(route, form, asks);
        let classes = at.into_iter().flat_map(|(at, _)| self.pools.get(at).classes(&self.classes));
        classes.flat_map(|class| self.classes.members(class)).map(|ix| self.node(*ix))
    }

    /// The pools with the number of members of each. Members of classes that are not checked yet count too.
    pub fn pools(&self) -> impl Iterator<Item = (&PoolKey, usize)> {
        self.pools.iter().map(|pool| (pool.key(), pool.members(&self.classes)))
    }

    /// How often all nodes or classes were scanned, to build a pool or to say what is missing.
    pub fn scans(&self) -> u64 {
        self.scans
    }

    /// The key of the pool for such jobs; `None` if no node can serve them.
    ///
    /// Tags that no node distinguishes share a pool: if no node lists `en-AU`, its pool is that of `en`. So the
    /// number of pools follows from what nodes list and not from what clients ask for, and a language that
    /// no node lists costs no scan.
    pub fn key(&self, need: &Need) -> Option<PoolKey> {
        let asks = self.offers.pool_asks(&need.asks)?;
        self.tags.key(need.route, need.form(), asks).map(|(key, _)| key)
    }

    /// Counts the nodes that may take the job, and for each reason those that may not. O(nodes).
    pub fn explain(&self, need: &Need) -> Explanation {
        Explanation::of(self.nodes(), need)
    }

    /// What the fleet lacks for the job; `None` if a node may take it. Its text is the sentence for the
    /// caller. O(nodes) the first time, then O(1) until a node changes. O(1) for a language that no node lists.
    pub fn shortage(&mut self, need: &Need) -> Option<Shortage> {
        const KEPT: usize = 256;
        let mut missing = self.tags.unserved(need);
        missing.extend(self.offers.unserved(&need.asks));
        if !missing.is_empty() {
            return Some(Shortage::of_all(missing, &self.services_down));
        }
        if let Some(known) = self.shortages.get(need) {
            return known.clone();
        }
        self.scans += 1;
        let (tags, bits) = (&self.tags, self.classes.bits());
        // By the tags that nodes list, as in the keys of pools.
        let form = Form { speech: true, typed: need.typed };
        let mut wanted = |(src, tgt): (Lang, Lang)| {
            Signature::wanted(&tags.pool_tag(&src), &tags.pool_tag(&tgt), form, bits)
        };
        let wanted: Vec<Signature> = need.route.directions().map(&mut wanted).collect();
        let signature =
            |node: &Node<'_>| self.classes.signature(self.memberships[node.ix as usize].class);
        let nodes = self.nodes().map(|node| (node, signature(&node)));
        let found = Shortage::of(nodes, need, &wanted, &self.services_down);
        if self.shortages.len() == KEPT {
            self.shortages.clear();
        }
        self.shortages.insert(need.clone(), found.clone());
        found
    }

    fn insert(&mut self, id: NodeId, entry: NodeEntry) {
        let NodeEntry { profile, version, standing } = entry;
        let class = self.join_class(&profile);
        self.services_down.add(&profile);
        self.last_serial += 1;
        let serial = self.last_serial;
        let (used, max) = (0, profile.max_slots);
        let ix = self.vacant.pop().unwrap_or_else(|| {
            self.loads.push(Load::default());
            self.versions.push(version);
            self.memberships.push(Membership { class, position: NO_POSITION });
            self.states.push(None);
            self.costs.push(0);
            self.regions.push(RegionIx::NOWHERE);
            NodeIx::try_from(self.ids.capacity()).expect("fewer than 2^32 nodes")
        });
        self.ids.insert(ix, id);
        self.loads[ix as usize] = Load::default();
        self.versions[ix as usize] = version;
        self.memberships[ix as usize] = Membership { class, position: NO_POSITION };
        self.states[ix as usize] = Some(NodeState { profile, standing, latency_ms: None, serial });
        self.set_load(ix, used, max);
        self.changed();
        self.update_membership(ix);
    }

    fn changed(&mut self) {
        self.shortages.clear();
        self.record_version += 1;
    }
}

/// What choosing reads.
impl Fleet {
    pub(crate) fn node(&self, ix: NodeIx) -> Node<'_> {
        Node { fleet: self, ix }
    }

    pub(crate) fn load(&self, ix: NodeIx) -> Load {
        self.loads[ix as usize]
    }

    pub(crate) fn cost_micros(&self, ix: NodeIx) -> u32 {
        self.costs[ix as usize]
    }

    pub(in crate::fleet) fn region(&self, ix: NodeIx) -> RegionIx {
        self.regions[ix as usize]
    }

    /// The region near which a job is to be done: its own, or that of this instance.
    pub(in crate::fleet) fn near(&self, own: Option<&Region>) -> RegionIx {
        own.or(self.region.as_ref())
            .map_or(RegionIx::NOWHERE, |region| self.region_names.find(region))
    }

    pub(crate) fn id(&self, ix: NodeIx) -> &NodeId {
        self.ids.get(ix).expect(PRESENT)
    }

    pub(crate) fn version(&self, ix: NodeIx) -> ProfileVersion {
        self.versions[ix as usize]
    }

    /// The id of the node that was chosen.
    pub(crate) fn choose(&mut self, ix: NodeIx) -> NodeId {
        self.ids.note_chosen(ix);
        self.id(ix).clone()
    }

    /// Whether a node has this index now.
    pub(crate) fn exists(&self, ix: NodeIx) -> bool {
        self.ids.get(ix).is_some()
    }

    pub(crate) fn index_of(&self, id: &NodeId) -> Option<NodeIx> {
        self.ids.find(id)
    }

    fn state(&self, ix: NodeIx) -> &NodeState {
        self.states[ix as usize].as_ref().expect(PRESENT)
    }

    /// The highest serial of a node so far. Nodes that come later have higher ones.
    pub(crate) fn last_serial(&self) -> u64 {
        self.last_serial
    }

    /// Increases when a node may have become able or unable to take a job.
    pub(crate) fn record_version(&self) -> u64 {
        self.record_version
    }

    /// Increases when a cell of a pool may have another member than before.
    pub(crate) fn layout_version(&self) -> u64 {
        self.layout_version
    }

    /// The pool for such jobs, built if this is the first question for it, and whether every member is
    /// certain to serve the pair.
    pub(crate) fn pool_of(
        &mut self,
        route: Route,
        form: Form,
        asks: &Asks,
    ) -> Option<(PoolIx, bool)> {
        let (key, exact) = self.tags.key(route, form, self.offers.pool_asks(asks)?)?;
        if let Some(at) = self.pools.find(&key) {
            return Some((at, exact));
        }
        self.scans += 1;
        self.layout_version += 1;
        let pool = Pool::build(key, &mut self.classes);
        Some((self.pools.add(pool), exact))
    }
}

const PRESENT: &str = "classes and ids refer only to existing nodes";

#[cfg(test)]
pub(crate) use membership::tests::assert_sound;
#[cfg(test)]
pub(crate) mod tests;
