//! The sample: some members with a free slot, drawn at random, the best by rank first.

use super::Selector;
use crate::fleet::capability_class::Subset;
use crate::fleet::rules::{Facts, Rank};
use crate::fleet::{Fleet, NodeIx};
use crate::ids::NodeId;

/// Random members looked at for each one wanted in the sample, before the scan takes over.
pub(super) const LOOKS_PER_DRAW: usize = 4;

/// Members of the best possible order after which drawing stops. With one, its latency would not count;
/// with twenty, an idle fleet would cost as many looks as a busy one.
const ENOUGH_BEST: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    rank: Rank,
    node: NodeIx,
    /// The fleet's record version at which it could take the job.
    record_version: Option<u64>,
}

impl Selector {
    /// The best of what is drawn, after drawing more if none of the best possible order is among it.
    pub(super) fn sample(&mut self, fleet: &mut Fleet) -> Option<NodeIx> {
        loop {
            if !self.queue.iter().any(|drawn| drawn.rank.is_best()) {
                self.draw(fleet);
            }
            let drawn = self.pop_queue()?;
            if self.is_valid(fleet, &drawn)
                && !self.is_spared(fleet, drawn.node)
                && self.not_failed(fleet, drawn.node)
            {
                return Some(drawn.node);
            }
        }
    }

    fn draw(&mut self, fleet: &mut Fleet) {
        let wanted = self.sample_left.min(self.draws_left);
        let Some(at) = self.pool(fleet).filter(|_| wanted > 0) else { return };
        self.queue.reserve(wanted);
        let mut best = 0;
        if let Some(mut sample) = fleet.small_pool(at, Subset::Free) {
            let members = sample.members();
            for i in 0..members.len() {
                if self.sample_left == 0 || best == ENOUGH_BEST {
                    return;
                }
                members.swap(i, i + self.chance.below(members.len() - i));
                best += usize::from(self.take(fleet, members[i]));
            }
            // That were all of them.
            self.sample_left = 0;
            return;
        }
        while let Some(mut sample) = fleet.draw(at, Subset::Free, &mut self.chance) {
            for ix in sample.members() {
                if self.sample_left == 0 || self.draws_left == 0 || best == ENOUGH_BEST {
                    return;
                }
                self.draws_left -= 1;
                best += usize::from(self.take(fleet, *ix));
            }
        }
    }

    /// Adds the member to the sample if it could be a candidate. Returns whether it was added and has the best
    /// possible order.
    fn take(&mut self, fleet: &Fleet, ix: NodeIx) -> bool {
        let known = self.queue.iter().any(|drawn| drawn.node == ix) || self.was_tried(fleet, ix);
        if known || !self.able(fleet, ix) {
            return false;
        }
        if fleet.load(ix).is_last_resort() {
            return false;
        }
        let rank = self.rank(fleet, ix);
        if rank.is_best() {
            // It will probably be chosen: this loads its id into the cache.
            std::hint::black_box(fleet.exists(ix));
        }
        // The order of the queue is random, and decides among equals.
        self.queue.push(Drawn { rank, node: ix, record_version: Some(fleet.record_version()) });
        self.sample_left -= 1;
        rank.is_best()
    }

    fn rank(&self, fleet: &Fleet, node: NodeIx) -> Rank {
        self.policy.rank.rank(&Facts::of(fleet, node, self.wish.region.as_ref()))
    }

    pub(super) fn find_spared(&mut self, fleet: &Fleet) {
        let over = self.wish.heard.over_cap(self.policy.exposure_cap_percent);
        let mut demerits: Vec<(&NodeId, u64)> = over.map(|id| (id, 2)).collect();
        if let Some(last) = &self.wish.avoid_last {
            match demerits.iter_mut().find(|(id, _)| *id == last) {
                Some((_, demerit)) => *demerit += 1,
                None => demerits.push((last, 1)),
            }
        }
        for i in 0..demerits.len() {
            // In random order, which decides among equals.
            let other = i + self.chance.below(demerits.len() - i);
            demerits.swap(i, other);
            let (id, demerit) = demerits[i];
            if let Some(node) = fleet.index_of(id) {
                let rank = self.rank(fleet, node).after(demerit);
                self.queue.push(Drawn { rank, node, record_version: None });
            }
        }
    }

    /// The best of the spared.
    pub(super) fn spared(&mut self, fleet: &Fleet) -> Option<NodeIx> {
        loop {
            let drawn = self.pop_queue()?;
            if self.is_valid(fleet, &drawn)
                && !fleet.load(drawn.node).is_last_resort()
                && self.not_failed(fleet, drawn.node)
            {
                return Some(drawn.node);
            }
        }
    }

    fn pop_queue(&mut self) -> Option<Drawn> {
        let best = (0..self.queue.len()).min_by_key(|i| self.queue[*i].rank)?;
        Some(self.queue.swap_remove(best))
    }

    /// Whether the drawn node still exists, may take the job, is not full and was no candidate. If another node
    /// got its index meanwhile, that one is checked like any other.
    fn is_valid(&self, fleet: &Fleet, drawn: &Drawn) -> bool {
        fleet.exists(drawn.node)
            && !fleet.load(drawn.node).is_full()
            && (drawn.record_version == Some(fleet.record_version())
                || fleet.node(drawn.node).may_take(&self.need))
            && !self.was_tried(fleet, drawn.node)
    }
}
