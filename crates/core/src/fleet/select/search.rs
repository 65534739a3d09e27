//! The search beyond the sample, which misses no member.

use super::{Selector, Stage};
use crate::chance::Walk;
use crate::fleet::capability_class::Subset;
use crate::fleet::index::PoolIx;
use crate::fleet::{Fleet, NodeIx};

/// Random batches before a scan of the whole pool. A job that can use one member in ten hardly ever needs
/// the scan.
const BATCHES: usize = 4;

/// A scan of all members of a large pool, in random order.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    walk: Walk,
    /// The pool's cells when it started.
    ends: Vec<u32>,
    /// The positions of members when it started.
    layout_version: u64,
    /// It found a candidate.
    found: bool,
}

impl Selector {
    /// The next candidate among those with a free slot, or among all.
    pub(super) fn search(&mut self, fleet: &mut Fleet, subset: Subset) -> Option<NodeIx> {
        if self.scan_left == 0 {
            return None;
        }
        let at = self.pool(fleet)?;
        let found = match fleet.small_pool(at, subset) {
            Some(mut sample) => self.any_of(fleet, sample.members()),
            None => self.draw_any(fleet, at, subset).or_else(|| self.scan_all(fleet, at, subset)),
        };
        self.scan_left -= usize::from(found.is_some());
        found
    }

    fn any_of(&mut self, fleet: &Fleet, members: &mut [NodeIx]) -> Option<NodeIx> {
        for i in 0..members.len() {
            members.swap(i, i + self.chance.below(members.len() - i));
            if self.is_candidate(fleet, members[i]) {
                return Some(members[i]);
            }
        }
        None
    }

    fn draw_any(&mut self, fleet: &mut Fleet, at: PoolIx, subset: Subset) -> Option<NodeIx> {
        for _ in 0..BATCHES {
            let mut sample = fleet.draw(at, subset, &mut self.chance)?;
            let mut members = sample.members().iter();
            if let Some(ix) = members.find(|ix| self.is_candidate(fleet, **ix)) {
                return Some(*ix);
            }
        }
        None
    }

    fn scan_all(&mut self, fleet: &mut Fleet, at: PoolIx, subset: Subset) -> Option<NodeIx> {
        let mut scan = match self.scan.take() {
            Some(scan) => scan,
            None => self.start_scan(fleet, at, subset),
        };
        let found = loop {
            if let Some(cell) = scan.walk.next() {
                let member = fleet.member_at(at, subset, &scan.ends, cell as u32);
                if let Some(ix) = member.filter(|ix| self.is_candidate(fleet, *ix)) {
                    scan.found = true;
                    break Some(ix);
                }
            } else if subset == Subset::All
                && scan.found
                && scan.layout_version != fleet.layout_version()
            {
                // A member may have been missed while others changed positions: scan again.
                scan = self.start_scan(fleet, at, subset);
            } else {
                break None;
            }
        };
        self.scan = Some(scan);
        found
    }

    fn start_scan(&mut self, fleet: &Fleet, at: PoolIx, subset: Subset) -> Scan {
        let ends = fleet.ends(at, subset);
        let cells = ends.last().map_or(0, |end| *end as usize);
        let walk = Walk::over(cells, &mut self.chance);
        Scan { walk, ends, layout_version: fleet.layout_version(), found: false }
    }

    /// Whether the member could be the next candidate.
    fn is_candidate(&mut self, fleet: &Fleet, member: NodeIx) -> bool {
        !self.was_tried(fleet, member)
            && self.able(fleet, member)
            && !(self.stage == Stage::Rest && self.is_spared(fleet, member))
            && self.not_failed(fleet, member)
    }
}
