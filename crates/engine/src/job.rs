//! What the engine and its doors say to each other about jobs. The doors read and write the messages of
//! [`lingua_protocol`]; what only passes through stays the text it was.

mod observer;
mod orphan;

pub use observer::{JobNews, Observer};
pub(crate) use observer::{JobObserver, NotNotified};
pub(crate) use orphan::{OrphanedOutcome, OrphanedResult};

use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::Need;
use lingua_core::fleet::Fallbacks;
use lingua_core::fleet::select::Heard;
pub(crate) use lingua_core::job::outcome::is_code;
pub use lingua_core::job::{Ended, JobEvent, NodeMessage, NodeResult, Refusal, Reject};
use lingua_core::{JobId, NodeId, Profile, Region, SessionId, SessionKey, TurnId};
pub use lingua_protocol::asked::Asked;
pub use lingua_protocol::node::{JobMessage, JobReport};
pub use lingua_protocol::{JobInput, JobOptions, Json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::trace::Context;

/// Places of a job's mailbox that are kept free of what may be missed, so that an ending always fits.
pub(crate) const FOR_ENDINGS: usize = 8;

/// What a job asks for. It does not change while the job lives.
///
/// Without `Debug`: audio and context stay out of logs.
pub struct JobSpec {
    /// Derived from the job's key, so that creating twice is creating once.
    pub id: JobId,
    /// Whose conversation it belongs to.
    pub session: SessionKey,
    /// The session's epoch that made it; `None` for a job without a session actor, whose deadline
    /// any instance watches.
    pub epoch: Option<u64>,
    /// What the node must be able to do.
    pub need: Need,
    /// What will do if no node does all of it.
    pub fallbacks: Fallbacks,
    /// By which figures it is decided.
    pub profile: Profile,
    /// Try this node first.
    pub preferred: Option<NodeId>,
    /// Where the person is, if they say so.
    pub region: Option<Region>,
    /// Try no other.
    pub strict: bool,
    /// The turn that its speech is a part of, if it has several: later parts prefer the node of the
    /// first.
    pub turn: Option<TurnId>,
    /// What the session knows of its past; `None` lets the dispatcher remember for it.
    pub past: Option<Past>,
    /// What is to be done.
    pub work: Arc<JobInput>,
    /// From now to its deadline.
    pub deadline_in: Duration,
    /// The trace that it is a part of, by its caller's word or its session's.
    pub trace: Option<Context>,
    /// Who wants to hear what becomes of it: the session that it belongs to.
    pub observer: Option<Observer>,
}

/// Who heard the conversation so far.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The node of the last utterance.
    pub last: Option<NodeId>,
    /// Who heard how much.
    pub heard: Heard,
}

/// One dispatch of a job, on its way to a node.
pub struct Assign {
    /// The id under which the node knows the job.
    pub job: JobId,
    /// Which dispatch, from 1.
    pub attempt: u32,
    /// The name of the lease, for nodes that understand it.
    pub token: String,
    /// The session as the node may know it.
    pub session: SessionId,
    /// The turn, as the node may know it.
    pub turn: String,
    /// Epoch milliseconds after which nobody wants the answer.
    pub deadline_ms: u64,
    /// Not to be sent later: whoever has the job gives this attempt up then, and its slot may be
    /// another's soon after.
    pub send_by: Instant,
    /// The span that the node's own are a part of, as a `traceparent`.
    pub traceparent: Option<String>,
    /// What is to be done.
    pub work: Arc<JobInput>,
    /// Whom to tell that it is on the wire.
    pub receipt: Receipt,
}

/// Whom to tell that an assign is on the wire; nobody, if the node says itself that it has it.
#[derive(Default)]
pub struct Receipt {
    pub(crate) listener: Option<JobEvents>,
    /// Of the connection that it goes over.
    pub(crate) epoch: u64,
}

impl Assign {
    /// Whether it must not be sent any more. A process that was stopped for a while finds such ones
    /// when it goes on.
    pub fn is_late(&self) -> bool {
        Instant::now() > self.send_by
    }

    /// Whether anybody waits to hear that it is on the wire.
    pub fn wants_receipt(&self) -> bool {
        self.receipt.listener.is_some()
    }

    /// It is on the wire. For a node that does not ack, this is the ack.
    pub fn sent(&self) {
        if let Some(listener) = &self.receipt.listener {
            // A job that ended meanwhile does not hear it, and need not.
            let _ = listener.tell(self.receipt.epoch, JobEvent::OnWire { attempt: self.attempt });
        }
    }
}

/// What goes to a node.
pub enum ToNode {
    /// Do this.
    Assign(Box<Assign>),
    /// No longer do that.
    Cancel {
        /// The id under which the node knows the job.
        job: JobId,
        /// Which dispatch.
        attempt: u32,
        /// Why, in a word.
        reason: &'static str,
    },
    /// The result arrived; it need not be sent again.
    ResultAck {
        /// The id under which the node knows the job.
        job: JobId,
        /// Which dispatch.
        attempt: u32,
    },
    /// `drain`, `resume` or `update`.
    Control {
        /// The command's name.
        command: &'static str,
        /// Why, for people.
        reason: Option<String>,
    },
    /// A newer connection of the same node took over: close this one.
    Superseded,
    /// An administrator shut the node out: close the connection.
    Blocked,
}

/// Gets the news of an attempt.
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

/// The store is out of reach.
pub fn store_down(error: &lingua_store::Error) -> Refusal {
    tracing::debug!(%error, "refused for want of the store");
    Refusal::store_down()
}
