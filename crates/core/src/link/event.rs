//! The events and effects of a node's machine: two closed lists.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::{Arrival, NewAttempt, Percents, Reputation, Supports};
use crate::ids::{JobId, ModelId};
use crate::node::{Health, NodeProfile, Order};
use crate::slots::{Confirmed, LeaseToken};
use crate::time::Moment;

/// The types that pass through the machine, which does not look into them.
pub trait Kinds {
    /// Gets the news of an attempt. Cheap to clone.
    type Listener: Clone;
    /// An assignment as it is sent to the node.
    type Assignment;
    /// The content of a node's message about a job.
    type Payload;
    /// The slot of an abandoned attempt, as its job counted it.
    type Slot;
}

/// Something that happened.
pub enum Event<K: Kinds> {
    /// A connection registered, and the store has the node's record under this epoch.
    Registered(Box<Registered>),
    /// A heartbeat over the connection of this epoch.
    Heartbeat {
        /// Epoch of the connection.
        epoch: u64,
        /// Its content.
        beat: Heartbeat,
    },
    /// A message of the node about a job.
    Message {
        /// Epoch of the connection that it came over.
        epoch: u64,
        /// The message.
        message: JobMessage<K::Payload>,
    },
    /// A job of this or of another instance has a slot here and wants the attempt sent.
    AssignWanted {
        /// The attempt, which is remembered before the node can answer.
        attempt: NewAttempt<K::Listener>,
        /// What the node is sent.
        assignment: K::Assignment,
    },
    /// The node has an attempt that this machine did not send: it was connected to another instance then.
    Adopted(NewAttempt<K::Listener>),
    /// A job gives an attempt up, and the node is to stop it. If the node stops when told to, the slot is
    /// released once the cancel is on its connection, otherwise as with [`Event::Abandoned`].
    GivenUp {
        /// Which job.
        job: JobId,
        /// Which attempt of it.
        attempt: u32,
        /// The reason in the cancel message.
        reason: &'static str,
        /// The slot, as its job counted it.
        slot: Option<K::Slot>,
    },
    /// A job reports that an attempt failed by the node's fault: no ack, no answer, a lost connection. A
    /// failure that the node itself reported is counted already.
    AttemptFailed {
        /// Which job.
        job: JobId,
        /// Which attempt of it.
        attempt: u32,
        /// When, in epoch milliseconds, and with which code, if no [`Event::FailureNoted`] comes for it.
        failed: Option<(u64, String)>,
    },
    /// The cancel that [`Effect::Send`] asked for is on the connection.
    CancelSent {
        /// Whose slot it frees.
        token: LeaseToken,
    },
    /// The job is done with an attempt and releases its slot itself.
    Ended {
        /// Which job.
        job: JobId,
        /// Which attempt of it.
        attempt: u32,
    },
    /// Nobody waits for an attempt any more. The node may still work on it and is sent nothing. Its slot
    /// counts as taken until its lease expires or the node reports that it is done.
    Abandoned {
        /// Which job.
        job: JobId,
        /// Which attempt of it.
        attempt: u32,
        /// The slot, as its job counted it.
        slot: Option<K::Slot>,
    },
    /// The store extended the lease of an attempt.
    Extended {
        /// The lease.
        token: LeaseToken,
        /// For so long from now.
        lease: Duration,
    },
    /// A message of [`Effect::Send`] did not fit into the queue of the connection.
    NotQueued {
        /// The attempt that was to be sent.
        token: LeaseToken,
    },
    /// An assignment that was queued on the connection was not sent.
    SendFailed {
        /// Epoch of the connection.
        epoch: u64,
        /// Which job.
        job: JobId,
        /// Which attempt of it.
        attempt: u32,
    },
    /// The node did something that counts as a failed job.
    Faulted,
    /// An attempt failed on the node. Only people read it.
    FailureNoted {
        /// When, in epoch milliseconds.
        at_ms: u64,
        /// Of which job, by its own id.
        job: JobId,
        /// Why, as a code.
        code: String,
    },
    /// The node's owner or an operator says that the node works again: it may get one job as a probe.
    ProbeRequested,
    /// The answer to [`Effect::Store`].
    Answered {
        /// The epoch of the call.
        epoch: u64,
        /// What the store answered.
        answer: Answer,
    },
    /// The store was out of reach and is back: it may have lost everything.
    StoreIsBack,
    /// What an administrator wants of the node.
    Ordered(Order),
    /// The node misses a model or a service.
    GapNoted {
        /// Which one.
        model: ModelId,
        /// Until when this is remembered.
        until: Moment,
    },
    /// The node has these models and services now.
    GapsClosed(Vec<ModelId>),
    /// Another instance has a connection of this epoch.
    MovedAway {
        /// Epoch of that connection.
        epoch: u64,
    },
    /// The connection of this epoch is gone.
    Disconnected {
        /// Epoch of the connection.
        epoch: u64,
    },
    /// The moment of [`Effect::SetTimer`] has come. An earlier tick changes nothing.
    Tick,
}

/// A registration, as the store has it.
pub struct Registered {
    /// Rises with every registration of the node, on whichever instance.
    pub epoch: u64,
    /// The epoch under which the same connection registered before; `None` for a new connection.
    pub over: Option<u64>,
    /// What the node can do.
    pub profile: Arc<NodeProfile>,
    /// Version of the profile: equal versions, equal profiles.
    pub version: u64,
    /// The health that the node declares.
    pub health: Health,
    /// The protocol features of its agent.
    pub supports: Supports,
    /// How it was admitted.
    pub arrival: Arrival,
    /// What an administrator wants of it.
    pub order: Order,
    /// The heartbeat interval that it was told.
    pub heartbeat: Duration,
    /// It lists what it runs in its heartbeats.
    pub lists_running: bool,
    /// What it runs now; `None` if it does not report that.
    pub running: Option<Vec<(JobId, u32)>>,
    /// Another instance had its connection before.
    pub moved: bool,
    /// The node may run jobs of which nobody here knows: unless it reports what it runs, it gets no jobs for so
    /// long.
    pub hold: Option<Duration>,
    /// When it registered, in epoch milliseconds.
    pub at_ms: u64,
    /// What the store knows of it from before.
    pub reputation: Option<Reputation>,
    /// How much of its resources is in use.
    pub percents: Percents,
}

/// The content of a heartbeat. What is `None` stays as it was.
#[derive(Default)]
pub struct Heartbeat {
    /// What the node can do, with its version, if that changed.
    pub profile: Option<(Arc<NodeProfile>, u64)>,
    /// The health that it declares.
    pub health: Option<Health>,
    /// What it runs: jobs by their own ids, with the attempts.
    pub running: Option<Vec<(JobId, u32)>>,
    /// How many jobs it runs, of a node that does not list them.
    pub running_count: Option<u32>,
    /// How much of its resources is in use.
    pub percents: Percents,
}

/// A message of a node about a job.
pub struct JobMessage<P> {
    /// Which job, by its own id.
    pub job: JobId,
    /// Which attempt; some messages do not name it.
    pub attempt: Option<u32>,
    /// The lease token that it names.
    pub token: TokenClaim,
    /// What kind of message it is.
    pub kind: MessageKind,
    /// Its content.
    pub payload: P,
}

/// The lease token that a node's message names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenClaim {
    /// It names none.
    Absent,
    /// The token with this nonce.
    Nonce(u128),
    /// Something that is no token.
    Invalid,
}

/// The kind of a node's message about a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageKind {
    /// It accepts the job.
    Ack,
    /// It has begun.
    Started,
    /// It does not accept the job.
    Reject,
    /// An intermediate result.
    Partial,
    /// It is done, with an answer.
    Success,
    /// It is done, and there was nothing to answer.
    Empty,
    /// It is done, with an error.
    Failure {
        /// By its own fault.
        fault: bool,
    },
}

impl MessageKind {
    /// The attempt ended on the node.
    pub fn is_result(self) -> bool {
        matches!(self, MessageKind::Success | MessageKind::Empty | MessageKind::Failure { .. })
    }

    /// The node has room for another job after it.
    pub fn frees_slot(self) -> bool {
        self == MessageKind::Reject || self.is_result()
    }

    /// A stable name for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            MessageKind::Ack => "ack",
            MessageKind::Started => "started",
            MessageKind::Reject => "reject",
            MessageKind::Partial => "partial",
            MessageKind::Success | MessageKind::Empty | MessageKind::Failure { .. } => "result",
        }
    }
}

/// Something to do. The list of one event is performed in its order.
pub enum Effect<K: Kinds> {
    /// Put this on the node's connection.
    Send(ToNode<K::Assignment>),
    /// The older connection is to close: a newer one took over.
    CloseOlder,
    /// Tell the listener of an attempt.
    Tell {
        /// Who gets the news.
        listener: K::Listener,
        /// Which attempt of its job.
        attempt: u32,
        /// What happened to the attempt.
        news: News<K::Payload>,
    },
    /// An [`Event::AssignWanted`] is refused; nothing was sent.
    NotAssigned(NotAssigned),
    /// A message was stale. It is counted.
    Stale(MessageKind),
    /// A result of an unknown job was dropped: the node used up its rate of lookups.
    LookupLimited,
    /// A result that no job here waits for: its instance may be gone.
    Orphaned(JobMessage<K::Payload>),
    /// A report named more unknown jobs than may be looked up. The whole list was refused.
    ReportRefused {
        /// How many it named.
        unknown: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// Ask the store; exactly one [`Event::Answered`] follows.
    Store {
        /// Epoch of the registration that it is about.
        epoch: u64,
        /// The call to the store.
        call: Call,
    },
    /// The store is told later: the node's updates are over their rate.
    Paced,
    /// Extend the lease of an attempt. There is no answer.
    Renew {
        /// The lease.
        token: LeaseToken,
        /// For so long.
        lease: Duration,
    },
    /// Release the slot in the store, then offer it to waiting jobs. At most once for each token.
    Release {
        /// The lease.
        token: LeaseToken,
        /// The slot, as its job counted it.
        slot: Option<K::Slot>,
    },
    /// The slot of an abandoned attempt is free, in the store too.
    SlotFreed(K::Slot),
    /// The node's entry in the fleet view changed, or may have.
    FleetChanged,
    /// Nothing ended on the node since its last heartbeat.
    Idle,
    /// The heartbeat is overdue.
    Overdue,
    /// The node failed too often and gets no jobs for a while.
    BreakerOpened,
    /// The node keeps failing and is put aside.
    PutAside,
    /// A node that was put aside did a job.
    BackInService,
    /// [`Event::ProbeRequested`] came too often and had no effect.
    ProbeRefused {
        /// When to try again.
        retry_after: Duration,
    },
    /// The node is on another instance now, and these attempts go on there. The machine is done.
    Detached(Vec<super::Attempt<K>>),
    /// Send [`Event::Tick`] at that moment; it replaces an earlier timer.
    SetTimer(Moment),
    /// The node has been without a connection for long and has no attempt: the machine can be dropped.
    Forget,
}

/// What goes to a node.
pub enum ToNode<A> {
    /// Work on this.
    Assign(A),
    /// Stop that.
    Cancel {
        /// Which job, by its own id.
        job: JobId,
        /// Which attempt of it.
        attempt: u32,
        /// The reason in the message.
        reason: &'static str,
        /// The slot that is free once this is on the connection: [`Event::CancelSent`] is to follow.
        frees: Option<LeaseToken>,
    },
    /// `drain` or `resume`.
    Control {
        /// The command's name.
        command: &'static str,
        /// Why, for the node's owner.
        reason: Cow<'static, str>,
    },
    /// A newer connection took over: close.
    Superseded,
    /// An administrator blocked the node: close.
    Blocked,
}

/// What happens to an attempt.
pub enum News<P> {
    /// A message of the node.
    Message(MessageKind, P),
    /// The assignment did not get onto the node's connection.
    NotSent,
    /// The node's connection is gone.
    NodeGone,
    /// The node is connected again.
    NodeBack,
    /// The node does not have the attempt any more.
    Dropped,
    /// The closing part of its turn has its speech.
    TurnClosed,
}

/// Why an attempt was not put on the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAssigned {
    /// The node has as many attempts as it has slots open, although the store granted one more.
    Full,
    /// It has no connection.
    NotConnected,
}

/// What the store is asked.
#[derive(Clone, PartialEq, Debug)]
pub enum Call {
    /// Write the whole record again, and what is known of the node if that changed.
    Put(Vitals, Option<Box<Reputation>>),
    /// Write what changes from heartbeat to heartbeat, and what is known of the node if that changed.
    Beat(Vitals, Option<Box<Reputation>>),
    /// The current assignments of these jobs, in this order.
    LookUp(Vec<(JobId, u32)>),
    /// What the node runs.
    Confirm(Report),
    /// Extend these leases.
    Renew {
        /// Leases of the attempts.
        tokens: Vec<LeaseToken>,
        /// For so long.
        lease: Duration,
    },
}

/// What changes from heartbeat to heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vitals {
    /// Slots open to jobs.
    pub open_slots: u32,
    /// The node's health, as other instances see it.
    pub health: Health,
    /// It reports that it is overloaded.
    pub overloaded: bool,
    /// It counts as alive for so long.
    pub fresh_for: Duration,
}

/// What a node runs, for the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// `None` if the node does not report it.
    pub running: Option<Vec<LeaseToken>>,
    /// Running leases are extended for so long.
    pub lease: Duration,
    /// A lease younger than this may be of an attempt that the node has not received yet.
    pub grace: Duration,
    /// How long a node that reports gets no grant after the store lost data: as long as a slot is held for
    /// a job on its way.
    pub reserve_lease: Duration,
    /// How long a node that does not report gets no grant after the store lost data.
    pub quarantine: Duration,
}

/// What the store answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The whole record is written.
    Stored,
    /// The heartbeat is written.
    Kept {
        /// Grants do not wait for a report of the node.
        confirmed: bool,
    },
    /// The record is missing or differs: write the whole record.
    PutAgain,
    /// A newer owner is there; nothing changed.
    Superseded,
    /// For each job that was looked up: the lease of its current assignment, if that is on this node.
    Found(Vec<Option<LeaseToken>>),
    /// The report was taken.
    Confirmed(Confirmed),
    /// There is no record to report to.
    NoRecord,
    /// These leases were extended.
    Renewed(Vec<LeaseToken>),
    /// The store did not answer; the call may have had its effect.
    Failed,
}

/// The effects of one event. Most messages about jobs have one effect.
pub type Effects<K> = Vec<Effect<K>>;
