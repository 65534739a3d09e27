//! Deadlines of jobs that any instance looks after, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lingua_core::JobId;

use super::connection::Link;
use super::keys;
use super::scripts::{DEADLINE_DUE, DEADLINE_WATCH};
use crate::error::{Result, checked_ms};
use crate::jobs::JobDeadlines;

pub(super) struct RedisDeadlines {
    link: Link,
}

impl RedisDeadlines {
    pub(super) fn new(link: Link) -> Self {
        RedisDeadlines { link }
    }
}

#[async_trait]
impl JobDeadlines for RedisDeadlines {
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
}
