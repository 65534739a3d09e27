//! The order in which one job tries nodes.
//!
//! A [`Selector`] gives one candidate after the other. The caller asks the store for a slot on it, and for
//! the next candidate if that is refused. The order is:
//!
//! 1. the preferred node, if it may take the job; with `strict` only this one;
//! 2. the node to which the parts of a cut utterance are bound, if it may take the job;
//! 3. `sample_k` members of the pool drawn at random among those with a free slot, ordered by the
//!    [`RankRule`](super::RankRule) (by default load share, then recent latency), at random among equals. Drawing stops
//!    while a few of the best possible rank wait to be tried: further draws could find no better;
//! 4. the rest of those with a free slot, in random order;
//! 5. nodes with a free slot that are spared: the one that heard the session's last utterance, and those over
//!    the exposure cap. They are not excluded: an answer from a node that has heard much is better than none;
//! 6. nodes with a free slot that are a last resort: those that report too little resource left, and
//!    those of little trust that have as many jobs as they are trusted with;
//! 7. the rest of the pool, full as far as this instance knows, in random order: the store decides.
//!
//! Nodes that failed this job never appear, and no node appears twice. Steps 4, 6 and 7 give at most
//! `scan_bound` candidates together, because each costs a request to the store. Members that are
//! only looked at do not count, so a free slot that this instance knows of is always found.
//!
//! Nothing is borrowed between two candidates: the fleet may change while the caller waits for the store.
//! Nodes that left are skipped, nodes that joined may be found, and no node that stayed is missed, unless
//! members change positions during the very last pass.
//!
//! Looking at a member costs O(1), and the number of looks does not depend on the size of the pool as long as
//! the job can use the members it draws. Only a job that most of the pool may not take (a tenant that few
//! nodes allow, a model that most miss) looks at more, in the worst case at each member once.

mod answer;
mod sample;
mod search;
mod wish;

pub use answer::{Candidate, Passed, Source, Verdict};
pub use wish::{Heard, SelectPolicy, Wish};

use super::capability_class::Subset;
use super::index::PoolIx;
use super::{Fleet, NodeIx};
use crate::chance::Chance;
use crate::eligibility::Need;
use crate::ids::NodeId;
use sample::{Drawn, LOOKS_PER_DRAW};
use search::Scan;

/// Chooses a node for one dispatch of one job.
#[derive(Clone, Debug)]
pub struct Selector {
    need: Need,
    wish: Wish,
    policy: SelectPolicy,
    chance: Chance,
    stage: Stage,
    /// The nodes that were candidates.
    tried: Vec<Tried>,
    /// What waits to be candidate in this stage.
    queue: Vec<Drawn>,
    /// How many members the sample still lacks.
    sample_left: usize,
    /// How many looks may be taken to find them.
    draws_left: usize,
    /// The scan of the pool in this stage, once it was started.
    scan: Option<Scan>,
    /// Any member of the pool that takes the jobs of all tenants may take the job.
    plain: bool,
    scan_left: usize,
    looks: u64,
    preferred_passed: Option<Passed>,
    turn_passed: Option<Passed>,
    seen: Seen,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    node: NodeIx,
    /// A node that got the same index later has a higher one.
    serial: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    eligible: bool,
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Preferred,
    Turn,
    Sample,
    Rest,
    Spared,
    LastResort,
    Full,
    Over,
}

impl Selector {
    /// Starts choosing. `chance` is 64 fresh random bits of the operating system. The choice is a function of
    /// them, the fleet and the wish.
    pub fn new(need: Need, wish: Wish, policy: SelectPolicy, chance: u64) -> Self {
        Selector {
            need: Need { named: false, ..need },
            wish,
            policy,
            chance: Chance::new(chance),
            stage: Stage::Preferred,
            tried: Vec::new(),
            queue: Vec::new(),
            sample_left: policy.sample_k,
            draws_left: policy.sample_k * LOOKS_PER_DRAW,
            scan: None,
            plain: false,
            scan_left: policy.scan_bound.max(1),
            looks: 0,
            preferred_passed: None,
            turn_passed: None,
            seen: Seen::default(),
        }
    }

    /// The next node to ask, or `None` when there is none; then see [`Selector::verdict`].
    pub fn next(&mut self, fleet: &mut Fleet) -> Option<Candidate> {
        loop {
            let (found, source, after) = match self.stage {
                Stage::Preferred => {
                    let found = self.preferred(fleet);
                    let strict = self.wish.strict && self.wish.preferred.is_some();
                    self.stage = if strict { Stage::Over } else { Stage::Turn };
                    (found, Source::Preferred, self.stage)
                }
                Stage::Turn => {
                    self.stage = Stage::Sample;
                    (self.turn(fleet), Source::Turn, Stage::Sample)
                }
                Stage::Sample => (self.sample(fleet), Source::Sample, Stage::Rest),
                Stage::Rest => (self.search(fleet, Subset::Free), Source::Rest, Stage::Spared),
                Stage::Spared => (self.spared(fleet), Source::Spared, Stage::LastResort),
                Stage::LastResort => {
                    (self.search(fleet, Subset::Free), Source::Spared, Stage::Full)
                }
                Stage::Full => (self.search(fleet, Subset::All), Source::Full, Stage::Over),
                Stage::Over => return None,
            };
            if let Some(ix) = found {
                self.tried.push(Tried { node: ix, serial: fleet.last_serial() });
                let (version, node) = (fleet.version(ix), fleet.choose(ix));
                return Some(Candidate { node, version, source });
            }
            self.enter(after, fleet);
        }
    }

    /// The node failed this job: it is no candidate any more.
    pub fn exclude(&mut self, node: NodeId) {
        if !self.wish.excluded.contains(&node) {
            self.wish.excluded.push(node);
        }
    }

    /// What it means that [`Selector::next`] gave `None`.
    pub fn verdict(&self) -> Verdict {
        match (self.wish.preferred.is_some() && self.wish.strict, self.preferred_passed) {
            (true, Some(passed)) => Verdict::PreferredNotCapable(passed),
            (true, None) => Verdict::PreferredBusy,
            _ if !self.tried.is_empty() || self.seen.eligible => Verdict::Busy,
            _ if self.seen.failed => Verdict::OnlyFailed,
            _ => Verdict::NoneEligible,
        }
    }

    /// Why the preferred node was no candidate, if there is one and it was not.
    pub fn preferred_passed(&self) -> Option<Passed> {
        self.preferred_passed
    }

    /// Why the node of the turn was no candidate, if there is one and it was not. Then the binding
    /// is to be written anew.
    pub fn turn_passed(&self) -> Option<Passed> {
        self.turn_passed
    }

    /// How many nodes were candidates so far.
    pub fn candidates(&self) -> usize {
        self.tried.len()
    }

    /// How many members of pools were looked at so far.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// What the job asks for.
    pub fn need(&self) -> &Need {
        &self.need
    }

    fn enter(&mut self, stage: Stage, fleet: &Fleet) {
        self.stage = stage;
        self.scan = None;
        if stage == Stage::Spared {
            self.find_spared(fleet);
        }
    }

    fn pool(&mut self, fleet: &mut Fleet) -> Option<PoolIx> {
        let asks = &self.need.asks;
        let (at, exact) = fleet.pool_of(self.need.route, self.need.form(), asks)?;
        // Each node may have reported one of these missing.
        self.plain = exact && asks.services.is_empty() && asks.models.is_empty();
        Some(at)
    }

    fn preferred(&mut self, fleet: &Fleet) -> Option<NodeIx> {
        let id = self.wish.preferred.clone()?;
        // `named` opens only the node that the job names.
        self.need.named = true;
        let found = self.by_id(fleet, &id);
        self.need.named = false;
        self.preferred_passed = found.err();
        found.ok()
    }

    fn turn(&mut self, fleet: &Fleet) -> Option<NodeIx> {
        let id = self.wish.turn_node.clone()?;
        let found = self.by_id(fleet, &id);
        self.turn_passed = found.err();
        found.ok().filter(|ix| !self.was_tried(fleet, *ix))
    }

    /// A node that is named is a candidate also when it looks full: the store decides.
    fn by_id(&mut self, fleet: &Fleet, id: &NodeId) -> Result<NodeIx, Passed> {
        let ix = fleet.index_of(id).ok_or(Passed::Unknown)?;
        self.looks += 1;
        let why = fleet.node(ix).why_not(&self.need);
        if !why.is_empty() {
            return Err(Passed::NotEligible(why));
        }
        if self.wish.excluded.contains(id) {
            self.seen.failed = true;
            return Err(Passed::Excluded);
        }
        self.seen.eligible = true;
        Ok(ix)
    }

    /// Whether the member of the pool may take the job, full or not. It passed most of the predicate when it
    /// joined the pool; the rest is checked only if the job asks for more.
    fn able(&mut self, fleet: &Fleet, member: NodeIx) -> bool {
        self.looks += 1;
        self.plain && fleet.load(member).is_open() || fleet.node(member).may_take(&self.need)
    }

    fn was_tried(&self, fleet: &Fleet, node: NodeIx) -> bool {
        // Comparing the index first nearly always saves reading the node.
        let same = |tried: &Tried| tried.node == node && tried.serial >= fleet.node(node).serial();
        self.tried.iter().any(same)
    }

    fn not_failed(&mut self, fleet: &Fleet, able: NodeIx) -> bool {
        let excluded = &self.wish.excluded;
        let failed = !excluded.is_empty() && excluded.contains(fleet.node(able).id());
        self.seen.failed |= failed;
        self.seen.eligible |= !failed;
        !failed
    }

    fn is_spared(&self, fleet: &Fleet, node: NodeIx) -> bool {
        if fleet.load(node).is_last_resort() {
            return true;
        }
        let id = fleet.node(node).id();
        self.wish.avoid_last.as_ref() == Some(id)
            || self.wish.heard.is_over_cap(id, self.policy.exposure_cap_percent)
    }
}

#[cfg(test)]
mod tests;
