//! The nodes of other instances that are known here.

use std::collections::HashMap;
use std::sync::Arc;

use lingua_core::NodeId;
use lingua_core::link::NewAttempt;
use lingua_protocol::peer::PeerMessage;
use lingua_store::nodes::NodeRecord;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use super::remote_node::{Known, RemoteNode};
use crate::job::{JobEvents, OrphanedOutcome, OrphanedResult, Unheard};
use crate::nodes::link::Peers;
use crate::shared::Shared;

/// When the first gap of a node is over.
pub(super) type GapEnds = Arc<Mutex<HashMap<NodeId, Instant>>>;

/// The nodes of other instances.
pub(crate) struct RemoteNodes {
    shared: Arc<Shared>,
    table: RwLock<HashMap<NodeId, Arc<RemoteNode>, lingua_core::hash::Quality>>,
    /// When the first gap of a node is over.
    gaps_end: GapEnds,
}

impl RemoteNodes {
    pub fn new(shared: Arc<Shared>) -> Self {
        RemoteNodes { shared, table: RwLock::default(), gaps_end: Arc::default() }
    }

    pub fn get(&self, id: &NodeId) -> Option<Arc<RemoteNode>> {
        self.table.read().get(id).cloned()
    }

    pub fn all(&self) -> Vec<Arc<RemoteNode>> {
        self.table.read().values().cloned().collect()
    }

    /// The nodes that are known here.
    pub fn ids(&self) -> Vec<NodeId> {
        self.table.read().keys().cloned().collect()
    }

    /// Applies the store's record of a node of another instance. The node is kept also if its instance is not
    /// known to be alive yet.
    pub fn apply_record(&self, record: NodeRecord) {
        let node = match self.get(&record.node) {
            Some(node) => node,
            None if Known::is_there(&record) => {
                self.node(&record.node, || Known::unknown(record.owner.clone()))
            }
            None => return,
        };
        node.apply_record(record);
    }

    /// The node of the table, made if it is not there.
    fn node(&self, id: &NodeId, known: impl FnOnce() -> Known) -> Arc<RemoteNode> {
        let made = || {
            let (shared, gaps_end) = (Arc::clone(&self.shared), Arc::clone(&self.gaps_end));
            Arc::new(RemoteNode::new(id.clone(), shared, gaps_end, known()))
        };
        Arc::clone(self.table.write().entry(id.clone()).or_insert_with(made))
    }

    /// The store no longer knows the node.
    pub fn remove(&self, id: &NodeId) {
        if let Some(node) = self.get(id) {
            node.lose();
        }
    }

    /// Instances came or are gone, and with them the routes to their nodes.
    pub fn on_peers_changed(&self) {
        for node in self.all() {
            node.on_peers_changed();
        }
    }

    /// Updates the entries of nodes whose gaps are over.
    pub fn expire_gaps(&self) {
        let now = Instant::now();
        let over = self.gaps_end.lock().extract_if(|_, until| *until <= now).collect::<Vec<_>>();
        for node in over.iter().filter_map(|(id, _)| self.get(id)) {
            node.expire_gaps(now);
        }
    }

    /// Forgets nodes without a route for long.
    pub fn forget_lost(&self) {
        let now = Instant::now();
        let mut table = self.table.write();
        table.retain(|id, node| {
            let forgotten = node.is_forgettable(now);
            if forgotten {
                self.shared.fleet.remove(id);
            }
            !forgotten
        });
    }
}

impl Peers for RemoteNodes {
    fn epoch(&self, node: &NodeId) -> Option<u64> {
        Some(self.get(node)?.epoch())
    }

    fn take_attempts(&self, node: &NodeId) -> Vec<NewAttempt<JobEvents>> {
        let removed = self.table.write().remove(node);
        removed.map(|node| node.come_here()).unwrap_or_default()
    }

    fn take_over(&self, node: &NodeId, attempts: Vec<NewAttempt<JobEvents>>) {
        // Its record will say which instance has it.
        let nobody = Known::unknown(self.shared.instance.clone());
        let node = self.node(node, || nobody);
        attempts.into_iter().for_each(|attempt| node.remember(attempt));
    }

    fn orphaned(&self, result: OrphanedResult) -> Result<(), Unheard> {
        self.shared.orphans.try_send(OrphanedOutcome::Result(Box::new(result))).map_err(|_| Unheard)
    }

    fn services_run(&self, node: &NodeId, services: Vec<String>) {
        for (peer, _) in self.shared.outbox.peers() {
            let (node, services) = (node.clone(), services.clone());
            let _ = self.shared.outbox.send(&peer, PeerMessage::ServicesRun { node, services });
        }
    }
}
