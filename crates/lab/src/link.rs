//! One connection to the scheduler, from the first byte to the last: a node's or a speaker's.
//!
//! Whatever is sent waits in line until [`Link::hear`] is awaited, so that all that one wake-up
//! leads to leaves in one write. Reading goes on while the peer does not take what is written:
//! two peers that both write first cannot wait for each other.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use futures_util::{FutureExt, Sink, Stream as _};
use hyper::header::{HeaderName, HeaderValue};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::protocol::{Message, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};

use crate::closed::Closed;
use crate::overheard::{self, Overheard, What};
use crate::stream::Stream;

/// How many there were.
static LINKS: AtomicU64 = AtomicU64::new(0);

/// From the first SYN to the answer to the first message.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// How long a close waits for the scheduler's own.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// With this many messages in line that the scheduler does not take, no more of its own are read.
const MAX_IN_LINE: usize = 64 * 1024;

pub(crate) struct Link {
    /// Its number among the links of this process.
    number: u64,
    address: Box<str>,
    path: Box<str>,
    socket: WebSocketStream<Stream>,
    line: VecDeque<Message>,
    /// Something was handed to the socket and not flushed yet.
    unflushed: bool,
    /// The scheduler's close, while ours goes back.
    closing: Option<Closed>,
}

/// Where and how to connect.
#[derive(Debug)]
pub(crate) struct Dial<'a> {
    pub url: &'a str,
    /// More headers of the upgrade request.
    pub headers: &'a [(String, String)],
    /// The local address; the system's choice without it.
    pub from: Option<IpAddr>,
    /// Whom to believe, for `wss://`.
    pub tls: Option<&'a Arc<ClientConfig>>,
    /// How much is read from the socket at once.
    pub read_buffer_bytes: usize,
}

/// Why a node or speaker could not connect. Found in the error of whatever connects by
/// `downcast_ref::<ConnectError>()`; what is not in here has no code to tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The scheduler answered the first message with an error.
    #[error("the scheduler refused: {code}: {message}")]
    Refused {
        /// Its code.
        code: String,
        /// Its sentence.
        message: String,
    },
    /// The scheduler closed the connection instead of answering the first message.
    #[error("the scheduler answered with a close: {0}")]
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

/// What came from the scheduler. Pings are answered below this.
#[derive(Debug)]
pub(crate) enum Heard {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// Nothing will come any more.
    Ended(Closed),
}

impl Link {
    /// Connects, without a word of ours.
    pub async fn dial(to: &Dial<'_>) -> anyhow::Result<Self> {
        let dialled = timeout(HANDSHAKE_LIMIT, Self::upgrade(to)).await;
        dialled
            .unwrap_or_else(|_| bail!("no answer within {HANDSHAKE_LIMIT:?}"))
            .with_context(|| format!("connecting to {}", to.url))
    }

    async fn upgrade(to: &Dial<'_>) -> anyhow::Result<Self> {
        let mut request = to.url.into_client_request()?;
        for (name, value) in to.headers {
            let name = HeaderName::try_from(name.as_str())?;
            request.headers_mut().insert(name, HeaderValue::try_from(value.as_str())?);
        }
        let uri = request.uri();
        let (tls, port) = match uri.scheme_str() {
            Some("ws") => (None, 80),
            Some("wss") => (Some(to.tls.context("nobody said whom to believe")?), 443),
            _ => bail!("simulated nodes and speakers speak ws:// and wss://"),
        };
        let address = uri.authority().map_or("", |authority| authority.as_str()).into();
        let path = uri.path().into();
        let host = uri.host().context("no host")?.trim_matches(['[', ']']).to_owned();
        let stream = connect(&host, uri.port_u16().unwrap_or(port), to.from).await?;
        stream.set_nodelay(true)?;
        let stream = match tls {
            Some(config) => Stream::with_tls(stream, config, &host).await?,
            None => Stream::Plain(stream),
        };
        let config = WebSocketConfig::default().read_buffer_size(to.read_buffer_bytes);
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
        let number = LINKS.fetch_add(1, Ordering::Relaxed);
        let line = VecDeque::new();
        Ok(Self { number, address, path, socket, line, unflushed: false, closing: None })
    }

    /// The answer to the first message.
    pub async fn answer(&mut self) -> anyhow::Result<Value> {
        let heard = timeout(HANDSHAKE_LIMIT, self.hear()).await;
        match heard.with_context(|| format!("no answer within {HANDSHAKE_LIMIT:?}"))? {
            Heard::Text(text) => Ok(serde_json::from_str(&text)?),
            Heard::Binary(_) => bail!("a binary frame came instead of the answer"),
            Heard::Ended(closed) => Err(ConnectError::Closed(closed).into()),
        }
    }

    /// Puts a text message in line.
    pub fn send_text(&mut self, text: Bytes) {
        if overheard::is_on()
            && let Ok(text) = std::str::from_utf8(&text)
        {
            self.happened(What::Said(text));
        }
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
        self.happened(What::SaidBytes(&bytes));
        self.line.push_back(Message::Binary(bytes));
    }

    /// Puts a ping in line.
    pub fn send_ping(&mut self, payload: Bytes) {
        self.line.push_back(Message::Ping(payload));
    }

    /// Ends the connection at once with a reset, as a machine that lost its memory would.
    pub fn reset(self) -> std::io::Result<()> {
        self.socket.get_ref().tcp().set_zero_linger()
    }

    /// Writes what is in line and waits for the next message. Nothing is lost when the wait is
    /// given up.
    pub async fn hear(&mut self) -> Heard {
        poll_fn(|cx| self.poll_hear(cx)).await
    }

    /// The same; if `till_written`, it also returns, with `None`, as soon as nothing is in line any
    /// more. Reads only if it is told to.
    pub async fn write_and_hear(&mut self, reading: bool, till_written: bool) -> Option<Heard> {
        poll_fn(|cx| match self.poll_write(cx) {
            Poll::Ready(Ok(())) if till_written => Poll::Ready(None),
            // A connection that takes nothing may still hold the close that says why.
            Poll::Ready(Err(_)) => Poll::Ready(Some(match self.poll_read(cx) {
                Poll::Ready(heard) if reading => heard,
                _ => Heard::Ended(Closed::default()),
            })),
            _ if reading => self.poll_hear(cx).map(Some),
            _ => Poll::Pending,
        })
        .await
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
                    self.happened(What::Told(&text));
                    return Poll::Ready(Heard::Text(text));
                }
                Poll::Ready(Some(Ok(Message::Binary(bytes)))) => {
                    self.happened(What::ToldBytes(&bytes));
                    return Poll::Ready(Heard::Binary(bytes));
                }
                // The answer to a ping or close leaves with the next read.
                Poll::Ready(Some(Ok(Message::Close(frame)))) => {
                    let closed = Closed::from(frame);
                    self.happened(What::Ended(Some(&closed)));
                    self.closing = Some(closed);
                }
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

impl Link {
    fn happened(&self, what: What<'_>) {
        let (link, address, path) = (self.number, &*self.address, &*self.path);
        overheard::happened(&Overheard { link, address, path, what });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.happened(What::Ended(None));
    }
}

async fn connect(host: &str, port: u16, from: Option<IpAddr>) -> anyhow::Result<TcpStream> {
    let Some(from) = from else { return Ok(TcpStream::connect((host, port)).await?) };
    let same_kind = |address: &SocketAddr| address.is_ipv4() == from.is_ipv4();
    let mut found = tokio::net::lookup_host((host, port)).await?;
    let to = found.find(same_kind).with_context(|| format!("no way from {from} to {host}"))?;
    let socket = if from.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(SocketAddr::new(from, 0)).with_context(|| format!("no address {from} here"))?;
    Ok(socket.connect(to).await?)
}

impl ConnectError {
    /// Whether asking again would be answered the same.
    pub(crate) fn is_final(&self) -> bool {
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
