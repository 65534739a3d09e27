//! Which attempt of a job counts, on Redis.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lingua_core::job::JobState;
use lingua_core::limits::MAX_ATTEMPTS;
use lingua_core::{JobId, Moment, NodeId, RequestId, SessionKey, TenantId, TurnId};

use super::connection::Link;
use super::keys;
use super::reply::{Reply, text};
use super::scripts::{
    DEADLINE_DUE, DEADLINE_WATCH, JOB_ASSIGN, JOB_CREATE, JOB_FINISH, REQUEST_CLAIM,
};
use crate::error::{Error, Result, checked_ms};
use crate::jobs::{
    Assign, Assignment, Create, EndedBy, Ending, Finish, JobBook, JobRecord, NewJob,
};

pub(super) struct RedisJobs {
    link: Link,
}

impl RedisJobs {
    pub(super) fn new(link: Link) -> Self {
        RedisJobs { link }
    }
}

#[async_trait]
impl JobBook for RedisJobs {
    async fn create(&self, job: &NewJob<'_>) -> Result<Create> {
        let (key, session) = (keys::job(&job.id), job.session);
        let call = match job.epoch {
            None => self.link.call(&JOB_CREATE, [key])?,
            Some(_) => self.link.call(&JOB_CREATE, [key, keys::session_owner(session)])?,
        };
        let (tenant, id) = (session.tenant(), session.session());
        let call = match &job.first {
            None => call.show(format_args!("0\n{tenant} {id}")),
            Some(first) => call.show(format_args!("{}\n{tenant} {id}", Spelled(first))),
        };
        let mut call = call
            .arg(checked_ms(job.deadline_in)?)
            .arg(checked_ms(job.deadline_in)? + checked_ms(job.keep_for)?);
        if let Some(epoch) = job.epoch {
            call = call.arg(epoch);
        }
        let mut reply = call.run().await?;
        Ok(match reply.word() {
            "created" => Create::Created { deadline: reply.moment()? },
            "exists" => Create::Exists(record(&reply.text()?)?),
            "superseded" => Create::Superseded { epoch: reply.number()? },
            _ => return Err(reply.unexpected()),
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
        ending.check()?;
        let Ending { state, code } = ending;
        let (state, call) = (state.as_str(), self.link.call(&JOB_FINISH, [keys::job(job)])?);
        let call = match by {
            EndedBy::Owner => call.arg("").show(format_args!("{state} owner {code}")),
            EndedBy::Assignment(by) => call
                .show(format_args!("{}\n", Spelled(by)))
                .show(format_args!("{state} node {code}")),
        };
        let mut reply = call.run().await?;
        Ok(match reply.word() {
            "finished" => Finish::Finished,
            "repeated" => Finish::Repeated,
            "ended" => Finish::Ended(state_in(&mut reply)?),
            "stale" => Finish::Stale { attempt: reply.small()? },
            "unknown" => Finish::Unknown,
            _ => return Err(reply.unexpected()),
        })
    }

    async fn get(&self, job: &JobId) -> Result<Option<JobRecord>> {
        let mut get = redis::cmd("GET");
        get.arg(keys::job(job));
        let found = text("a job's record", self.link.command(&get).await?)?;
        if found.is_empty() { Ok(None) } else { record(&found).map(Some) }
    }

    async fn watch(&self, job: &JobId, deadline_in: Duration) -> Result<()> {
        let call = self
            .link
            .call(&DEADLINE_WATCH, [keys::deadlines(keys::deadline_shard(job))])?
            .arg(job.as_str())
            .arg(checked_ms(deadline_in)?);
        call.run().await.map(drop)
    }

    async fn unwatch(&self, job: &JobId) -> Result<()> {
        let mut remove = redis::cmd("ZREM");
        remove.arg(keys::deadlines(keys::deadline_shard(job))).arg(job.as_str());
        self.link.command(&remove).await.map(drop)
    }

    async fn due(&self, limit: usize) -> Result<Vec<JobId>> {
        let each = limit.div_ceil(keys::DEADLINE_SHARDS as usize).max(1) as u64;
        let shards = (0..keys::DEADLINE_SHARDS).map(|shard| async move {
            let call = self.link.call(&DEADLINE_DUE, [keys::deadlines(shard)])?.arg(each);
            call.run().await?.parsed_list::<JobId>()
        });
        Ok(try_join_all(shards).await?.concat())
    }

    async fn claim_request(
        &self,
        tenant: &TenantId,
        request: &RequestId,
        job: &JobId,
        keep_for: Duration,
    ) -> Result<JobId> {
        let call = self
            .link
            .call(&REQUEST_CLAIM, [keys::request(tenant, request)])?
            .arg(job.as_str())
            .arg(checked_ms(keep_for)?);
        let mut reply = call.run().await?;
        match reply.word() {
            "job" => reply.parse(),
            _ => Err(reply.unexpected()),
        }
    }

    async fn bind_turn(
        &self,
        session: &SessionKey,
        turn: &TurnId,
        node: &NodeId,
        lease: Duration,
    ) -> Result<()> {
        let mut set = redis::cmd("SET");
        set.arg(keys::turn(session, turn)).arg(node.as_str()).arg("PX").arg(checked_ms(lease)?);
        self.link.command(&set).await.map(drop)
    }

    async fn turn_node(&self, session: &SessionKey, turn: &TurnId) -> Result<Option<NodeId>> {
        let mut get = redis::cmd("GET");
        get.arg(keys::turn(session, turn));
        let bound = text("a turn's binding", self.link.command(&get).await?)?;
        match bound.as_str() {
            "" => Ok(None),
            node => {
                NodeId::new(node).map(Some).map_err(|_| Error::corrupt("a turn's binding", node))
            }
        }
    }
}

fn state_in(reply: &mut Reply) -> Result<JobState> {
    let word = reply.text()?;
    JobState::parse(&word).ok_or_else(|| Error::corrupt("a job's state", word))
}

/// An assignment as the scripts compare it: as a whole. Neither ids nor tokens hold spaces.
struct Spelled<'a>(&'a Assignment);

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Assignment { node, token } = self.0;
        write!(f, "{} {node} {token}", token.attempt)
    }
}

/// Three lines: current assignment; tenant, session and deadline; end, as state, by whom and code.
fn record(stored: &str) -> Result<JobRecord> {
    let read = || -> Option<JobRecord> {
        let [current, facts, end] = stored.split('\n').collect::<Vec<_>>()[..] else {
            return None;
        };
        let [tenant, session, deadline] = facts.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let assignment = match current.split(' ').collect::<Vec<_>>()[..] {
            ["0"] => None,
            [_, node, token] => {
                Some(Assignment { node: node.parse().ok()?, token: token.parse().ok()? })
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
            deadline: Moment::from_millis(deadline.parse().ok()?),
            code: code.to_owned(),
        })
    };
    read().ok_or_else(|| Error::corrupt("a job's record", stored))
}
