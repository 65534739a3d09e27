//! The conversation with one node: one task reads, answers and writes.
//!
//! The connection is the node's identity. Its messages about jobs go to the engine as they are read, messages to it
//! are written in batches, and when the task ends for whatever reason the engine is told that the node is gone.
//! `registration` handles its registrations and heartbeats.

mod registration;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use lingua_engine::job::{Assign, Refusal, ToNode};
use lingua_engine::nodes::{Connection, Nodes, Supports};
use lingua_protocol::close;
use lingua_protocol::node::capability::Abilities;
use lingua_protocol::node::outbound::audio_frame;
use lingua_protocol::node::{FromNode, decode};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::SocketPeer;
use super::limits::{Offences, Rate};
use super::outbound::{Close, End, Event, Wire};
use super::socket::Socket;
use crate::config::Limits;
use crate::listener::Peer;
use crate::wire::node;

const PING_EVERY: Duration = Duration::from_secs(15);

/// Messages that one job brings back, beyond that.
const MESSAGES_PER_JOB: u32 = 8;

/// Messages that wait for the node before it counts as congested: an assignment and one more message for every slot
/// that a node can have, and as many again.
const OUTBOX: usize = 1_024;

/// Smaller messages are copied when they are kept: a slice would keep the whole read buffer alive.
const COPY_BELOW: usize = 4_096;

/// A close ends the conversation.
type Flow = Result<(), Close>;

/// Serves the connection of a node until either side ends it.
pub(super) async fn serve(socket: Socket, engine: Engine, peer: Peer, socket_peer: SocketPeer) {
    let mut ending = peer.ending.clone();
    let mut node = NodeSocket::new(socket, engine, peer, socket_peer);
    let ended = async move {
        // An accept loop that is gone has ended too.
        let _ = ending.wait_for(|ended| *ended).await;
    };
    let end = node.converse(ended).await;
    let NodeSocket { wire, present, .. } = node;
    tracing::debug!(node.id = present.name(), reason = end.why(), "a node's socket ends");
    // The engine is told at once; the close may take a moment.
    drop(present);
    wire.end(end).await;
}

/// One connection of a node.
struct NodeSocket {
    engine: Engine,
    limits: Arc<Limits>,
    socket_peer: SocketPeer,
    wire: Wire,
    /// Messages of the engine to the node.
    messages: mpsc::Receiver<ToNode>,
    present: Present,
    /// The sender of `messages`. Once the node is registered only the engine has it, so the connection notices when
    /// the engine drops it.
    outbox: Result<mpsc::Sender<ToNode>, mpsc::WeakSender<ToNode>>,
    supports: Supports,
    /// The abilities that the node last declared.
    abilities: Abilities,
    /// It declares its health itself; otherwise that follows from its abilities.
    says_health: bool,
    /// Assignments that are queued and not yet written; their jobs are told when they are.
    unsent: Vec<Assign>,
    rate: Rate,
    offences: Offences,
    /// When its last message or pong came.
    alive_at: Instant,
    opened_at: Instant,
    next_ping: Instant,
}

/// The node's registration in the engine. Dropping it tells the engine that the connection is gone.
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
    fn new(socket: Socket, engine: Engine, peer: Peer, socket_peer: SocketPeer) -> Self {
        let now = Instant::now();
        let (outbox, messages) = mpsc::channel(OUTBOX);
        let patience = Duration::from_millis(engine.settings().timing.send_ms);
        let limits = Arc::clone(&peer.limits);
        NodeSocket {
            rate: Rate::per_second(limits.node_messages_per_s, now),
            limits,
            socket_peer,
            wire: Wire::new(socket, engine.clone(), peer, patience),
            messages,
            present: Present { nodes: Arc::clone(&engine.nodes), connection: None },
            engine,
            outbox: Ok(outbox),
            supports: Supports::default(),
            abilities: Abilities::default(),
            says_health: false,
            unsent: Vec::new(),
            offences: Offences::default(),
            alive_at: now,
            opened_at: now,
            next_ping: now + PING_EVERY,
        }
    }

    async fn converse(&mut self, ended: impl Future<Output = ()>) -> End {
        let mut ended = pin!(ended);
        self.wire.wake_at(self.register_by());
        loop {
            let event = tokio::select! {
                biased;
                event = self.wire.event(&mut self.messages) => event,
                () = &mut ended => return End::Close(self.going_away()),
                refusal = self.socket_peer.auth.dismissed() => {
                    self.refuse(&refusal);
                    return End::Close(Close::new(close::POLICY, refusal.detail));
                }
            };
            let flow = match event {
                Event::Text(text) => self.on_text(text).await,
                Event::Binary(_) => {
                    let refusal = Refusal::new(Code::UnsupportedMessage, "nodes send text frames");
                    self.hear(Instant::now()).and_then(|()| self.offence(refusal))
                }
                Event::Alive => self.hear(Instant::now()),
                Event::Frames(frames) => self.count(Instant::now(), frames),
                Event::Outgoing(message) => self.on_outgoing(message),
                Event::Written => {
                    self.unsent.drain(..).for_each(|assign| assign.sent());
                    Ok(())
                }
                Event::Due => self.on_due(Instant::now()),
                Event::Ended(end) => return end,
            };
            if let Err(close) = flow {
                return End::Close(close);
            }
        }
    }

    /// Counts something that came, whatever it is.
    fn hear(&mut self, now: Instant) -> Flow {
        self.alive_at = now;
        self.count(now, 1)
    }

    /// So many messages count, or frames as if they were.
    fn count(&mut self, now: Instant, messages: u32) -> Flow {
        if self.rate.take(now, messages) {
            return Ok(());
        }
        self.engine.metrics().limited("node_messages_per_s");
        let most = self.limits.node_messages_per_s;
        let detail = format!("rate limit: more than {most} messages per second");
        self.refuse(&Refusal::new(Code::RateLimited, &detail));
        Err(Close::new(close::POLICY, detail))
    }

    async fn on_text(&mut self, text: Utf8Bytes) -> Flow {
        let now = Instant::now();
        self.hear(now)?;
        let whole = || match text.len() {
            ..COPY_BELOW => Bytes::copy_from_slice(text.as_bytes()),
            _ => Bytes::from(text.clone()),
        };
        let decoded = match decode(&text, whole) {
            Ok(decoded) => decoded,
            Err(refusal) => return self.offence(refusal),
        };
        let Some(connection) = &self.present.connection else {
            return match decoded {
                FromNode::Register(status) => self.register(*status).await,
                _ => {
                    self.refuse(&Refusal::new(Code::NotFound, "register first"));
                    Ok(())
                }
            };
        };
        match decoded {
            FromNode::Job(message) => {
                // A stale message is counted; there is nothing to answer.
                let _ = self.engine.nodes.on_job_message(connection, message);
                Ok(())
            }
            FromNode::Heartbeat(status) => self.heartbeat(*status),
            FromNode::Register(status) => self.register(*status).await,
            FromNode::Auth(token) => self.renew(&token),
            FromNode::Error { code, message } => {
                self.engine.nodes.note_error(connection, &code, &message);
                Ok(())
            }
        }
    }

    fn on_outgoing(&mut self, message: Option<ToNode>) -> Flow {
        let message = match message {
            Some(ToNode::Superseded) | None => return Err(superseded()),
            Some(ToNode::Blocked) => {
                return Err(Close::new(close::POLICY, "an administrator blocked this node"));
            }
            Some(ToNode::Assign(assign)) if assign.is_late() => {
                if let Some(connection) = &self.present.connection {
                    self.engine.nodes.send_failed(connection, assign.job, assign.attempt);
                }
                return Ok(());
            }
            Some(ToNode::ResultAck { .. }) if !self.supports.result_ack => return Ok(()),
            Some(message) => message,
        };
        let mut text = String::new();
        node::render(&message, self.supports, &mut text);
        self.wire.send(text);
        if let ToNode::Assign(assign) = message {
            if self.supports.binary_audio && !assign.work.typed {
                self.wire.send_binary(audio_frame(assign.job, &assign.work.audio));
            }
            self.rate.expect(MESSAGES_PER_JOB);
            if assign.wants_receipt() {
                self.unsent.push(*assign);
                self.wire.want_receipt();
            }
        }
        Ok(())
    }

    /// When it is disconnected unless it has registered.
    fn register_by(&self) -> Instant {
        self.opened_at + Duration::from_millis(self.limits.handshake_timeout_ms)
    }

    fn on_due(&mut self, now: Instant) -> Flow {
        let registered = self.present.connection.is_some();
        let register_by = self.register_by();
        if !registered && register_by <= now {
            self.engine.metrics().limited("handshake_timeout_ms");
            return Err(Close::new(close::HANDSHAKE_TIMEOUT, "no registration in time"));
        }
        // Without a message or pong for so long it is dead.
        let silence = Duration::from_millis(self.limits.silence_ms);
        let silent_at = self.alive_at + silence;
        if silent_at <= now {
            return Err(Close::new(close::TRY_AGAIN, "no message or pong for too long"));
        }
        if self.next_ping <= now {
            self.wire.ping();
            self.next_ping = now + PING_EVERY;
        }
        let next = silent_at.min(self.next_ping);
        self.wire.wake_at(if registered { next } else { next.min(register_by) });
        Ok(())
    }

    /// Refuses an invalid message; a node with too many of them is disconnected.
    fn offence(&mut self, refusal: Refusal) -> Flow {
        self.refuse(&refusal);
        match self.offences.note(Instant::now()) {
            false => Ok(()),
            true => Err(Close::new(close::POLICY, "too many invalid messages")),
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        tracing::debug!(
            node.id = self.present.name(),
            reason = refusal.code.as_str(),
            "a node's message is refused"
        );
        let mut text = String::new();
        node::error(refusal, &mut text);
        self.wire.send(text);
    }

    /// With a random pause, so that the nodes do not all reconnect at once.
    fn going_away(&self) -> Close {
        let pause = 200 + self.engine.chance().bits() % 1_800;
        Close::new(close::GOING_AWAY, format!("{{\"retry_after_ms\":{pause}}}"))
    }
}

fn superseded() -> Close {
    Close::new(close::SUPERSEDED, "a newer connection of this node took over")
}
