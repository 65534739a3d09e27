//! Which attempt of a job counts, and how it ended.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use lingua_core::job::JobState;
use lingua_core::{JobId, LeaseToken, Moment, NodeId, SessionKey};

use crate::error::{Error, Result};
use crate::slots::{HeldSlot, Reserve, SlotLeases, Wish};

/// Job records. A record changes only forward and only by the current assignment or the job's owner;
/// terminal states absorb. Every method is atomic per job and safe to repeat.
#[async_trait]
pub trait JobRecords: Send + Sync {
    /// Writes the job down unless it is there. If it belongs to a session's epoch, only while no
    /// higher epoch of that session is known. The deadline is set on the store's clock.
    ///
    /// The first assignment may go along before its slot is granted: the record then says what is
    /// about to be sent, and an attempt that is never granted is followed by [`JobRecords::assign`].
    async fn create(&self, job: &NewJob<'_>) -> Result<Create>;

    /// Makes `assignment` the current one: its attempt must be above every earlier one and within
    /// `max_attempts`. From then on nothing of an earlier attempt has any effect.
    async fn assign(
        &self,
        job: &JobId,
        assignment: &Assignment,
        max_attempts: u32,
    ) -> Result<Assign>;

    /// Ends the job. Exactly one caller is told [`Finish::Finished`], on any instance.
    async fn finish(&self, job: &JobId, by: &EndedBy, ending: &Ending) -> Result<Finish>;

    /// [`JobRecords::create`] and [`SlotLeases::reserve`] together: the two steps with which a job begins.
    /// Each has the answer that it would have by itself. A store that has both at one place may do
    /// them in one step.
    async fn begin(
        &self,
        job: &NewJob<'_>,
        slots: &dyn SlotLeases,
        wish: &Wish<'_>,
    ) -> (Result<Create>, Result<Reserve>) {
        join(self.create(job), slots.reserve(wish)).await
    }

    /// [`JobRecords::finish`] and the release of the attempt's slot together, with which a job ends. Each
    /// has the answer that it would have by itself.
    async fn end(
        &self,
        job: &JobId,
        by: &EndedBy,
        ending: &Ending,
        slots: &dyn SlotLeases,
        slot: &HeldSlot<'_>,
    ) -> (Result<Finish>, Result<()>) {
        join(self.finish(job, by, ending), slot.give_back(slots)).await
    }

    /// The record, until it is forgotten some time after its deadline.
    async fn get(&self, job: &JobId) -> Result<Option<JobRecord>>;
}

/// Deadlines of jobs that any instance looks after, because no session actor does.
#[async_trait]
pub trait JobDeadlines: Send + Sync {
    /// Has any instance look after the job's deadline: for jobs without a session actor. The engine
    /// calls it once such a job has been open for 100 ms, not before [`JobRecords::create`]: most jobs
    /// are over by then. One whose instance dies sooner has no watcher and stays open until its
    /// record is forgotten.
    async fn watch(&self, job: &JobId, deadline_in: Duration) -> Result<()>;

    /// Ends the watch, once the job ended.
    async fn unwatch(&self, job: &JobId) -> Result<()>;

    /// Watched jobs whose deadline passed, oldest first within a shard, about `limit` of them. Every
    /// caller gets them until they are unwatched; [`JobRecords::finish`] decides who acts.
    async fn due(&self, limit: usize) -> Result<Vec<JobId>>;
}

/// A job to write down.
#[derive(Clone, Debug)]
pub struct NewJob<'a> {
    /// Its id, derived from its key.
    pub id: JobId,
    /// Whose conversation it belongs to.
    pub session: &'a SessionKey,
    /// The session's epoch that made it; `None` for a job without a session actor.
    pub epoch: Option<u64>,
    /// The first assignment, if a node was chosen.
    pub first: Option<Assignment>,
    /// From now to its deadline.
    pub deadline_in: Duration,
    /// How long after the deadline it is remembered.
    pub keep_for: Duration,
}

/// Who works on a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The node.
    pub node: NodeId,
    /// The slot, with the attempt's number.
    pub token: LeaseToken,
}

/// A job as the store knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRecord {
    /// Whose conversation it belongs to.
    pub session: SessionKey,
    /// Where it is; an open job is `New`, or `Dispatched` once it was assigned.
    pub state: JobState,
    /// The current or last assignment.
    pub assignment: Option<Assignment>,
    /// Its deadline on the store's clock.
    pub deadline: Moment,
    /// How it ended: empty while open or done, a code otherwise.
    pub code: String,
}

/// What became of a new job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Create {
    /// Written down.
    Created,
    /// It was there; nothing changed.
    Exists(JobRecord),
    /// The session has a newer owner; nothing changed.
    Superseded {
        /// Its epoch.
        epoch: u64,
    },
}

/// What became of an assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Assign {
    /// It is the current one, now or already.
    Assigned,
    /// A later attempt is.
    Stale {
        /// Its number.
        attempt: u32,
    },
    /// No attempt is left.
    Exhausted,
    /// The job is over.
    Ended(JobState),
    /// There is no such job.
    Unknown,
}

/// Who ends a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EndedBy {
    /// The node of the current assignment; of any other it has no effect.
    Assignment(Assignment),
    /// The job's owner or the sweeper of deadlines.
    Owner,
}

/// How a job ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// A terminal state.
    pub state: JobState,
    /// A code for people and callers; empty for a good end.
    pub code: String,
}

impl Ending {
    /// Refuses an open state and a code that is not printable or longer than 64 characters.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.state.is_terminal() {
            return Err(Error::Invalid("a job ends as DONE, FAILED or CANCELLED"));
        }
        if self.code.len() > 64 || !self.code.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Error::Invalid("a code has at most 64 printable ASCII characters"));
        }
        Ok(())
    }
}

/// What became of an ending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// The job ended by this call: whoever is told so delivers.
    Finished,
    /// The same assignment ended it in the same way before: the same answer, no effect.
    Repeated,
    /// It was over already, in another way.
    Ended(JobState),
    /// Not the current assignment; nothing changed.
    Stale {
        /// The current attempt.
        attempt: u32,
    },
    /// There is no such job.
    Unknown,
}
