//! The conversation with one node: one task reads, answers and writes.
//!
//! The connection is the node's identity. What it says about jobs goes to the engine as it is read,
//! what the engine wants of it is written in batches, and when the task ends for whatever reason
//! the engine knows that the node is gone.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Utf8Bytes, WebSocket};
use bytes::Bytes;
use lingua_core::NodeId;
use lingua_core::node::{Health, NodeProfile};
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use lingua_engine::job::{Assign, Refusal, ToNode};
use lingua_engine::nodes::{Connection, Heartbeat, Nodes, Register, Supports};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::limits::{Offences, Rate};
use super::outbound::{Close, End, Event, Wire};
use crate::listener::Peer;
use crate::wire::capability::Abilities;
use crate::wire::node::{self, AboutItself, FromNode};

/// For the first message to arrive.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// A connection without a message or pong for so long is dead; without a registration, one without
/// a message.
const SILENCE: Duration = Duration::from_secs(90);

const PING_EVERY: Duration = Duration::from_secs(15);

/// Messages a second that no node has a reason to send.
const MAX_MESSAGES: u32 = 2_000;

/// Messages that one job brings back, beyond that.
const MESSAGES_PER_JOB: u32 = 8;

/// What waits for the node before the engine is told that it is congested: an assign and a word
/// more for every slot that a node can have, and as many again.
const OUTBOX: usize = 1_024;

/// Smaller messages are copied when they are kept: a slice would keep the buffer that they were
/// read into, with all that came along.
const COPY_BELOW: usize = 4_096;

/// A close ends the conversation.
type Goes = Result<(), Close>;

/// Speaks with a node until one of the two has had enough.
pub(super) async fn serve(socket: WebSocket, engine: Engine, peer: Peer) {
    let mut ending = peer.ending.clone();
    let mut node = NodeSocket::new(socket, engine, peer);
    let ended = async move {
        // An accept loop that is gone has ended too.
        let _ = ending.wait_for(|ended| *ended).await;
    };
    let end = node.converse(ended).await;
    let NodeSocket { wire, present, .. } = node;
    tracing::debug!(node.id = present.name(), reason = end.why(), "a node's socket ends");
    // The engine knows at once; the goodbye may take a moment.
    drop(present);
    wire.end(end).await;
}

/// One connection of a node.
struct NodeSocket {
    engine: Engine,
    wire: Wire<ToNode>,
    present: Present,
    /// What the engine sends through. It is the engine's alone once the node is registered: a
    /// connection that the engine let go of then learns of it.
    outbox: Result<mpsc::Sender<ToNode>, mpsc::WeakSender<ToNode>>,
    supports: Supports,
    /// What the node last said that it can do.
    abilities: Abilities,
    /// It speaks of its health itself; otherwise that follows from what it can do.
    says_health: bool,
    /// Assigns that are in line and not yet written, to be told of when they are.
    unsent: Vec<Assign>,
    rate: Rate,
    offences: Offences,
    /// When it last gave a sign of life, and when it last said something.
    alive_at: Instant,
    spoke_at: Option<Instant>,
    opened_at: Instant,
    next_ping: Instant,
}

/// The node's presence in the engine, which ends with this value however its task ends.
struct Present {
    nodes: Arc<Nodes>,
    connection: Option<Connection>,
}

impl Present {
    fn name(&self) -> &str {
        self.connection.as_ref().map_or("", |connection| connection.node_id().as_str())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection
            && tokio::runtime::Handle::try_current().is_ok()
        {
            self.nodes.gone(connection);
        }
    }
}

impl NodeSocket {
    fn new(socket: WebSocket, engine: Engine, peer: Peer) -> Self {
        let now = Instant::now();
        let (outbox, messages) = mpsc::channel(OUTBOX);
        let patience = Duration::from_millis(engine.settings().timing.send_ms);
        NodeSocket {
            wire: Wire::new(socket, messages, peer, patience),
            present: Present { nodes: Arc::clone(&engine.nodes), connection: None },
            engine,
            outbox: Ok(outbox),
            supports: Supports::default(),
            abilities: Abilities::default(),
            says_health: false,
            unsent: Vec::new(),
            rate: Rate::per_second(MAX_MESSAGES, now),
            offences: Offences::default(),
            alive_at: now,
            spoke_at: None,
            opened_at: now,
            next_ping: now + PING_EVERY,
        }
    }

    async fn converse(&mut self, ended: impl Future<Output = ()>) -> End {
        let mut ended = pin!(ended);
        self.wire.wake_at(self.opened_at + FIRST_MESSAGE);
        loop {
            let event = tokio::select! {
                biased;
                event = self.wire.event() => event,
                () = &mut ended => return End::Say(self.going_away()),
            };
            let goes = match event {
                Event::Text(text) => self.on_text(text).await,
                Event::Binary => {
                    self.alive_at = Instant::now();
                    self.offence(Refusal::new(Code::UnsupportedMessage, "nodes send text frames"))
                }
                Event::Alive => {
                    self.alive_at = Instant::now();
                    Ok(())
                }
                Event::Outgoing(message) => self.on_outgoing(message),
                Event::Written => {
                    self.unsent.drain(..).for_each(|assign| assign.sent());
                    Ok(())
                }
                Event::Due => self.on_due(Instant::now()),
                Event::Ended(end) => return end,
            };
            if let Err(close) = goes {
                return End::Say(close);
            }
        }
    }

    async fn on_text(&mut self, text: Utf8Bytes) -> Goes {
        let now = Instant::now();
        (self.alive_at, self.spoke_at) = (now, Some(now));
        if !self.rate.take(now) {
            let detail = format!("more than {MAX_MESSAGES} messages a second");
            self.refuse(&Refusal::new(Code::RateLimited, &detail));
            return Err(Close::new(1008, detail));
        }
        let whole = || match text.len() {
            ..COPY_BELOW => Bytes::copy_from_slice(text.as_bytes()),
            _ => Bytes::from(text.clone()),
        };
        let said = match node::decode(&text, whole) {
            Ok(said) => said,
            Err(refusal) => return self.offence(refusal),
        };
        let Some(connection) = &self.present.connection else {
            return match said {
                FromNode::Register(said) => self.register(*said).await,
                _ => {
                    self.refuse(&Refusal::new(Code::NotFound, "register first"));
                    Ok(())
                }
            };
        };
        match said {
            FromNode::Job(word) => {
                // What is stale was counted; there is nothing to answer.
                let _ = self.engine.nodes.job_word(connection, word);
                Ok(())
            }
            FromNode::Heartbeat(said) => self.heartbeat(*said),
            FromNode::Register(said) => self.register(*said).await,
            FromNode::Error { code, message } => {
                self.engine.nodes.note_error(connection, &code, &message);
                Ok(())
            }
        }
    }

    /// The node says who it is, for the first time or once more.
    async fn register(&mut self, mut said: AboutItself) -> Goes {
        let node = match self.name(said.node_id.as_deref()) {
            Ok(node) => node,
            Err(refusal) => return self.offence(refusal),
        };
        let mut abilities = Abilities::default();
        said.put_over(&mut abilities);
        let declaration = abilities.declaration(self.engine.settings().default_max_slots);
        let read = declaration.and_then(|declared| Ok((declared, said.health()?, said.running()?)));
        let (declaration, health, running) = match read {
            Ok(read) => read,
            Err(refusal) => return self.offence(refusal),
        };
        let out = match &self.outbox {
            Ok(strong) => Some(strong.clone()),
            Err(weak) => weak.upgrade(),
        };
        let Some(out) = out else { return Err(superseded()) };
        let (reports, running) = (running.is_some(), running);
        let (jobs, strangers) = running.map(|r| (r.jobs, r.strangers)).unzip();
        let supports = said.supports();
        let wish = Register {
            node,
            declaration,
            health: health.unwrap_or_else(|| health_of(&abilities)),
            supports,
            out,
            reports,
            running: jobs,
            detail: said.detail(),
        };
        let over = self.present.connection.as_ref();
        let registered = match self.engine.nodes.register_over(wish, over).await {
            Ok(registered) => registered,
            Err(refusal) => {
                let blocked = refusal.code == Code::Forbidden;
                let close = Close::new(1008, refusal.detail.clone());
                return self.offence(refusal).and(if blocked { Err(close) } else { Ok(()) });
            }
        };
        let mut ack = String::new();
        node::register_ack(&registered, &mut ack);
        self.wire.send(ack);
        self.cancel_strangers(strangers.unwrap_or_default());
        self.present.connection = Some(registered.connection);
        if let Ok(strong) = &self.outbox {
            self.outbox = Err(strong.downgrade());
        }
        (self.supports, self.abilities) = (supports, abilities);
        self.says_health = health.is_some();
        Ok(())
    }

    /// The name that the node registers under.
    fn name(&self, said: Option<&str>) -> Result<NodeId, Refusal> {
        let invalid = |detail: String| Refusal::new(Code::InvalidMessage, detail);
        let said = said
            .map(|id| NodeId::new(id).map_err(|error| invalid(format!("node_id: {error}"))))
            .transpose()?;
        let own = self.present.connection.as_ref().map(|connection| connection.node_id().clone());
        match (said, own) {
            (Some(said), Some(own)) if said != own => {
                Err(invalid(format!("node_id: this connection is {own}'s")))
            }
            (Some(name), _) | (None, Some(name)) => Ok(name),
            (None, None) => Ok(self.fresh_name()),
        }
    }

    fn fresh_name(&self) -> NodeId {
        loop {
            let chance = self.engine.chance().bits() as u32;
            let name = NodeId::new(format!("node-{chance:08X}")).expect("within an id's letters");
            if self.engine.node_view(&name).is_none() {
                return name;
            }
        }
    }

    fn heartbeat(&mut self, mut said: AboutItself) -> Goes {
        let Some(connection) = &self.present.connection else { return Ok(()) };
        if let Some(id) = said.node_id.as_deref().filter(|id| *id != self.present.name()) {
            let detail =
                format!("node_id: this connection is {}'s, not {id:?}'s", self.present.name());
            return self.offence(Refusal::new(Code::InvalidMessage, detail));
        }
        let (health, running) = match said.health().and_then(|health| Ok((health, said.running()?)))
        {
            Ok(read) => read,
            Err(refusal) => return self.offence(refusal),
        };
        let mut abilities = self.abilities.clone();
        said.put_over(&mut abilities);
        let changed = abilities != self.abilities;
        let declared =
            changed.then(|| abilities.declaration(self.engine.settings().default_max_slots));
        // A word about its abilities that cannot be is refused; that it lives is true all the same.
        let (declaration, refusal) = match declared.map(|declared| declared.and_then(checked)) {
            None => (None, None),
            Some(Ok(declaration)) => (Some(declaration), None),
            Some(Err(refusal)) => (None, Some(refusal)),
        };
        self.says_health |= health.is_some();
        let follows = changed && refusal.is_none() && !self.says_health;
        let (jobs, strangers) = running.map(|running| (running.jobs, running.strangers)).unzip();
        let usage = said.usage();
        let beat = Heartbeat {
            declaration,
            health: health.or_else(|| follows.then(|| health_of(&abilities))),
            running: jobs,
            cpu_percent: usage.cpu_percent,
            gpu_percent: usage.gpu_percent,
            mem_percent: usage.mem_percent,
        };
        let taken = self.engine.nodes.heartbeat(connection, beat);
        self.cancel_strangers(strangers.unwrap_or_default());
        if let Err(refusal) = taken {
            self.refuse(&refusal);
            return Ok(());
        }
        if self.supports.any() {
            let mut ack = String::new();
            node::heartbeat_ack(self.engine.now_ms(), &mut ack);
            self.wire.send(ack);
        }
        match refusal {
            Some(refusal) => self.offence(refusal),
            None => {
                self.abilities = abilities;
                Ok(())
            }
        }
    }

    /// What cannot be a job of ours is stopped like one that we no longer know.
    fn cancel_strangers(&mut self, strangers: Vec<(String, u32)>) {
        for (job, attempt) in strangers {
            let mut cancel = String::new();
            node::cancel_stranger(&job, attempt, &mut cancel);
            self.wire.send(cancel);
        }
    }

    fn on_outgoing(&mut self, message: Option<ToNode>) -> Goes {
        let message = match message {
            Some(ToNode::Superseded) | None => return Err(superseded()),
            Some(ToNode::Blocked) => {
                return Err(Close::new(1008, "an administrator blocked this node"));
            }
            Some(ToNode::ResultAck { .. }) if !self.supports.result_ack => return Ok(()),
            Some(message) => message,
        };
        let mut text = String::new();
        node::render(&message, self.supports, &mut text);
        self.wire.send(text);
        if let ToNode::Assign(assign) = message {
            if self.supports.binary_audio {
                self.wire.send_binary(node::audio_frame(assign.job, &assign.work.audio));
            }
            self.rate.expect(MESSAGES_PER_JOB);
            if assign.wants_receipt() {
                self.unsent.push(*assign);
                self.wire.want_receipt();
            }
        }
        Ok(())
    }

    fn on_due(&mut self, now: Instant) -> Goes {
        let registered = self.present.connection.is_some();
        let speak_by = match self.spoke_at {
            None => self.opened_at + FIRST_MESSAGE,
            Some(spoke_at) => spoke_at + SILENCE,
        };
        if !registered && speak_by <= now {
            return Err(Close::new(4002, "no registration in time"));
        }
        let silent_at = self.alive_at + SILENCE;
        if silent_at <= now {
            return Err(Close::new(1013, "nothing was heard for too long"));
        }
        if self.next_ping <= now {
            self.wire.ping();
            self.next_ping = now + PING_EVERY;
        }
        let next = silent_at.min(self.next_ping);
        self.wire.wake_at(if registered { next } else { next.min(speak_by) });
        Ok(())
    }

    /// Answers something that cannot be; a node that keeps on is shown the door.
    fn offence(&mut self, refusal: Refusal) -> Goes {
        self.refuse(&refusal);
        match self.offences.note(Instant::now()) {
            false => Ok(()),
            true => Err(Close::new(1008, "too many messages that cannot be understood")),
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        tracing::debug!(
            node.id = self.present.name(),
            code = refusal.code.as_str(),
            "a node's message is refused"
        );
        let mut text = String::new();
        node::error(refusal, &mut text);
        self.wire.send(text);
    }

    /// Spread out, so that a fleet does not come back in one moment.
    fn going_away(&self) -> Close {
        let pause = 200 + self.engine.chance().bits() % 1_800;
        Close::new(1001, format!("{{\"retry_after_ms\":{pause}}}"))
    }
}

fn superseded() -> Close {
    Close::new(4001, "a newer connection of this node took over")
}

/// A node that does not speak of its health is ready once it can repair what it hears.
fn health_of(abilities: &Abilities) -> Health {
    match abilities.semantic_core_ready {
        Some(false) => Health::Registering,
        _ => Health::Ready,
    }
}

/// Refuses what a profile cannot be made of.
fn checked(
    declaration: lingua_core::node::Declaration,
) -> Result<lingua_core::node::Declaration, Refusal> {
    NodeProfile::from_declaration(declaration.clone())
        .map(|_| declaration)
        .map_err(|error| Refusal::new(Code::InvalidCapability, error.to_string()))
}
