//! The nodes that are connected to this instance: registrations, heartbeats, records, messages about jobs.
//!
//! - `handle`: one node, driven by the machine of [`lingua_core::link`]. `record`: its calls to the store.
//! - `link`: the interfaces between nodes, jobs and other instances.
//! - `registration`: registrations and heartbeats. `inbound`: messages about jobs.
//! - `marks`: nodes that miss something for a direction.
//! - `limits`: how often a node may register. `status`: a node as people see it.
//!
//! The server calls [`Nodes::register`] and gets a [`Connection`]. With that it passes on heartbeats and messages
//! about jobs, and reports when the connection is gone. The newest connection of a node counts; an older one is
//! told to close and has no further effect.

mod handle;
mod limits;
pub(crate) mod link;
mod marks;
mod record;
mod registration;
mod status;
mod inbound;

pub(crate) use handle::NodeHandle;
pub use inbound::MessageOutcome;
pub(crate) use lingua_core::link::FORGET_AFTER;
pub use lingua_core::link::{Arrival, Aside, BreakerView, NodeFailure, Reputation, Supports};
pub use lingua_protocol::node::NodeDetail;
pub use lingua_store::nodes::Order;
pub(crate) use link::{LinkCommand, NodeLink, NodePort, NodeRouter, SendError};
pub(crate) use status::NodeStatus;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lingua_core::link::{Event, Percents, Policy};
use lingua_core::node::{Declaration, Health};
use lingua_core::planted::{self, Flaw};
use lingua_core::{JobId, ModelId, Moment, NodeId};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::job::{ToNode, is_code};
use crate::shared::Shared;
use crate::tasks;
use limits::Registrations;
use link::Peers;
use marks::Marks;

/// Nodes that one instance can have; a larger fleet needs more instances.
const MAX_NODES: usize = 200_000;

/// How often the timers of nodes are checked.
const TICK: Duration = Duration::from_millis(250);

/// The service of nodes.
pub struct Nodes {
    host: Arc<NodeHost>,
    marks: Mutex<Marks>,
    registrations: Registrations,
}

/// What all nodes of an instance have in common.
pub(crate) struct NodeHost {
    shared: Arc<Shared>,
    policy: Arc<Policy>,
    /// The beginning of the machines' clock.
    since: Instant,
    table: RwLock<HashMap<NodeId, Arc<NodeHandle>, lingua_core::hash::Quality>>,
    peers: OnceLock<Arc<dyn Peers>>,
}

/// A registration of a node.
pub struct Register {
    /// Its stable name.
    pub node: NodeId,
    /// What it can do; slots left out are the default's.
    pub declaration: Declaration,
    /// The health that it declares.
    pub health: Health,
    /// The protocol features of its agent.
    pub supports: Supports,
    /// How it was admitted.
    pub arrival: Arrival,
    /// The queue of its connection.
    pub out: mpsc::Sender<ToNode>,
    /// It reports what it runs in every heartbeat.
    pub reports: bool,
    /// What it runs now, by masked ids; `None` if it does not report that.
    pub running: Option<Vec<(JobId, u32)>>,
    /// How many jobs it runs, of a node that does not list them.
    pub running_jobs: Option<u32>,
    /// What else it reports.
    pub detail: NodeDetail,
}

/// A node's connection, as the server holds it.
#[derive(Clone)]
pub struct Connection {
    pub(crate) node: Arc<NodeHandle>,
    epoch: u64,
}

impl Connection {
    /// Whose it is.
    pub fn node_id(&self) -> &NodeId {
        &self.node.id
    }

    /// Whether it is still the node's newest one.
    pub fn is_current(&self) -> bool {
        self.node.lock().machine.supports_of(self.epoch).is_some()
    }
}

/// A node that is registered.
pub struct Registered {
    /// For the messages of the node.
    pub connection: Connection,
    /// Rises with every connection of the node.
    pub epoch: u64,
    /// The heartbeat interval for the node.
    pub heartbeat: Duration,
    /// It accepts jobs; otherwise its warm-up is awaited.
    pub ready: bool,
    /// This instance knew the node before, so its running jobs go on.
    pub resumed: bool,
}

/// A heartbeat. What is `None` stays as it was.
#[derive(Default)]
pub struct Heartbeat {
    /// What it can do, if that changed.
    pub declaration: Option<Declaration>,
    /// The health that it declares.
    pub health: Option<Health>,
    /// What it runs, by masked ids.
    pub running: Option<Vec<(JobId, u32)>>,
    /// How many jobs it runs, of a node that does not list them.
    pub running_jobs: Option<u32>,
    /// All services that run, by their ids.
    pub services: Option<Vec<String>>,
    /// How much of its resources is in use.
    pub percents: Percents,
}

impl Nodes {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let registrations = Registrations::new(limits::registrations(&shared.settings.node_limits));
        let policy = Arc::new(limits::policy(&shared.settings));
        Nodes {
            host: Arc::new(NodeHost {
                shared,
                policy,
                since: Instant::now(),
                table: RwLock::default(),
                peers: OnceLock::new(),
            }),
            marks: Mutex::default(),
            registrations,
        }
    }

    /// Sets who knows the nodes of other instances; once.
    pub(crate) fn set_peers(&self, peers: Arc<dyn Peers>) {
        let _ = self.host.peers.set(peers);
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.host.shared
    }

    /// The connection is gone. If it is not the node's newest one, nothing changes.
    pub fn gone(&self, connection: &Connection) {
        let epoch = connection.epoch;
        tracing::info!(node.id = %connection.node.id, epoch, "node disconnected");
        connection.node.apply(Event::Disconnected { epoch });
    }

    /// The node's owner or an operator says that the node works again. If its connection is or was here, it gets
    /// one job as a probe at once. The error has the time after which to request a probe again.
    pub(crate) fn request_probe(&self, id: &NodeId) -> Result<(), Duration> {
        let node = self.get(id);
        let refused = node.and_then(|node| node.apply(Event::ProbeRequested).probe_refused);
        refused.map_or(Ok(()), Err)
    }

    /// An administrator's order, if the node's connection is or was here.
    pub(crate) fn apply_order(&self, id: &NodeId, order: Order) {
        if let Some(node) = self.get(id) {
            node.apply(Event::Ordered(order));
        }
    }

    /// A node reports an error: it is counted and shown.
    pub fn note_error(&self, from: &Connection, code: &str, message: &str) {
        self.shared().metrics.nodes.node_errors.inc();
        let text: String = format!("{code}: {message}").chars().take(256).collect();
        // The message may quote what a person said: it is shown to administrators and not logged.
        let reason = if is_code(code) { code } else { "not a code" };
        tracing::warn!(node.id = %from.node.id, reason, "a node reports an error");
        Arc::make_mut(&mut from.node.lock().detail).last_error = Some(text);
    }

    /// The connection that a node's HTTP calls belong to.
    pub fn connection(&self, id: &NodeId) -> Option<Connection> {
        let node = self.get(id)?;
        let epoch = {
            let state = node.lock();
            state.machine.is_connected().then(|| state.machine.epoch())?
        };
        Some(Connection { node, epoch })
    }

    /// The node, if its connection of this epoch is here.
    pub(crate) fn connected(&self, id: &NodeId, epoch: u64) -> Option<Arc<NodeHandle>> {
        self.get(id).filter(|node| node.lock().machine.supports_of(epoch).is_some())
    }

    /// The epoch of the newest connection that the node had here.
    pub(crate) fn epoch(&self, id: &NodeId) -> Option<u64> {
        Some(self.get(id)?.lock().machine.epoch())
    }

    /// Another instance has a connection of this epoch. Returns whether the node was here and is not
    /// newer than that.
    pub(crate) fn moved_away(&self, id: &NodeId, epoch: u64) -> bool {
        let Some(node) = self.get(id) else { return true };
        let older = node.lock().machine.epoch() < epoch;
        if older {
            node.apply(Event::MovedAway { epoch });
        }
        older
    }

    /// A moment of the machines' clock.
    pub(crate) fn moment_in(&self, from_now: Duration) -> Moment {
        self.host.now() + from_now
    }

    /// Nodes that miss something for a direction.
    pub(crate) fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock()
    }

    pub(crate) fn get(&self, id: &NodeId) -> Option<Arc<NodeHandle>> {
        self.host.get(id)
    }

    pub(crate) fn all(&self) -> Vec<Arc<NodeHandle>> {
        self.host.all()
    }

    /// Runs until the engine ends: the timers of nodes, and a store that is back.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut status = self.shared().store.status.clone();
        let mut connection = status.borrow_and_update().connection();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = tick.tick() => self.tick(),
                changed = status.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let now = status.borrow_and_update().connection();
                    // After a late answer on the same connection nothing is lost.
                    let late = planted::on(Flaw::LateAnswerReasserts);
                    if now.is_some() && (now != connection || late) {
                        connection = now;
                        self.assert_all();
                    }
                }
            }
        }
    }

    /// Has every node written to the store again.
    fn assert_all(&self) {
        let nodes = self.all();
        tracing::info!(nodes = nodes.len(), "the store is back; telling it about the nodes here");
        for node in nodes {
            node.apply(Event::StoreIsBack);
        }
    }

    fn tick(&self) {
        let now = self.host.now();
        let mut counts = [0i64; Health::ALL.len()];
        for node in self.all() {
            node.tick(now);
            counts[node.health() as usize] += 1;
        }
        let fleet = &self.shared().fleet;
        for id in fleet.expire_others(Instant::now()) {
            fleet.offer_if_ready(&id, 1);
        }
        self.shared().metrics.set_nodes(counts);
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // The nodes hold their host.
        self.host.table.write().clear();
    }
}

impl NodeHost {
    fn now(&self) -> Moment {
        self.moment(Instant::now())
    }

    fn moment(&self, at: Instant) -> Moment {
        handle::moment(self.since, at)
    }

    fn peers(&self) -> &dyn Peers {
        &**self.peers.get().expect("set when the engine starts")
    }

    fn get(&self, id: &NodeId) -> Option<Arc<NodeHandle>> {
        self.table.read().get(id).cloned()
    }

    fn all(&self) -> Vec<Arc<NodeHandle>> {
        self.table.read().values().cloned().collect()
    }

    /// Removes a node that is on another instance now.
    fn remove(&self, node: &NodeHandle) {
        let mut table = self.table.write();
        if table.get(&node.id).is_some_and(|known| std::ptr::eq(&**known, node)) {
            table.remove(&node.id);
        }
    }

    /// Removes a node that was not connected for long, unless it reconnected a moment ago.
    fn remove_unseen(self: &Arc<Self>, node: &NodeHandle) {
        {
            let mut table = self.table.write();
            // Held until it is out of the fleet: a connection comes before or after that.
            let state = node.lock();
            if !state.machine.is_forgettable() {
                return;
            }
            table.remove(&node.id);
            self.shared.fleet.remove(&node.id);
        }
        let (host, id) = (Arc::clone(self), node.id.clone());
        tasks::spawn("forget a node", async move {
            let _ = host.shared.store.nodes.forget(&id, FORGET_AFTER).await;
        });
    }
}

/// The name under which it is kept that a node misses a model or a service.
pub(crate) fn gap_name(said: &str) -> Option<ModelId> {
    ModelId::new(said.replace('@', ".")).ok()
}

#[cfg(test)]
pub(crate) mod tests;
