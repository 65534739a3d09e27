//! The machine of one job: `on_event(now, Event) -> Effects`, from its submission to its one ending.
//!
//! It decides and performs nothing: its owner performs the effects and feeds back the answers. It guarantees,
//! for any order of events:
//!
//! - At most one attempt is current, two while hedging. A message about any other changes nothing.
//! - Attempts are bounded by `max_attempts`, and those that nodes reject by [`MAX_REJECTED`].
//! - The job ends exactly once, and not before the store was told. Only the release of slots follows.
//! - Every granted slot is released, released together with the job's ending, or abandoned to the owner of the
//!   node's connection, exactly once.
//! - At its timer it handles what is due.
//! - By way of another language it has one leg at a time, the second only after the first is done, and none
//!   runs when the job is over.
//!
//! In reading order: [`event`] the two closed lists, [`outcome`] how attempts and jobs end, [`message`]
//! a node's message, `attempt` one attempt, `machine` the state, `search` how the job gets onto a node,
//! `relay` two jobs in place of one, `waiting` the queue, `inbound` messages of nodes, `clock` what is due,
//! `failing` what follows a failed attempt, and the ending. The table of the states that callers see is here.

mod attempt;
mod clock;
pub mod event;
mod failing;
mod machine;
mod inbound;
pub mod message;
pub mod outcome;
mod relay;
mod search;
mod waiting;

pub use event::{Effect, Effects, Event, JobEvent, Leg, LegNews, Link};
pub use machine::Machine;
pub use message::NodeMessage;
pub use outcome::{Ended, NodeResult, Refusal, Reject};

use serde::{Deserialize, Serialize};

use crate::budget::Timing;
use crate::fleet::Fallbacks;
use crate::ids::NodeId;
use crate::time::Moment;

/// Attempts that nodes reject do not count for `max_attempts`, and are bounded by this.
pub const MAX_REJECTED: u32 = 8;

/// The settings by which jobs are decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Spans of time and numbers of attempts.
    pub timing: Timing,
    /// After how long an attempt is hedged; `None` for never.
    pub hedge_after_ms: Option<u64>,
    /// How long a node that lost its connection may take to reconnect before its jobs are retried.
    pub reconnect_grace_ms: u64,
    /// The pause before the first retry of a failed attempt, and twice as much before each later one.
    pub retry_backoff_ms: u64,
}

/// What a job asks for, as far as the machine decides on it.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it ends at the latest.
    pub deadline: Moment,
    /// Try this node first.
    pub preferred: Option<NodeId>,
    /// Try no other.
    pub strict: bool,
    /// Its speech is a part of a turn.
    pub in_turn: bool,
    /// A session ends it at its deadline, so no other instance need watch that.
    pub in_session: bool,
    /// The answer is to be spoken.
    pub speech: bool,
    /// Which other ways are allowed if no node does all of it.
    pub fallbacks: Fallbacks,
}

impl Request {
    /// Whether less than what was asked for may do.
    fn may_fall_back(&self) -> bool {
        let Fallbacks { captions, pivot, original } = self.fallbacks;
        captions && self.speech || pivot || original
    }
}

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobState {
    /// Submitted; nothing was done for it yet.
    New,
    /// A node is being chosen.
    Selecting,
    /// Every able node is full; it waits for a slot.
    Waiting,
    /// A slot is held on a node.
    Reserved,
    /// On its way to the node.
    Dispatched,
    /// The node works on it.
    Acked,
    /// The last attempt failed; another follows.
    Retrying,
    /// Ended with a result.
    Done,
    /// Ended without one.
    Failed,
    /// Ended because its caller or session gave it up.
    Cancelled,
}

/// What moves a job on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JobStep {
    /// Start choosing a node.
    Select,
    /// All able nodes are full; join the queue.
    Wait,
    /// A node granted a slot.
    Grant,
    /// The assignment goes out.
    Send,
    /// The node accepted.
    Ack,
    /// The attempt failed and another is allowed.
    Retry,
    /// The current attempt's node answered.
    Finish,
    /// No attempt is left, or the deadline passed.
    Fail,
    /// The caller or the session gave it up.
    Cancel,
}

impl JobState {
    /// All of them, in the order of a job's life.
    pub const ALL: [JobState; 10] = [
        JobState::New,
        JobState::Selecting,
        JobState::Waiting,
        JobState::Reserved,
        JobState::Dispatched,
        JobState::Acked,
        JobState::Retrying,
        JobState::Done,
        JobState::Failed,
        JobState::Cancelled,
    ];

    /// Its name on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::New => "NEW",
            JobState::Selecting => "SELECTING",
            JobState::Waiting => "WAITING",
            JobState::Reserved => "RESERVED",
            JobState::Dispatched => "DISPATCHED",
            JobState::Acked => "ACKED",
            JobState::Retrying => "RETRYING",
            JobState::Done => "DONE",
            JobState::Failed => "FAILED",
            JobState::Cancelled => "CANCELLED",
        }
    }

    /// The state of this name.
    pub fn parse(name: &str) -> Option<JobState> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether the job is over.
    pub fn is_terminal(self) -> bool {
        matches!(self, JobState::Done | JobState::Failed | JobState::Cancelled)
    }

    /// The state after `step`, or `None` if the step is not legal here and changes nothing.
    ///
    /// `Finish` is legal before `Ack`: an answer implies that the node accepted.
    pub fn after(self, step: JobStep) -> Option<JobState> {
        use JobState::*;
        use JobStep as Step;
        let next = match (self, step) {
            (New | Retrying | Waiting, Step::Select) => Selecting,
            (Selecting, Step::Wait) => Waiting,
            (Selecting | Waiting, Step::Grant) => Reserved,
            (Reserved, Step::Send) => Dispatched,
            (Dispatched, Step::Ack) => Acked,
            (Reserved | Dispatched | Acked, Step::Retry) => Retrying,
            (Dispatched | Acked, Step::Finish) => Done,
            (state, Step::Fail) if !state.is_terminal() => Failed,
            (state, Step::Cancel) if !state.is_terminal() => Cancelled,
            _ => return None,
        };
        Some(next)
    }
}

impl JobStep {
    /// All of them.
    pub const ALL: [JobStep; 9] = [
        JobStep::Select,
        JobStep::Wait,
        JobStep::Grant,
        JobStep::Send,
        JobStep::Ack,
        JobStep::Retry,
        JobStep::Finish,
        JobStep::Fail,
        JobStep::Cancel,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_states_absorb_every_step() {
        for state in JobState::ALL.into_iter().filter(|s| s.is_terminal()) {
            for step in JobStep::ALL {
                assert_eq!(state.after(step), None, "{state:?} {step:?}");
            }
        }
    }

    #[test]
    fn every_open_job_can_fail_and_be_cancelled() {
        for state in JobState::ALL.into_iter().filter(|s| !s.is_terminal()) {
            assert_eq!(state.after(JobStep::Fail), Some(JobState::Failed));
            assert_eq!(state.after(JobStep::Cancel), Some(JobState::Cancelled));
        }
    }

    #[test]
    fn an_answer_before_the_ack_ends_the_job_and_the_late_ack_does_nothing() {
        let done = JobState::Dispatched.after(JobStep::Finish).unwrap();
        assert_eq!(done, JobState::Done);
        assert_eq!(done.after(JobStep::Ack), None);
    }

    #[test]
    fn the_table_holds_these_steps_and_no_others() {
        let mut legal = Vec::new();
        for state in JobState::ALL {
            for step in JobStep::ALL {
                if let Some(next) = state.after(step)
                    && !matches!(step, JobStep::Fail | JobStep::Cancel)
                {
                    legal.push(format!("{} {step:?} {}", state.as_str(), next.as_str()));
                }
            }
        }
        assert_eq!(
            legal,
            [
                "NEW Select SELECTING",
                "SELECTING Wait WAITING",
                "SELECTING Grant RESERVED",
                "WAITING Select SELECTING",
                "WAITING Grant RESERVED",
                "RESERVED Send DISPATCHED",
                "RESERVED Retry RETRYING",
                "DISPATCHED Ack ACKED",
                "DISPATCHED Retry RETRYING",
                "DISPATCHED Finish DONE",
                "ACKED Retry RETRYING",
                "ACKED Finish DONE",
                "RETRYING Select SELECTING",
            ]
        );
    }

    #[test]
    fn words_name_their_states() {
        for state in JobState::ALL {
            assert_eq!(JobState::parse(state.as_str()), Some(state));
        }
    }
}
