//! Which attempt of a job counts, and how it ended.

use async_trait::async_trait;
use lingua_core::job::JobState;
use lingua_core::limits::MAX_ATTEMPTS;
use lingua_core::{JobId, LeaseToken, Moment, NodeId, SessionKey};

use super::MemoryStore;
use super::expiring::Expiring;
use super::sharded::Sharded;
use crate::error::{Error, Result, checked_ms};
use crate::jobs::{
    Assign, Assignment, Create, EndedBy, Ending, Finish, JobRecord, JobRecords, NewJob,
};

#[derive(Clone, Default)]
pub(super) struct Jobs {
    records: Sharded<Expiring<JobId, Job>, 16>,
}

/// A record. There are as many as jobs in the time that one is remembered, so it is small: with its
/// key and its end, two cache lines.
#[derive(Clone)]
struct Job {
    session: SessionKey,
    rare: Option<Box<Rare>>,
    /// The node of the current or last assignment.
    node: Option<NodeId>,
    /// The number of the current or last attempt; none counts as zero.
    attempt: u32,
    state: JobState,
    /// Who ended it; its assignment does not change any more after that.
    ended_by: Option<Ender>,
    deadline: Moment,
    /// Of the token of the current or last assignment.
    nonce: u128,
}

/// What most jobs do not have.
#[derive(Clone, Default)]
struct Rare {
    /// Of an ending with a code.
    code: String,
    /// Of an assignment whose token names another job than the record's.
    token_job: Option<JobId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ender {
    Assignment,
    Owner,
}

impl Job {
    fn new(new: &NewJob<'_>, deadline: Moment) -> Self {
        let mut job = Job {
            session: new.session.clone(),
            rare: None,
            node: None,
            attempt: 0,
            state: JobState::New,
            ended_by: None,
            deadline,
            nonce: 0,
        };
        if let Some(first) = &new.first {
            job.take(&new.id, first);
        }
        job
    }

    fn record(&self, id: &JobId) -> JobRecord {
        let assignment = self.node.as_ref().map(|node| {
            let (attempt, nonce) = (self.attempt, self.nonce);
            let token = LeaseToken { job: self.token_job(id), attempt, nonce };
            Assignment { node: node.clone(), token }
        });
        let code = self.code().to_owned();
        let session = self.session.clone();
        JobRecord { session, state: self.state, assignment, deadline: self.deadline, code }
    }

    fn code(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.code)
    }

    fn token_job(&self, id: &JobId) -> JobId {
        self.rare.as_ref().and_then(|rare| rare.token_job).unwrap_or(*id)
    }

    /// Whether `assignment` is the current one.
    fn has(&self, id: &JobId, assignment: &Assignment) -> bool {
        let Assignment { node, token } = assignment;
        self.nonce == token.nonce
            && self.attempt == token.attempt
            && self.node.as_ref() == Some(node)
            && self.token_job(id) == token.job
    }

    /// Makes `assignment` the current one.
    fn take(&mut self, id: &JobId, assignment: &Assignment) {
        let Assignment { node, token } = assignment;
        let token_job = (token.job != *id).then_some(token.job);
        self.rare = token_job.map(|_| Box::new(Rare { code: String::new(), token_job }));
        self.node = Some(node.clone());
        self.attempt = token.attempt;
        self.nonce = token.nonce;
        self.state = JobState::Dispatched;
    }

    fn assign(&mut self, id: &JobId, assignment: &Assignment, max_attempts: u32) -> Assign {
        if self.state.is_terminal() {
            return Assign::Ended(self.state);
        }
        if self.has(id, assignment) {
            return Assign::Assigned;
        }
        if assignment.token.attempt <= self.attempt {
            return Assign::Stale { attempt: self.attempt };
        }
        if assignment.token.attempt > max_attempts {
            return Assign::Exhausted;
        }
        self.take(id, assignment);
        Assign::Assigned
    }

    fn finish(&mut self, id: &JobId, by: &EndedBy, ending: &Ending) -> Finish {
        let ender = match by {
            EndedBy::Owner => Ender::Owner,
            EndedBy::Assignment(assignment) => {
                if !self.has(id, assignment) {
                    return Finish::Stale { attempt: self.attempt };
                }
                Ender::Assignment
            }
        };
        if !self.state.is_terminal() {
            self.state = ending.state;
            self.ended_by = Some(ender);
            if !ending.code.is_empty() {
                self.rare.get_or_insert_default().code.clone_from(&ending.code);
            }
            return Finish::Finished;
        }
        // An owner tells its endings apart by their code; a node's attempt ends only once.
        let same_code = ender == Ender::Assignment || self.code() == ending.code;
        if self.ended_by == Some(ender) && self.state == ending.state && same_code {
            Finish::Repeated
        } else {
            Finish::Ended(self.state)
        }
    }
}

#[async_trait]
impl JobRecords for MemoryStore {
    async fn create(&self, job: &NewJob<'_>) -> Result<Create> {
        checked_ms(job.deadline_in)?;
        checked_ms(job.keep_for)?;
        let now = self.clock.now();
        // Held until the job is written: a claim comes before the look or after the job.
        let _owner = match job.epoch {
            Some(epoch) => {
                let (hash, sessions) = self.owners.sessions.of(job.session);
                match sessions.epoch(now, hash, job.session) {
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
        let (hash, mut records) = self.jobs.records.of(&job.id);
        let known = records.put_new(now, hash, job.id, forgotten_at, || Job::new(job, deadline));
        Ok(match known {
            Some(known) => Create::Exists(known.record(&job.id)),
            None => Create::Created,
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
        let (hash, mut records) = self.jobs.records.of(job);
        let known = records.get_mut(now, hash, job);
        Ok(known.map_or(Assign::Unknown, |known| known.assign(job, assignment, max_attempts)))
    }

    async fn finish(&self, job: &JobId, by: &EndedBy, ending: &Ending) -> Result<Finish> {
        ending.check()?;
        let now = self.clock.now();
        let (hash, mut records) = self.jobs.records.of(job);
        let known = records.get_mut(now, hash, job);
        Ok(known.map_or(Finish::Unknown, |known| known.finish(job, by, ending)))
    }

    async fn get(&self, job: &JobId) -> Result<Option<JobRecord>> {
        let now = self.clock.now();
        let (hash, records) = self.jobs.records.of(job);
        Ok(records.get(now, hash, job).map(|known| known.record(job)))
    }
}

#[cfg(test)]
impl Jobs {
    /// Records that take room.
    pub(super) fn size(&self) -> usize {
        (0..16).filter_map(|n| Some(self.records.at(n)?.len())).sum()
    }
}
