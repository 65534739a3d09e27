//! The nodes that are connected to this instance: their life, their records, their word about jobs.
//!
//! - `state`: one node. `supports`: what it understands. `breaker`: what it gets after failures.
//! - `failures`: the last attempts that failed on it.
//! - `elsewhere`: nodes whose connection another instance has.
//! - `records`: keeping the store's record of it true. `counting`: an agent that only says how many jobs it
//!   runs. `marks`: nodes that miss something for a direction.
//! - `reports`: what it says about jobs, fenced before it has any effect. `running`: what it says it runs.
//! - `limits`: how much of all this reaches the store.
//!
//! A door calls [`Nodes::register`] for a connection and gets a [`Connection`]; with that it passes
//! on heartbeats and words about jobs, and says when the connection is gone. The newest connection
//! of a node wins; the older one is told so and has no further effect.

mod breaker;
mod counting;
mod elsewhere;
mod failures;
mod limits;
mod marks;
mod records;
mod reports;
mod running;
mod state;
mod supports;

pub use breaker::BreakerView;
pub(crate) use breaker::Fault;
pub use failures::NodeFailure;
pub use lingua_core::link::Arrival;
pub use lingua_store::nodes::Order;
pub(crate) use records::FORGET_AFTER;
pub use reports::Heard;
pub(crate) use reports::INHIBITION;
pub(crate) use state::{BEFORE, Held, NodeState, SendError, SentOver};
pub use supports::Supports;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lingua_core::link::{Overload, OverloadPolicy, Trust};
use lingua_core::node::{CapabilityError, Declaration, Health, NodeProfile};
use lingua_core::outcome::Code;
use lingua_core::{JobId, ModelId, NodeId};
use lingua_store::nodes::{Claim, ProfileVersion, Put, Registration};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cluster::remote::Outbox;
use crate::dispatch::{JobEvent, Waiting};
use crate::job::{Refusal, ToNode, is_code};
use crate::shared::Shared;
use limits::{NodeRates, Registrations};
use marks::Marks;
use state::{Inner, Link};

/// Nodes that one instance holds; a fleet beyond it needs more instances.
const MAX_NODES: usize = 200_000;

/// The service of nodes.
pub struct Nodes {
    shared: Arc<Shared>,
    waiting: Arc<Waiting>,
    table: RwLock<HashMap<NodeId, Arc<NodeState>, foldhash::quality::RandomState>>,
    serials: AtomicU64,
    marks: Mutex<Marks>,
    rates: NodeRates,
    registrations: Registrations,
}

/// What a node says of itself beside its abilities: shown, never decided on.
#[derive(Clone, Debug, Default)]
pub struct NodeDetail {
    /// Of its software.
    pub version: Option<String>,
    /// Where it runs.
    pub platform: Option<String>,
    /// Bounded JSON, as it came.
    pub hardware: Option<crate::job::Json>,
    /// In per cent, as last reported.
    pub cpu_percent: Option<f64>,
    /// In per cent, as last reported.
    pub gpu_percent: Option<f64>,
    /// In per cent, as last reported.
    pub mem_percent: Option<f64>,
    /// Its own last error.
    pub last_error: Option<String>,
}

/// A wish to be a node.
pub struct Register {
    /// Its stable name.
    pub node: NodeId,
    /// What it can do; slots left out are the default's.
    pub declaration: Declaration,
    /// Where it is in its life, by its own word.
    pub health: Health,
    /// What it understands.
    pub supports: Supports,
    /// How it came in.
    pub arrival: Arrival,
    /// Where to send what it is to do.
    pub out: mpsc::Sender<ToNode>,
    /// It tells what it runs in every heartbeat.
    pub reports: bool,
    /// What it runs now, by ids as it knows them; `None` if it does not say.
    pub running: Option<Vec<(JobId, u32)>>,
    /// What else it says.
    pub detail: NodeDetail,
}

/// A node's connection, as its door holds it.
#[derive(Clone)]
pub struct Connection {
    pub(crate) node: Arc<NodeState>,
    serial: u64,
}

impl Connection {
    /// Whose it is.
    pub fn node_id(&self) -> &NodeId {
        &self.node.id
    }

    /// Whether it is still the node's newest one.
    pub fn is_current(&self) -> bool {
        self.node.lock().link.as_ref().is_some_and(|link| link.serial == self.serial)
    }
}

/// What became of a wish to be a node.
pub struct Registered {
    /// To speak for the node with.
    pub connection: Connection,
    /// Rises with every connection of the node.
    pub epoch: u64,
    /// How often the node is to say that it lives.
    pub heartbeat: Duration,
    /// It takes jobs; otherwise its warm-up is awaited.
    pub ready: bool,
    /// This instance knew the node, so its running jobs go on.
    pub resumed: bool,
}

/// A sign of life. What is `None` stays as it was.
#[derive(Default)]
pub struct Heartbeat {
    /// What it can do, if that changed.
    pub declaration: Option<Declaration>,
    /// Where it is in its life.
    pub health: Option<Health>,
    /// What it runs, by ids as it knows them.
    pub running: Option<Vec<(JobId, u32)>>,
    /// How many jobs it runs, of a node that does not list them.
    pub running_jobs: Option<u32>,
    /// All services that run, by their ids.
    pub services: Option<Vec<String>>,
    /// Figures.
    pub cpu_percent: Option<f64>,
    /// Figures.
    pub gpu_percent: Option<f64>,
    /// Figures.
    pub mem_percent: Option<f64>,
}

impl Nodes {
    pub(crate) fn new(shared: Arc<Shared>, waiting: Arc<Waiting>) -> Self {
        let rates = NodeRates::new(shared.settings.node_limits);
        Nodes {
            shared,
            waiting,
            table: RwLock::default(),
            serials: AtomicU64::new(0),
            marks: Mutex::default(),
            rates,
            registrations: Registrations::new(rates.registrations),
        }
    }

    /// Makes the connection the node's newest one. An older one of the same node is told to close.
    pub async fn register(self: &Arc<Self>, wish: Register) -> Result<Registered, Refusal> {
        self.register_over(wish, None).await
    }

    /// The same over a connection that the node has already: its serial stays.
    pub async fn register_over(
        self: &Arc<Self>,
        wish: Register,
        over: Option<&Connection>,
    ) -> Result<Registered, Refusal> {
        let settings = &self.shared.settings;
        let Register { node: id, declaration, health, supports, arrival, out, .. } = wish;
        let (reports, running, detail) = (wish.reports, wish.running, wish.detail);
        let profile = profile_of(declaration, supports)?;
        self.may_register(&id)?;
        let known = self.get(&id);
        if known.is_none() && self.table.read().len() >= MAX_NODES {
            let full = "this instance has as many nodes as it can hold; try another one";
            return Err(Refusal::new(Code::QuotaExceeded, full).retry_after(5_000));
        }
        let timing = &settings.timing;
        let heartbeat_ms =
            if supports.any() { timing.heartbeat_ms } else { timing.compat_heartbeat_ms };
        let link = Link {
            serial: over
                .map_or_else(|| self.serials.fetch_add(1, Ordering::Relaxed) + 1, |c| c.serial),
            out: Outbox::Here(out),
            supports,
        };
        let now = Instant::now();
        let heartbeat = Duration::from_millis(heartbeat_ms);
        let version = ProfileVersion::of(&profile);
        let profile = Arc::new(profile);
        let order = match self.shared.store.nodes.ordered(&id).await {
            Ok(Order::Block) => return Err(blocked()),
            Ok(order) => order,
            Err(error) => return Err(Refusal::store_down(&error)),
        };
        // The record is written before the node counts here: a store that is down refuses it.
        let vitals = {
            let trust = match &known {
                Some(node) => node.lock().trust_of(arrival, settings),
                None => Trust::new(settings.slow_start, arrival),
            };
            lingua_store::nodes::Vitals {
                max: trust.open(profile.max_slots),
                health: if order == Order::Drain { Health::Draining } else { health },
                overloaded: false,
                fresh_for: heartbeat * 3,
            }
        };
        let registration = Registration {
            claim: Claim::Newest,
            owner: self.shared.instance.clone(),
            profile: (*profile).clone(),
            vitals,
            known: known.is_some() || running.as_ref().is_some_and(|running| !running.is_empty()),
        };
        let (epoch, moved) = match self.shared.store.nodes.put(&id, &registration).await {
            Ok(Put::Stored { epoch, replaced }) => (epoch, replaced.is_some()),
            Ok(Put::Superseded { .. }) => {
                return Err(Refusal::new(
                    Code::NodeIdConflict,
                    "a newer connection of it is there",
                ));
            }
            Err(error) => return Err(Refusal::store_down(&error)),
        };
        let resumed = known.as_ref().is_some_and(|node| node.lock().elsewhere.is_none());
        let node = {
            let inner = || Inner::new(Arc::clone(&profile), version, heartbeat_ms, settings);
            let mut table = self.table.write();
            let made = || Arc::new(NodeState::new(id.clone(), inner()));
            Arc::clone(table.entry(id.clone()).or_insert_with(made))
        };
        let serial = link.serial;
        {
            let mut inner = node.lock();
            if inner.epoch > epoch {
                let newer = "a newer connection of this node registered at the same time";
                return Err(Refusal::new(Code::NodeIdConflict, newer));
            }
            let older = inner.link.replace(link).filter(|older| older.serial != serial);
            if let Some(older) = older {
                let _ = older.out.try_send(ToNode::Superseded);
                tracing::info!(node.id = %id, "a newer connection of the node took over");
            }
            inner.renumber(epoch);
            inner.elsewhere = None;
            inner.order = order;
            (inner.profile, inner.version) = (Arc::clone(&profile), version);
            (inner.trust, inner.arrival) = (inner.trust_of(arrival, settings), Some(arrival));
            (inner.declared, inner.overload, inner.reports) =
                (health, Overload::default(), reports);
            inner.heartbeat = heartbeat;
            inner.lease = Duration::from_millis(timing.running_lease_for_ms(heartbeat_ms));
            inner.detail = Arc::new(detail);
            inner.gone_at = None;
            inner.said = None;
            inner.alive(now);
            // What it runs is heard with its first heartbeat, unless it says so at once.
            let silent = moved && supports.any() && running.is_none();
            inner.unsaid_until = silent.then(|| now + heartbeat * 2);
            inner.tell_jobs(|attempt| JobEvent::NodeBack { attempt });
            // A report that is too long is refused with the next heartbeat.
            let _ = running.map(|running| self.note_running(&mut inner, &running));
            inner.todo.beat |= resumed;
            inner.todo.renew |= resumed;
        }
        self.refresh(&node);
        self.sync(&node);
        self.shared.metrics.registrations.inc();
        tracing::info!(node.id = %id, epoch, resumed, slots = profile.max_slots, "node registered");
        let ready = health == Health::Ready;
        let connection = Connection { node, serial };
        Ok(Registered { connection, epoch, heartbeat, ready, resumed })
    }

    /// Takes a sign of life. One whose list of running jobs is too long counts all the same; only the
    /// list is refused.
    pub fn heartbeat(self: &Arc<Self>, from: &Connection, beat: Heartbeat) -> Result<(), Refusal> {
        let supports = from.node.lock().link.as_ref().map(|link| link.supports);
        let profile = |declaration| profile_of(declaration, supports.unwrap_or_default());
        let profile = beat.declaration.map(profile).transpose()?;
        let noted = {
            let mut inner = from.node.lock();
            if inner.link.as_ref().is_none_or(|link| link.serial != from.serial) {
                return Err(Refusal::new(Code::NotFound, "register again"));
            }
            if inner.order == Order::Block {
                return Err(blocked());
            }
            inner.alive(Instant::now());
            if let Some(profile) = profile
                && profile != *inner.profile
            {
                inner.version = ProfileVersion::of(&profile);
                inner.profile = Arc::new(profile);
                inner.todo.put = true;
            }
            if let Some(health) = beat.health {
                inner.declared = health;
            }
            let figures = [beat.cpu_percent, beat.gpu_percent, beat.mem_percent];
            if figures.iter().any(Option::is_some) {
                inner
                    .overload
                    .report(figures.into_iter().flatten(), self.overload_policy(supports));
                let detail = Arc::make_mut(&mut inner.detail);
                detail.cpu_percent = beat.cpu_percent;
                detail.gpu_percent = beat.gpu_percent;
                detail.mem_percent = beat.mem_percent;
            }
            inner.reports |= beat.running.is_some();
            if let Some(running) = beat.running_jobs.filter(|_| beat.running.is_none()) {
                inner.todo.count = Some((running, Instant::now()));
            }
            inner.todo.beat = true;
            inner.todo.renew = true;
            beat.running.map_or(Ok(()), |running| self.note_running(&mut inner, &running))
        };
        if let Some(services) = beat.services {
            self.services_run(&from.node, services);
        }
        self.refresh(&from.node);
        self.sync(&from.node);
        noted
    }

    /// An agent that reports three times less often has to report it twice: a peak of a moment would keep
    /// others before it for long.
    fn overload_policy(&self, supports: Option<Supports>) -> OverloadPolicy {
        let reports = if supports.is_some_and(Supports::any) { 1 } else { 2 };
        OverloadPolicy { above: self.shared.settings.resource_threshold_percent, reports }
    }

    /// The connection is gone. Of an older connection than the present one it means nothing.
    pub fn gone(self: &Arc<Self>, connection: &Connection) {
        let node = &connection.node;
        {
            let mut inner = node.lock();
            if inner.link.as_ref().is_none_or(|link| link.serial != connection.serial) {
                return;
            }
            inner.link = None;
            inner.gone_at = Some(Instant::now());
            inner.tell_jobs(|attempt| JobEvent::NodeGone { attempt });
            inner.todo.beat = true;
        }
        tracing::info!(node.id = %node.id, "node disconnected");
        self.refresh(node);
        self.sync(node);
    }

    /// What an administrator wants of a node, wherever it is. `false` if nobody knows such a node.
    pub async fn order(self: &Arc<Self>, id: &NodeId, order: Order) -> Result<bool, Refusal> {
        let written = self.shared.store.nodes.order(id, order).await;
        let known = written.map_err(|error| Refusal::store_down(&error))?;
        if known {
            tracing::info!(node.id = %id, order = order.as_str(), "an administrator's order");
            self.obey(id, order);
        }
        Ok(known)
    }

    /// An order reached the instance that has the node's connection.
    pub(crate) fn obey(self: &Arc<Self>, id: &NodeId, order: Order) {
        let Some(node) = self.get(id) else { return };
        {
            let mut inner = node.lock();
            if inner.order == order {
                return;
            }
            inner.order = order;
            if inner.elsewhere.is_some() {
                drop(inner);
                return self.refresh(&node);
            }
            inner.todo.beat = true;
        }
        let command = if order == Order::Serve { "resume" } else { "drain" };
        node.tell(ToNode::Control { command, reason: Some("by an administrator".into()) });
        if order == Order::Block {
            node.tell(ToNode::Blocked);
        }
        self.refresh(&node);
        self.sync(&node);
    }

    /// A node says that something is wrong with it: counted and shown.
    pub fn note_error(&self, from: &Connection, code: &str, message: &str) {
        self.shared.metrics.node_errors.inc();
        let text: String = format!("{code}: {message}").chars().take(256).collect();
        // Its message may quote what was said: it is shown to administrators, and logged nowhere.
        let reason = if is_code(code) { code } else { "not a code" };
        tracing::warn!(node.id = %from.node.id, reason, "a node reports an error");
        Arc::make_mut(&mut from.node.lock().detail).last_error = Some(text);
    }

    /// The connection that a node's calls over HTTP act for.
    pub fn connection(&self, id: &NodeId) -> Option<Connection> {
        let node = self.get(id)?;
        let serial = node.lock().link.as_ref().filter(|link| link.out.there().is_none())?.serial;
        Some(Connection { node, serial })
    }

    /// Nodes that miss something for a direction.
    pub(crate) fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock()
    }

    pub(crate) fn get(&self, id: &NodeId) -> Option<Arc<NodeState>> {
        self.table.read().get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<NodeState>> {
        self.table.read().values().cloned().collect()
    }

    /// Brings choosing up to date with the node, and offers what is free to those who wait.
    pub(crate) fn refresh(&self, node: &NodeState) {
        let free = {
            let inner = node.lock();
            let entry = inner.entry(Instant::now());
            let able = entry.standing.health == Health::Ready && entry.standing.fresh;
            let open = inner.open_slots();
            // Under the node's lock, so that what was true before never overwrites what is.
            self.shared.fleet.put(&node.id, entry, open);
            if able { open } else { 0 }
        };
        if free > 0 {
            self.waiting.offer(&self.shared.fleet, &node.id, free);
        }
    }
}

impl Inner {
    /// Tells every job that the node has an attempt of.
    fn tell_jobs(&self, event: impl Fn(u32) -> JobEvent) {
        for held in self.held.values() {
            if let Some(job) = &held.job {
                let _ = job.try_send(event(held.attempt));
            }
        }
    }
}

/// The name under which it is kept that a node misses a model or a service.
pub(crate) fn gap_name(said: &str) -> Option<ModelId> {
    ModelId::new(said.replace('@', ".")).ok()
}

fn blocked() -> Refusal {
    Refusal::new(Code::Forbidden, "an administrator blocked this node")
}

fn profile_of(declaration: Declaration, supports: Supports) -> Result<NodeProfile, Refusal> {
    let profile =
        NodeProfile::from_declaration(declaration).map_err(|error: CapabilityError| {
            Refusal::new(Code::InvalidCapability, error.to_string())
        })?;
    Ok(NodeProfile { agent: supports.bits(), ..profile })
}
