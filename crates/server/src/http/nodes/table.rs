//! The nodes that came in through this door: where what is for them waits, and who speaks for them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lingua_core::NodeId;
use lingua_core::outcome::Code;
use lingua_engine::job::{Refusal, ToNode};
use lingua_engine::nodes::{Connection, Nodes};
use lingua_engine::{Engine, Readiness, tasks};
use lingua_protocol::node::capability::Abilities;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::wire::http::node::SUPPORTS;
use crate::wire::node::render;

/// Silent for so many heartbeats a node is taken for gone: one more than until it is stale.
const SILENT_HEARTBEATS: u32 = 4;

/// How often silent nodes are looked for.
const LOOK: Duration = Duration::from_millis(250);

/// A waiting call looks so often whether the process is on its way out.
const WAIT_SLICE: Duration = Duration::from_secs(1);

/// The nodes of this door.
pub(crate) struct HttpNodes {
    nodes: Arc<Nodes>,
    table: Mutex<HashMap<NodeId, Arc<HttpNode>>>,
}

/// One registration of a node.
pub(crate) struct HttpNode {
    pub(crate) connection: Connection,
    pub(crate) epoch: u64,
    pub(crate) heartbeat: Duration,
    /// What it said of itself so far.
    pub(crate) abilities: Mutex<Abilities>,
    /// What waits for it; `None` if it is sent to its endpoint.
    pub(crate) inbox: Option<tokio::sync::Mutex<mpsc::Receiver<ToNode>>>,
    /// Its last sign of life.
    pub(crate) heard: Mutex<Instant>,
}

impl HttpNodes {
    /// No nodes yet. Silent ones are let go for as long as the table is there.
    pub(crate) fn start(nodes: Arc<Nodes>) -> Arc<Self> {
        let table = Arc::new(HttpNodes { nodes, table: Mutex::default() });
        tasks::spawn("silent HTTP nodes", watch(Arc::downgrade(&table)));
        table
    }

    pub(crate) fn get(&self, id: &NodeId) -> Result<Arc<HttpNode>, Refusal> {
        let node = self.table.lock().get(id).cloned();
        node.ok_or_else(|| Refusal::new(Code::NotFound, "register again"))
    }

    /// Takes a registration in, unless a newer one is there.
    pub(crate) fn put(&self, node: HttpNode) {
        let id = node.connection.node_id().clone();
        let mut table = self.table.lock();
        if table.get(&id).is_none_or(|known| known.epoch < node.epoch) {
            table.insert(id, Arc::new(node));
        }
    }

    /// Lets a registration go: its jobs look elsewhere. Of one that was replaced it means nothing.
    pub(crate) fn close(&self, node: &HttpNode) {
        let id = node.connection.node_id();
        let mut table = self.table.lock();
        if table.get(id).is_some_and(|known| known.epoch == node.epoch) {
            table.remove(id);
        }
        drop(table);
        self.nodes.gone(&node.connection);
    }

    /// The next message for a node that asks for it, as JSON; `None` if none came in time.
    pub(crate) async fn next(
        &self,
        engine: &Engine,
        id: &NodeId,
        wait: Duration,
    ) -> Result<Option<String>, Refusal> {
        let node = self.get(id)?;
        let Some(inbox) = &node.inbox else {
            let sent = "this node registered with an endpoint; what is for it is sent there";
            return Err(Refusal::new(Code::Conflict, sent));
        };
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let next = async { inbox.lock().await.recv().await };
            match timeout(left.min(WAIT_SLICE), next).await {
                Ok(Some(ToNode::Blocked)) => {
                    self.close(&node);
                    let blocked = "an administrator blocked this node";
                    return Err(Refusal::new(Code::Forbidden, blocked));
                }
                Ok(None | Some(ToNode::Superseded)) => {
                    // Unless it was let go, there is a newer one.
                    self.get(id)?;
                    let newer = "a newer registration of this node took over";
                    return Err(Refusal::new(Code::Conflict, newer));
                }
                // The answer to its call has told it already.
                Ok(Some(ToNode::ResultAck { .. })) => {}
                Ok(Some(ToNode::Assign(assign))) if assign.is_late() => {
                    engine.nodes.send_failed(&node.connection, assign.job, assign.attempt);
                }
                Ok(Some(message)) => {
                    let mut text = String::new();
                    render(&message, SUPPORTS, &mut text);
                    if let ToNode::Assign(assign) = message {
                        assign.sent();
                    }
                    return Ok(Some(text));
                }
                Err(_) if left <= WAIT_SLICE => return Ok(None),
                Err(_) if engine.readiness() == Readiness::Draining => return Ok(None),
                Err(_) => {}
            }
        }
    }

    fn let_silent_ones_go(&self) {
        let now = Instant::now();
        let silent = |node: &&Arc<HttpNode>| {
            now.saturating_duration_since(*node.heard.lock()) > node.heartbeat * SILENT_HEARTBEATS
        };
        let silent: Vec<_> = self.table.lock().values().filter(silent).cloned().collect();
        for node in silent {
            tracing::info!(node.id = %node.connection.node_id(), "a silent node is let go");
            self.close(&node);
        }
    }
}

async fn watch(table: Weak<HttpNodes>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(table) = table.upgrade() else { return };
        table.let_silent_ones_go();
    }
}
