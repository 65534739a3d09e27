//! Who is notified of a job.

use futures_util::future::BoxFuture;
use lingua_core::job::{Ended, NodeMessage};

use crate::tasks;

/// News of a job.
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

/// The observer did not take the news.
pub(crate) enum NotNotified {
    /// Its queue is full.
    Busy(JobNews),
    /// It is over.
    Gone(JobNews),
}

/// Somebody who is notified of a job: the session that it belongs to.
pub(crate) trait JobObserver: Send + Sync {
    /// Hands over the news at once, or not at all.
    fn try_notify(&self, news: JobNews) -> Result<(), NotNotified>;

    /// Hands over the news when there is room; gives it back if the observer is over.
    fn notify(&self, news: JobNews) -> BoxFuture<'_, Result<(), JobNews>>;

    /// Whether there is more room than is kept for what must not be missed.
    fn has_room_to_spare(&self) -> bool;

    /// Whether the job is one of two that another job is done by.
    fn is_of_a_leg(&self) -> bool {
        false
    }
}

/// The observer of one job.
pub struct Observer(Box<dyn JobObserver>);

impl Observer {
    pub(crate) fn new(observer: impl JobObserver + 'static) -> Self {
        Observer(Box::new(observer))
    }

    /// Notifies it. Waits for one whose queue is full; one that is over need not hear it.
    pub(crate) async fn notify(&self, news: JobNews) {
        if let Err(NotNotified::Busy(news)) = self.0.try_notify(news) {
            let _ = self.0.notify(news).await;
        }
    }

    /// Notifies it of the job's end; gives the ending back if it is over.
    pub(crate) async fn notify_ended(&self, ended: Ended) -> Result<(), Ended> {
        let unheard = match self.0.try_notify(JobNews::Ended(ended)) {
            Ok(()) => return Ok(()),
            Err(NotNotified::Gone(news)) => news,
            Err(NotNotified::Busy(news)) => match self.0.notify(news).await {
                Ok(()) => return Ok(()),
                Err(news) => news,
            },
        };
        match unheard {
            JobNews::Ended(ended) => Err(ended),
            _ => unreachable!("it is what was sent"),
        }
    }

    /// Notifies it, by a task of its own if its queue is full.
    pub(crate) fn notify_later(self, news: JobNews) {
        if let Err(NotNotified::Busy(news)) = self.0.try_notify(news)
            && tokio::runtime::Handle::try_current().is_ok()
        {
            tasks::start(async move {
                let _ = self.0.notify(news).await;
            });
        }
    }

    /// Whether the job is one of two that another job is done by.
    pub(crate) fn is_of_a_leg(&self) -> bool {
        self.0.is_of_a_leg()
    }

    /// Notifies it if there is room; for what may be missed.
    pub(crate) fn notify_if_room(&self, news: JobNews) {
        if self.0.has_room_to_spare() {
            let _ = self.0.try_notify(news);
        }
    }
}
