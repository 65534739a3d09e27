//! What comes for a session from elsewhere than its client, in a queue of bounded size.

use lingua_core::JobId;
use lingua_core::session::ResultKey;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::connection::ClientConnection;
use super::inbound::Opening;
use crate::job::{Ended, NodeMessage};
use crate::tasks;

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
    GiveUp,
    /// The store may have lost what the next owner needs.
    SaveAgain,
    /// What the next owner needs is in the store, or is not.
    Saved(SaveOutcome),
}

/// News of a job of a session.
pub enum JobNews {
    /// A dispatch goes out.
    Assigned {
        /// Which one.
        attempt: u32,
        /// The one before goes on beside it.
        hedge: bool,
    },
    /// The node has it.
    Accepted {
        /// Which dispatch.
        attempt: u32,
    },
    /// Something on the way.
    Partial {
        /// Which dispatch.
        attempt: u32,
        /// The node's message as it came.
        body: NodeMessage,
    },
    /// It is over.
    Ended(Ended),
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
pub struct Observer {
    /// Which of its jobs it is.
    pub(crate) key: ResultKey,
    /// Where it receives commands.
    pub(crate) commands: CommandSender,
}

impl Observer {
    /// Notifies it. Waits for a session whose queue is full; one that is over need not hear it.
    pub(crate) async fn notify(&self, news: JobNews) {
        let _ = self.commands.send(Box::new(SessionCommand::Job(self.key, news))).await;
    }

    /// Notifies it of the job's end; gives the ending back if the session is no longer here.
    pub(crate) async fn notify_ended(&self, ended: Ended) -> Result<(), Ended> {
        let command = Box::new(SessionCommand::Job(self.key, JobNews::Ended(ended)));
        self.commands.send(command).await.map_err(|back| match *back.0 {
            SessionCommand::Job(_, JobNews::Ended(ended)) => ended,
            _ => unreachable!("it is what was sent"),
        })
    }

    /// Notifies it, by a task of its own if its queue is full.
    pub(crate) fn notify_later(self, news: JobNews) {
        let command = Box::new(SessionCommand::Job(self.key, news));
        if let Err(TrySendError::Full(command)) = self.commands.try_send(command)
            && tokio::runtime::Handle::try_current().is_ok()
        {
            tasks::start(async move {
                let _ = self.commands.send(command).await;
            });
        }
    }

    /// Notifies it if there is room; for what may be missed.
    pub(crate) fn notify_if_room(&self, news: JobNews) {
        // The last places are for what must not be missed.
        if self.commands.capacity() > CAPACITY / 2 {
            let _ = self.commands.try_send(Box::new(SessionCommand::Job(self.key, news)));
        }
    }
}
