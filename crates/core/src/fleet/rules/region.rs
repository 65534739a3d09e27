//! The same region first among equally loaded nodes, then the quickest.

use super::{Facts, Rank};

pub(super) fn rank(node: &Facts<'_>) -> Rank {
    Rank::new(node.load_share() << 1 | u64::from(!node.same_region()), node.latency_class())
}
