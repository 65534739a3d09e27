//! Where a job is told what happens to its attempts.

use std::sync::Arc;

use lingua_core::job::event::JobEvent;
use tokio::sync::mpsc;

/// Where to tell what happens to an attempt.
#[derive(Clone)]
pub(crate) enum JobEvents {
    /// Its job is of this instance.
    Local(mpsc::Sender<JobEvent>),
    /// It is of another.
    Remote(Arc<dyn RemoteJob>),
}

/// A job of another instance with an attempt on a node here.
pub(crate) trait RemoteJob: Send + Sync {
    /// Tells it what happened, over the node's connection of this epoch.
    fn tell(&self, epoch: u64, event: JobEvent) -> Result<(), Unheard>;

    /// Whether its instance is known to be alive.
    fn is_alive(&self) -> bool;
}

/// A job is over, or its mailbox is full.
#[derive(Debug)]
pub(crate) struct Unheard;

impl JobEvents {
    /// Tells the job what happened, over the node's connection of this epoch.
    pub fn tell(&self, epoch: u64, event: JobEvent) -> Result<(), Unheard> {
        match self {
            JobEvents::Local(events) => events.try_send(event).map_err(|_| Unheard),
            JobEvents::Remote(job) => job.tell(epoch, event),
        }
    }

    /// Whether events that may be missed still leave room for those that must not.
    pub fn has_room(&self, reserved: usize) -> bool {
        match self {
            JobEvents::Local(events) => events.capacity() > reserved,
            JobEvents::Remote(_) => true,
        }
    }

    /// Whether somebody can hear it.
    pub fn is_alive(&self) -> bool {
        match self {
            JobEvents::Local(_) => true,
            JobEvents::Remote(job) => job.is_alive(),
        }
    }
}
