//! A socket that counts what goes through it: what is written, so that a slow peer can be told from
//! one that takes nothing, and what is read, while nobody knows who it is.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that the operating system took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Arc<AtomicU64>);

impl Written {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that may still be read.
#[derive(Clone, Debug)]
pub(crate) struct Allowance(Arc<AtomicU64>);

/// No bound.
const ALL: u64 = u64::MAX;

impl Default for Allowance {
    fn default() -> Self {
        Allowance(Arc::new(AtomicU64::new(ALL)))
    }
}

impl Allowance {
    /// From now on so many.
    pub(crate) fn only(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// From now on as many as come.
    pub(crate) fn all(&self) {
        self.0.store(ALL, Ordering::Relaxed);
    }

    /// Takes what was read; an error if it was too much.
    fn take(&self, bytes: usize) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left == ALL {
            return Ok(());
        }
        match left.checked_sub(bytes as u64) {
            Some(left) => {
                // The task that reads is the one that lifts it: nothing comes in between.
                self.0.store(left, Ordering::Relaxed);
                Ok(())
            }
            None => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }
}

/// A socket that counts what goes through it.
pub(super) struct Metered {
    stream: TcpStream,
    written: Written,
    allowance: Allowance,
}

impl Metered {
    pub(super) fn new(stream: TcpStream, written: Written, allowance: Allowance) -> Self {
        Metered { stream, written, allowance }
    }

    fn count(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = &written {
            self.written.0.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        Poll::Ready(written)
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.allowance.take(buf.filled().len() - before))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs));
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
