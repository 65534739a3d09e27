//! What comes for a session from elsewhere than its client, in a queue of bounded size.

use futures_util::future::BoxFuture;
use lingua_core::JobId;
use lingua_core::session::ResultKey;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::connection::ClientConnection;
use super::inbound::Opening;
use crate::job::{Ended, JobNews, JobObserver, NotNotified};

/// Commands that wait for one session. The session handles them as they come, unless its client does
/// not take what it is sent; then whoever has more to say waits.
const CAPACITY: usize = 32;

/// Where a session receives its commands. Most sessions are quiet, and an empty queue has its room all
/// the same; so commands are boxed.
pub type CommandReceiver = mpsc::Receiver<Box<SessionCommand>>;

/// Where commands for a session are sent.
pub(crate) type CommandSender = mpsc::Sender<Box<SessionCommand>>;

/// A new queue.
pub(crate) fn channel() -> (CommandSender, CommandReceiver) {
    mpsc::channel(CAPACITY)
}

/// What comes for a session.
pub enum SessionCommand {
    /// News of one of its jobs.
    Job(ResultKey, JobNews),
    /// One of its jobs, of this owner or an earlier one, is over elsewhere.
    Ended(JobId, Ended),
    /// Its client is back on another connection.
    Attach(Attach),
    /// Another instance has it.
    Superseded,
    /// An administrator ends it.
    Disconnect,
    /// This instance goes away.
    Drain,
    /// This instance waits no longer.
    Abandon,
    /// This instance claimed this epoch for it, and the answer was lost.
    EpochRaised(u64),
    /// The store may have lost what the next owner needs.
    SaveAgain,
    /// What the next owner needs is in the store, or is not.
    Saved(SaveOutcome),
}

/// A client that is back.
pub struct Attach {
    /// Its connection.
    pub(crate) connection: Box<dyn ClientConnection>,
    /// What it said.
    pub(crate) opening: Opening,
    /// The epoch that was claimed for it.
    pub(crate) epoch: u64,
}

/// The outcome of a save.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaveOutcome {
    /// It is in the store.
    Done,
    /// The session has an owner with a newer epoch.
    Stale {
        /// That one.
        epoch: u64,
    },
    /// The store does not answer.
    Failed,
}

/// The session that is notified of a job.
pub(super) struct SessionObserver {
    /// Which of its jobs it is.
    pub key: ResultKey,
    /// Where it receives commands.
    pub commands: CommandSender,
}

impl SessionObserver {
    fn command(&self, news: JobNews) -> Box<SessionCommand> {
        Box::new(SessionCommand::Job(self.key, news))
    }
}

fn news_of(command: SessionCommand) -> JobNews {
    match command {
        SessionCommand::Job(_, news) => news,
        _ => unreachable!("it is what was sent"),
    }
}

impl JobObserver for SessionObserver {
    fn try_notify(&self, news: JobNews) -> Result<(), NotNotified> {
        self.commands.try_send(self.command(news)).map_err(|error| match error {
            TrySendError::Full(command) => NotNotified::Busy(news_of(*command)),
            TrySendError::Closed(command) => NotNotified::Gone(news_of(*command)),
        })
    }

    fn notify(&self, news: JobNews) -> BoxFuture<'_, Result<(), JobNews>> {
        Box::pin(async {
            let sent = self.commands.send(self.command(news)).await;
            sent.map_err(|back| news_of(*back.0))
        })
    }

    fn has_room_to_spare(&self) -> bool {
        self.commands.capacity() > CAPACITY / 2
    }
}
