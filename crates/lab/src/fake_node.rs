//! A simulated node over the real socket.
//!
//! [`FakeNode::connect`] makes one that works by itself, as its [`Behaviour`] says: the other end of
//! tests, demonstrations and benches. [`FakeNode::scripted`] makes one that does nothing but what
//! its test tells it. Both speak the wire contract and share no code with the scheduler, so that a
//! mistake in the one is not repeated in the other.
//!
//! Many nodes fit in a process: each is one task with one timer and small buffers. In reading order:
//! `options` and `behaviour` say what a node is, `messages` and `wire` what it says, `link` is one
//! connection, `jobs` its memory, `worker` its work, `stats` what it can be asked, `scripted` the
//! other kind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;

mod behaviour;
mod jobs;
mod link;
mod messages;
mod options;
mod scripted;
mod stats;
mod wire;
mod worker;

pub use behaviour::{Behaviour, Latency};
pub use options::{Heartbeats, NmtPairs, NodeOptions, SUPPORTS};
pub use scripted::{Received, ScriptedNode};
pub use stats::{JobEvent, LogEntry, NodeStats};

use link::Link;
use stats::{Phase, Shared};
use worker::{Told, Worker};

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

/// How a connection ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    /// The code of the close frame; `None` if the connection just ended.
    pub code: Option<u16>,
    /// Its reason.
    pub reason: String,
}

/// Why a node could not connect. Found in the error of [`FakeNode::connect`] by
/// `downcast_ref::<ConnectError>()`; what is not in here has no code to tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The scheduler answered the registration with an error.
    #[error("the scheduler refused the node: {code}: {message}")]
    Refused {
        /// Its code.
        code: String,
        /// Its sentence.
        message: String,
    },
    /// The scheduler closed the connection instead of answering the registration.
    #[error("the scheduler answered the registration with a close: {0}")]
    Closed(Closed),
    /// The request to speak WebSocket was answered otherwise.
    #[error("the upgrade was answered {status}: {body}")]
    Upgrade {
        /// The HTTP status.
        status: u16,
        /// What came with it.
        body: String,
    },
}

impl FakeNode {
    /// Connects, registers, and from then on answers jobs. A refusal is a [`ConnectError`].
    pub async fn connect(options: NodeOptions) -> anyhow::Result<Self> {
        options.behaviour.check()?;
        let (link, registration) = Link::establish(&options, options.node_id.as_deref()).await?;
        let shared = Arc::new(Shared::new(options.log_capacity));
        let (orders, told) = mpsc::channel(ORDERS);
        let worker = Worker::new(options, &registration, Arc::clone(&shared));
        let task = tokio::spawn(worker.run(link, told));
        Ok(Self { registration, shared, orders, task })
    }

    /// Connects and registers, and from then on does what its test says.
    pub async fn scripted(options: NodeOptions) -> anyhow::Result<ScriptedNode> {
        let (link, registration) = Link::establish(&options, options.node_id.as_deref()).await?;
        Ok(ScriptedNode::start(options, link, Some(registration)))
    }

    /// Connects and leaves even the registration to its test.
    pub async fn unregistered(options: NodeOptions) -> anyhow::Result<ScriptedNode> {
        let link = Link::dial(&options).await?;
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

impl Closed {
    /// Whether the peer would say the same again: policy, or a newer connection with the same name.
    fn is_final(&self) -> bool {
        matches!(self.code, Some(1008 | 4001))
    }

    /// The pause that a draining scheduler asks for.
    fn retry_after(&self) -> Option<Duration> {
        let (_, after) = self.reason.split_once("retry_after_ms")?;
        let digits = after.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok().map(Duration::from_millis)
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => f.write_str("without a close frame"),
            Some(code) if self.reason.is_empty() => write!(f, "{code}"),
            Some(code) => write!(f, "{code} {:?}", self.reason),
        }
    }
}

impl From<Option<CloseFrame>> for Closed {
    fn from(frame: Option<CloseFrame>) -> Self {
        // RFC 6455: a close without a code counts as 1005.
        frame.map_or(Self { code: Some(1005), reason: String::new() }, |frame| Self {
            code: Some(frame.code.into()),
            reason: frame.reason.to_string(),
        })
    }
}

impl ConnectError {
    /// Whether asking again would be answered the same.
    fn is_final(&self) -> bool {
        match self {
            ConnectError::Refused { code, .. } => matches!(
                code.as_str(),
                "UNAUTHORIZED" | "FORBIDDEN" | "INVALID_CAPABILITY" | "INVALID_MESSAGE"
            ),
            ConnectError::Closed(closed) => closed.is_final(),
            ConnectError::Upgrade { status, .. } => matches!(status, 401 | 403 | 404),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_of_a_drain_is_found_however_it_is_written() {
        for (reason, pause_ms) in [
            (r#"{"retry_after_ms":1500}"#, Some(1500)),
            ("retry_after_ms=20 please", Some(20)),
            ("retry_after_ms", None),
            ("drain", None),
        ] {
            let closed = Closed { code: Some(1001), reason: reason.to_owned() };
            assert_eq!(closed.retry_after(), pause_ms.map(Duration::from_millis), "{reason}");
        }
    }
}
