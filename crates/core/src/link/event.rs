//! What a node's machine is told and what it wants done: two closed lists.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::{Arrival, NewAttempt, Reputation, Supports};
use crate::ids::{JobId, ModelId};
use crate::node::{Health, NodeProfile, Order};
use crate::slots::{Confirmed, LeaseToken};
use crate::time::Moment;

/// The types that pass through the machine; it never looks into them.
pub trait Kinds {
    /// Who hears what becomes of an attempt. Cheap to clone.
    type Listener: Clone;
    /// An attempt as it is sent to the node.
    type Message;
    /// What a node said about a job.
    type Payload;
    /// The slot of an abandoned attempt, as its job counted it.
    type Slot;
}

/// Something that happened.
pub enum Event<K: Kinds> {
    /// A connection registered, and the store has the record under this epoch.
    Registered(Box<Registered>),
    /// A sign of life over the connection of this epoch.
    Heartbeat {
        /// Of which connection.
        epoch: u64,
        /// What it says.
        beat: Heartbeat,
    },
    /// The node says something about a job.
    Word {
        /// Over which connection.
        epoch: u64,
        /// What the node said.
        word: Word<K::Payload>,
    },
    /// A job of this or of another instance has a slot here.
    AssignWanted {
        /// The attempt, which is remembered before the node can answer.
        attempt: NewAttempt<K::Listener>,
        /// What the node is sent.
        message: K::Message,
    },
    /// The node has an attempt that this machine did not send: it was connected elsewhere then.
    Adopted(NewAttempt<K::Listener>),
    /// A job gives an attempt up, and the node is to stop it. The slot is given back once the node
    /// obeys, or is left to it as with [`Event::Abandoned`].
    GivenUp {
        /// Which job.
        job: JobId,
        /// Which dispatch of it.
        attempt: u32,
        /// A word for the node.
        reason: &'static str,
        /// As its job counted it.
        slot: Option<K::Slot>,
    },
    /// A job says that an attempt failed by the node's fault: no ack, no answer, a connection that
    /// broke. What the node itself said is counted already.
    Blamed {
        /// Which job.
        job: JobId,
        /// Which dispatch of it.
        attempt: u32,
        /// When in epoch milliseconds and with which code, of a job that does not say it otherwise.
        failed: Option<(u64, String)>,
    },
    /// The cancel that [`Effect::Send`] asked for is on the connection.
    CancelSent {
        /// Whose slot it frees.
        token: LeaseToken,
    },
    /// The job is done with an attempt, and gives its slot back itself.
    Ended {
        /// Which job.
        job: JobId,
        /// Which dispatch of it.
        attempt: u32,
    },
    /// Nobody waits for an attempt any more; the node may still work on it, and is told nothing. Its
    /// slot stays out until its lease lapses or the node says that it is done.
    Abandoned {
        /// Which job.
        job: JobId,
        /// Which dispatch of it.
        attempt: u32,
        /// As its job counted it.
        slot: Option<K::Slot>,
    },
    /// The store extended the lease of an attempt.
    Extended {
        /// The lease in question.
        token: LeaseToken,
        /// For so long from now.
        lease: Duration,
    },
    /// A message of [`Effect::Send`] did not fit onto the connection.
    NotQueued {
        /// The attempt that it was to bring to the node.
        token: LeaseToken,
    },
    /// An assign that was on the connection did not get through.
    SendFailed {
        /// Of which connection.
        epoch: u64,
        /// Which job.
        job: JobId,
        /// Which dispatch of it.
        attempt: u32,
    },
    /// The node did something that counts as a failed job.
    Faulted,
    /// An attempt failed on the node, for people.
    FailureNoted {
        /// When, in epoch milliseconds.
        at_ms: u64,
        /// Of which job, by its own id.
        job: JobId,
        /// Why, as a code.
        code: String,
    },
    /// The node's owner or an operator says that it is well: one job may show it.
    Vouched,
    /// The answer to [`Effect::Store`].
    Answered {
        /// The epoch of the call.
        epoch: u64,
        /// What the store says.
        answer: Answer,
    },
    /// The store was out of reach and is back: it may have lost everything.
    StoreIsBack,
    /// What an administrator wants of the node.
    Ordered(Order),
    /// The node misses a model or a service until then.
    GapNoted {
        /// The model in question.
        model: ModelId,
        /// Until when this is remembered.
        until: Moment,
    },
    /// The node has these models and services now.
    GapsClosed(Vec<ModelId>),
    /// Another instance has a connection of this epoch.
    MovedAway {
        /// That epoch.
        epoch: u64,
    },
    /// The connection of this epoch is gone.
    Disconnected {
        /// Epoch of the connection.
        epoch: u64,
    },
    /// The moment of [`Effect::SetTimer`] has come, or may have.
    Tick,
}

/// A registration, as the store has it.
pub struct Registered {
    /// Rises with every registration of the node, on whichever instance.
    pub epoch: u64,
    /// It came over the connection that has been registered under this epoch; `None` for a new one.
    pub over: Option<u64>,
    /// What the node can do.
    pub profile: Arc<NodeProfile>,
    /// Of the profile: equal versions, equal abilities.
    pub version: u64,
    /// Where the node is in its life, by its own word.
    pub health: Health,
    /// What its agent understands.
    pub supports: Supports,
    /// How it came in.
    pub arrival: Arrival,
    /// What an administrator wants of it.
    pub order: Order,
    /// It was told to say so often that it lives.
    pub heartbeat: Duration,
    /// It lists what it runs in its heartbeats.
    pub lists_running: bool,
    /// What it runs now; `None` if it does not say.
    pub running: Option<Vec<(JobId, u32)>>,
    /// Another instance had its connection before.
    pub moved: bool,
    /// Nobody vouches that it has no earlier life: unless it says what it runs it gets no jobs for so
    /// long.
    pub hold: Option<Duration>,
    /// When it came, in epoch milliseconds.
    pub at_ms: u64,
    /// What the store knows of it from before.
    pub reputation: Option<Reputation>,
}

/// A sign of life. What is `None` stays as it was.
#[derive(Default)]
pub struct Heartbeat {
    /// What the node can do, with its version, if that changed.
    pub profile: Option<(Arc<NodeProfile>, u64)>,
    /// Where it is in its life.
    pub health: Option<Health>,
    /// What it runs: jobs by their own ids, with the attempts.
    pub running: Option<Vec<(JobId, u32)>>,
    /// How many jobs it runs, of a node that does not list them.
    pub running_count: Option<u32>,
    /// Figures of its resources in per cent.
    pub percents: Vec<f64>,
}

/// What a node says about a job.
pub struct Word<P> {
    /// Which job, by its own id.
    pub job: JobId,
    /// Which dispatch; some messages do not say.
    pub attempt: Option<u32>,
    /// The name of the lease.
    pub token: TokenClaim,
    /// What kind of word it is.
    pub kind: WordKind,
    /// All of it.
    pub payload: P,
}

/// The name of a lease as a node says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenClaim {
    /// It says none.
    Absent,
    /// This one.
    Nonce(u128),
    /// Something that names no lease.
    Invalid,
}

/// What kind of word a node says about a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordKind {
    /// It takes the job.
    Ack,
    /// It has begun.
    Started,
    /// It does not take the job.
    Reject,
    /// Something on the way to the result.
    Partial,
    /// It is done, with an answer.
    Success,
    /// It is done, with nothing to say.
    Empty,
    /// It is done, with an error.
    Failure {
        /// By its own fault.
        fault: bool,
    },
}

impl WordKind {
    /// It ended the attempt on the node.
    pub fn is_result(self) -> bool {
        matches!(self, WordKind::Success | WordKind::Empty | WordKind::Failure { .. })
    }

    /// The node has room for another job after it.
    pub fn frees_slot(self) -> bool {
        self == WordKind::Reject || self.is_result()
    }

    /// A stable word for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            WordKind::Ack => "ack",
            WordKind::Started => "started",
            WordKind::Reject => "reject",
            WordKind::Partial => "partial",
            WordKind::Success | WordKind::Empty | WordKind::Failure { .. } => "result",
        }
    }
}

/// Something to do. The list of one event is performed in its order.
pub enum Effect<K: Kinds> {
    /// Put this on the node's connection.
    Send(ToNode<K::Message>),
    /// The older connection is to close: a newer one took over.
    CloseOlder,
    /// Tell whoever waits for an attempt.
    Tell {
        /// Who wants to hear of the attempt.
        listener: K::Listener,
        /// Which dispatch of its job.
        attempt: u32,
        /// What happened to the attempt.
        news: News<K::Payload>,
    },
    /// An [`Event::AssignWanted`] cannot be done; its message was not sent.
    NotAssigned(NotAssigned),
    /// A word had no effect, and is counted.
    Stale(WordKind),
    /// A result of an unknown job was dropped: the node used up its rate of lookups.
    LookupLimited,
    /// A result that nobody here waits for: its instance may be gone.
    Orphaned(Word<K::Payload>),
    /// A report named more unknown jobs than may be looked up: the list was refused, all of it.
    ReportRefused {
        /// How many it named.
        unknown: usize,
        /// When to try again.
        retry_after: Duration,
    },
    /// Ask the store; exactly one [`Event::Answered`] follows.
    Store {
        /// Of the registration that it is about.
        epoch: u64,
        /// The call to the store.
        call: Call,
    },
    /// The store is told later: the node's updates are over their rate.
    Paced,
    /// Extend the lease of an attempt, without an answer.
    Renew {
        /// The lease in question.
        token: LeaseToken,
        /// For so long.
        lease: Duration,
    },
    /// Give the slot back in the store, then offer it to whoever waits. Once for each token.
    Release {
        /// The lease in question.
        token: LeaseToken,
        /// As its job counted it.
        slot: Option<K::Slot>,
    },
    /// The slot of an abandoned attempt is free, in the store too.
    SlotFreed(K::Slot),
    /// What choosing knows of the node changed, or may have.
    FleetChanged,
    /// Nothing ended on the node since its last heartbeat.
    Idle,
    /// The heartbeat is overdue.
    Overdue,
    /// The node failed too often and gets no jobs for a while.
    BreakerOpened,
    /// The node keeps failing: its owner is told.
    PutAside,
    /// A node that was put aside did a job.
    BackInService,
    /// [`Event::Vouched`] came too often, and had no effect.
    WordRefused {
        /// When to try again.
        retry_after: Duration,
    },
    /// The node is on another instance now: these attempts go on there. The machine is done.
    Detached(Vec<super::Attempt<K>>),
    /// Send [`Event::Tick`] then; it replaces an earlier one.
    SetTimer(Moment),
    /// Nobody has heard of the node for long, and it holds nothing: the machine can be let go.
    Forget,
}

/// What goes to a node.
pub enum ToNode<M> {
    /// Work on this.
    Assign(M),
    /// Stop that.
    Cancel {
        /// Which job, by its own id.
        job: JobId,
        /// Which dispatch of it.
        attempt: u32,
        /// A word for the node.
        reason: &'static str,
        /// Whose slot is free once this is on the connection: [`Event::CancelSent`] is wanted.
        frees: Option<LeaseToken>,
    },
    /// `drain` or `resume`.
    Control {
        /// The command's name.
        command: &'static str,
        /// Why, in words for its owner.
        reason: Cow<'static, str>,
    },
    /// A newer connection took over: close.
    Superseded,
    /// An administrator shut the node out: close.
    Blocked,
}

/// What happens to an attempt.
pub enum News<P> {
    /// The node said this.
    Said(WordKind, P),
    /// The assign did not get onto the node's connection.
    NotSent,
    /// The node's connection is gone.
    NodeGone,
    /// It is back.
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
    /// Write what changes from beat to beat, and what is known of the node if that changed.
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

/// What changes from beat to beat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vitals {
    /// Slots open to jobs.
    pub open_slots: u32,
    /// Where the node is in its life, as other instances see it.
    pub health: Health,
    /// It reports too little resource left.
    pub overloaded: bool,
    /// It counts as alive for so long.
    pub fresh_for: Duration,
}

/// What a node runs, for the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// `None` if the node cannot say.
    pub running: Option<Vec<LeaseToken>>,
    /// Running leases go on for so long.
    pub lease: Duration,
    /// A lease this young may be of an attempt that the node has not seen yet.
    pub grace: Duration,
    /// How long a node that can say gets no grant after a loss: as long as a slot is held for a job on
    /// its way.
    pub reserve_lease: Duration,
    /// How long a node that cannot say gets no grant after a loss.
    pub quarantine: Duration,
}

/// What the store answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The record is written as a whole.
    Stored,
    /// The beat is written.
    Kept {
        /// Grants do not wait for a report of the node.
        confirmed: bool,
    },
    /// The record is missing or differs: write it as a whole.
    PutAgain,
    /// A newer owner is there; nothing changed.
    Superseded,
    /// The assignments that were looked up: the lease of each, if it is this node's current one.
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

/// What one event brings about. Most words about jobs bring about one effect.
pub type Effects<K> = Vec<Effect<K>>;
