//! What comes for a session from elsewhere than its client, in a mailbox of bounded size.

use bytes::Bytes;
use lingua_core::JobId;
use lingua_core::session::ResultKey;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::words::{Line, Opening};
use crate::job::Ended;
use crate::tasks;

/// Words that wait for one session. The session takes them in as they come, unless its client does
/// not take what it is told; then whoever has more to say waits.
const MAILBOX: usize = 32;

/// Where a session finds what came for it. Most sessions are quiet, and an empty mailbox has its room
/// all the same; so what is in it is boxed.
pub type Mailbox = mpsc::Receiver<Box<ToSession>>;

/// Where to put what is for a session.
pub(crate) type Letterbox = mpsc::Sender<Box<ToSession>>;

/// A new mailbox.
pub(crate) fn mailbox() -> (Letterbox, Mailbox) {
    mpsc::channel(MAILBOX)
}

/// What comes for a session.
pub enum ToSession {
    /// News of one of its jobs.
    Job(ResultKey, JobNews),
    /// One of its jobs, of this life or an earlier one, is over elsewhere.
    Ended(JobId, Ended),
    /// Its client is back on another line.
    Attach(Attach),
    /// Another instance has it.
    Superseded,
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
        body: Bytes,
    },
    /// It is over.
    Ended(Ended),
}

/// A client that is back.
pub struct Attach {
    /// Its line.
    pub(crate) line: Box<dyn Line>,
    /// What it said.
    pub(crate) opening: Opening,
    /// The epoch that was claimed for it.
    pub(crate) epoch: u64,
}

/// What became of a save.
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

/// Who wants to hear what becomes of a job.
pub struct Observer {
    /// Which of its jobs it is.
    pub(crate) key: ResultKey,
    /// Where it is to be told.
    pub(crate) letterbox: Letterbox,
}

impl Observer {
    /// Tells it. Waits for a session whose mailbox is full; one that is over need not hear it.
    pub(crate) async fn tell(&self, news: JobNews) {
        let _ = self.letterbox.send(Box::new(ToSession::Job(self.key, news))).await;
    }

    /// Tells it how the job ended, or gives that back if there is no such session here any more.
    pub(crate) async fn end(&self, ended: Ended) -> Result<(), Ended> {
        let word = Box::new(ToSession::Job(self.key, JobNews::Ended(ended)));
        self.letterbox.send(word).await.map_err(|back| match *back.0 {
            ToSession::Job(_, JobNews::Ended(ended)) => ended,
            _ => unreachable!("it is what was sent"),
        })
    }

    /// Tells it, by a task of its own if it cannot be at once.
    pub(crate) fn tell_later(self, news: JobNews) {
        let word = Box::new(ToSession::Job(self.key, news));
        if let Err(TrySendError::Full(word)) = self.letterbox.try_send(word)
            && tokio::runtime::Handle::try_current().is_ok()
        {
            tasks::start(async move {
                let _ = self.letterbox.send(word).await;
            });
        }
    }

    /// Tells it if there is room; for what may be missed.
    pub(crate) fn mention(&self, news: JobNews) {
        // The last places are for what must not be missed.
        if self.letterbox.capacity() > MAILBOX / 2 {
            let _ = self.letterbox.try_send(Box::new(ToSession::Job(self.key, news)));
        }
    }
}
