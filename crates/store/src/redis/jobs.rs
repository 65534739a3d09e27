//! Which attempt of a job counts, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lingua_core::job::JobState;
use lingua_core::limits::MAX_ATTEMPTS;
use lingua_core::{JobId, NodeId, RequestId, SessionKey, TenantId, TurnId};

use super::connection::{Call, Link};
use super::keys;
use super::reply::{Reply, text};
use super::scripts::{
    DEADLINE_DUE, DEADLINE_WATCH, JOB_ASSIGN, JOB_CREATE, JOB_FINISH, JOB_READ, REQUEST_CLAIM,
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
        let keys = [keys::job(&job.id), keys::session_owner(job.session)];
        let call = Call::new(&JOB_CREATE, keys)
            .arg(job.session.tenant.as_str())
            .arg(job.session.session.as_str())
            .arg(job.epoch.map(|epoch| epoch.to_string()).unwrap_or_default())
            .number(checked_ms(job.deadline_in)?)
            .number(checked_ms(job.keep_for)?);
        let call = match &job.first {
            None => call.arg(JobState::New.as_str()).arg("0").arg("").arg(""),
            Some(first) => call
                .arg(JobState::Dispatched.as_str())
                .number(first.token.attempt.into())
                .arg(first.node.as_str())
                .show(first.token),
        };
        let mut reply = self.link.run(call).await?;
        Ok(match reply.word() {
            "created" => Create::Created { deadline: reply.moment()? },
            "exists" => Create::Exists(record(reply)?),
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
        let call = Call::new(&JOB_ASSIGN, [keys::job(job)])
            .number(assignment.token.attempt.into())
            .arg(assignment.node.as_str())
            .show(assignment.token)
            .number(max_attempts.into());
        let mut reply = self.link.run(call).await?;
        Ok(match reply.word() {
            "assigned" => Assign::Assigned,
            "stale" => Assign::Stale { attempt: reply.small()? },
            "exhausted" => Assign::Exhausted,
            "ended" => Assign::Ended(state(&mut reply)?),
            "unknown" => Assign::Unknown,
            _ => return Err(reply.unexpected()),
        })
    }

    async fn finish(&self, job: &JobId, by: &EndedBy, ending: &Ending) -> Result<Finish> {
        ending.check()?;
        let call = Call::new(&JOB_FINISH, [keys::job(job)]);
        let call = match by {
            EndedBy::Owner => call.arg("owner").arg("").arg(""),
            EndedBy::Assignment(by) => call.arg("node").arg(by.node.as_str()).show(by.token),
        };
        let call = call.arg(ending.state.as_str()).arg(ending.code.as_str());
        let mut reply = self.link.run(call).await?;
        Ok(match reply.word() {
            "finished" => Finish::Finished,
            "repeated" => Finish::Repeated,
            "ended" => Finish::Ended(state(&mut reply)?),
            "stale" => Finish::Stale { attempt: reply.small()? },
            "unknown" => Finish::Unknown,
            _ => return Err(reply.unexpected()),
        })
    }

    async fn get(&self, job: &JobId) -> Result<Option<JobRecord>> {
        let reply = self.link.run(Call::new(&JOB_READ, [keys::job(job)])).await?;
        match reply.word() {
            "exists" => record(reply).map(Some),
            "unknown" => Ok(None),
            _ => Err(reply.unexpected()),
        }
    }

    async fn watch(&self, job: &JobId, deadline_in: Duration) -> Result<()> {
        let call = Call::new(&DEADLINE_WATCH, [keys::deadlines(keys::deadline_shard(job))])
            .arg(job.as_str())
            .number(checked_ms(deadline_in)?);
        self.link.run(call).await.map(drop)
    }

    async fn unwatch(&self, job: &JobId) -> Result<()> {
        let mut remove = redis::cmd("ZREM");
        remove.arg(keys::deadlines(keys::deadline_shard(job))).arg(job.as_str());
        self.link.command(&remove).await.map(drop)
    }

    async fn due(&self, limit: usize) -> Result<Vec<JobId>> {
        let each = limit.div_ceil(keys::DEADLINE_SHARDS as usize).max(1) as u64;
        let shards = (0..keys::DEADLINE_SHARDS).map(|shard| async move {
            let call = Call::new(&DEADLINE_DUE, [keys::deadlines(shard)]).number(each);
            self.link.run(call).await?.parsed_list::<JobId>()
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
        let call = Call::new(&REQUEST_CLAIM, [keys::request(tenant, request)])
            .arg(job.as_str())
            .number(checked_ms(keep_for)?);
        let mut reply = self.link.run(call).await?;
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

fn state(reply: &mut Reply) -> Result<JobState> {
    let word = reply.text()?;
    JobState::parse(&word).ok_or_else(|| Error::corrupt("a job's state", word))
}

fn record(mut reply: Reply) -> Result<JobRecord> {
    let session = SessionKey { tenant: reply.parse()?, session: reply.parse()? };
    let state = state(&mut reply)?;
    let _attempt = reply.number()?;
    let (node, token) = (reply.optional()?, reply.optional()?);
    let assignment = node.zip(token).map(|(node, token)| Assignment { node, token });
    let (deadline, code) = (reply.moment()?, reply.text()?);
    Ok(JobRecord { session, state, assignment, deadline, code })
}
