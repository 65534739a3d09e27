//! One connection, read and written in batches.
//!
//! Whatever is to be sent is queued until there is nothing more to read, so that all that one
//! wake-up leads to leaves in one write. Reading goes on while the peer does not take what is
//! written, up to a bound: two peers that both write first do not wait for each other, and a peer
//! that takes nothing is not read from for ever.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::TenantId;
use lingua_engine::Engine;
use lingua_protocol::close;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes, error};

use super::inbound::Refused;
use super::socket::Socket;
use crate::listener::Peer;

/// Messages read before what is queued is written all the same.
const READS_BEFORE_WRITE: u32 = 64;

/// Queued bytes beyond which nothing is taken in that could add to them.
const MAX_LINE_BYTES: usize = 256 << 10;

/// Queued messages beyond which nothing is taken in that could add to them.
const MAX_LINE: usize = 256;

/// After so long it is looked again whether there is room for a message.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(50);

/// How long a close waits for the peer's own.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// One connection with what is on its way out.
pub(super) struct Wire {
    socket: Socket,
    engine: Engine,
    line: VecDeque<Message>,
    line_bytes: usize,
    /// Something was handed to the socket and not flushed yet.
    unflushed: bool,
    /// The caller wants to know when all is written.
    receipt: bool,
    reads: u32,
    peer: Peer,
    /// A write that makes no progress for so long ends the connection.
    patience: Duration,
    /// When the write that is under way last made progress, and how far it had come.
    stall: Option<(Instant, u64)>,
    /// Nothing is read before then.
    read_at: Option<Instant>,
    /// For a message to be whole.
    message_limit: Duration,
    /// Nothing is read before all is written and the socket's buffer is a new one.
    renews: bool,
    due: Instant,
    timer: Pin<Box<Sleep>>,
}

/// What happened on a connection.
pub(super) enum Event<M> {
    /// The peer said something.
    Text(Utf8Bytes),
    /// The peer sent bytes.
    Binary(Bytes),
    /// The peer lives.
    Alive,
    /// The peer sent so many short frames that continue a message.
    Frames(u32),
    /// Something came for the connection from elsewhere than the peer.
    Outgoing(M),
    /// All that was queued is with the operating system.
    Written,
    /// It is the time that [`Wire::wake_at`] set.
    Due,
    /// Nothing will come any more.
    Ended(End),
}

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// We close it.
    Close(Close),
    /// The peer closed it, and gets a close frame back.
    Answer,
    /// It takes nothing that is sent to it.
    Stuck,
    /// The connection is gone.
    Lost(&'static str),
}

/// A close frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Close {
    pub code: u16,
    pub reason: String,
}

impl End {
    /// Why, for people.
    pub(super) fn why(&self) -> &str {
        match self {
            End::Close(close) => &close.reason,
            End::Answer => "the peer closed it",
            End::Stuck => "it takes nothing that is sent",
            End::Lost(why) => why,
        }
    }
}

impl Close {
    pub(super) fn new(code: u16, reason: impl Into<String>) -> Self {
        Close { code, reason: reason.into() }
    }
}

impl Wire {
    /// It is known who the peer is: from now on messages may be as large as they may be, at the expense
    /// of this tenant.
    pub(super) fn is_known(&mut self, tenant: Option<TenantId>) {
        self.peer.is_known();
        self.socket.stream.belongs_to(tenant);
    }

    pub(super) fn new(socket: Socket, engine: Engine, peer: Peer, patience: Duration) -> Self {
        let now = Instant::now();
        Wire {
            socket,
            engine,
            message_limit: Duration::from_millis(peer.limits.message_timeout_ms),
            renews: false,
            line: VecDeque::new(),
            line_bytes: 0,
            unflushed: false,
            receipt: false,
            reads: 0,
            peer,
            patience,
            stall: None,
            read_at: None,
            due: now,
            timer: Box::pin(tokio::time::sleep_until(now)),
        }
    }

    /// Queues a text.
    pub(super) fn send(&mut self, text: String) {
        self.line_bytes += text.len();
        self.line.push_back(Message::Text(text.into()));
    }

    /// Queues bytes.
    pub(super) fn send_binary(&mut self, bytes: Bytes) {
        self.line_bytes += bytes.len();
        self.line.push_back(Message::Binary(bytes));
    }

    /// Queues a ping.
    pub(super) fn ping(&mut self) {
        self.line.push_back(Message::Ping(Bytes::new()));
    }

    /// Asks for [`Event::Written`] once all that is queued is written.
    pub(super) fn want_receipt(&mut self) {
        self.receipt = true;
    }

    /// Asks for [`Event::Due`] at that time, instead of any asked for before.
    pub(super) fn wake_at(&mut self, due: Instant) {
        self.due = due;
    }

    /// Waits for what happens next, here or in the outbox. Nothing is lost when the wait is given up.
    pub(super) async fn event<M>(&mut self, outbox: &mut mpsc::Receiver<M>) -> Event<Option<M>> {
        poll_fn(|cx| self.poll_event(cx, |cx| outbox.poll_recv(cx))).await
    }

    /// Reads nothing before then.
    pub(super) fn pause_reading(&mut self, until: Instant) {
        self.socket.stream.pauses(until.saturating_duration_since(Instant::now()));
        self.read_at = Some(until);
    }

    /// Since when the peer takes nothing of what waits for it.
    pub(super) fn stalled_since(&mut self) -> Option<Instant> {
        let written = self.peer.written();
        if let Some(stall) = self.stall.as_mut().filter(|(_, before)| *before != written) {
            *stall = (Instant::now(), written);
        }
        self.stall.map(|(since, _)| since)
    }

    /// Bytes that wait for the peer.
    pub(super) fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Ends the connection, and waits a moment for the peer to agree.
    pub(super) async fn end(mut self, end: End) {
        let answered = match end {
            End::Lost(_) | End::Stuck => return,
            End::Answer => {
                // The library has the answer ready; it leaves with the next flush.
                self.unflushed = true;
                false
            }
            End::Close(Close { code, reason }) => {
                let frame = CloseFrame { code: code.into(), reason: reason.into() };
                self.line.push_back(Message::Close(Some(frame)));
                true
            }
        };
        let farewell = async {
            let written = poll_fn(|cx| self.poll_write(cx)).await;
            // What the peer sent before it heard of our close is not ours to answer any more.
            while written.is_ok()
                && answered
                && let Some(Ok(_)) = poll_fn(|cx| self.socket.poll_next(cx)).await
            {}
        };
        if timeout(CLOSE_LIMIT, farewell).await.is_err() {
            tracing::debug!("a peer did not answer a close");
        }
    }

    fn has_room(&self) -> bool {
        self.line.len() < MAX_LINE && self.line_bytes < MAX_LINE_BYTES
    }

    /// Looks for what happens next, here or in the outbox.
    pub(super) fn poll_event<M>(
        &mut self,
        cx: &mut Context<'_>,
        mut outbox: impl FnMut(&mut Context<'_>) -> Poll<M>,
    ) -> Poll<Event<M>> {
        loop {
            let reads = self.has_room() && self.reads < READS_BEFORE_WRITE && !self.renews;
            if reads
                && self.may_read()
                && let Poll::Ready(event) = self.poll_read(cx)
            {
                self.reads += 1;
                return Poll::Ready(event);
            }
            if self.has_room()
                && let Poll::Ready(message) = outbox(cx)
            {
                return Poll::Ready(Event::Outgoing(message));
            }
            self.reads = 0;
            match self.poll_write(cx) {
                Poll::Ready(Err(_)) => {
                    return Poll::Ready(Event::Ended(End::Lost("the connection broke")));
                }
                Poll::Ready(Ok(())) if self.renews => {
                    self.socket.renew();
                    self.renews = false;
                    continue;
                }
                Poll::Ready(Ok(())) if std::mem::take(&mut self.receipt) => {
                    return Poll::Ready(Event::Written);
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            // Who was not asked above is asked before we go to sleep, unless there is no room.
            if reads || self.renews || !self.has_room() {
                return self.poll_timer(cx);
            }
        }
    }

    /// Whether the time has come to read again.
    fn may_read(&mut self) -> bool {
        if self.read_at.is_some_and(|at| at <= Instant::now()) {
            self.read_at = None;
        }
        self.read_at.is_none()
    }

    fn poll_read<M>(&mut self, cx: &mut Context<'_>) -> Poll<Event<M>> {
        let Poll::Ready(message) = self.socket.poll_next(cx) else {
            if self.socket.stream.waits_for().is_some() {
                self.read_at = Some(Instant::now() + LOOK_FOR_ROOM);
            }
            return match self.socket.stream.take_short_frames() {
                0 => Poll::Pending,
                frames => Poll::Ready(Event::Frames(frames)),
            };
        };
        let event = match message {
            Some(Ok(Message::Text(text))) => Event::Text(text),
            Some(Ok(Message::Binary(bytes))) => Event::Binary(bytes),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                return Poll::Ready(Event::Alive);
            }
            Some(Ok(Message::Close(_))) => Event::Ended(End::Answer),
            Some(Err(error)) => Event::Ended(end_of(&error)),
            None => Event::Ended(End::Lost("the connection ended")),
        };
        if self.socket.has_grown() {
            (self.renews, self.unflushed) = (true, true);
        }
        Poll::Ready(event)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.line.is_empty() {
            ready!(self.socket.poll_ready(cx))?;
            if let Some(message) = self.line.pop_front() {
                self.line_bytes = self.line_bytes.saturating_sub(size(&message));
                self.socket.send(cx, message)?;
                self.unflushed = true;
            }
        }
        if self.unflushed {
            ready!(self.socket.poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_timer<M>(&mut self, cx: &mut Context<'_>) -> Poll<Event<M>> {
        loop {
            let message_due = self.message_due();
            let dues = [self.stall_due(), self.read_at, message_due].into_iter().flatten();
            let due = dues.fold(self.due, Instant::min);
            if self.timer.deadline() != due {
                self.timer.as_mut().reset(due);
            }
            ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            if self.due <= now {
                return Poll::Ready(Event::Due);
            }
            if message_due.is_some_and(|due| due <= now) {
                return Poll::Ready(Event::Ended(self.overdue()));
            }
            if self.read_at.is_some_and(|at| at <= now) {
                // Read again, before anything else.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let written = self.peer.written();
            match &mut self.stall {
                Some((since, before)) if *before == written && now >= *since + self.patience => {
                    return Poll::Ready(Event::Ended(End::Stuck));
                }
                Some(stall) if stall.1 != written => *stall = (now, written),
                _ => {}
            }
        }
    }

    /// When the message under way has to be whole.
    fn message_due(&self) -> Option<Instant> {
        self.socket.stream.since().map(|since| since + self.message_limit)
    }

    /// The message under way took too long: because its sender did, or because there was no room for it.
    fn overdue(&self) -> End {
        let (limit, close) = match self.socket.stream.waits_for() {
            Some(full) => (
                full.as_str(),
                Close::new(close::TRY_AGAIN, "no memory for a message of this size; retry later"),
            ),
            None => {
                let limit = self.message_limit.as_millis();
                (
                    "message_timeout_ms",
                    Close::new(
                        close::POLICY,
                        format!("a message was not complete after {limit} ms"),
                    ),
                )
            }
        };
        self.engine.metrics().limited(limit);
        End::Close(close)
    }

    /// When the write under way has made no progress for too long.
    fn stall_due(&mut self) -> Option<Instant> {
        if self.line.is_empty() && !self.unflushed {
            self.stall = None;
            return None;
        }
        let written = self.peer.written();
        let (since, _) = self.stall.get_or_insert_with(|| (Instant::now(), written));
        Some(*since + self.patience)
    }
}

fn size(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) => bytes.len(),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => 0,
    }
}

/// What is said to a peer whose bytes are no WebSocket.
fn end_of(error: &Error) -> End {
    match error {
        Error::Capacity(_) => End::Close(Close::new(close::TOO_LARGE, "the message is too large")),
        Error::Io(error) if error.kind() == std::io::ErrorKind::FileTooLarge => End::Close(
            Close::new(close::TOO_LARGE, "too many bytes before session_init or registration"),
        ),
        Error::Io(error) => match error.get_ref().and_then(|why| why.downcast_ref()) {
            Some(Refused::TooLarge) => {
                End::Close(Close::new(close::TOO_LARGE, "the message is too large"))
            }
            Some(Refused::WrongFrame) => {
                End::Close(Close::new(1002, "not a valid WebSocket frame"))
            }
            None => End::Lost("the connection broke"),
        },
        Error::Utf8(_) => End::Close(Close::new(1007, "the text is not UTF-8")),
        Error::Protocol(error::ProtocolError::ResetWithoutClosingHandshake) => {
            End::Lost("it hung up without a close")
        }
        Error::Protocol(_) => End::Close(Close::new(1002, "not a valid WebSocket frame")),
        _ => End::Lost("the connection broke"),
    }
}
