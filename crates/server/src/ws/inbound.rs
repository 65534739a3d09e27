//! What comes in on a socket, before the library has it: what it costs while no message is whole.
//!
//! - Memory: the header of a frame goes on to the library, which then makes room for all of the frame, only
//!   when the budgets have that room.
//! - Time: since when a message is under way.
//! - Frames: short ones that continue a message are counted, and many are not read at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use lingua_core::TenantId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::frames::{Frames, Step};
use crate::unfinished::{Account, Full};

/// Short frames after which nothing is read until they were counted.
const MANY: u32 = 64;

/// For a frame of so many bytes the library makes its buffer larger, and keeps it so.
const LARGE: u64 = 16 << 10;

/// What a client sends.
pub(super) struct Inbound<S = TokioIo<Upgraded>> {
    stream: S,
    frames: Frames,
    account: Account,
    /// Bytes that a message may have.
    max_message: u64,
    /// Read and not handed on, from a header on for whose frame there is no room.
    withheld: Vec<u8>,
    /// Of those the first so many were followed already.
    followed: usize,
    /// The memory that is waited for, and which budget does not have it.
    wanted: Option<(usize, Full)>,
    /// A large frame was handed on since the library's buffer was new.
    has_grown: bool,
    /// When the message that is under way began.
    since: Option<Instant>,
}

/// Why nothing more is read from a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    TooLarge,
    WrongFrame,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refused::TooLarge => "the message is too large",
            Refused::WrongFrame => "a control frame has too many bytes",
        })
    }
}

impl std::error::Error for Refused {}

impl<S> Inbound<S> {
    pub(super) fn new(stream: S, account: Account, max_message: usize) -> Self {
        Inbound {
            stream,
            frames: Frames::default(),
            account,
            max_message: max_message as u64,
            withheld: Vec::new(),
            followed: 0,
            wanted: None,
            has_grown: false,
            since: None,
        }
    }

    /// It is known whose messages these are, also the one that is under way.
    pub(super) fn belongs_to(&mut self, tenant: Option<TenantId>) {
        let held = self.account.belongs_to(tenant);
        if self.wanted.is_none() {
            // If there is no room for it after all, the rest of it waits.
            self.wanted = self.account.hold(held).err().map(|full| (held, full));
        }
    }

    /// Short frames that continued a message, since this was last asked. Nothing more is read once there are
    /// many.
    pub(super) fn take_short_frames(&mut self) -> u32 {
        self.frames.take_short()
    }

    /// The budget that has no room for the frame that is to come.
    pub(super) fn waits_for(&self) -> Option<Full> {
        self.wanted.map(|(_, full)| full)
    }

    /// Since when a message is under way, times without reading left out.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Nothing is read for so long: that is not the peer's doing.
    pub(super) fn pauses(&mut self, pause: Duration) {
        self.since = self.since.map(|since| since + pause);
    }

    /// A large message is whole, and the library has nothing of what came after it.
    pub(super) fn has_grown(&self) -> bool {
        self.has_grown && !self.frames.is_unfinished()
    }

    /// The library's buffer is new.
    pub(super) fn is_renewed(&mut self) {
        self.has_grown = false;
    }

    /// Follows what came. `Ok` is how much of it may be handed on.
    fn follow(&mut self, bytes: &[u8]) -> Result<usize, Refused> {
        let mut at = self.followed.min(bytes.len());
        self.followed -= at;
        while at < bytes.len() {
            let (taken, step) = self.frames.step(&bytes[at..]);
            match step {
                Step::Within => {}
                Step::Wrong => return Err(Refused::WrongFrame),
                Step::Whole => {
                    self.account.release();
                    self.since = None;
                }
                Step::Header(held) if held.message > self.max_message => {
                    return Err(Refused::TooLarge);
                }
                Step::Header(held) => {
                    self.has_grown |= held.frame >= LARGE;
                    let memory = usize::try_from(held.memory).unwrap_or(usize::MAX);
                    if let Err(full) = self.account.hold(memory) {
                        // The library waits for the rest of the header, and so does what is behind it.
                        self.wanted = Some((memory, full));
                        self.followed = taken;
                        break;
                    }
                }
            }
            at += taken;
        }
        if self.frames.is_unfinished() {
            self.since.get_or_insert_with(Instant::now);
        }
        Ok(at)
    }

    /// Whether there is room by now for what is waited for.
    fn has_room(&mut self) -> bool {
        if let Some((memory, _)) = self.wanted {
            self.wanted = self.account.hold(memory).err().map(|full| (memory, full));
        }
        self.wanted.is_none()
    }

    /// Bytes that may be read at once. Where the library's buffer is to be renewed after the message it must
    /// not have anything else in it then.
    fn most(&self, room: usize) -> usize {
        match self.has_grown {
            // What was followed already is the end of a header.
            true if self.followed > 0 => room.min(self.followed),
            true => room.min(usize::try_from(self.frames.until_end()).unwrap_or(usize::MAX)),
            false => room,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Inbound<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.frames.short() >= MANY || !this.has_room() {
            // Whoever reads asks why, and comes back.
            return Poll::Pending;
        }
        let most = this.most(buf.remaining());
        let into = buf.initialize_unfilled_to(most);
        let read = match this.withheld.len().min(most) {
            0 => {
                let mut into = ReadBuf::new(into);
                ready!(Pin::new(&mut this.stream).poll_read(cx, &mut into))?;
                into.filled().len()
            }
            kept => {
                into[..kept].copy_from_slice(&this.withheld[..kept]);
                this.withheld.drain(..kept);
                kept
            }
        };
        let good = this.follow(&into[..read]).map_err(io::Error::other)?;
        if good < read {
            // In front of what was withheld already.
            this.withheld.splice(..0, into[good..read].iter().copied());
            if good == 0 {
                return Poll::Pending;
            }
        }
        buf.advance(good);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Inbound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
