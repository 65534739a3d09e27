//! The lowest cost first, then the least loaded node, then the quickest.

use super::{Facts, Rank};

pub(super) fn rank(node: &Facts<'_>) -> Rank {
    // A load share takes 21 bits.
    let order = node.cost_micros() << 21 | node.load_share();
    Rank::new(order, node.latency_class())
}
