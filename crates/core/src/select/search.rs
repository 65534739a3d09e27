//! The search beyond the sample, which leaves nobody out.

use super::{Selector, Stage};
use crate::chance::Walk;
use crate::pool::{Fleet, NodeIx, Part, PoolIx};

/// Draws of some members each in which to meet one by chance. If the job can use one in ten, then
/// hardly ever is a walk needed.
const TRIES: usize = 4;

/// A way through all members of a large pool.
#[derive(Clone, Debug)]
pub(super) struct Round {
    walk: Walk,
    /// The pool's spots when it began.
    ends: Vec<u32>,
    /// How the members sat when it began.
    moves: u64,
    /// It has come upon somebody.
    found: bool,
}

impl Selector {
    /// The next candidate among those with a free slot, or among all.
    pub(super) fn search(&mut self, fleet: &mut Fleet, part: Part) -> Option<NodeIx> {
        if self.scan_left == 0 {
            return None;
        }
        let at = self.pool(fleet)?;
        let found = match fleet.few(at, part) {
            Some(mut hand) => self.any_of(fleet, hand.members()),
            None => self.draw_any(fleet, at, part).or_else(|| self.go_round(fleet, at, part)),
        };
        self.scan_left -= usize::from(found.is_some());
        found
    }

    fn any_of(&mut self, fleet: &Fleet, members: &mut [NodeIx]) -> Option<NodeIx> {
        for i in 0..members.len() {
            members.swap(i, i + self.chance.below(members.len() - i));
            if self.is_next(fleet, members[i]) {
                return Some(members[i]);
            }
        }
        None
    }

    fn draw_any(&mut self, fleet: &mut Fleet, at: PoolIx, part: Part) -> Option<NodeIx> {
        for _ in 0..TRIES {
            let mut hand = fleet.draw(at, part, &mut self.chance)?;
            let mut members = hand.members().iter();
            if let Some(ix) = members.find(|ix| self.is_next(fleet, **ix)) {
                return Some(*ix);
            }
        }
        None
    }

    fn go_round(&mut self, fleet: &mut Fleet, at: PoolIx, part: Part) -> Option<NodeIx> {
        let mut round = match self.round.take() {
            Some(round) => round,
            None => self.set_out(fleet, at, part),
        };
        let found = loop {
            if let Some(spot) = round.walk.next() {
                let member = fleet.member_at(at, part, &round.ends, spot as u32);
                if let Some(ix) = member.filter(|ix| self.is_next(fleet, *ix)) {
                    round.found = true;
                    break Some(ix);
                }
            } else if part == Part::All && round.found && round.moves != fleet.moves() {
                // Somebody may have slipped past while others changed seats: once more through all.
                round = self.set_out(fleet, at, part);
            } else {
                break None;
            }
        };
        self.round = Some(round);
        found
    }

    fn set_out(&mut self, fleet: &Fleet, at: PoolIx, part: Part) -> Round {
        let ends = fleet.ends(at, part);
        let spots = ends.last().map_or(0, |end| *end as usize);
        let walk = Walk::over(spots, &mut self.chance);
        Round { walk, ends, moves: fleet.moves(), found: false }
    }

    /// Whether the member could be the next candidate.
    fn is_next(&mut self, fleet: &Fleet, member: NodeIx) -> bool {
        !self.was_tried(fleet, member)
            && self.able(fleet, member)
            && !(self.stage == Stage::Rest && self.is_spared(fleet, member))
            && self.not_failed(fleet, member)
    }
}
