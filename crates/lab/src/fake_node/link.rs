//! One connection to the scheduler, from the first byte to the last.
//!
//! Whatever is sent waits in line until [`Link::hear`] is awaited, so that all that one wake-up
//! leads to leaves in one write. Reading goes on while the peer does not take what is written:
//! two peers that both write first cannot wait for each other.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use futures_util::{FutureExt, Sink, Stream};
use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::protocol::{Message, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};

use super::options::NodeOptions;
use super::{Closed, ConnectError, Registration, messages};

/// From the first SYN to the ack of the registration.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// How long a close waits for the scheduler's own.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// With this many messages in line that the scheduler does not take, no more of its own are read.
const MAX_IN_LINE: usize = 64 * 1024;

pub(super) struct Link {
    socket: WebSocketStream<TcpStream>,
    line: VecDeque<Message>,
    /// Something was handed to the socket and not flushed yet.
    unflushed: bool,
    /// The scheduler's close, while ours goes back.
    closing: Option<Closed>,
}

/// What came from the scheduler. Pings are answered below this.
#[derive(Debug)]
pub(super) enum Heard {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// Nothing will come any more.
    Ended(Closed),
}

impl Link {
    /// Connects, without a word of ours.
    pub async fn dial(options: &NodeOptions) -> anyhow::Result<Self> {
        let dialled = timeout(HANDSHAKE_LIMIT, Self::upgrade(options)).await;
        dialled
            .unwrap_or_else(|_| bail!("no answer within {HANDSHAKE_LIMIT:?}"))
            .with_context(|| format!("connecting a node to {}", options.url))
    }

    async fn upgrade(options: &NodeOptions) -> anyhow::Result<Self> {
        let mut request = options.url.as_str().into_client_request()?;
        for (name, value) in &options.headers {
            let name = HeaderName::try_from(name.as_str())?;
            request.headers_mut().insert(name, HeaderValue::try_from(value.as_str())?);
        }
        let uri = request.uri();
        if uri.scheme_str() != Some("ws") {
            bail!("simulated nodes speak plain ws:// only");
        }
        let host = uri.host().context("no host")?.trim_matches(['[', ']']).to_owned();
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?;
        stream.set_nodelay(true)?;
        let config = WebSocketConfig::default().read_buffer_size(options.read_buffer_bytes);
        let upgraded =
            tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
        let socket = match upgraded {
            Ok((socket, _)) => socket,
            Err(tungstenite::Error::Http(response)) => {
                let status = response.status().as_u16();
                let body = response.into_body().unwrap_or_default();
                let body = String::from_utf8_lossy(&body).into_owned();
                return Err(ConnectError::Upgrade { status, body }.into());
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { socket, line: VecDeque::new(), unflushed: false, closing: None })
    }

    /// Connects and registers.
    pub async fn establish(
        options: &NodeOptions,
        node_id: Option<&str>,
    ) -> anyhow::Result<(Self, Registration)> {
        let mut link = Self::dial(options).await?;
        link.send_json(&messages::register(options, node_id));
        let registration = timeout(HANDSHAKE_LIMIT, link.registration()).await;
        let registration = registration.unwrap_or_else(|_| {
            bail!("{}: no answer to the registration within {HANDSHAKE_LIMIT:?}", options.url)
        })?;
        Ok((link, registration))
    }

    async fn registration(&mut self) -> anyhow::Result<Registration> {
        match self.hear().await {
            Heard::Text(text) => Registration::read(serde_json::from_str(&text)?),
            Heard::Binary(_) => bail!("a binary frame came instead of the node_register_ack"),
            Heard::Ended(closed) => Err(ConnectError::Closed(closed).into()),
        }
    }

    /// Puts a text message in line.
    pub fn send_text(&mut self, text: Bytes) {
        // Written by us, so it is UTF-8 and need not be checked again.
        let frame = Frame::message(text, OpCode::Data(Data::Text), true);
        self.line.push_back(Message::Frame(frame));
    }

    /// Puts a message in line.
    pub fn send_json(&mut self, message: &Value) {
        self.send_text(message.to_string().into());
    }

    /// Puts a binary message in line.
    pub fn send_binary(&mut self, bytes: Bytes) {
        self.line.push_back(Message::Binary(bytes));
    }

    /// Writes what is in line and waits for the next message. Nothing is lost when the wait is
    /// given up.
    pub async fn hear(&mut self) -> Heard {
        poll_fn(|cx| self.poll_hear(cx)).await
    }

    /// The next message if it is here already. Writes nothing.
    pub fn hear_at_once(&mut self) -> Option<Heard> {
        poll_fn(|cx| self.poll_read(cx)).now_or_never()
    }

    /// Writes what is in line; an error means that the connection is gone.
    pub async fn flush(&mut self) -> Result<(), tungstenite::Error> {
        poll_fn(|cx| self.poll_write(cx)).await
    }

    /// Says goodbye after what is in line, and waits a moment for the scheduler to say it too.
    pub async fn close(mut self, code: u16, reason: &str) -> Closed {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        self.line.push_back(Message::Close(Some(frame)));
        let ended = async {
            loop {
                if let Heard::Ended(closed) = self.hear().await {
                    return closed;
                }
            }
        };
        timeout(CLOSE_LIMIT, ended).await.unwrap_or_default()
    }

    fn poll_hear(&mut self, cx: &mut TaskContext<'_>) -> Poll<Heard> {
        let written = self.poll_write(cx);
        if self.line.len() > MAX_IN_LINE {
            return Poll::Pending;
        }
        match self.poll_read(cx) {
            // Asked for only now: a connection that takes nothing may still hold the close that
            // says why.
            Poll::Pending if matches!(written, Poll::Ready(Err(_))) => {
                Poll::Ready(Heard::Ended(Closed::default()))
            }
            heard => heard,
        }
    }

    fn poll_write(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), tungstenite::Error>> {
        let mut socket = Pin::new(&mut self.socket);
        while !self.line.is_empty() {
            let Poll::Ready(ready) = socket.as_mut().poll_ready(cx) else { return Poll::Pending };
            let sent = ready.and_then(|()| match self.line.pop_front() {
                Some(message) => socket.as_mut().start_send(message),
                None => Ok(()),
            });
            if let Err(error) = sent {
                self.line.clear();
                return Poll::Ready(Err(error));
            }
            self.unflushed = true;
        }
        if !self.unflushed {
            return Poll::Ready(Ok(()));
        }
        let flushed = socket.poll_flush(cx);
        self.unflushed = flushed.is_pending();
        flushed
    }

    fn poll_read(&mut self, cx: &mut TaskContext<'_>) -> Poll<Heard> {
        loop {
            match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Ready(Some(Ok(Message::Text(text)))) => {
                    return Poll::Ready(Heard::Text(text));
                }
                Poll::Ready(Some(Ok(Message::Binary(bytes)))) => {
                    return Poll::Ready(Heard::Binary(bytes));
                }
                // The answer to a ping or close leaves with the next read.
                Poll::Ready(Some(Ok(Message::Close(frame)))) => self.closing = Some(frame.into()),
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => {
                    return Poll::Ready(Heard::Ended(self.closing.take().unwrap_or_default()));
                }
                Poll::Pending => {
                    // Our close is on its way; whether the scheduler hangs up then is its affair.
                    return self
                        .closing
                        .take()
                        .map_or(Poll::Pending, |closed| Poll::Ready(Heard::Ended(closed)));
                }
            }
        }
    }
}
