//! The connection of one client: from frames to messages and back.
//!
//! It belongs to the session's own task. What does not concern the session it handles itself:
//! heartbeats, malformed messages, a client that sends too much or takes too little.

mod opening;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use lingua_engine::job::Refusal;
use lingua_engine::sessions::commands::CommandReceiver;
use lingua_engine::sessions::connection::{ClientConnection, CloseReason, ConnectionEvent};
use lingua_engine::sessions::inbound::FromClient;
use lingua_engine::sessions::options::SpeechOptions;
use lingua_engine::sessions::outbound::{Action, Detail, ToClient};
use lingua_protocol::close;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::SocketPeer;
use super::limits::{Offences, Rate};
use super::outbound::{Close, End, Event, Wire};
use super::socket::Socket;
use crate::identity::{Caller, Role};
use crate::listener::Peer;
use crate::wire::session::framing::Framer;
use crate::wire::session::{self, Aside, Bound, ClientMessage, Codec, Init, Renderer};

/// How often a client that says nothing is asked for a sign of life.
const PING_EVERY: Duration = Duration::from_secs(30);

/// How often clients are told to send their own heartbeat.
const HEARTBEAT_MS: u64 = 20_000;

/// So many bytes count as one message.
const BYTES_PER_MESSAGE: f64 = 16_384.0;

/// A client that takes nothing for so long is asked to hold on, and after the second span it is
/// let go.
const SLOW: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(8);

/// Who takes nothing and has more than this queued is disconnected at the first of the two spans.
const MAX_UNSENT: usize = 8 << 20;

/// Speaks with a client until its session has taken the connection over.
pub(super) async fn serve(socket: Socket, engine: Engine, peer: Peer, socket_peer: SocketPeer) {
    let address = peer.address;
    let mut connection = SessionConnection::new(socket, engine.clone(), peer, socket_peer);
    let init = match connection.handshake(address).await {
        Ok(init) => init,
        Err(reason) => return Box::new(connection).close(reason).await,
    };
    let init = match connection.enter(init) {
        Ok(init) => init,
        Err(refusal) => {
            connection.send(ToClient::Error { refusal: &refusal, details: &[] });
            // Who has too many sessions may come again.
            let code =
                if refusal.code == Code::QuotaExceeded { close::TRY_AGAIN } else { close::POLICY };
            return Box::new(connection).close(CloseReason::new(code, refusal.detail)).await;
        }
    };
    connection.codec = init.codec;
    connection.binary = init.binary;
    connection.options = Some(Arc::clone(&init.opening.options));
    connection.framer = Framer::new(init.codec);
    if let Err(refused) = engine.sessions.open(init.opening, Box::new(connection)).await {
        tracing::debug!(reason = refused.refusal.code.as_str(), "a session is refused");
        refused.close().await;
    }
}

/// The connection of one client.
struct SessionConnection {
    engine: Engine,
    socket_peer: SocketPeer,
    /// For the session to be opened.
    handshake: Duration,
    /// A connection without a message or pong for so long is dead.
    silence: Duration,
    /// Sessions that one subject may have.
    sessions_per_subject: usize,
    wire: Wire,
    /// Once the session is open.
    session_id: String,
    options: Option<Arc<SpeechOptions>>,
    codec: Codec,
    binary: bool,
    framer: Framer,
    rate: Rate,
    offences: Offences,
    alive_at: Instant,
    next_ping: Instant,
    /// When the session wants to be woken.
    session_due: Option<Instant>,
    /// The client was asked to hold on because it takes nothing.
    pressed: bool,
    /// When it was last asked to say less.
    slowed_at: Option<Instant>,
    /// Why it is to be closed, once that is clear.
    ending: Option<CloseReason>,
}

impl SessionConnection {
    fn new(socket: Socket, engine: Engine, peer: Peer, socket_peer: SocketPeer) -> Self {
        let now = Instant::now();
        let limits = Arc::clone(&peer.limits);
        SessionConnection {
            socket_peer,
            silence: Duration::from_millis(limits.silence_ms),
            handshake: Duration::from_millis(limits.handshake_timeout_ms),
            sessions_per_subject: limits.sessions_per_subject,
            wire: Wire::new(socket, engine.clone(), peer, PATIENCE),
            engine,
            session_id: String::new(),
            options: None,
            codec: Codec::default(),
            binary: false,
            framer: Framer::new(Codec::default()),
            rate: Rate::per_second(limits.session_messages_per_s, now),
            offences: Offences::default(),
            alive_at: now,
            next_ping: now + PING_EVERY,
            session_due: None,
            pressed: false,
            slowed_at: None,
            ending: None,
        }
    }

    /// Something came: it is a sign of life, and it counts.
    fn hear(&mut self, bytes: usize) {
        let now = Instant::now();
        self.alive_at = now;
        self.count(now, 1.0 + bytes as f64 / BYTES_PER_MESSAGE);
    }

    /// So many messages count, or frames as if they were.
    fn count(&mut self, now: Instant, cost: f64) {
        let Some(wait) = self.rate.owe(now, cost) else { return };
        // Nothing is lost: what it sent waits where it is, and it is asked to send less.
        self.wire.pause_reading(now + wait);
        if self.slowed_at.is_none_or(|at| now - at > SLOW) {
            self.slowed_at = Some(now);
            self.engine.metrics().limited("session_messages_per_s");
            let resume_after_ms = Some(lingua_core::time::millis(wait).max(1));
            let message = "rate limit: too many messages per second";
            self.send(ToClient::Backpressure {
                action: Action::SlowDown,
                resume_after_ms,
                message,
            });
        }
    }

    fn on_text(&mut self, text: &Utf8Bytes) -> Option<FromClient> {
        self.hear(text.len());
        let said = self.read(|bound| session::decode_text(text, bound));
        self.on_said(said)
    }

    fn on_binary(&mut self, frame: Bytes) -> Option<FromClient> {
        self.hear(frame.len());
        let said = self.read(|bound| session::decode_binary(frame, bound));
        self.on_said(said)
    }

    fn read<T>(&self, read: impl FnOnce(&Bound<'_>) -> T) -> T {
        let options = self.options.as_ref().expect("set before the session was opened");
        read(&Bound {
            session_id: &self.session_id,
            options,
            max_audio_bytes: self.engine.settings().max_audio_bytes,
        })
    }

    fn on_said(&mut self, said: Result<ClientMessage, Refusal>) -> Option<FromClient> {
        let refusal = match said {
            Ok(ClientMessage::Audio { seq, is_final, audio }) => {
                return self.on_audio(seq, is_final, audio);
            }
            Ok(ClientMessage::Whole(whole)) => return Some(FromClient::Utterance(whole)),
            Ok(ClientMessage::Other(FromClient::SetLanguages(options))) => {
                self.options = Some(Arc::clone(&options));
                return Some(FromClient::SetLanguages(options));
            }
            Ok(ClientMessage::Other(said)) => return Some(said),
            Ok(ClientMessage::Heartbeat { timestamp }) => {
                let mut text = String::new();
                let now = self.engine.now_ms();
                session::server_heartbeat(&self.session_id, timestamp.unwrap_or(now), &mut text);
                self.wire.send(text);
                return None;
            }
            Ok(ClientMessage::Auth { token }) => match self.renew(&token) {
                Ok(()) => return None,
                Err(refusal) => refusal,
            },
            Ok(ClientMessage::Aside(aside)) => {
                self.on_aside(aside);
                return None;
            }
            Ok(ClientMessage::SecondInit) => session::second_init(),
            Err(refusal) => refusal,
        };
        self.offence(&refusal);
        None
    }

    /// Says that there are no rooms; signalling goes nowhere, and silently.
    fn on_aside(&mut self, aside: Aside) {
        if aside == Aside::Room {
            let mut text = String::new();
            session::room_error(&mut text);
            self.wire.send(text);
        }
    }

    /// Makes whole packets and samples of a piece of speech.
    fn on_audio(&mut self, seq: u32, is_final: bool, audio: Bytes) -> Option<FromClient> {
        let (audio, duration) = match self.framer.push(audio) {
            Ok(framed) => framed,
            Err(refusal) => {
                self.offence(&refusal);
                // What was said before still ends here.
                (Bytes::new(), Duration::ZERO)
            }
        };
        if is_final && let Some(bytes) = self.framer.finish() {
            self.engine.metrics().audio_unframed(bytes);
            let detail =
                "the utterance ends within an audio packet; the incomplete packet is dropped";
            let details = [("bytes", Detail::Number(bytes as u64))];
            let refusal = &Refusal::new(Code::InvalidMessage, detail);
            self.send(ToClient::Error { refusal, details: &details });
        }
        Some(FromClient::Audio { seq, audio, duration, is_final })
    }

    /// Answers something that cannot be; a client that keeps on is shown the door.
    fn offence(&mut self, refusal: &Refusal) {
        self.send(ToClient::Error { refusal, details: &[] });
        if self.offences.note(Instant::now()) {
            let reason = "too many invalid messages";
            self.ending.get_or_insert(CloseReason::new(close::POLICY, reason));
        }
    }

    /// What time alone brings about.
    fn on_due(&mut self, now: Instant) {
        if self.alive_at + self.silence <= now {
            self.ending.get_or_insert(CloseReason::new(
                close::TRY_AGAIN,
                "no message or pong for too long",
            ));
        }
        if self.next_ping <= now {
            if self.alive_at + PING_EVERY <= now {
                self.wire.ping();
            }
            self.next_ping = now + PING_EVERY;
        }
        match self.wire.stalled_since() {
            None => self.pressed = false,
            Some(since) if !self.pressed && since + SLOW <= now => {
                self.pressed = true;
                let message = "the client does not read what is sent to it";
                self.send(ToClient::Backpressure {
                    action: Action::Pause,
                    resume_after_ms: None,
                    message,
                });
            }
            Some(_) => {}
        }
    }

    /// Whether the client has taken nothing for a while of what waits for it.
    fn takes_nothing(&mut self) -> bool {
        self.wire.stalled_since().is_some_and(|since| since + SLOW <= Instant::now())
    }

    fn next_due(&mut self) -> Instant {
        let stalled = self.wire.stalled_since().filter(|_| !self.pressed).map(|at| at + SLOW);
        let dues = [stalled, self.session_due].into_iter().flatten();
        dues.fold(self.next_ping.min(self.alive_at + self.silence), Instant::min)
    }
}

impl ClientConnection for SessionConnection {
    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        commands: &mut CommandReceiver,
    ) -> Poll<ConnectionEvent> {
        loop {
            if let Poll::Ready(refusal) = self.socket_peer.auth.poll_dismissed(cx) {
                self.send(ToClient::Error { refusal: &refusal, details: &[] });
                self.ending.get_or_insert(CloseReason::new(close::POLICY, refusal.detail));
            }
            if let Some(reason) = self.ending.take() {
                return Poll::Ready(ConnectionEvent::Closed(reason));
            }
            let due = self.next_due();
            self.wire.wake_at(due);
            let event = ready!(self.wire.poll_event(cx, |cx| commands.poll_recv(cx)));
            let said = match event {
                Event::Text(text) => self.on_text(&text),
                Event::Binary(frame) => self.on_binary(frame),
                Event::Alive => {
                    self.hear(0);
                    None
                }
                Event::Frames(frames) => {
                    self.count(Instant::now(), f64::from(frames));
                    None
                }
                Event::Outgoing(Some(command)) => {
                    return Poll::Ready(ConnectionEvent::Command(command));
                }
                Event::Outgoing(None) => {
                    return Poll::Ready(ConnectionEvent::Closed(CloseReason::lost(
                        "the session is over",
                    )));
                }
                Event::Written => None,
                Event::Due => {
                    let now = Instant::now();
                    self.on_due(now);
                    if self.session_due.is_some_and(|due| due <= now) {
                        self.session_due = None;
                        return Poll::Ready(ConnectionEvent::Due);
                    }
                    None
                }
                Event::Ended(end) => {
                    return Poll::Ready(ConnectionEvent::Closed(close_reason(end)));
                }
            };
            if let Some(said) = said {
                return Poll::Ready(ConnectionEvent::Message(said));
            }
        }
    }

    fn wake_at(&mut self, due: Option<Instant>) {
        self.session_due = due;
    }

    fn send(&mut self, message: ToClient<'_>) {
        if matches!(message, ToClient::Backpressure { .. }) {
            self.engine.metrics().pressed();
        }
        if let ToClient::Opened(opened) = &message {
            self.session_id = opened.session.as_str().to_owned();
        }
        let about = Renderer {
            session_id: &self.session_id,
            codec: self.codec,
            binary: self.binary,
            now_ms: self.engine.now_ms(),
            heartbeat_interval_ms: HEARTBEAT_MS,
        };
        let mut text = String::new();
        if session::render(&message, &about, &mut text) {
            self.wire.send(text);
        }
        if self.wire.line_bytes() > MAX_UNSENT && self.takes_nothing() {
            self.ending.get_or_insert(CloseReason::new(
                close::TRY_AGAIN,
                "the client does not read what is sent to it",
            ));
        }
    }

    fn close(self: Box<Self>, reason: CloseReason) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let end = match reason.code {
            Some(code) => End::Close(Close::new(code, reason.text)),
            None if reason.text == ANSWER => End::Answer,
            None => End::Lost("the connection ended"),
        };
        Box::pin(self.wire.end(end))
    }
}

/// A client that closed is owed an answer.
const ANSWER: &str = "the client closed it";

fn close_reason(end: End) -> CloseReason {
    match end {
        End::Close(close) => CloseReason::new(close.code, close.reason),
        End::Answer => CloseReason::lost(ANSWER),
        End::Stuck => {
            CloseReason::new(close::TRY_AGAIN, "the client does not read what is sent to it")
        }
        End::Lost(why) => CloseReason::lost(why),
    }
}
