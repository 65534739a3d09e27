//! Many simulated nodes: started together, counted together.

use anyhow::Context;
use serde::Serialize;

use crate::fake_node::NodeStats;
use crate::{FakeNode, NodeOptions};

/// Nodes, each with a connection of its own. Dropping it is as sudden as killing their processes.
#[derive(Debug, Default)]
pub struct Fleet {
    nodes: Vec<FakeNode>,
}

/// What all nodes of a fleet did, as one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FleetStats {
    /// How many there are.
    pub nodes: u32,
    /// Jobs they were given.
    pub jobs: u64,
    /// Jobs they answered well.
    pub done: u64,
    /// Jobs they answered with an error.
    pub failed: u64,
    /// Jobs they refused.
    pub rejected: u64,
    /// Jobs that were taken back.
    pub cancelled: u64,
    /// Jobs they work on now.
    pub running: u64,
    /// The most jobs that one node ever had at once.
    pub highest_running: u64,
    /// Jobs given to a node that was full.
    pub breaches: u64,
    /// Jobs given twice.
    pub duplicates: u64,
    /// `error` messages from the scheduler.
    pub errors: u64,
    /// Connections on which they were registered.
    pub connections: u64,
}

impl Fleet {
    /// Connects them one after the other; returns when all are registered.
    pub async fn start(nodes: impl IntoIterator<Item = NodeOptions>) -> anyhow::Result<Self> {
        let mut fleet = Self::default();
        for options in nodes {
            let node = FakeNode::connect(options).await;
            fleet.nodes.push(node.context("a node does not come in")?);
        }
        Ok(fleet)
    }

    /// Each of them, in the order in which they were given.
    pub fn nodes(&self) -> &[FakeNode] {
        &self.nodes
    }

    /// How many are registered now.
    pub fn connected(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_connected()).count()
    }

    /// What they did so far.
    pub fn stats(&self) -> FleetStats {
        FleetStats::of(&self.nodes.iter().map(FakeNode::stats).collect::<Vec<_>>())
    }

    /// Has all finish what they have to say and leave; what they did.
    pub async fn close(self) -> FleetStats {
        let stats = self.stats();
        futures_util::future::join_all(self.nodes.into_iter().map(FakeNode::close)).await;
        stats
    }
}

impl FleetStats {
    fn of(nodes: &[NodeStats]) -> Self {
        let sum = |of: fn(&NodeStats) -> u64| nodes.iter().map(of).sum();
        Self {
            nodes: nodes.len() as u32,
            jobs: sum(|node| node.received),
            done: sum(|node| node.done),
            failed: sum(|node| node.failed),
            rejected: sum(|node| node.rejected),
            cancelled: sum(|node| node.cancelled),
            running: sum(|node| node.running),
            highest_running: nodes.iter().map(|node| node.highest_running).max().unwrap_or(0),
            breaches: sum(|node| node.breaches),
            duplicates: sum(|node| node.duplicates),
            errors: sum(|node| node.errors),
            connections: sum(|node| node.connections),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_nodes_are_added_and_the_highest_is_the_highest() {
        let node = |received, highest_running| NodeStats {
            received,
            highest_running,
            breaches: 1,
            ..NodeStats::default()
        };
        let all = FleetStats::of(&[node(3, 2), node(4, 5)]);
        assert_eq!((all.nodes, all.jobs, all.highest_running, all.breaches), (2, 7, 5, 2));
    }
}
