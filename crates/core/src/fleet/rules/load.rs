//! The least loaded node first, then the quickest.

use super::{Facts, Rank};

pub(super) fn rank(node: &Facts<'_>) -> Rank {
    Rank::new(node.load_share(), node.latency_class())
}
