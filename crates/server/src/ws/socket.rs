//! A WebSocket at this end: the library's protocol on a stream that knows what unfinished messages cost.
//!
//! The library's context and the stream are apart, so that the context can be made anew after a large
//! message: its buffer stays as large as the largest frame that was ever in it.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::inbound::Inbound;

/// One WebSocket.
pub(super) struct Socket<S = hyper_util::rt::TokioIo<hyper::upgrade::Upgraded>> {
    context: WebSocketContext,
    config: WebSocketConfig,
    pub(super) stream: Inbound<S>,
    /// What was handed over is still here: nothing more is taken before it is flushed.
    blocked: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(super) fn new(stream: Inbound<S>, config: WebSocketConfig) -> Self {
        let context = WebSocketContext::new(Role::Server, Some(config));
        Socket { context, config, stream, blocked: false }
    }

    /// The next message; `None` once both have closed.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Message, Error>>> {
        match self.context.read(&mut Blocking { stream: &mut self.stream, cx }) {
            Ok(message) => Poll::Ready(Some(Ok(message))),
            Err(error) if would_block(&error) => Poll::Pending,
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    /// Whether another message is taken.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.blocked { self.poll_flush(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Hands a message over, after [`Socket::poll_ready`].
    pub(super) fn send(&mut self, cx: &mut Context<'_>, message: Message) -> Result<(), Error> {
        match self.context.write(&mut Blocking { stream: &mut self.stream, cx }, message) {
            // It has the message and could not write all of it.
            Err(error) if would_block(&error) => {
                self.blocked = true;
                Ok(())
            }
            done => done,
        }
    }

    /// Until all is with the operating system.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.context.flush(&mut Blocking { stream: &mut self.stream, cx }) {
            Err(error) if would_block(&error) => Poll::Pending,
            done => {
                self.blocked = false;
                Poll::Ready(done)
            }
        }
    }

    /// The last message was a large one, and the buffer that it was in is to be given back.
    pub(super) fn has_grown(&self) -> bool {
        self.stream.has_grown()
    }

    /// Gives it back. All was flushed, and nothing was read since that message.
    pub(super) fn renew(&mut self) {
        self.context = WebSocketContext::new(Role::Server, Some(self.config));
        self.stream.is_renewed();
    }
}

fn would_block(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// A stream as the library wants it, which wakes this task when it would no longer block.
struct Blocking<'a, 'b, S> {
    stream: &'a mut Inbound<S>,
    cx: &'a mut Context<'b>,
}

fn blocking<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl<S: AsyncRead + Unpin> Read for Blocking<'_, '_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        blocking(Pin::new(&mut *self.stream).poll_read(self.cx, &mut into))?;
        Ok(into.filled().len())
    }
}

impl<S: AsyncWrite + Unpin> Write for Blocking<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        blocking(Pin::new(&mut *self.stream).poll_write(self.cx, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        blocking(Pin::new(&mut *self.stream).poll_flush(self.cx))
    }
}
