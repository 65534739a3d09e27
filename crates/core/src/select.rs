//! The order in which one job tries nodes.
//!
//! A [`Selector`] gives one candidate after the other; the caller asks the store for a slot on it
//! and comes back if it was refused. The order is:
//!
//! 1. the preferred node, if it may take the job; with `strict` only this one;
//! 2. the node to which the parts of a cut utterance are bound, if it may take the job;
//! 3. `sample_k` members of the pool drawn at random among those with a free slot, ordered by load
//!    share, then recent latency, at random among equals;
//! 4. the rest of those with a free slot, in random order;
//! 5. nodes with a free slot that are better spared: the one that heard the session's last
//!    utterance, and those over the exposure cap. They go behind and are not excluded: an answer
//!    from a node that has heard much is worth more than none;
//! 6. the rest of the pool, full as far as this instance knows, in random order: the store knows
//!    better.
//!
//! Nodes that failed this job never appear, and no node appears twice. Steps 4 and 6 give at most
//! `scan_bound` candidates together, because each costs a question to the store; members that are
//! merely looked at do not count, so a free slot that this instance knows of is always found.
//!
//! Nothing is borrowed between two candidates: the fleet may change while the caller waits for the
//! store. Who has left is passed over, who has come may be met, and nobody who stayed is missed
//! unless the order of the pool changes during the very last pass.
//!
//! A look at a member costs O(1), and the number of looks does not depend on the size of the pool
//! as long as the job can use the members it meets. Only a job that most of the pool may not take
//! (a tenant that few nodes allow, a model that most miss) looks further, at worst at each once.

mod answer;
mod chance;
mod wish;

pub use answer::{Candidate, Passed, Source, Verdict};
pub use wish::{Heard, SelectPolicy, Wish};

use crate::eligibility::Need;
use crate::ids::NodeId;
use crate::pool::{Brief, Fleet, NodeIx, PoolIx};
use chance::{Chance, Walk};

/// Looks at random members for each one wanted in the sample, before the orderly walk takes over.
const LOOKS_PER_DRAW: usize = 4;

/// The choosing of a node for one dispatch of one job.
#[derive(Clone, Debug)]
pub struct Selector {
    need: Need,
    wish: Wish,
    policy: SelectPolicy,
    chance: Chance,
    stage: Stage,
    /// Serials of the nodes that were candidates.
    tried: Vec<u64>,
    /// What waits to be candidate in this stage.
    queue: Vec<Drawn>,
    /// Nodes better spared.
    spared: Vec<Drawn>,
    walk: Walk,
    /// The pool's order when the walk began, and whether it has found anybody.
    walk_order: (u64, bool),
    /// Being a member of the pool is all that the job asks of a node that takes everybody's jobs.
    plain: bool,
    scan_left: usize,
    looks: u64,
    preferred_passed: Option<Passed>,
    turn_passed: Option<Passed>,
    met: Met,
}

#[derive(Clone, Copy, Debug)]
struct Drawn {
    rank: u64,
    node: NodeIx,
    serial: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Met {
    eligible: bool,
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Preferred,
    Turn,
    Draw,
    Sample,
    Rest,
    Spared,
    Full,
    Over,
}

impl Selector {
    /// Begins to choose. `chance` is 64 fresh bits from the operating system's randomness: with the
    /// same bits, fleet and wish the choice is the same, and bits of one job say nothing about
    /// another's.
    pub fn new(need: Need, wish: Wish, policy: SelectPolicy, chance: u64) -> Self {
        Selector {
            need: Need { named: false, ..need },
            wish,
            policy,
            chance: Chance::new(chance),
            stage: Stage::Preferred,
            tried: Vec::new(),
            queue: Vec::new(),
            spared: Vec::new(),
            walk: Walk::default(),
            walk_order: (0, false),
            plain: false,
            scan_left: policy.scan_bound.max(1),
            looks: 0,
            preferred_passed: None,
            turn_passed: None,
            met: Met::default(),
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
                    self.stage = Stage::Draw;
                    (self.turn(fleet), Source::Turn, Stage::Draw)
                }
                Stage::Draw => {
                    self.draw(fleet);
                    (None, Source::Sample, Stage::Sample)
                }
                Stage::Sample => (self.pop_queue(fleet), Source::Sample, Stage::Rest),
                Stage::Rest => (self.step_walk(fleet, false), Source::Rest, Stage::Spared),
                Stage::Spared => (self.pop_queue(fleet), Source::Spared, Stage::Full),
                Stage::Full => (self.step_walk(fleet, true), Source::Full, Stage::Over),
                Stage::Over => return None,
            };
            if let Some(ix) = found {
                let node = fleet.node(ix);
                self.tried.push(fleet.brief(ix).serial);
                let (id, version) = (node.id().clone(), node.version().clone());
                return Some(Candidate { node: id, version, source });
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
            _ if !self.tried.is_empty() || self.met.eligible => Verdict::Busy,
            _ if self.met.failed => Verdict::OnlyFailed,
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

    fn enter(&mut self, stage: Stage, fleet: &mut Fleet) {
        self.stage = stage;
        match stage {
            Stage::Rest => self.start_walk(fleet, false),
            Stage::Spared => self.queue = std::mem::take(&mut self.spared),
            Stage::Full => self.start_walk(fleet, true),
            _ => {}
        }
    }

    fn pool(&mut self, fleet: &mut Fleet) -> Option<PoolIx> {
        let (at, exact) = fleet.pool_of(self.need.route, self.need.speech)?;
        self.plain = exact && self.need.services.is_empty() && self.need.models.is_empty();
        Some(at)
    }

    fn preferred(&mut self, fleet: &Fleet) -> Option<NodeIx> {
        let id = self.wish.preferred.clone()?;
        // Only for the node it names does the job name it.
        self.need.named = true;
        let found = self.by_name(fleet, &id);
        self.need.named = false;
        self.preferred_passed = found.err();
        found.ok()
    }

    fn turn(&mut self, fleet: &Fleet) -> Option<NodeIx> {
        let id = self.wish.turn_node.clone()?;
        let found = self.by_name(fleet, &id);
        self.turn_passed = found.err();
        found.ok().filter(|ix| !self.tried.contains(&fleet.brief(*ix).serial))
    }

    /// A named node is a candidate also when it looks full: who asks for it would rather ask the
    /// store once too often.
    fn by_name(&mut self, fleet: &Fleet, id: &NodeId) -> Result<NodeIx, Passed> {
        let ix = fleet.index_of(id).ok_or(Passed::Unknown)?;
        self.looks += 1;
        let why = fleet.node(ix).why_not(&self.need);
        if !why.is_empty() {
            return Err(Passed::NotEligible(why));
        }
        if self.wish.excluded.contains(id) {
            self.met.failed = true;
            return Err(Passed::Excluded);
        }
        self.met.eligible = true;
        Ok(ix)
    }

    /// Whether the member of the pool could be the next candidate, full or not. Members have passed
    /// most of the predicate when they joined; it is asked again only where the job asks for more.
    fn usable(&mut self, fleet: &Fleet, member: NodeIx) -> bool {
        self.looks += 1;
        let brief = fleet.brief(member);
        !self.tried.contains(&brief.serial)
            && (self.plain && brief.open || fleet.node(member).may_take(&self.need))
            && self.not_failed(fleet, member)
    }

    fn not_failed(&mut self, fleet: &Fleet, able: NodeIx) -> bool {
        let excluded = &self.wish.excluded;
        let failed = !excluded.is_empty() && excluded.contains(fleet.node(able).id());
        self.met.failed |= failed;
        self.met.eligible |= !failed;
        !failed
    }

    fn is_spared(&self, serial: u64) -> bool {
        self.spared.iter().any(|spared| spared.serial == serial)
    }

    fn draw(&mut self, fleet: &mut Fleet) {
        self.find_spared(fleet);
        let Some(at) = self.pool(fleet) else { return };
        let wanted = self.policy.sample_k;
        self.queue.reserve(wanted.min(fleet.pool(at).roomy()));
        let roomy = fleet.pool(at).roomy();
        if roomy <= wanted {
            // From the end, so that listing one as full moves only members already looked at.
            for i in (0..roomy).rev() {
                self.look_at(fleet, at, i);
            }
        } else {
            for _ in 0..wanted * LOOKS_PER_DRAW {
                let roomy = fleet.pool(at).roomy();
                if roomy == 0 || self.queue.len() == wanted {
                    break;
                }
                let i = self.chance.below(roomy);
                self.look_at(fleet, at, i);
            }
        }
    }

    fn look_at(&mut self, fleet: &mut Fleet, at: PoolIx, i: usize) {
        let ix = fleet.pool(at).members()[i];
        let brief = fleet.brief(ix);
        if brief.full {
            self.looks += 1;
            fleet.set_full(at, ix);
        } else if !self.queue.iter().any(|drawn| drawn.serial == brief.serial)
            && !self.is_spared(brief.serial)
            && self.usable(fleet, ix)
        {
            let rank = rank(brief, self.chance.next());
            self.queue.push(Drawn { rank, node: ix, serial: brief.serial });
        }
    }

    fn find_spared(&mut self, fleet: &Fleet) {
        let over = self.wish.heard.over_cap(self.policy.exposure_cap_percent);
        let mut demerits: Vec<(&NodeId, u64)> = over.map(|id| (id, 2)).collect();
        if let Some(last) = &self.wish.avoid_last {
            match demerits.iter_mut().find(|(id, _)| *id == last) {
                Some((_, demerit)) => *demerit += 1,
                None => demerits.push((last, 1)),
            }
        }
        for (id, demerit) in demerits {
            if let Some(ix) = fleet.index_of(id) {
                let brief = fleet.brief(ix);
                let rank = demerit << 60 | rank(brief, self.chance.next()) >> 4;
                self.spared.push(Drawn { rank, node: ix, serial: brief.serial });
            }
        }
    }

    /// The best of the queue that is still there, still able and not yet full.
    fn pop_queue(&mut self, fleet: &Fleet) -> Option<NodeIx> {
        while let Some(best) = (0..self.queue.len()).min_by_key(|i| self.queue[*i].rank) {
            let drawn = self.queue.swap_remove(best);
            // What was drawn may have left the pool since: it is judged as if never seen.
            if let Some(node) = fleet.node_if(drawn.node, drawn.serial)
                && !(node.is_full() || self.tried.contains(&drawn.serial))
                && node.may_take(&self.need)
                && self.not_failed(fleet, drawn.node)
            {
                return Some(drawn.node);
            }
        }
        None
    }

    fn start_walk(&mut self, fleet: &mut Fleet, full: bool) {
        self.walk = Walk::default();
        if let Some(at) = self.pool(fleet) {
            let pool = fleet.pool(at);
            let members = if full { pool.members().len() } else { pool.roomy() };
            self.walk = Walk::over(members, &mut self.chance);
            self.walk_order = (pool.order(), false);
        }
    }

    /// The next usable member on a walk through the roomy part of the pool, or through all of it.
    fn step_walk(&mut self, fleet: &mut Fleet, full: bool) -> Option<NodeIx> {
        if self.scan_left == 0 {
            return None;
        }
        let at = self.pool(fleet)?;
        loop {
            let Some(i) = self.walk.next() else {
                let (order, found) = self.walk_order;
                if !(full && found && order != fleet.pool(at).order()) {
                    return None;
                }
                // Somebody may have slipped past while the order changed: once more through all.
                self.start_walk(fleet, full);
                continue;
            };
            if !full {
                self.list_full_ones(fleet, at, i);
            }
            let pool = fleet.pool(at);
            let end = if full { pool.members().len() } else { pool.roomy() };
            let Some(ix) = pool.members()[..end].get(i).copied() else { continue };
            let spared = !full && self.is_spared(fleet.brief(ix).serial);
            if !spared && self.usable(fleet, ix) {
                self.scan_left -= 1;
                self.walk_order.1 = true;
                return Some(ix);
            }
        }
    }

    /// Lists members at this place of the roomy part as full for as long as they are. Whoever takes
    /// the place comes from the end of the part and is looked at next, so a walk misses nobody.
    fn list_full_ones(&mut self, fleet: &mut Fleet, at: PoolIx, i: usize) {
        while i < fleet.pool(at).roomy() {
            let ix = fleet.pool(at).members()[i];
            if !fleet.brief(ix).full {
                return;
            }
            self.looks += 1;
            fleet.set_full(at, ix);
        }
    }
}

/// The lower the better: load share, then latency, then chance.
fn rank(brief: Brief, chance: u64) -> u64 {
    u64::from(brief.rank) << 34 | chance >> 30
}

#[cfg(test)]
mod tests;
