//! One dispatch of a job.

use super::event::Link;
use crate::fleet::select::Source;
use crate::ids::NodeId;
use crate::time::Moment;

/// One dispatch of a job, from the wish for a slot to the slot's release.
#[derive(Debug)]
pub(super) struct Attempt {
    pub number: u32,
    pub node: NodeId,
    pub source: Source,
    pub state: AttemptState,
    /// When it was put on its way to the node.
    pub sent_at: Moment,
    /// When it fails for want of an ack, of an answer, or of the node's return.
    pub due: Moment,
    /// The protocol features of its node.
    pub link: Link,
}

/// Where an attempt is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AttemptState {
    /// The store is asked for a slot.
    Reserving,
    /// The slot is granted, and the store is told of the assignment.
    Recording,
    /// It is on its way to the node's connection.
    Sending,
    /// It is on the connection; the ack is awaited.
    Sent,
    /// The node has it.
    Running(Commit),
    /// The node has it, and its connection is lost; it may come back.
    Away(Commit),
    /// It brought the answer, and the store is told.
    Answering,
    /// The job is over, and the store has not answered yet whether there is a slot to release.
    Discarded,
}

/// Whether the store knows that the node took the attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Commit {
    /// The store is to be told.
    Due,
    /// The store is being told.
    Asked,
    /// The store knows, or learns it from the node's report.
    Done,
}

impl Attempt {
    /// Whether the node's messages about it count. At most one attempt of a job is live, two while hedging.
    pub fn is_live(&self) -> bool {
        use AttemptState::{Away, Running, Sending, Sent};
        matches!(self.state, Sending | Sent | Running(_) | Away(_))
    }

    /// Whether the node is known to have it.
    pub fn is_accepted(&self) -> bool {
        matches!(self.state, AttemptState::Running(_) | AttemptState::Away(_))
    }

    /// When it fails by the clock, if it can.
    pub fn timer(&self) -> Option<Moment> {
        self.is_live().then_some(self.due)
    }
}
