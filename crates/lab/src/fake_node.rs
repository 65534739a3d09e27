//! A simulated node over the real socket.
//!
//! [`FakeNode::connect`] makes one that works by itself, as its [`Behaviour`] says: the other end of
//! tests, demonstrations and benches. [`FakeNode::scripted`] makes one that does nothing but what
//! its test tells it. Both speak the wire contract and share no code with the scheduler, so that a
//! mistake in the one is not repeated in the other.
//!
//! Many nodes fit in a process: each is one task with one timer and small buffers. In reading order:
//! `options` and `behaviour` say what a node is, `existing` what agents in the field do besides, `messages`, `wire` and `said` what it says, `jobs` its memory, `worker` its work, `stats` what it can be asked, `scripted` the
//! other kind.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

mod behaviour;
mod existing;
mod jobs;
mod messages;
mod options;
mod said;
mod scripted;
mod stats;
mod wire;
mod worker;

pub use crate::closed::Closed;
pub use crate::link::ConnectError;
pub use behaviour::{Behaviour, Latency};
pub use existing::ExistingAgent;
pub use options::{Heartbeats, NmtPairs, NodeOptions, SUPPORTS};
pub use scripted::{Received, ScriptedNode};
pub use stats::{JobEvent, LogEntry, NodeStats};

pub(crate) use messages::merge;
use stats::{Phase, Shared};
use worker::{Told, Worker};

use crate::link::{Dial, Link};

/// Orders that a node has not carried out yet; the next one waits.
const ORDERS: usize = 16;

/// A node that works by itself. Dropping it is as sudden as killing its process.
#[derive(Debug)]
pub struct FakeNode {
    registration: Registration,
    shared: Arc<Shared>,
    orders: mpsc::Sender<Told>,
    task: JoinHandle<()>,
}

/// What the scheduler answered to the registration.
#[derive(Debug, Clone, Deserialize)]
pub struct Registration {
    /// The node's name, its own or the one that the scheduler made.
    pub node_id: String,
    /// `ready` or `registering`.
    #[serde(default)]
    pub status: String,
    /// How often it wants to hear of the node.
    pub heartbeat_interval_ms: Option<u64>,
    /// Which connection of this node it is.
    pub epoch: Option<u64>,
    /// The whole `node_register_ack`.
    #[serde(skip)]
    pub message: Value,
}

impl FakeNode {
    /// Connects, registers, and from then on answers jobs. A refusal is a [`ConnectError`].
    pub async fn connect(options: NodeOptions) -> anyhow::Result<Self> {
        options.behaviour.check()?;
        let starting = options.starts_before_services();
        let (link, registration) =
            establish(&options, options.node_id.as_deref(), starting, Some(&[])).await?;
        let shared = Arc::new(Shared::new(options.log_capacity, options.journal.clone()));
        let (orders, told) = mpsc::channel(ORDERS);
        let worker = Worker::new(options, &registration, Arc::clone(&shared));
        let task = tokio::spawn(worker.run(link, told));
        Ok(Self { registration, shared, orders, task })
    }

    /// Connects and registers, and from then on does what its test says.
    pub async fn scripted(options: NodeOptions) -> anyhow::Result<ScriptedNode> {
        let starting = options.starts_before_services();
        let (link, registration) =
            establish(&options, options.node_id.as_deref(), starting, None).await?;
        Ok(ScriptedNode::start(options, link, Some(registration)))
    }

    /// Connects and leaves even the registration to its test.
    pub async fn unregistered(options: NodeOptions) -> anyhow::Result<ScriptedNode> {
        let link = dial(&options).await?;
        Ok(ScriptedNode::start(options, link, None))
    }

    /// Its name.
    pub fn node_id(&self) -> &str {
        &self.registration.node_id
    }

    /// What the scheduler answered when it first registered.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// What it has seen and done so far.
    pub fn stats(&self) -> NodeStats {
        self.shared.counters.snapshot()
    }

    /// The last events of its jobs, oldest first; empty without [`NodeOptions::log_capacity`].
    pub fn log(&self) -> Vec<LogEntry> {
        self.shared.log().iter().cloned().collect()
    }

    /// The last `error` from the scheduler, message that could not be read, or failed reconnect.
    pub fn last_error(&self) -> Option<String> {
        self.shared.last_error().clone()
    }

    /// Whether it is registered now.
    pub fn is_connected(&self) -> bool {
        *self.shared.phase.borrow() == Phase::Connected
    }

    /// From now on new jobs are treated like this; the dice start afresh from its seed.
    pub async fn set_behaviour(&self, behaviour: Behaviour) -> anyhow::Result<()> {
        behaviour.check()?;
        self.order(Told::Behave(behaviour)).await
    }

    /// Sends a heartbeat now, with these fields put over it.
    pub async fn heartbeat(&self, extra: Value) -> anyhow::Result<()> {
        self.order(Told::Heartbeat(extra)).await
    }

    /// Crashes as [`Behaviour::crash`] does: gone without a close, everything forgotten, back after
    /// the pause.
    pub async fn crash(&self) -> anyhow::Result<()> {
        self.order(Told::Crash).await
    }

    /// Waits until it has given up: closed without reconnecting, not wanted any more. Says how its
    /// last connection ended.
    pub async fn ended(&self) -> Closed {
        let mut phase = self.shared.phase.subscribe();
        let ended = phase.wait_for(|phase| matches!(phase, Phase::Ended(_))).await;
        match ended.as_deref() {
            Ok(Phase::Ended(closed)) => closed.clone(),
            _ => Closed::default(),
        }
    }

    /// Sends what it still has to say, then a close, and waits a moment for the scheduler's own.
    pub async fn close(self) -> Closed {
        // Fails if it has ended already, and then there is nothing to end.
        let _ = self.orders.send(Told::Close).await;
        self.ended().await
    }

    /// Drops the connection at once, without a close, for good.
    pub fn abort(self) {
        drop(self);
    }

    async fn order(&self, order: Told) -> anyhow::Result<()> {
        let id = &self.registration.node_id;
        self.orders.send(order).await.with_context(|| format!("node {id} has ended"))
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Registration {
    /// Reads the answer to a registration.
    pub(self) fn read(message: Value) -> anyhow::Result<Self> {
        let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        match message["type"].as_str() {
            Some("node_register_ack") => {
                let read = Self::deserialize(&message);
                let mut registration = read.with_context(|| format!("in {message}"))?;
                registration.message = message;
                Ok(registration)
            }
            Some("error") => {
                Err(ConnectError::Refused { code: text("code"), message: text("message") }.into())
            }
            _ => bail!("came instead of the node_register_ack: {message}"),
        }
    }

    fn heartbeat_interval(&self) -> Option<Duration> {
        self.heartbeat_interval_ms.map(Duration::from_millis)
    }
}

/// Connects, without a word.
async fn dial(options: &NodeOptions) -> anyhow::Result<Link> {
    let to = Dial {
        url: &options.url,
        headers: &options.headers,
        from: None,
        tls: options.tls.as_ref(),
        read_buffer_bytes: options.read_buffer_bytes,
    };
    Link::dial(&to).await.context("a node does not connect")
}

/// Connects and registers; `starting` while none of its services runs.
async fn establish(
    options: &NodeOptions,
    node_id: Option<&str>,
    starting: bool,
    running: Option<&[(String, u64)]>,
) -> anyhow::Result<(Link, Registration)> {
    let limit = options.persistence.handshake_limit;
    let registered = async {
        let mut link = dial(options).await?;
        let mut message = messages::register(options, node_id, starting);
        if let Some(running) = running {
            messages::say_running(&mut message, options, running);
        }
        link.send_json(&message);
        loop {
            let answer = link.answer().await.context("the registration")?;
            // An existing agent ignores errors, and waits for its answer or for the close.
            if !(options.old_agent && answer["type"] == "error") {
                return Ok((link, Registration::read(answer)?));
            }
        }
    };
    let registered = timeout(limit, registered).await;
    registered.with_context(|| format!("not registered within {limit:?}"))?
}
