//! The interfaces between nodes and the rest of the engine.
//!
//! A job uses a node by a [`NodeLink`], whichever instance has the node's connection. The cluster implements
//! [`Peers`] and, for nodes of other instances, [`NodeLink`].

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
    type Assignment = Outgoing;
    type Payload = JobReport;
    type Slot = SlotGuard;
}

/// A slot that counts as taken while this value lives.
pub(crate) enum SlotGuard {
    /// In the fleet view of this instance.
    Placed(Placement),
    /// In that of another instance, which is told when this is dropped.
    #[expect(dead_code, reason = "dropping it is all that is done with it")]
    Peer(Box<dyn Send>),
}

/// An attempt on its way to a node.
pub(crate) struct Outgoing {
    pub token: LeaseToken,
    pub assign: Box<Assign>,
}

/// A node as jobs use it, whichever instance has its connection.
pub(crate) trait NodeLink: Send + Sync {
    /// How it is reached now.
    fn reach(&self) -> Reach;

    /// Puts an attempt on the node's connection, and remembers it before the node can answer. Returns the
    /// node's protocol features.
    fn assign(&self, assign: Assign, attempt: NewAttempt<JobEvents>)
    -> Result<Supports, SendError>;

    /// Sends a command that needs no answer.
    fn post(&self, command: LinkCommand);
}

/// Finds the link to a node.
pub(crate) trait NodeRouter: Send + Sync {
    /// The link to the node, on whichever instance it is now.
    fn link(&self, id: &NodeId) -> Option<Arc<dyn NodeLink>>;
}

/// A node, as one attempt of a job uses it. The node may move to another instance between two steps, so
/// the router is asked for its link at each step.
#[derive(Clone)]
pub(crate) struct NodePort {
    id: NodeId,
    router: Arc<dyn NodeRouter>,
}

impl NodePort {
    /// The node of this name, if it is known.
    pub fn find(router: &Arc<dyn NodeRouter>, id: &NodeId) -> Option<NodePort> {
        router.link(id)?;
        Some(NodePort { id: id.clone(), router: Arc::clone(router) })
    }

    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// The link to the node; `None` if the node is not known any more.
    pub fn link(&self) -> Option<Arc<dyn NodeLink>> {
        self.router.link(&self.id)
    }

    /// Sends a command that needs no answer. A node that is not known any more gets none.
    pub fn post(&self, command: LinkCommand) {
        if let Some(link) = self.link() {
            link.post(command);
        }
    }

    pub fn supports(&self) -> Supports {
        self.link().map(|link| link.reach().supports).unwrap_or_default()
    }

    /// How long a slot on it is held for a running job without a message from it; `None` if it is not
    /// known any more.
    pub fn running_lease(&self) -> Option<Duration> {
        Some(self.link()?.reach().running_lease)
    }

    /// The instance that has its connection.
    pub fn owner(&self) -> Option<InstanceId> {
        Some(self.link()?.reach().instance)
    }
}

/// How a node is reached.
pub(crate) struct Reach {
    /// The instance that has its connection.
    pub instance: InstanceId,
    /// Its protocol features; none without a connection.
    pub supports: Supports,
    /// How long a running job's slot lasts without a message from the node.
    pub running_lease: Duration,
}

/// A command of a job, an owner or an operator to a node.
pub(crate) enum LinkCommand {
    /// The store extended the lease of an attempt for so long.
    Extended { token: LeaseToken, lease: Duration },
    /// The attempt is over, and the job releases its slot. What the node still sends about it has no effect.
    End { job: JobId, attempt: u32 },
    /// The attempt is abandoned, and the node is to stop it. The owner of the connection releases the slot when
    /// the node stops or reports, or when the lease expires.
    Abandon { job: JobId, attempt: u32, reason: &'static str, slot: Option<SlotGuard> },
    /// The attempt failed by the node's fault.
    AttemptFailed { job: JobId, attempt: u32 },
    /// The node did something that counts as a failed job.
    Fault,
    /// The node's owner or an operator says that it works again: it may get one job as a probe.
    RequestProbe,
    /// The result arrived; the node need not repeat it.
    AcknowledgeResult { job: JobId, attempt: u32 },
    /// The node is to update itself.
    Update { reason: String },
    /// The node misses a model or a service until then.
    NoteGap { model: ModelId, until: Instant },
    /// The node has these now.
    CloseGaps(Vec<ModelId>),
    /// An attempt of a job failed with this code, for people.
    NoteFailure { at_ms: u64, job: JobId, code: String },
}

/// Why an attempt was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendError {
    /// It has as many attempts as slots open, although the store granted one more.
    Full,
    /// It has no connection.
    NotConnected,
    /// The queue of its connection is full.
    Congested,
}

/// Other instances, as nodes need them.
pub(crate) trait Peers: Send + Sync {
    /// The epoch of the node's newest connection to another instance, if it is known.
    fn epoch(&self, node: &NodeId) -> Option<u64>;

    /// The node registered here and is no longer another instance's. Returns the attempts of this instance's
    /// jobs that it was sent over the other one.
    fn take_attempts(&self, node: &NodeId) -> Vec<NewAttempt<JobEvents>>;

    /// The node registered at another instance, with these attempts of this instance's jobs.
    fn take_over(&self, node: &NodeId, attempts: Vec<NewAttempt<JobEvents>>);

    /// A result that no job here waits for. If it is refused, the node repeats it.
    fn orphaned(&self, result: OrphanedResult) -> Result<(), Unheard>;

    /// These services of a node here have begun to run.
    fn services_run(&self, node: &NodeId, services: Vec<String>);
}
