//! What a job is told and what it wants done: two closed lists.
//!
//! Every question among the effects is answered by exactly one event, at once or later. What comes in
//! a message for a job ([`JobEvent`]) may be late, repeated or wrong: it counts only for a current attempt.

use std::time::Duration;

use super::message::NodeMessage;
use super::outcome::{Ended, NodeResult, Refusal, Reject};
use crate::fleet::select::{Passed, Source, Verdict};
use crate::fleet::{Fallbacks, Way};
use crate::ids::NodeId;
use crate::job::JobState;
use crate::lang::Lang;
use crate::outcome::Code;

/// A message for a job: a node's word about an attempt, or a caller's about the job. Small,
/// because every channel has room for many: what is large is boxed.
pub enum JobEvent {
    /// The assignment is on the node's wire. For a node that does not ack, this is the ack.
    OnWire {
        /// Which attempt.
        attempt: u32,
    },
    /// It did not get onto the node's wire.
    NotSent {
        /// Which attempt.
        attempt: u32,
    },
    /// The node takes it, or has begun.
    Ack {
        /// Which attempt.
        attempt: u32,
    },
    /// The node does not take it.
    Reject {
        /// Which attempt.
        attempt: u32,
        /// Why the node rejected it.
        reason: Box<Reject>,
    },
    /// Something on the way to the result.
    Partial {
        /// Which attempt.
        attempt: u32,
        /// The node's message as it came.
        body: Box<NodeMessage>,
    },
    /// The node is done with it.
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
    /// The node is back.
    NodeBack {
        /// Which attempt.
        attempt: u32,
    },
    /// The node says that it does not have it.
    Dropped {
        /// Which attempt.
        attempt: u32,
    },
    /// The closing part of its turn has its speech.
    TurnClosed {
        /// Which attempt.
        attempt: u32,
    },
    /// Nobody wants the job any more.
    Cancel {
        /// Why, in a word.
        reason: &'static str,
    },
}

impl JobEvent {
    /// Whether one like it may be left out of a channel that is nearly full: a node may repeat these
    /// again and again.
    pub fn may_be_missed(&self) -> bool {
        matches!(self, JobEvent::Ack { .. } | JobEvent::Partial { .. })
    }
}

/// Something that happened.
pub enum Event {
    /// The job was handed in. The first event.
    Submitted,
    /// [`Effect::Choose`]: this node, whose slot in the fleet view is the job's.
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
    /// [`Effect::BeginLeg`]: the job of this leg is handed in, unless it was refused.
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
        /// What became of the slot.
        slot: SlotAnswer,
        /// What became of the record that was to be written with it.
        record: RecordAnswer,
    },
    /// [`Effect::WriteRecord`].
    Recorded {
        /// The attempt that went along.
        attempt: Option<u32>,
        /// What became of it.
        answer: RecordAnswer,
    },
    /// [`Effect::WriteAssignment`].
    AssignmentWritten {
        /// Which attempt.
        attempt: u32,
        /// What became of it.
        answer: AssignAnswer,
    },
    /// [`Effect::Send`]: the assignment is on the node's connection. Comes before any word of the node.
    Sent {
        /// Which attempt.
        attempt: u32,
        /// What the node understands.
        link: Link,
    },
    /// [`Effect::Send`]: it is not, and never will be.
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
        /// What became of the lease.
        answer: CommitAnswer,
    },
    /// [`Effect::CancelOnNode`].
    CancelPosted {
        /// Which attempt.
        attempt: u32,
        /// The node was told and stops when told.
        obeys: bool,
    },
    /// [`Effect::Finish`] and [`Effect::FinishByAnswer`].
    Finished(FinishAnswer),
    /// [`Effect::JoinQueue`].
    Queued(QueueAnswer),
    /// The job is called out of the queue.
    Called(Wakeup),
    /// [`Effect::AskRetryBudget`].
    RetryBudget(BudgetAnswer),
    /// [`Effect::Watch`]: whether it worked.
    Watched(bool),
    /// Nothing else waits for the job at this moment: what could be put off is done now.
    Idle,
    /// The moment of [`super::Machine::timer`] has come.
    Timer,
    /// A message for the job came.
    Message(JobEvent),
}

/// One of the two jobs of a translation by way of another language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leg {
    /// From what was said into the language between.
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

/// What a leg's job tells.
#[derive(Clone)]
pub enum LegNews {
    /// A dispatch of it went out.
    Assigned,
    /// A node has it.
    Accepted,
    /// Something on the way.
    Partial(NodeMessage),
    /// It is over.
    Ended(Ended),
}

/// What became of a wish for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotAnswer {
    /// The slot is the attempt's.
    Granted,
    /// It is not; another node may have one.
    Refused,
    /// The store does not answer. What it may have granted is given back without the job.
    StoreDown,
}

/// What became of the job's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordAnswer {
    /// Nothing was to be written.
    NotAsked,
    /// It is there.
    Written,
    /// It was there before: another instance has the job, or had it.
    Exists,
    /// A newer connection has the session.
    Superseded,
    /// The store does not answer.
    StoreDown,
}

/// What became of an assignment that was to be written.
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
    /// The store does not answer.
    StoreDown,
}

/// What a node understands, as far as its jobs are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// It repeats a result until it is told that it arrived.
    pub result_ack: bool,
    /// It acks by an HTTP call and so takes longer.
    pub calls: bool,
    /// An older agent, which says nothing of speech that it keeps for a later part of a turn.
    pub keeps_speech: bool,
}

/// Why an assignment did not get onto a node's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotSent {
    /// The node has as many jobs as it can do, although the store granted one more.
    Full,
    /// It has no connection, or does not read from it.
    Unreachable,
}

/// What became of the commit of a reserved slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitAnswer {
    /// It is a running one now.
    Kept,
    /// It was gone.
    Lost,
    /// The store does not answer. The node's next report puts that right.
    StoreDown,
}

/// Whether the store let this job be ended here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinishAnswer {
    /// It did, or is told later.
    Accepted,
    /// The job had been ended before.
    Refused,
}

/// What became of a wish to wait.
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
    /// A slot of this node is the job's to ask for.
    Slot(NodeId),
    /// To choose again.
    Look,
    /// To go: the queue is full, and others have less in it.
    Leave,
}

/// Whether one more dispatch is within the budget of retries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BudgetAnswer {
    /// It is, and it was taken.
    Allowed,
    /// It is not.
    Spent,
}

/// Something to do. The list of one event is performed in its order.
pub enum Effect {
    /// Choose a node and count its slot as taken.
    Choose {
        /// Where choosing goes on.
        from: ChooseFrom,
        /// Among which nodes.
        among: Among,
    },
    /// Of the nodes that are marked as missing something for the pair, find the one whose mark is the
    /// oldest among those that [`super::Machine::may_unmark`] allows.
    FindOldestMark,
    /// Look for a way to be of use all the same, among these.
    FindAnotherWay(Fallbacks),
    /// Say what the fleet lacks, and when to try again.
    DescribeLack(Lack),
    /// The job wants text alone from now on.
    SwitchToText,
    /// The job wants what was said in writing from now on, and no translation.
    SwitchToOriginal,
    /// Hand in the job of this leg.
    BeginLeg {
        /// Which leg.
        leg: Leg,
        /// The language between.
        via: Lang,
        /// The end of the second is spoken.
        speech: bool,
    },
    /// Give the job of this leg up.
    CancelLeg {
        /// Which leg.
        leg: Leg,
        /// Why, in a word.
        reason: &'static str,
    },
    /// Show and tell that a node was found for this leg.
    LegPlaced {
        /// Which leg.
        leg: Leg,
    },
    /// Show that a node has this leg. Not told: the speech is not safe before the end.
    LegAccepted {
        /// Which leg.
        leg: Leg,
    },
    /// Show that this leg is over.
    LegOver {
        /// Which leg.
        leg: Leg,
        /// A code; empty for a good end.
        outcome: String,
    },
    /// Ask the store for a slot on the node that was chosen.
    Reserve {
        /// For this attempt.
        attempt: u32,
        /// Write the job's record along, with this attempt as the first assignment.
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
    /// Give the attempt's slot back. What the node still says of it has no effect.
    Release {
        /// Which attempt.
        attempt: u32,
        /// When others may have the slot.
        pace: Pace,
    },
    /// Leave the attempt's slot to the node: its lease lapses, or the node reports that it is done.
    Abandon {
        /// Which attempt.
        attempt: u32,
    },
    /// Tell the node to stop.
    CancelOnNode {
        /// Which attempt.
        attempt: u32,
        /// Why, in a word.
        reason: &'static str,
    },
    /// Tell the node that its result arrived.
    AcknowledgeResult {
        /// Which attempt.
        attempt: u32,
    },
    /// End the job in the store by an answer of this attempt, and give its slot back.
    FinishByAnswer {
        /// Which attempt.
        attempt: u32,
        /// By the owner's right, because two copies ran and the store knows only one.
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
    /// Wait for a slot.
    JoinQueue,
    /// Wait no longer.
    LeaveQueue,
    /// The job found a slot by looking for itself: it counts for its tenant like one handed over.
    ChargeShare,
    /// The slot that was handed over was not there: it does not count for its tenant.
    RefundShare,
    /// Take one dispatch from the budget of retries.
    AskRetryBudget,
    /// A retry was not within the budget.
    RetryRefused,
    /// The search ended without a node, and the job goes on without one.
    SearchEnded,
    /// Have any instance end the job at its deadline.
    Watch,
    /// Show and tell that the job looks for a node.
    Selecting,
    /// Show that it waits.
    Waiting,
    /// It waited so long.
    Waited(Duration),
    /// Show and tell that an attempt is on its way.
    Dispatched {
        /// Which attempt.
        attempt: u32,
        /// How its node was chosen.
        source: Source,
        /// The attempt before it goes on beside it.
        hedge: bool,
        /// It is the first dispatch of the job.
        first: bool,
    },
    /// Show and tell that the node has it.
    Accepted {
        /// Which attempt.
        attempt: u32,
    },
    /// Show and tell what is known so far.
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
        /// As it is shown: the node's own code if it has one.
        text: String,
        /// What counts against the node.
        blame: Blame,
        /// How long it had been with the node.
        wasted: Duration,
    },
    /// An attempt was stopped.
    AttemptStopped {
        /// Which attempt.
        attempt: u32,
        /// Why, in a word.
        reason: &'static str,
    },
    /// An attempt brought the answer.
    AttemptAnswered {
        /// Which attempt.
        attempt: u32,
        /// After so long, if the answer is a result that counts for the node.
        took: Option<Duration>,
    },
    /// The node misses a model for the pair.
    NoteGap {
        /// Which attempt.
        attempt: u32,
        /// Which model, if it says.
        model: Option<String>,
    },
    /// Another attempt follows after a failure with this code.
    Retrying(Code),
    /// Something worth knowing about the choice.
    Note(Note),
    /// The event was not about anything current, and is counted.
    Ignored,
    /// The job is over, in this way. Said once.
    End(Ended),
    /// Another instance has the job. Said once, in place of an ending.
    Detach,
}

/// What one event brings about. The owner keeps one and has it filled again.
pub type Effects = Vec<Effect>;

/// Where choosing goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChooseFrom {
    /// A new search begins.
    Start,
    /// The same search begins at the first node again.
    Anew,
    /// The next node of the same search.
    Next,
}

/// Among which nodes to choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    /// Among all, those that look full last; while others wait for the same, only among those that look
    /// free: a slot of a node that looks full is on its way to one of them.
    FreeIfOthersWait,
    /// Only among those that look free: who waits is called when another comes free.
    Free,
}

/// When others may have a slot that is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// At once.
    Now,
    /// In a moment: the node said that it has no slot free.
    AfterRest,
}

/// What counts against a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    /// Nothing does.
    None,
    /// The attempt.
    Attempt,
    /// The loss of the connection over which the attempt was sent.
    ConnectionLost,
    /// The attempt, if the node lost it over the same connection; else the loss of that connection.
    Dropped,
}

/// Something worth knowing about the choice of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The preferred node was passed over for this reason.
    PreferredPassed(Passed),
    /// The preferred node has no slot free.
    PreferredFull,
    /// No node speaks the target language: the answer is text.
    TextOnly,
    /// No node translates: the answer is what was said.
    OriginalOnly,
    /// No node translates straight into the target language.
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
