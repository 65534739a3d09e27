//! The events and effects of a job's machine: two closed lists.
//!
//! Every effect that asks a question is answered by exactly one event, at once or later. A message for a job
//! ([`JobEvent`]) may be late, repeated or wrong: it counts only for a current attempt.

use std::time::Duration;

use super::message::NodeMessage;
use super::outcome::{Ended, NodeResult, Refusal, Reject};
use crate::fleet::select::{Passed, Source, Verdict};
use crate::fleet::{Fallbacks, Way};
use crate::ids::NodeId;
use crate::job::JobState;
use crate::lang::Lang;
use crate::outcome::Code;

/// A message for a job: from a node about an attempt, or from a caller about the job. Large parts are
/// boxed, because every channel has room for many messages.
pub enum JobEvent {
    /// The assignment is written to the node's socket. For a node that does not ack, this is the ack.
    OnWire {
        /// Which attempt.
        attempt: u32,
    },
    /// The assignment was not written to the node's socket, and will not be.
    NotSent {
        /// Which attempt.
        attempt: u32,
    },
    /// The node accepts it, or has begun.
    Ack {
        /// Which attempt.
        attempt: u32,
    },
    /// The node does not accept it.
    Reject {
        /// Which attempt.
        attempt: u32,
        /// Why the node rejected it.
        reason: Box<Reject>,
    },
    /// An intermediate result.
    Partial {
        /// Which attempt.
        attempt: u32,
        /// The node's message as it came.
        body: Box<NodeMessage>,
    },
    /// The node's result.
    Result {
        /// Which attempt.
        attempt: u32,
        /// What the node answered.
        result: Box<NodeResult>,
    },
    /// The node's connection is gone.
    NodeGone {
        /// Which attempt.
        attempt: u32,
    },
    /// The node is connected again.
    NodeBack {
        /// Which attempt.
        attempt: u32,
    },
    /// The node reported that it does not have it.
    Dropped {
        /// Which attempt.
        attempt: u32,
    },
    /// The closing part of its turn has its speech.
    TurnClosed {
        /// Which attempt.
        attempt: u32,
    },
    /// Its caller or session gives the job up.
    Cancel {
        /// Why it is given up.
        reason: &'static str,
    },
}

impl JobEvent {
    /// Whether it may be left out of a channel that is nearly full. A node may repeat these without end.
    pub fn may_be_missed(&self) -> bool {
        matches!(self, JobEvent::Ack { .. } | JobEvent::Partial { .. })
    }
}

/// Something that happened.
pub enum Event {
    /// The job was submitted. The first event.
    Submitted,
    /// [`Effect::Choose`]: this node was chosen, and one of its slots counts as taken in the fleet view.
    Chosen {
        /// Which node.
        node: NodeId,
        /// How it was chosen.
        source: Source,
        /// Why the preferred node was passed over, if this is the first choice after that.
        passed_over: Option<Passed>,
    },
    /// [`Effect::Choose`]: no node is left.
    NoneChosen(Verdict),
    /// [`Effect::FindOldestMark`].
    OldestMark(Option<NodeId>),
    /// [`Effect::FindAnotherWay`].
    AnotherWay(Option<Way>),
    /// [`Effect::BeginLeg`]: the job of this leg is submitted, unless it was refused.
    LegBegun {
        /// Which leg.
        leg: Leg,
        /// Why it was refused.
        refused: Option<Refusal>,
    },
    /// News of a leg's job.
    Leg {
        /// Which leg.
        leg: Leg,
        /// What happened.
        news: LegNews,
    },
    /// [`Effect::DescribeLack`].
    LackDescribed(Refusal),
    /// [`Effect::Reserve`].
    Reserved {
        /// Which attempt.
        attempt: u32,
        /// The answer about the slot.
        slot: SlotAnswer,
        /// The answer about the record, if that was to be written too.
        record: RecordAnswer,
    },
    /// [`Effect::WriteRecord`].
    Recorded {
        /// The attempt that was written as the first assignment.
        attempt: Option<u32>,
        /// The answer.
        answer: RecordAnswer,
    },
    /// [`Effect::WriteAssignment`].
    AssignmentWritten {
        /// Which attempt.
        attempt: u32,
        /// The answer.
        answer: AssignAnswer,
    },
    /// [`Effect::Send`]: the assignment is on the node's connection. It comes before any message of the node.
    Sent {
        /// Which attempt.
        attempt: u32,
        /// The protocol features of the node.
        link: Link,
    },
    /// [`Effect::Send`]: the assignment is not on the connection, and never will be.
    NotSent {
        /// Which attempt.
        attempt: u32,
        /// Why nothing was sent.
        reason: NotSent,
    },
    /// [`Effect::Commit`].
    Committed {
        /// Which attempt.
        attempt: u32,
        /// The answer about the lease.
        answer: CommitAnswer,
    },
    /// [`Effect::Finish`] and [`Effect::FinishByAnswer`].
    Finished(FinishAnswer),
    /// [`Effect::JoinQueue`].
    Queued(QueueAnswer),
    /// The job is called out of the queue.
    Called(Wakeup),
    /// [`Effect::AskRetryBudget`].
    RetryBudget(BudgetAnswer),
    /// [`Effect::Watch`]: whether the deadline is watched.
    Watched(bool),
    /// No other event waits for the job: a commit that was put off is to be done now.
    Idle,
    /// The moment of [`super::Machine::timer`] has come.
    Timer,
    /// A message for the job came.
    Message(JobEvent),
}

/// One of the two jobs of a translation by way of another language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leg {
    /// From the source language into the language between.
    First,
    /// From there on.
    Second,
}

impl Leg {
    /// From 1.
    pub fn number(self) -> u32 {
        match self {
            Leg::First => 1,
            Leg::Second => 2,
        }
    }
}

/// News of a leg's job.
#[derive(Clone)]
pub enum LegNews {
    /// An attempt of it was sent.
    Assigned,
    /// A node has it.
    Accepted,
    /// An intermediate result.
    Partial(NodeMessage),
    /// It is over.
    Ended(Ended),
}

/// The store's answer to a request for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotAnswer {
    /// The attempt has the slot.
    Granted,
    /// It has none; another node may have a free one.
    Refused,
    /// The store did not answer. A slot that it may have granted is released without the job.
    StoreDown,
}

/// The store's answer about the job's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordAnswer {
    /// It was not to be written.
    NotAsked,
    /// It is written.
    Written,
    /// It was there before: another instance has the job, or had it.
    Exists,
    /// A newer connection has the session.
    Superseded,
    /// The store did not answer.
    StoreDown,
}

/// The store's answer to an assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssignAnswer {
    /// It is the current one.
    Written,
    /// The store has no such job: it lost the record.
    Unknown,
    /// The job is over.
    Ended,
    /// A later attempt is the current one, or none is left.
    Refused,
    /// The store did not answer.
    StoreDown,
}

/// The protocol features of a node, as far as its jobs are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// It repeats a result until that is acknowledged.
    pub result_ack: bool,
    /// It acks by an HTTP call and so takes longer.
    pub calls: bool,
    /// An older agent, which sends no result for speech that it keeps for a later part of a turn.
    pub keeps_speech: bool,
}

/// Why an assignment did not get onto a node's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotSent {
    /// The node has as many attempts as it has slots open, although the store granted one more.
    Full,
    /// It has no connection, or the queue of its connection is full.
    Unreachable,
}

/// The store's answer to the commit of a reserved slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitAnswer {
    /// The lease is a running one now.
    Kept,
    /// The lease had expired, and the slot is taken.
    Lost,
    /// The store did not answer. The node's next report restores the lease.
    StoreDown,
}

/// The store's answer to the ending of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinishAnswer {
    /// The job is ended by it, or the store is told later.
    Accepted,
    /// The job had been ended before.
    Refused,
}

/// The answer of the wait queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueAnswer {
    /// The job waits.
    Joined,
    /// The queue is full.
    Full,
}

/// What a waiting job is called for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wakeup {
    /// A slot of this node came free, and the job is to reserve it.
    Slot(NodeId),
    /// To choose again.
    Look,
    /// To leave: the queue is full, and other tenants have fewer jobs in it.
    Leave,
}

/// The answer of the retry budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BudgetAnswer {
    /// One more attempt is within the budget, and was charged to it.
    Allowed,
    /// The budget is used up.
    Spent,
}

/// Something to do. The list of one event is performed in its order.
pub enum Effect {
    /// Choose a node and count its slot as taken.
    Choose {
        /// Where choosing continues.
        from: ChooseFrom,
        /// Among which nodes.
        among: Among,
    },
    /// Find the node with the oldest mark for the direction, among those that
    /// [`super::Machine::may_unmark`] allows.
    FindOldestMark,
    /// Find another way to serve the job, among these.
    FindAnotherWay(Fallbacks),
    /// Describe what the fleet lacks, and when to try again.
    DescribeLack(Lack),
    /// The job needs text alone from now on.
    SwitchToText,
    /// The job needs a transcript from now on, and no translation.
    SwitchToOriginal,
    /// Submit the job of this leg.
    BeginLeg {
        /// Which leg.
        leg: Leg,
        /// The language between.
        via: Lang,
        /// The answer of the second leg is spoken.
        speech: bool,
    },
    /// Cancel the job of this leg.
    CancelLeg {
        /// Which leg.
        leg: Leg,
        /// The reason in the cancel message.
        reason: &'static str,
    },
    /// Publish that a node was found for this leg.
    LegPlaced {
        /// Which leg.
        leg: Leg,
    },
    /// Publish to callers that a node has this leg. The session is not told: until the end, the speech is lost
    /// with this instance.
    LegAccepted {
        /// Which leg.
        leg: Leg,
    },
    /// Publish that this leg is over.
    LegOver {
        /// Which leg.
        leg: Leg,
        /// A code; empty if it did not fail.
        outcome: String,
    },
    /// Ask the store for a slot on the node that was chosen.
    Reserve {
        /// For this attempt.
        attempt: u32,
        /// Write the job's record in the same step, with this attempt as the first assignment.
        with_record: bool,
    },
    /// Make this attempt the current one in the store.
    WriteAssignment {
        /// Which attempt.
        attempt: u32,
    },
    /// Write the job's record.
    WriteRecord {
        /// With this attempt as the first assignment.
        attempt: Option<u32>,
    },
    /// Put the assignment on the node's connection.
    Send {
        /// Which attempt.
        attempt: u32,
    },
    /// Make the reserved slot a running one.
    Commit {
        /// Which attempt.
        attempt: u32,
    },
    /// Release the attempt's slot. What the node still sends about the attempt has no effect.
    Release {
        /// Which attempt.
        attempt: u32,
        /// When others may have the slot.
        pace: Pace,
    },
    /// Have the node told to stop. Its slot is released by whoever has the node's connection: when the node
    /// stops or reports, or when the lease expires. What the node still sends about the attempt has no effect.
    Abandon {
        /// Which attempt.
        attempt: u32,
        /// The reason in the cancel message.
        reason: &'static str,
    },
    /// Acknowledge the node's result.
    AcknowledgeResult {
        /// Which attempt.
        attempt: u32,
    },
    /// End the job in the store by the answer of this attempt, and release its slot.
    FinishByAnswer {
        /// Which attempt.
        attempt: u32,
        /// End it as the job's owner: after a hedge the store knows only one of two attempts.
        by_owner: bool,
    },
    /// End the job in the store without an answer.
    Finish {
        /// The terminal state.
        state: JobState,
        /// A code for callers.
        code: String,
    },
    /// Bind the turn to the attempt's node.
    BindTurn {
        /// Which attempt.
        attempt: u32,
    },
    /// Join the wait queue.
    JoinQueue,
    /// Leave the wait queue.
    LeaveQueue,
    /// The job found a slot after it had waited: charge it to the tenant's share.
    ChargeShare,
    /// The slot that was handed over was not granted: refund it to the tenant's share.
    RefundShare,
    /// Charge one attempt to the retry budget.
    AskRetryBudget,
    /// A retry was not within the budget.
    RetryRefused,
    /// The search for a hedge ended without a node; the first attempt goes on.
    SearchEnded,
    /// Have the deadline watched by all instances.
    Watch,
    /// Publish that the job looks for a node.
    Selecting,
    /// Publish that it waits.
    Waiting,
    /// It waited so long.
    Waited(Duration),
    /// Publish that an attempt is on its way.
    Dispatched {
        /// Which attempt.
        attempt: u32,
        /// How its node was chosen.
        source: Source,
        /// It is a hedge: the attempt before goes on.
        hedge: bool,
        /// It is the first attempt of the job.
        first: bool,
    },
    /// Publish that the node has it.
    Accepted {
        /// Which attempt.
        attempt: u32,
    },
    /// Publish an intermediate result.
    Partial {
        /// Which attempt.
        attempt: u32,
        /// The node's message as it came.
        body: NodeMessage,
    },
    /// An attempt failed.
    AttemptFailed {
        /// Which attempt.
        attempt: u32,
        /// With this code of ours.
        code: Code,
        /// The code that is published: the node's own code if there is one.
        text: String,
        /// What counts against the node.
        fault: Fault,
        /// How long ago it was sent.
        wasted: Duration,
    },
    /// An attempt was stopped.
    AttemptStopped {
        /// Which attempt.
        attempt: u32,
        /// The reason in the cancel message.
        reason: &'static str,
    },
    /// An attempt answered.
    AttemptAnswered {
        /// Which attempt.
        attempt: u32,
        /// After so long, if that counts as the node's latency.
        took: Option<Duration>,
    },
    /// The node misses a model for the direction.
    NoteGap {
        /// Which attempt.
        attempt: u32,
        /// Which model, if the node named it.
        model: Option<String>,
    },
    /// Another attempt follows after a failure with this code.
    Retrying(Code),
    /// Publish a note on the choice of a node.
    Note(Note),
    /// The event was stale. It is counted.
    Ignored,
    /// The job ended. It comes once.
    End(Ended),
    /// Another instance has the job. It comes once, in place of [`Effect::End`].
    Detach,
}

/// The effects of one event. The owner reuses one list.
pub type Effects = Vec<Effect>;

/// Where choosing continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChooseFrom {
    /// A new search begins.
    Start,
    /// The same search begins again at the first node.
    Anew,
    /// The next node of the same search.
    Next,
}

/// Among which nodes to choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    /// Among all, nodes that look full last. While other jobs wait for the same direction, only among nodes
    /// that look free: the next slot of a full node goes to one of those.
    FreeIfOthersWait,
    /// Only among nodes that look free: a job that waited is called when another slot comes free.
    Free,
}

/// When other jobs may have a slot that is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// At once.
    Now,
    /// In a moment: the node rejected the job as busy.
    AfterRest,
}

/// What counts against a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing does.
    None,
    /// The attempt.
    Attempt,
    /// The loss of the connection over which the attempt was sent.
    ConnectionLost,
    /// The attempt, if the node lost it over the same connection; otherwise the loss of that connection.
    Dropped,
}

/// A note on the choice of a node, for callers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The preferred node was passed over for this reason.
    PreferredPassed(Passed),
    /// The preferred node has no free slot.
    PreferredFull,
    /// No node speaks the target language: the answer is text.
    TextOnly,
    /// No node translates: the answer is the transcript.
    OriginalOnly,
    /// No node translates directly into the target language.
    Pivot {
        /// The language between.
        via: Lang,
    },
}

/// What the fleet lacks for the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// No slot was found in time.
    Slot(Busy),
    /// No node may take it.
    AbleNode,
}

/// Why no slot was found in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Busy {
    /// All able nodes were full for as long as the job may wait.
    AllFull,
    /// The queue is full.
    QueueFull,
    /// The queue is full, and the job made room for another tenant's.
    Displaced,
}
