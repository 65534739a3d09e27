//! Finds a node on whichever instance it is connected. Nothing else in the engine asks where a node is.

use std::sync::Arc;

use lingua_core::NodeId;
use lingua_core::link::Reputation;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use lingua_store::nodes::{NodeRecord, Order};

use super::remote_nodes::RemoteNodes;
use crate::job::{Refusal, store_down};
use crate::nodes::link::Peers;
use crate::nodes::{LinkCommand, NodeLink, NodeRouter, NodeStatus, Nodes, gap_name};
use crate::shared::Shared;

/// Finds every node that this instance knows.
pub(crate) struct Router {
    shared: Arc<Shared>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) remote: Arc<RemoteNodes>,
}

impl NodeRouter for Router {
    fn link(&self, id: &NodeId) -> Option<Arc<dyn NodeLink>> {
        match self.nodes.get(id) {
            Some(here) => Some(here),
            None => Some(self.remote.get(id)?),
        }
    }
}

impl Router {
    pub fn new(shared: Arc<Shared>, nodes: Arc<Nodes>) -> Self {
        let remote = Arc::new(RemoteNodes::new(Arc::clone(&shared)));
        nodes.set_peers(Arc::clone(&remote) as Arc<dyn Peers>);
        Router { shared, nodes, remote }
    }

    /// The node as people see it.
    pub fn status(&self, id: &NodeId) -> Option<NodeStatus> {
        match self.nodes.get(id) {
            Some(here) => Some(here.status()),
            None => Some(self.remote.get(id)?.status()),
        }
    }

    /// The nodes that are known.
    pub fn ids(&self) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = self.nodes.all().iter().map(|node| node.id.clone()).collect();
        ids.extend(self.remote.ids());
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Applies the store's record of a node.
    pub fn apply_record(&self, record: NodeRecord) {
        if record.owner == self.shared.instance {
            self.nodes.apply_order(&record.node, record.order);
        } else if self.nodes.moved_away(&record.node, record.epoch) {
            self.remote.apply_record(record);
        }
    }

    /// The node of another instance did something that counts as a failed job.
    pub fn fault(&self, id: &NodeId) {
        if let Some(node) = self.nodes.get(id) {
            node.post(LinkCommand::Fault);
        }
    }

    /// What the store knows of a node of another instance; `None` also if the store does not answer.
    pub async fn known_in_store(&self, id: &NodeId) -> Option<Reputation> {
        self.shared.store.reputations.read(id).await.ok().flatten()
    }

    /// The node's owner or an operator says that it works again: it gets one job as a probe. `false` if there is
    /// no such node.
    pub fn request_probe(&self, id: &NodeId) -> Result<bool, Refusal> {
        if self.nodes.get(id).is_some() {
            let too_often = "a probe of a node may be requested twice a minute";
            return self.nodes.request_probe(id).map(|()| true).map_err(|wait| {
                Refusal::new(Code::RateLimited, too_often).retry_after(millis(wait).max(1))
            });
        }
        let Some(node) = self.remote.get(id) else { return Ok(false) };
        node.post(LinkCommand::RequestProbe);
        Ok(true)
    }

    /// Sets what an administrator wants of a node. `false` if there is no such node.
    pub async fn order(&self, id: &NodeId, order: Order) -> Result<bool, Refusal> {
        let written = self.shared.store.orders.set(id, order).await;
        let known = written.map_err(|error| store_down(&error))?;
        if known {
            tracing::info!(node.id = %id, order = order.as_str(), "an administrator's order");
            self.nodes.apply_order(id, order);
            if let Some(node) = self.remote.get(id) {
                node.apply_order(order);
            }
            if order == Order::Serve {
                // A probe that is requested too often changes nothing.
                let _ = self.request_probe(id);
            }
        }
        Ok(known)
    }

    /// A node has these services now.
    pub fn services_run(&self, id: &NodeId, services: &[String]) {
        self.nodes.end_marks(id, services);
        if let Some(link) = self.link(id) {
            let closed = services.iter().filter_map(|service| gap_name(service)).collect();
            link.post(LinkCommand::CloseGaps(closed));
        }
    }

    /// Whether this epoch is of the node's newest connection that is known here.
    pub fn speaks_for(&self, id: &NodeId, epoch: u64) -> bool {
        let here = self.nodes.epoch(id);
        let known = here.or_else(|| self.remote.get(id).map(|node| node.epoch()));
        known.is_some_and(|known| known <= epoch)
    }
}
