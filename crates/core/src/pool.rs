//! The fleet as one instance sees it, and the pools in it.
//!
//! A pool is a directed language pair, with or without speech, and the nodes that serve it. It is an
//! index derived from the node records in this [`Fleet`] and nothing else: it is built when a pair
//! is first asked for and kept right by every change of a node, in the same call. So a node is in
//! its pools the moment it is put and out of them the moment it loses the ability, and there is
//! nothing that could expire, be half written or be left behind.
//!
//! Nodes of the same abilities are in the same pools, so a pool is a list of *guilds*, and each node
//! sits in one guild: those with a free slot first, then the full ones. Whatever happens to a node
//! happens in its guild, and all pools see it at once, however many they are.
//!
//! Pools are a hint that is never too small: every node that may take a job is in the pool of that
//! job, and what the pair does not say (tenant, models, further services) is asked of each member by
//! the same predicate before it is chosen, and once more by the store.
//!
//! What changes cost, with P pools kept ready (at most [`MAX_POOLS`](crate::limits::MAX_POOLS)) and G
//! guilds:
//! - choosing: O(1) for each member looked at, see [`crate::select`];
//! - a placement or its end, a load report, a node that comes, goes or becomes unavailable: O(1)
//!   amortised;
//! - the first node of a guild, its last, or one with which the guild doubles: a glance at each of
//!   the P pools;
//! - a first question for a pair: a glance at each of the G guilds, a few nanoseconds.

mod draw;
mod explain;
mod guild;
mod index;
mod listing;
mod names;
mod node;
mod seating;
mod signature;
mod stopped;
mod tags;

pub use explain::{Ability, Explanation, Shortage};
pub(crate) use guild::Part;
pub(crate) use index::PoolIx;
pub use index::{PoolBounds, PoolKey};
pub(crate) use node::Load;
pub use node::{Node, NodeEntry, ProfileVersion};

use std::collections::HashMap;
use std::sync::Arc;

use crate::chance::Chance;
use crate::eligibility::{Need, Route, Standing};
use crate::ids::NodeId;
use crate::lang::Lang;
use crate::slots::Usage;
use guild::Guilds;
use index::{Pool, Pools};
use names::Names;
use node::{About, NO_SEAT, Post};
use signature::Signature;
use stopped::Stopped;
use tags::Tags;

/// For keys that strangers choose: no one can make them collide.
type SafeMap<K, V> = HashMap<K, V, foldhash::quality::RandomState>;

/// Where a node stands in the fleet. Reused after the node left, so it goes with a serial.
pub(crate) type NodeIx = u32;

/// The fleet view of one instance with its pools.
#[derive(Debug, Default)]
pub struct Fleet {
    /// What is known of each node is in the same place of these. They are apart because a job that
    /// chooses among very many nodes waits for every line of memory: so few are needed, and most of
    /// them stay close to the processor.
    loads: Vec<Load>,
    names: Names,
    versions: Vec<ProfileVersion>,
    posts: Vec<Post>,
    abouts: Vec<Option<About>>,
    vacant: Vec<NodeIx>,
    last_serial: u64,
    tags: Tags,
    guilds: Guilds,
    pools: Pools,
    /// What was found missing, until a node changes: saying no again costs no second scan.
    shortages: SafeMap<Need, Option<Shortage>>,
    stopped: Stopped,
    scans: u64,
    /// Rises when anything but the load of a node changes.
    changes: u64,
    /// Rises when any member changes its seat or any pool its list.
    moves: u64,
}

impl Fleet {
    /// An empty fleet that keeps at most so many pools ready.
    pub fn with_bounds(bounds: PoolBounds) -> Self {
        Fleet { pools: Pools::new(bounds), ..Fleet::default() }
    }

    /// Takes over what the store says about a node, as a whole. Whatever was here before, all pools
    /// are right afterwards; saying the same again changes nothing and costs O(1).
    pub fn put(&mut self, id: NodeId, entry: NodeEntry) {
        let Some(ix) = self.index_of(&id) else {
            return self.settle(id, entry);
        };
        let NodeEntry { profile, version, standing, usage } = entry;
        let about = self.abouts[ix as usize].as_mut().expect(THERE);
        let other = !Arc::ptr_eq(&about.profile, &profile) && about.profile != profile;
        let changed = other || about.standing != standing;
        if other {
            self.stopped.remove(&about.profile);
            self.stopped.add(&profile);
        }
        (about.profile, about.standing) = (profile, standing);
        let max = if other { about.profile.max_slots } else { self.load(ix).max() };
        self.versions[ix as usize] = version;
        self.set_load(ix, usage.map_or(self.load(ix).used(), Usage::used), max);
        if other {
            self.change_guild(ix);
        }
        if changed {
            self.changed();
            self.reseat(ix);
        }
    }

    /// The node's standing changed and nothing else did. Says whether the node is known.
    pub fn set_standing(&mut self, id: &NodeId, standing: Standing) -> bool {
        let Some(ix) = self.index_of(id) else { return false };
        let about = self.abouts[ix as usize].as_mut().expect(THERE);
        if about.standing != standing {
            about.standing = standing;
            self.changed();
            self.reseat(ix);
        }
        true
    }

    /// The node is gone. Says whether it was known.
    pub fn remove(&mut self, id: &NodeId) -> bool {
        let Some(ix) = self.names.remove(id) else { return false };
        self.leave_seat(ix);
        self.leave_guild(self.posts[ix as usize].guild);
        if let Some(about) = self.abouts[ix as usize].take() {
            self.stopped.remove(&about.profile);
        }
        self.vacant.push(ix);
        self.changed();
        true
    }

    /// Keeps only the nodes that `keep` wants, as after a full resync with the store.
    pub fn retain(&mut self, mut keep: impl FnMut(&NodeId) -> bool) {
        let ids = self.nodes().map(|node| node.id());
        let gone: Vec<NodeId> = ids.filter(|id| !keep(id)).cloned().collect();
        for id in &gone {
            self.remove(id);
        }
    }

    /// The node with this name.
    pub fn get(&self, id: &NodeId) -> Option<Node<'_>> {
        self.index_of(id).map(|ix| self.node(ix))
    }

    /// All nodes, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.names.iter().map(|ix| self.node(ix))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.names.len() == 0
    }

    /// A job of ours was granted a slot on the node: counts at once, before any report.
    pub fn placed(&mut self, id: &NodeId) {
        let Some(ix) = self.index_of(id) else { return };
        let load = self.load(ix);
        self.set_load(ix, load.used() + 1, load.max());
    }

    /// A job of ours gave its slot back.
    pub fn ended(&mut self, id: &NodeId) {
        let Some(ix) = self.index_of(id) else { return };
        let load = self.load(ix);
        self.set_load(ix, load.used().saturating_sub(1), load.max());
    }

    /// The true load, as a refusal or a report carries it.
    pub fn true_load(&mut self, id: &NodeId, used: u32, max: u32) {
        let Some(ix) = self.index_of(id) else { return };
        self.set_load(ix, used, max);
    }

    /// A job on the node ended after so long. A failed one is told with the time it wasted, so that
    /// failing fast does not look like being fast.
    pub fn took(&mut self, id: &NodeId, latency_ms: u32) {
        let Some(ix) = self.index_of(id) else { return };
        let about = self.abouts[ix as usize].as_mut().expect(THERE);
        let mean = about
            .latency_ms
            .map_or(u64::from(latency_ms), |old| (u64::from(old) * 7 + u64::from(latency_ms)) / 8);
        about.latency_ms = Some(u32::try_from(mean).unwrap_or(u32::MAX));
        self.loads[ix as usize].set_latency(about.latency_ms);
    }

    /// The node has had nothing to do for a while: what its last jobs took counts for half. Otherwise
    /// one that was slow once would never be asked again while quicker ones are idle.
    pub fn fade(&mut self, id: &NodeId) {
        let Some(ix) = self.index_of(id) else { return };
        let about = self.abouts[ix as usize].as_mut().expect(THERE);
        about.latency_ms = about.latency_ms.map(|ms| ms / 2);
        self.loads[ix as usize].set_latency(about.latency_ms);
    }

    /// One member of the pool, each with the same chance, full or not.
    pub fn pick(&mut self, route: Route, speech: bool, chance: u64) -> Option<Node<'_>> {
        let (at, _) = self.pool_of(route, speech)?;
        let mut chance = Chance::new(chance);
        loop {
            if let Some(ix) = self.draw(at, Part::All, &mut chance)?.members().first().copied() {
                return Some(self.node(ix));
            }
        }
    }

    /// The members of the pool that jobs of this kind choose from: every node that serves the pair
    /// and takes jobs, and at times some more (see [`Fleet::key`]). Nodes that take only jobs that
    /// name them are in no pool.
    pub fn members(&mut self, route: Route, speech: bool) -> impl Iterator<Item = Node<'_>> {
        let at = self.pool_of(route, speech);
        let guilds = at.into_iter().flat_map(|(at, _)| self.pools.get(at).guilds(&self.guilds));
        guilds.flat_map(|guild| self.guilds.members(guild)).map(|ix| self.node(*ix))
    }

    /// The pools kept ready, with the number of members of each; a few too many where a pool has so
    /// many different nodes that not all have been looked at closely yet.
    pub fn pools(&self) -> impl Iterator<Item = (&PoolKey, usize)> {
        self.pools.iter().map(|pool| (pool.key(), pool.members(&self.guilds)))
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
            let stopped = self.stopped.needed_for(&missing);
            return Some(Shortage::Missing(missing, stopped));
        }
        if let Some(known) = self.shortages.get(need) {
            return known.clone();
        }
        self.scans += 1;
        let (tags, bits) = (&self.tags, self.guilds.bits());
        // In the words of the nodes, as pools are.
        let mut wanted = |(src, tgt): (Lang, Lang)| {
            Signature::wanted(&tags.nearest(&src), &tags.nearest(&tgt), true, bits)
        };
        let wanted: Vec<Signature> = need.route.directions().map(&mut wanted).collect();
        let signature = |node: &Node<'_>| self.guilds.signature(self.posts[node.ix as usize].guild);
        let nodes = self.nodes().map(|node| (node, signature(&node)));
        let found = Shortage::of(nodes, need, &wanted, &self.stopped);
        if self.shortages.len() == KEPT {
            self.shortages.clear();
        }
        self.shortages.insert(need.clone(), found.clone());
        found
    }

    fn settle(&mut self, id: NodeId, entry: NodeEntry) {
        let NodeEntry { profile, version, standing, usage } = entry;
        let guild = self.enter_guild(&profile);
        self.stopped.add(&profile);
        self.last_serial += 1;
        let serial = self.last_serial;
        let (used, max) = (usage.unwrap_or_default().used(), profile.max_slots);
        let ix = self.vacant.pop().unwrap_or_else(|| {
            self.loads.push(Load::default());
            self.versions.push(version);
            self.posts.push(Post { guild, seat: NO_SEAT });
            self.abouts.push(None);
            NodeIx::try_from(self.names.places()).expect("fewer than 2^32 nodes")
        });
        self.names.insert(ix, id);
        self.loads[ix as usize] = Load::default();
        self.versions[ix as usize] = version;
        self.posts[ix as usize] = Post { guild, seat: NO_SEAT };
        self.abouts[ix as usize] = Some(About { profile, standing, latency_ms: None, serial });
        self.set_load(ix, used, max);
        self.changed();
        self.reseat(ix);
    }

    fn changed(&mut self) {
        self.shortages.clear();
        self.changes += 1;
    }
}

/// What choosing needs to see.
impl Fleet {
    pub(crate) fn node(&self, ix: NodeIx) -> Node<'_> {
        Node { fleet: self, ix }
    }

    pub(crate) fn load(&self, ix: NodeIx) -> Load {
        self.loads[ix as usize]
    }

    pub(crate) fn name(&self, ix: NodeIx) -> &NodeId {
        self.names.get(ix).expect(THERE)
    }

    pub(crate) fn version(&self, ix: NodeIx) -> ProfileVersion {
        self.versions[ix as usize]
    }

    /// The name of the node that was chosen.
    pub(crate) fn chosen(&mut self, ix: NodeIx) -> NodeId {
        self.names.choose(ix);
        self.name(ix).clone()
    }

    /// Whether a node stands there now.
    pub(crate) fn is_there(&self, ix: NodeIx) -> bool {
        self.names.get(ix).is_some()
    }

    pub(crate) fn index_of(&self, id: &NodeId) -> Option<NodeIx> {
        self.names.find(id)
    }

    fn about(&self, ix: NodeIx) -> &About {
        self.abouts[ix as usize].as_ref().expect(THERE)
    }

    /// Not below the serial of any node that is there now, and below that of any that comes.
    pub(crate) fn last_serial(&self) -> u64 {
        self.last_serial
    }

    /// Rises whenever a node may have become able or unable to take some job.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Rises whenever some spot of some pool stands for another node than before.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// The pool for such jobs, built now if this is the first question for it, and whether every
    /// member has all that the pair asks for.
    pub(crate) fn pool_of(&mut self, route: Route, speech: bool) -> Option<(PoolIx, bool)> {
        let (key, exact) = self.tags.key(route, speech)?;
        if let Some(at) = self.pools.find(&key) {
            return Some((at, exact));
        }
        self.scans += 1;
        self.moves += 1;
        let pool = Pool::build(key, &mut self.guilds);
        Some((self.pools.add(pool), exact))
    }
}

const THERE: &str = "guilds, names and lists hold only nodes that are there";

#[cfg(test)]
pub(crate) use seating::tests::assert_sound;
#[cfg(test)]
pub(crate) mod tests;
