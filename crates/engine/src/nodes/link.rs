//! What nodes and the rest of the engine are to each other, as interfaces that nodes own.
//!
//! A job holds a [`NodeLink`], whoever has the node's connection. The cluster implements [`Peers`] and,
//! for nodes of other instances, [`NodeLink`]; so nothing here knows which is which.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::link::{Kinds, NewAttempt, Supports};
use lingua_core::{InstanceId, JobId, LeaseToken, ModelId, NodeId};
use tokio::time::Instant;

use crate::fleet::Placement;
use crate::job::{Assign, JobEvents, JobReport, OrphanedResult, Unheard};

/// The types that pass through a node's machine.
pub(crate) struct Wire;

impl Kinds for Wire {
    type Listener = JobEvents;
    type Message = Outgoing;
    type Payload = JobReport;
    type Slot = SlotGuard;
}

/// A slot that counts as taken while this value lives.
pub(crate) enum SlotGuard {
    /// In the fleet view of this instance.
    Placed(Placement),
    /// By another instance, which is told when this is dropped.
    #[expect(dead_code, reason = "dropping it is all that is done with it")]
    Peer(Box<dyn Send>),
}

/// An attempt on its way to a node.
pub(crate) struct Outgoing {
    pub token: LeaseToken,
    pub assign: Box<Assign>,
}

/// A node as jobs use it, whoever has its connection.
pub(crate) trait NodeLink: Send + Sync {
    /// How it is reached now.
    fn reach(&self) -> Reach;

    /// Puts an attempt on the node's connection, and remembers it before the node can answer.
    /// Returns what the node understands.
    fn assign(&self, assign: Assign, attempt: NewAttempt<JobEvents>)
    -> Result<Supports, SendError>;

    /// Does something that needs no answer.
    fn post(&self, command: LinkCommand);
}

/// The way to nodes.
pub(crate) trait NodeRouter: Send + Sync {
    /// The node, wherever it is now.
    fn link(&self, id: &NodeId) -> Option<Arc<dyn NodeLink>>;
}

/// How a node is reached.
pub(crate) struct Reach {
    /// The instance that has its connection.
    pub instance: InstanceId,
    /// What it understands; nothing without a connection.
    pub supports: Supports,
    /// How long a running job's slot lasts without a word from the node.
    pub running_lease: Duration,
}

/// What a job, or somebody for it, wants of a node.
pub(crate) enum LinkCommand {
    /// The store extended the lease of an attempt for so long.
    Extended { token: LeaseToken, lease: Duration },
    /// The attempt is over and its slot is given back by the job. What the node still says of it has no
    /// effect.
    End { job: JobId, attempt: u32 },
    /// The attempt is given up and the node is to stop it. Whoever has the connection gives the slot
    /// back, once the node obeys or its lease lapses.
    Abandon { job: JobId, attempt: u32, reason: &'static str, slot: Option<SlotGuard> },
    /// The attempt failed by the node's fault.
    Blame { job: JobId, attempt: u32 },
    /// The node did something else that counts as a failed job.
    Fault,
    /// Its owner or an operator says that it is well.
    Vouch,
    /// The result arrived; the node need not send it again.
    AcknowledgeResult { job: JobId, attempt: u32 },
    /// The node is to update itself.
    Update { reason: String },
    /// The node misses a model or a service until then.
    NoteGap { model: ModelId, until: Instant },
    /// It has these now.
    CloseGaps(Vec<ModelId>),
    /// An attempt of a job failed with this code, for people.
    NoteFailure { at_ms: u64, job: JobId, code: String },
}

/// Why a job did not get to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendError {
    /// It has as many attempts as slots open, although the store granted one more.
    Full,
    /// It has no connection.
    NotConnected,
    /// It does not read what it is sent.
    Congested,
}

/// Other instances, as nodes need them.
pub(crate) trait Peers: Send + Sync {
    /// The epoch of the node's newest connection to another instance, if it is known.
    fn epoch(&self, node: &NodeId) -> Option<u64>;

    /// The node registered here: the attempts of this instance's jobs that it was sent elsewhere. From
    /// now on it is not another instance's.
    fn take_attempts(&self, node: &NodeId) -> Vec<NewAttempt<JobEvents>>;

    /// The node registered elsewhere: the attempts that it had here.
    fn take_over(&self, node: &NodeId, attempts: Vec<NewAttempt<JobEvents>>);

    /// A result that nobody here waits for. Its node says it again if this one is not taken.
    fn orphaned(&self, result: OrphanedResult) -> Result<(), Unheard>;

    /// These services of a node here run now, and did not before.
    fn services_run(&self, node: &NodeId, services: Vec<String>);
}
