//! Job records, on Redis.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use lingua_core::job::JobState;
use lingua_core::limits::MAX_ATTEMPTS;
use lingua_core::{JobId, Moment, SessionKey};
use redis::{Cmd, Value};

use super::connection::{Call, Link};
use super::reply::Reply;
use super::scripts::{JOB_ASSIGN, JOB_CREATE, JOB_FINISH, JOB_READ};
use super::{keys, slots};
use crate::error::{Error, Result, checked_ms};
use crate::jobs::{
    Assign, Assignment, Create, EndedBy, Ending, Finish, JobRecord, JobRecords, NewJob,
};
use crate::slots::{HeldSlot, Reserve, SlotLeases, Wish};

/// A record that is there when a job is written and gone when it is read was forgotten in between.
const CREATE_TRIES: u32 = 3;

pub(super) struct RedisJobs {
    link: Link,
}

impl RedisJobs {
    pub(super) fn new(link: Link) -> Self {
        RedisJobs { link }
    }

    /// Writes a new job; `None` if it is there. Without an epoch to compare it is one command.
    async fn write(&self, job: &NewJob<'_>) -> Result<Option<Create>> {
        let Some(epoch) = job.epoch else {
            return self.link.command(&set_new(job)?).await.map(created);
        };
        let (text, remembered) = new_record(job)?;
        let keys = [keys::job(&job.id), keys::session_owner(job.session)];
        let call = self.link.call(&JOB_CREATE, keys)?.arg(text).arg(remembered).arg(epoch);
        let mut reply = call.run().await?;
        match reply.word() {
            "created" => Ok(Some(Create::Created)),
            "exists" => Ok(None),
            "superseded" => Ok(Some(Create::Superseded { epoch: reply.number()? })),
            _ => Err(reply.unexpected()),
        }
    }

    /// Writes a new job and reserves a slot, in one message.
    async fn begin_at_once(
        &self,
        job: &NewJob<'_>,
        wish: &Wish<'_>,
    ) -> Result<(Result<Option<Create>>, Result<Reserve>)> {
        let call = slots::reserve(&self.link, wish)?;
        let (reserved, written) = call.run_beside(set_new(job)?).await?;
        Ok((written.map(created), reserved.and_then(slots::reserved)))
    }

    /// Ends a job and gives its slot back, in one message; says whether the slot was held.
    async fn end_at_once(
        &self,
        job: &JobId,
        by: &EndedBy,
        ending: &Ending,
        slot: &HeldSlot<'_>,
        granted: Moment,
    ) -> Result<(Result<Finish>, Result<bool>)> {
        let release = slots::release_young(slot.node, slot.token, granted);
        let call = finish(&self.link, job, by, ending)?;
        let (ended, released) = call.run_beside(release).await?;
        Ok((ended.and_then(finished), released.map(|freed| freed == Value::Int(1))))
    }
}

/// The command that writes a new job down without an epoch to compare.
fn set_new(job: &NewJob<'_>) -> Result<Cmd> {
    let (text, remembered) = new_record(job)?;
    let mut set = redis::cmd("SET");
    set.arg(keys::job(&job.id)).arg(text).arg("PX").arg(remembered).arg("NX");
    Ok(set)
}

/// What it answered; `None` if the job was there.
fn created(written: Value) -> Option<Create> {
    (written == Value::Okay).then_some(Create::Created)
}

/// The call that ends a job.
fn finish<'a>(link: &'a Link, job: &JobId, by: &EndedBy, ending: &Ending) -> Result<Call<'a>> {
    ending.check()?;
    let Ending { state, code } = ending;
    let (state, call) = (state.as_str(), link.call(&JOB_FINISH, [keys::job(job)])?);
    Ok(match by {
        EndedBy::Owner => call.arg("").show(format_args!("{state} owner {code}")),
        EndedBy::Assignment(by) => {
            call.show(format_args!("{}\n", Spelled(by))).show(format_args!("{state} node {code}"))
        }
    })
}

/// What it answered.
fn finished(mut reply: Reply) -> Result<Finish> {
    Ok(match reply.word() {
        "finished" => Finish::Finished,
        "repeated" => Finish::Repeated,
        "ended" => Finish::Ended(state_in(&mut reply)?),
        "stale" => Finish::Stale { attempt: reply.small()? },
        "unknown" => Finish::Unknown,
        _ => return Err(reply.unexpected()),
    })
}

/// The record of a new job, and how long it is remembered from now, in milliseconds.
fn new_record(job: &NewJob<'_>) -> Result<(String, u64)> {
    let (deadline_in, keep) = (checked_ms(job.deadline_in)?, checked_ms(job.keep_for)?);
    let (tenant, session) = (job.session.tenant(), job.session.session());
    let text = match &job.first {
        None => format!("0\n{tenant} {session} {keep}\n"),
        Some(first) => format!("{}\n{tenant} {session} {keep}\n", Spelled(first)),
    };
    Ok((text, deadline_in + keep))
}

#[async_trait]
impl JobRecords for RedisJobs {
    async fn create(&self, job: &NewJob<'_>) -> Result<Create> {
        for _ in 0..CREATE_TRIES {
            if let Some(create) = self.write(job).await? {
                return Ok(create);
            }
            if let Some(record) = self.get(&job.id).await? {
                return Ok(Create::Exists(record));
            }
            // It was there and is forgotten by now.
        }
        Err(Error::corrupt("a job's record", "it is there and cannot be read"))
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
        let call = self
            .link
            .call(&JOB_ASSIGN, [keys::job(job)])?
            .arg(assignment.token.attempt)
            .show(Spelled(assignment))
            .arg(max_attempts);
        let mut reply = call.run().await?;
        Ok(match reply.word() {
            "assigned" => Assign::Assigned,
            "stale" => Assign::Stale { attempt: reply.small()? },
            "exhausted" => Assign::Exhausted,
            "ended" => Assign::Ended(state_in(&mut reply)?),
            "unknown" => Assign::Unknown,
            _ => return Err(reply.unexpected()),
        })
    }

    async fn finish(&self, job: &JobId, by: &EndedBy, ending: &Ending) -> Result<Finish> {
        finished(finish(&self.link, job, by, ending)?.run().await?)
    }

    async fn begin(
        &self,
        job: &NewJob<'_>,
        slots: &dyn SlotLeases,
        wish: &Wish<'_>,
    ) -> (Result<Create>, Result<Reserve>) {
        if job.epoch.is_none() && self.link.is_one_server() {
            match self.begin_at_once(job, wish).await {
                Ok((Ok(None), reserved)) => return (self.create(job).await, reserved),
                Ok((Ok(Some(created)), reserved)) => return (Ok(created), reserved),
                Ok((Err(error), reserved)) => return (Err(error), reserved),
                Err(error) => return (Err(error.clone()), Err(error)),
            }
        }
        join(self.create(job), slots.reserve(wish)).await
    }

    async fn end(
        &self,
        job: &JobId,
        by: &EndedBy,
        ending: &Ending,
        slots: &dyn SlotLeases,
        slot: &HeldSlot<'_>,
    ) -> (Result<Finish>, Result<()>) {
        if let Some(granted) = slot.granted.filter(|_| self.link.is_one_server()) {
            match self.end_at_once(job, by, ending, slot, granted).await {
                Ok((finished, Ok(true))) => return (finished, Ok(())),
                Ok((finished, Ok(false))) => {
                    return (finished, slots.release(slot.node, slot.token).await.map(drop));
                }
                Ok((finished, Err(error))) => return (finished, Err(error)),
                Err(error) => return (Err(error.clone()), Err(error)),
            }
        }
        join(self.finish(job, by, ending), slot.give_back(slots)).await
    }

    async fn get(&self, job: &JobId) -> Result<Option<JobRecord>> {
        let mut reply = self.link.call(&JOB_READ, [keys::job(job)])?.run().await?;
        match reply.word() {
            "record" => {
                let until = reply.moment()?;
                record(job, until, &reply.text()?).map(Some)
            }
            "unknown" => Ok(None),
            _ => Err(reply.unexpected()),
        }
    }
}

fn state_in(reply: &mut Reply) -> Result<JobState> {
    let word = reply.text()?;
    JobState::parse(&word).ok_or_else(|| Error::corrupt("a job's state", word))
}

/// An assignment as the scripts compare it: as a whole. Neither ids nor nonces hold spaces, and the
/// rest of the token is in the record's key.
struct Spelled<'a>(&'a Assignment);

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Assignment { node, token } = self.0;
        write!(f, "{} {node} {}", token.attempt, token.spelled_nonce().as_str())
    }
}

/// Three lines: current assignment; tenant, session and how long it is remembered after its deadline;
/// end, as state, by whom and code. The deadline follows from the moment at which it is forgotten.
pub(super) fn record(job: &JobId, forgotten: Moment, stored: &str) -> Result<JobRecord> {
    let read = || -> Option<JobRecord> {
        let [current, facts, end] = stored.split('\n').collect::<Vec<_>>()[..] else {
            return None;
        };
        let [tenant, session, keep] = facts.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let assignment = match current.split(' ').collect::<Vec<_>>()[..] {
            ["0"] => None,
            [attempt, node, nonce] => {
                let token = format!("{job}.{attempt}.{nonce}").parse().ok()?;
                Some(Assignment { node: node.parse().ok()?, token })
            }
            _ => return None,
        };
        let (state, code) = match end.split(' ').collect::<Vec<_>>()[..] {
            [""] if assignment.is_none() => (JobState::New, ""),
            [""] => (JobState::Dispatched, ""),
            [state, _, code] => (JobState::parse(state)?, code),
            _ => return None,
        };
        Some(JobRecord {
            session: SessionKey::new(tenant.parse().ok()?, session.parse().ok()?),
            state,
            assignment,
            deadline: forgotten - Duration::from_millis(keep.parse().ok()?),
            code: code.to_owned(),
        })
    };
    read().ok_or_else(|| Error::corrupt("a job's record", stored))
}
