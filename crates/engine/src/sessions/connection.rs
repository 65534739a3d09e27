//! The connection of a client, as the session's task uses it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use lingua_core::outcome::Code;
use lingua_protocol::close;
use tokio::time::Instant;

use super::commands::{CommandReceiver, SessionCommand};
use super::inbound::FromClient;
use super::outbound::ToClient;
use crate::job::Refusal;

/// One connection of a client. Only the session's task holds it, so a message is handled where it is
/// read, and nothing waits for anything but its own peer.
pub trait ClientConnection: Send {
    /// Waits for what happens next. Messages that were queued are written when there is nothing more
    /// to read.
    fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        commands: &mut CommandReceiver,
    ) -> Poll<ConnectionEvent>;

    /// Asks for [`ConnectionEvent::Due`] at that time, instead of any asked for before.
    fn wake_at(&mut self, due: Option<Instant>);

    /// Queues a message; never waits. Once more is queued than a client can be expected to take, the
    /// connection ends.
    fn send(&mut self, message: ToClient<'_>);

    /// Closes the connection behind everything that was queued.
    fn close(self: Box<Self>, reason: CloseReason) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What happens on a connection, or to the session while it has one.
pub enum ConnectionEvent {
    /// The client sent a message.
    Message(FromClient),
    /// A command came for the session.
    Command(Box<SessionCommand>),
    /// It is the time that [`ClientConnection::wake_at`] set.
    Due,
    /// The connection is of no use any more; all that is left to do is [`ClientConnection::close`] with
    /// this reason.
    Closed(CloseReason),
}

/// Why a connection is closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloseReason {
    /// The close code; `None` if the connection is lost, or the client closed it.
    pub code: Option<u16>,
    /// Why, for people.
    pub text: String,
}

impl CloseReason {
    /// A reason with a close code.
    pub fn new(code: u16, text: impl Into<String>) -> Self {
        CloseReason { code: Some(code), text: text.into() }
    }

    /// Without one.
    pub fn lost(text: impl Into<String>) -> Self {
        CloseReason { code: None, text: text.into() }
    }
}

/// A session that was not opened: why, and the connection on which to say it.
pub struct NotOpened {
    /// The connection.
    pub connection: Box<dyn ClientConnection>,
    /// Why the session was not opened.
    pub refusal: Refusal,
    /// The close says enough. An existing client comes back every second, and would show the same
    /// error each time.
    pub quiet: bool,
}

impl fmt::Debug for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotOpened").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

impl NotOpened {
    /// Tells the client why, and closes.
    pub async fn close(mut self) {
        if !self.quiet {
            self.connection.send(ToClient::Error { refusal: &self.refusal, details: &[] });
        }
        let code = match self.refusal.code {
            Code::Draining => close::GOING_AWAY,
            Code::SchedulerDependencyDown | Code::QuotaExceeded | Code::InternalError => {
                close::TRY_AGAIN
            }
            _ => close::POLICY,
        };
        let text = match self.refusal.retry_after_ms {
            Some(ms) => format!("{{\"retry_after_ms\":{ms}}}"),
            None => self.refusal.code.as_str().to_owned(),
        };
        self.connection.close(CloseReason::new(code, text)).await;
    }
}
