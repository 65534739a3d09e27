//! What one instance says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::view::{Failure, InstanceView, NodeCounts, Vain};
use crate::metrics::Counts;

/// Lines told; a fleet with more has them all in the total.
pub(super) const MAX_LINES: usize = 256;

/// Nodes that are named for one finding.
pub(super) const MAX_NAMED: usize = 3;

/// Directions asked for in vain that are told.
pub(super) const MAX_VAIN: usize = 32;

/// What one instance says of itself: how it stands, and what it counted since the last time.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct Part {
    pub instance: InstanceView,
    /// Since the last part.
    pub interval_ms: u64,
    pub ended: BTreeMap<String, u64>,
    pub endings: BTreeMap<String, u64>,
    pub retries: u64,
    pub dispatch: Counts,
    pub job: Counts,
    pub sentence: Counts,
    /// Since the instance started.
    pub ended_total: BTreeMap<String, u64>,
    /// Sessions whose client is there.
    pub connected: u64,
    /// The nodes whose connection it has.
    pub nodes: NodeCounts,
    /// Jobs in line by direction, the longest lines first.
    pub lines: Vec<(String, u64)>,
    pub unmet: Vec<Vain>,
    pub failures: Vec<Failure>,
    /// Some of the nodes that are counted as in trouble, by finding.
    pub troubled: Troubled,
}

/// Nodes in trouble by the code of the finding that speaks of them, a few of each.
pub(super) type Troubled = BTreeMap<String, Vec<String>>;

/// Notes a node for a finding.
pub(super) fn note(troubled: &mut Troubled, code: &str, node: &str) {
    let named = troubled.entry(code.to_owned()).or_default();
    if named.len() < MAX_NAMED {
        named.push(node.to_owned());
    }
}

/// The nodes that all instances named, a few for each finding.
pub(super) fn troubled_of(parts: &[Part]) -> Troubled {
    let mut all = Troubled::new();
    for (code, nodes) in parts.iter().flat_map(|part| &part.troubled) {
        nodes.iter().for_each(|node| note(&mut all, code, node));
    }
    all
}

/// What was counted after `before`.
pub(super) fn since(
    now: &BTreeMap<String, u64>,
    before: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let grown = now.iter().map(|(code, count)| {
        (code.clone(), count.saturating_sub(before.get(code).copied().unwrap_or(0)))
    });
    grown.filter(|(_, count)| *count > 0).collect()
}
