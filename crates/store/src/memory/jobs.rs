//! Which attempt of a job counts, and how it ended.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::job::JobState;
use lingua_core::limits::MAX_ATTEMPTS;
use lingua_core::{JobId, Moment, NodeId, RequestId, SessionKey, TenantId, TurnId};
use parking_lot::Mutex;

use super::MemoryStore;
use super::expiring::{Expiring, Map};
use super::sharded::Sharded;
use crate::error::{Error, Result, checked_ms};
use crate::jobs::{
    Assign, Assignment, Create, EndedBy, Ending, Finish, JobBook, JobRecord, NewJob,
};

#[derive(Default)]
pub(super) struct Jobs {
    /// Each in its own place: a map of large entries would be slow to grow and to walk.
    records: Sharded<Expiring<JobId, Box<Job>>, 16>,
    watched: Mutex<Watched>,
    requests: Sharded<Expiring<(TenantId, RequestId), JobId>, 16>,
    turns: Sharded<Expiring<(SessionKey, TurnId), NodeId>, 16>,
}

struct Job {
    record: JobRecord,
    /// Who ended it; its assignment does not change any more after that.
    ended_by: Option<Ender>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ender {
    Assignment,
    Owner,
}

impl Job {
    fn new(new: &NewJob<'_>, deadline: Moment) -> Self {
        let state = if new.first.is_some() { JobState::Dispatched } else { JobState::New };
        let record = JobRecord {
            session: new.session.clone(),
            state,
            assignment: new.first.clone(),
            deadline,
            code: String::new(),
        };
        Job { record, ended_by: None }
    }

    /// The number of the current or last attempt; none counts as zero.
    fn attempt(&self) -> u32 {
        self.record.assignment.as_ref().map_or(0, |assignment| assignment.token.attempt)
    }

    fn assign(&mut self, assignment: &Assignment, max_attempts: u32) -> Assign {
        if self.record.state.is_terminal() {
            return Assign::Ended(self.record.state);
        }
        if self.record.assignment.as_ref() == Some(assignment) {
            return Assign::Assigned;
        }
        if assignment.token.attempt <= self.attempt() {
            return Assign::Stale { attempt: self.attempt() };
        }
        if assignment.token.attempt > max_attempts {
            return Assign::Exhausted;
        }
        self.record.assignment = Some(assignment.clone());
        self.record.state = JobState::Dispatched;
        Assign::Assigned
    }

    fn finish(&mut self, by: &EndedBy, ending: &Ending) -> Finish {
        let ender = match by {
            EndedBy::Owner => Ender::Owner,
            EndedBy::Assignment(assignment) => {
                if self.record.assignment.as_ref() != Some(assignment) {
                    return Finish::Stale { attempt: self.attempt() };
                }
                Ender::Assignment
            }
        };
        let state = self.record.state;
        if !state.is_terminal() {
            self.record.state = ending.state;
            self.record.code.clone_from(&ending.code);
            self.ended_by = Some(ender);
            return Finish::Finished;
        }
        // An owner tells its endings apart by their code; a node's attempt ends only once.
        let same_code = ender == Ender::Assignment || self.record.code == ending.code;
        if self.ended_by == Some(ender) && state == ending.state && same_code {
            Finish::Repeated
        } else {
            Finish::Ended(state)
        }
    }
}

/// Jobs that any instance looks after, by deadline.
#[derive(Default)]
struct Watched {
    deadlines: Map<JobId, Moment>,
    order: BTreeSet<(Moment, JobId)>,
}

#[async_trait]
impl JobBook for MemoryStore {
    async fn create(&self, job: &NewJob<'_>) -> Result<Create> {
        checked_ms(job.deadline_in)?;
        checked_ms(job.keep_for)?;
        let now = self.clock.now();
        // Held until the job is written: a claim comes before the look or after the job.
        let _owner = match job.epoch {
            Some(epoch) => {
                let sessions = self.owners.sessions.of(job.session);
                match sessions.epoch(now, job.session) {
                    Some(known) if known > epoch => {
                        return Ok(Create::Superseded { epoch: known });
                    }
                    _ => Some(sessions),
                }
            }
            None => None,
        };
        let deadline = now + job.deadline_in;
        let forgotten_at = deadline + job.keep_for;
        let mut records = self.jobs.records.of(&job.id);
        let known =
            records.put_new(now, job.id, forgotten_at, || Box::new(Job::new(job, deadline)));
        Ok(match known {
            Some(known) => Create::Exists(known.record.clone()),
            None => Create::Created { deadline },
        })
    }

    async fn assign(
        &self,
        job: &JobId,
        assignment: &Assignment,
        max_attempts: u32,
    ) -> Result<Assign> {
        if max_attempts > MAX_ATTEMPTS {
            return Err(Error::Invalid("a job has at most 16 attempts"));
        }
        let now = self.clock.now();
        let mut records = self.jobs.records.of(job);
        let known = records.get_mut(now, job);
        Ok(known.map_or(Assign::Unknown, |known| known.assign(assignment, max_attempts)))
    }

    async fn finish(&self, job: &JobId, by: &EndedBy, ending: &Ending) -> Result<Finish> {
        ending.check()?;
        let now = self.clock.now();
        let mut records = self.jobs.records.of(job);
        let known = records.get_mut(now, job);
        Ok(known.map_or(Finish::Unknown, |known| known.finish(by, ending)))
    }

    async fn get(&self, job: &JobId) -> Result<Option<JobRecord>> {
        let now = self.clock.now();
        Ok(self.jobs.records.of(job).get(now, job).map(|known| known.record.clone()))
    }

    async fn watch(&self, job: &JobId, deadline_in: Duration) -> Result<()> {
        checked_ms(deadline_in)?;
        let deadline = self.clock.now() + deadline_in;
        let mut watched = self.jobs.watched.lock();
        if let Some(before) = watched.deadlines.insert(*job, deadline) {
            watched.order.remove(&(before, *job));
        }
        watched.order.insert((deadline, *job));
        Ok(())
    }

    async fn unwatch(&self, job: &JobId) -> Result<()> {
        let mut watched = self.jobs.watched.lock();
        if let Some(deadline) = watched.deadlines.remove(job) {
            watched.order.remove(&(deadline, *job));
        }
        Ok(())
    }

    async fn due(&self, limit: usize) -> Result<Vec<JobId>> {
        let now = self.clock.now();
        let watched = self.jobs.watched.lock();
        let due = watched.order.iter().take_while(|(deadline, _)| *deadline <= now);
        Ok(due.take(limit).map(|(_, job)| *job).collect())
    }

    async fn claim_request(
        &self,
        tenant: &TenantId,
        request: &RequestId,
        job: &JobId,
        keep_for: Duration,
    ) -> Result<JobId> {
        checked_ms(keep_for)?;
        let now = self.clock.now();
        let key = (tenant.clone(), request.clone());
        let mut requests = self.jobs.requests.of(&key);
        let bound = requests.put_new(now, key, now + keep_for, || *job);
        Ok(bound.copied().unwrap_or(*job))
    }

    async fn bind_turn(
        &self,
        session: &SessionKey,
        turn: &TurnId,
        node: &NodeId,
        lease: Duration,
    ) -> Result<()> {
        checked_ms(lease)?;
        let now = self.clock.now();
        let key = (session.clone(), turn.clone());
        self.jobs.turns.of(&key).put(now, key.clone(), node.clone(), now + lease);
        Ok(())
    }

    async fn turn_node(&self, session: &SessionKey, turn: &TurnId) -> Result<Option<NodeId>> {
        let now = self.clock.now();
        let key = (session.clone(), turn.clone());
        Ok(self.jobs.turns.of(&key).get(now, &key).cloned())
    }
}

#[cfg(test)]
impl Jobs {
    /// Records that take room.
    pub(super) fn size(&self) -> usize {
        (0..16).filter_map(|n| Some(self.records.at(n)?.len())).sum()
    }
}
