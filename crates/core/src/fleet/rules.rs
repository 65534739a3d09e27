//! The rules that rank the nodes of a sample.
//!
//! A rule is a file with one function, from [`Facts`] to a [`Rank`]. To add one, write the file, add a variant
//! with its arm in [`RankRule::rank`], and add its word to the option `jobs.rank`.

mod cheapest;
mod load;
mod region;

use super::{Fleet, NodeIx};
use crate::ids::Region;

/// Which nodes of a sample are tried first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RankRule {
    /// The least loaded, then the quickest.
    #[default]
    Load,
    /// Among equally loaded nodes those in the region of the session, or else of this instance, then the quickest.
    Region,
    /// The cheapest, then the least loaded, then the quickest.
    Cheapest,
}

impl RankRule {
    pub(super) fn rank(self, facts: &Facts<'_>) -> Rank {
        match self {
            RankRule::Load => load::rank(facts),
            RankRule::Region => region::rank(facts),
            RankRule::Cheapest => cheapest::rank(facts),
        }
    }
}

/// What a rule may know of a node with regard to a job of this instance. A fact is read when it is asked for:
/// each may be a cache miss, and choosing looks at many nodes.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    fleet: &'a Fleet,
    node: NodeIx,
    /// Where the person is, by their own word.
    region: Option<&'a Region>,
}

impl<'a> Facts<'a> {
    pub fn of(fleet: &'a Fleet, node: NodeIx, region: Option<&'a Region>) -> Self {
        Facts { fleet, node, region }
    }

    /// Slots taken per slot: 0 for an idle node, 2^20 for a full one.
    pub fn load_share(&self) -> u64 {
        self.fleet.load(self.node).share().into()
    }

    /// 0 below 128 ms or if unknown, and one more with each doubling: latencies within a factor of two are equal.
    pub fn latency_class(&self) -> u8 {
        self.fleet.load(self.node).latency_class()
    }

    /// Whether the node is in the region where the job comes from.
    pub fn same_region(&self) -> bool {
        self.fleet.region(self.node).is_near(self.fleet.near(self.region))
    }

    /// What a job on the node costs, in millionths; below 2^30.
    pub fn cost_micros(&self) -> u64 {
        self.fleet.cost_micros(self.node).into()
    }
}

/// The rank of a node by a rule: the lower, the earlier it is tried. Equal ranks are tried in
/// random order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Rank(u64);

impl Rank {
    const TIE_BITS: u32 = 6;
    const ORDER_BITS: u32 = 56;

    /// `order` decides, below 2^56; `tie` decides among equal orders, below 64.
    ///
    /// An order of 0 is the best that any node can have: a few such nodes are enough of a sample.
    pub fn new(order: u64, tie: u8) -> Self {
        debug_assert!(order >> Self::ORDER_BITS == 0 && tie >> Self::TIE_BITS == 0);
        Rank(order << Self::TIE_BITS | u64::from(tie))
    }

    /// No other node can have a better order.
    pub fn is_best(self) -> bool {
        self.0 >> Self::TIE_BITS == 0
    }

    /// The same rank behind all of fewer demerits; at most 3.
    pub fn after(self, demerits: u64) -> Self {
        debug_assert!(demerits <= 3);
        Rank(demerits << (Self::ORDER_BITS + Self::TIE_BITS) | self.0)
    }
}

#[cfg(test)]
mod tests;
