//! Which attempt of a job counts, and how it ended.

use std::borrow::Cow;

use async_trait::async_trait;
use lingua_core::job::JobState;
use lingua_core::limits::MAX_ATTEMPTS;
use lingua_core::planted::{self, Flaw};
use lingua_core::{JobId, LeaseToken, Moment, NodeId, SessionKey};
use serde::{Deserialize, Serialize};

use super::MemoryStore;
use super::expiring::Expiring;
use super::sharded::Sharded;
use crate::error::{Error, Result, checked_ms};
use crate::jobs::{
    Assign, Assignment, Create, EndedBy, Ending, Finish, JobRecord, JobRecords, NewJob,
};
use crate::journal::{Entry, Journal, Kind};

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

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
        let earlier = assignment.token.attempt <= self.attempt;
        if earlier && !planted::on(Flaw::EarlierAttemptAssigned) {
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
                if !self.has(id, assignment) && !planted::on(Flaw::AnyAttemptEndsJob) {
                    return Finish::Stale { attempt: self.attempt };
                }
                Ender::Assignment
            }
        };
        if !self.state.is_terminal() || planted::on(Flaw::EndedJobEndsAgain) {
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
        let now = self.change()?;
        // Held until the job is written: a claim comes before the look or after the job.
        let owner = match job.epoch {
            Some(epoch) => {
                let (hash, sessions) = self.owners.sessions.of(job.session);
                match sessions.epoch(now, hash, job.session) {
                    Some(known) if known > epoch && !planted::on(Flaw::SupersededOwnerCreates) => {
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
        let make = || {
            let made = Job::new(job, deadline);
            self.note(|journal| made.note(journal, &job.id, forgotten_at));
            made
        };
        if planted::on(Flaw::JobCreatedTwice) {
            records.put(now, hash, job.id, make(), forgotten_at);
            return self.kept(Create::Created);
        }
        let known = records.put_new(now, hash, job.id, forgotten_at, make);
        let create = match known {
            Some(known) => Create::Exists(known.record(&job.id)),
            None => Create::Created,
        };
        drop((records, owner));
        self.kept(create)
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
        let now = self.change()?;
        let (hash, mut records) = self.jobs.records.of(job);
        let Some((known, until)) = records.get_mut(now, hash, job) else {
            return Ok(Assign::Unknown);
        };
        let assign = known.assign(job, assignment, max_attempts);
        if assign == Assign::Assigned {
            self.note(|journal| known.note(journal, job, until));
        }
        drop(records);
        self.kept(assign)
    }

    async fn finish(&self, job: &JobId, by: &EndedBy, ending: &Ending) -> Result<Finish> {
        ending.check()?;
        let now = self.change()?;
        let (hash, mut records) = self.jobs.records.of(job);
        let Some((known, until)) = records.get_mut(now, hash, job) else {
            return Ok(Finish::Unknown);
        };
        let finish = known.finish(job, by, ending);
        if finish == Finish::Finished {
            self.note(|journal| known.note(journal, job, until));
        }
        drop(records);
        self.kept(finish)
    }

    async fn get(&self, job: &JobId) -> Result<Option<JobRecord>> {
        let now = self.clock.now();
        let (hash, records) = self.jobs.records.of(job);
        Ok(records.get(now, hash, job).map(|known| known.record(job)))
    }
}

/// What is kept of a job.
#[derive(Serialize, Deserialize)]
struct KeptJob<'a> {
    #[serde(borrow)]
    tenant: Cow<'a, str>,
    #[serde(borrow)]
    session: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    node: Option<Cow<'a, str>>,
    attempt: u32,
    nonce: u128,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_job: Option<JobId>,
    state: JobState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_by: Option<Ender>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    code: Cow<'a, str>,
    deadline: Moment,
}

impl Job {
    fn note(&self, journal: &Journal, id: &JobId, until: Moment) {
        let kept = KeptJob {
            tenant: self.session.tenant().as_str().into(),
            session: self.session.session().as_str().into(),
            node: self.node.as_ref().map(|node| node.as_str().into()),
            attempt: self.attempt,
            nonce: self.nonce,
            token_job: self.rare.as_ref().and_then(|rare| rare.token_job),
            state: self.state,
            ended_by: self.ended_by,
            code: self.code().into(),
            deadline: self.deadline,
        };
        journal.note(Kind::Job, &[id.as_str()], until, &kept);
    }

    fn put_back(kept: KeptJob<'_>) -> Option<Self> {
        let rare = Rare { code: kept.code.into_owned(), token_job: kept.token_job };
        Some(Job {
            session: SessionKey::new(kept.tenant.parse().ok()?, kept.session.parse().ok()?),
            rare: (!rare.code.is_empty() || rare.token_job.is_some()).then(|| Box::new(rare)),
            node: kept.node.map(|node| node.parse()).transpose().ok()?,
            attempt: kept.attempt,
            state: kept.state,
            ended_by: kept.ended_by,
            deadline: kept.deadline,
            nonce: kept.nonce,
        })
    }
}

impl MemoryStore {
    /// Puts back what was kept of a job; `None` if it cannot be read.
    pub(super) fn put_back_job(&self, now: Moment, entry: &Entry) -> Option<()> {
        let (id, job) = (entry.id(0)?, Job::put_back(entry.json()?)?);
        let (hash, mut records) = self.jobs.records.of(&id);
        records.put(now, hash, id, job, entry.until);
        Some(())
    }
}

#[cfg(test)]
impl Jobs {
    /// Records that take room.
    pub(super) fn size(&self) -> usize {
        (0..16).filter_map(|n| Some(self.records.at(n)?.len())).sum()
    }
}
