//! What a job wishes about its node, beyond what it needs.

use crate::fleet::RankRule;
use crate::ids::{NodeId, Region};

/// How far choosing goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelectPolicy {
    /// Members drawn at random and compared. Least of 20 refuses one job in ten thousand at 80 %
    /// load where a single random choice refuses one in three.
    pub sample_k: usize,
    /// Candidates after the sample, each a question to the store, before the job is told to wait;
    /// at least one.
    pub scan_bound: usize,
    /// The share of one conversation that a node may hear before others go first; 100 for no cap.
    pub exposure_cap_percent: u8,
    /// Which nodes of the sample go first.
    pub rank: RankRule,
}

impl Default for SelectPolicy {
    fn default() -> Self {
        SelectPolicy {
            sample_k: 20,
            scan_bound: 64,
            exposure_cap_percent: 100,
            rank: RankRule::default(),
        }
    }
}

/// What a job wishes about its node. None of it lets a node take a job that it may not take.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Try this one first.
    pub preferred: Option<NodeId>,
    /// Try no other.
    pub strict: bool,
    /// The node that has the earlier parts of the same turn.
    pub turn_node: Option<NodeId>,
    /// The node that heard the session's last utterance.
    pub avoid_last: Option<NodeId>,
    /// Nodes that failed this job.
    pub excluded: Vec<NodeId>,
    /// Who has heard how much of the conversation.
    pub heard: Heard,
    /// Where the person is, by their own word; else they are where this instance is.
    pub region: Option<Region>,
}

/// Who has heard how many of a conversation's utterances; bounded, for the nodes that heard most.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    total: u32,
    by_node: Vec<(NodeId, u32)>,
}

/// Nodes remembered for one conversation. A cap of 2 % or more is kept exactly while no more nodes
/// than this take part, and one that is forgotten has heard the least.
const MAX_HEARD: usize = 64;

impl Heard {
    /// An utterance went to this node.
    pub fn note(&mut self, node: &NodeId) {
        self.total = self.total.saturating_add(1);
        if let Some((_, count)) = self.by_node.iter_mut().find(|(id, _)| id == node) {
            *count = count.saturating_add(1);
            return;
        }
        if self.by_node.len() == MAX_HEARD {
            let least = (0..MAX_HEARD).min_by_key(|i| self.by_node[*i].1).expect("not empty");
            self.by_node.swap_remove(least);
        }
        self.by_node.push((node.clone(), 1));
    }

    /// Whether the node is one of [`Heard::over_cap`].
    pub(super) fn is_over_cap(&self, node: &NodeId, percent: u8) -> bool {
        percent < 100 && self.over_cap(percent).any(|id| id == node)
    }

    /// The nodes that would have heard more than the share with one utterance more. Who has heard
    /// nothing is not among them, however short the conversation.
    pub(super) fn over_cap(&self, percent: u8) -> impl Iterator<Item = &NodeId> {
        let allowed = (u64::from(self.total) + 1) * u64::from(percent);
        let over = move |count: u32| percent < 100 && (u64::from(count) + 1) * 100 > allowed;
        self.by_node.iter().filter(move |(_, count)| over(*count)).map(|(id, _)| id)
    }
}
