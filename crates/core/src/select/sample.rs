//! The sample: some members with a free slot, drawn at random, the least loaded first.

use super::Selector;
use crate::ids::NodeId;
use crate::pool::{Fleet, NodeIx, Part};

/// Looks at random members for each one wanted in the sample, before the orderly walk takes over.
pub(super) const LOOKS_PER_DRAW: usize = 4;

/// Idle members that are enough to choose from: the quickest of four. Of one alone its latency would
/// not count at all, and with twenty as many looks would be taken in an idle fleet as in a busy one.
const IDLE_ENOUGH: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    /// The lower the better.
    rank: u64,
    node: NodeIx,
    /// The state of the fleet in which it could take the job.
    changes: Option<u64>,
}

impl Drawn {
    fn is_idle(&self) -> bool {
        self.rank < 1 << 6
    }
}

impl Selector {
    /// The best of what is drawn, after drawing more if no idle one is among it.
    pub(super) fn sample(&mut self, fleet: &mut Fleet) -> Option<NodeIx> {
        loop {
            if !self.queue.iter().any(Drawn::is_idle) {
                self.draw(fleet);
            }
            let drawn = self.pop_queue()?;
            if self.stands(fleet, &drawn)
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
        let mut idle = 0;
        if let Some(mut hand) = fleet.few(at, Part::Free) {
            let members = hand.members();
            for i in 0..members.len() {
                if self.sample_left == 0 || idle == IDLE_ENOUGH {
                    return;
                }
                members.swap(i, i + self.chance.below(members.len() - i));
                idle += usize::from(self.take(fleet, members[i]));
            }
            // All have been seen.
            self.sample_left = 0;
            return;
        }
        while let Some(mut hand) = fleet.draw(at, Part::Free, &mut self.chance) {
            for ix in hand.members() {
                if self.sample_left == 0 || self.draws_left == 0 || idle == IDLE_ENOUGH {
                    return;
                }
                self.draws_left -= 1;
                idle += usize::from(self.take(fleet, *ix));
            }
        }
    }

    /// Takes the member into the sample if it could be the next candidate. Says whether it did and
    /// the member is idle.
    fn take(&mut self, fleet: &Fleet, ix: NodeIx) -> bool {
        let known = self.queue.iter().any(|drawn| drawn.node == ix) || self.was_tried(fleet, ix);
        if known || !self.able(fleet, ix) {
            return false;
        }
        let load = fleet.load(ix);
        if load.is_last_resort() {
            return false;
        }
        if load.is_idle() {
            // One of these is chosen soon: its name can be on the way from memory until then.
            std::hint::black_box(fleet.is_there(ix));
        }
        // Draws come in random order, which decides among equals.
        let (rank, changes) = (load.rank().into(), Some(fleet.changes()));
        self.queue.push(Drawn { rank, node: ix, changes });
        self.sample_left -= 1;
        load.is_idle()
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
        for (id, demerit) in demerits {
            if let Some(node) = fleet.index_of(id) {
                let load = u64::from(fleet.load(node).rank());
                let rank = demerit << 60 | load << 32 | self.chance.next() >> 32;
                self.queue.push(Drawn { rank, node, changes: None });
            }
        }
    }

    /// The best of the spared.
    pub(super) fn spared(&mut self, fleet: &Fleet) -> Option<NodeIx> {
        loop {
            let drawn = self.pop_queue()?;
            if self.stands(fleet, &drawn)
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

    /// Whether what was drawn is still there, still able, not yet full and was no candidate. Another
    /// node may have taken its place since: then that one is judged, as any other.
    fn stands(&self, fleet: &Fleet, drawn: &Drawn) -> bool {
        fleet.is_there(drawn.node)
            && !fleet.load(drawn.node).is_full()
            && (drawn.changes == Some(fleet.changes())
                || fleet.node(drawn.node).may_take(&self.need))
            && !self.was_tried(fleet, drawn.node)
    }
}
