//! The snapshot of all instances, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lingua_core::InstanceId;
use redis::Value;

use super::connection::Link;
use super::keys;
use super::presence::instance_ids;
use super::scripts::LEADER_PUBLISH;
use crate::error::{Error, Result, checked_ms};
use crate::instance::Instance;
use crate::leaders::Task;
use crate::nodes::Fenced;
use crate::snapshots::{Snapshots, check_part, check_published};

pub(super) struct RedisSnapshots {
    link: Link,
}

impl RedisSnapshots {
    pub(super) fn new(link: Link) -> Self {
        RedisSnapshots { link }
    }
}

#[async_trait]
impl Snapshots for RedisSnapshots {
    async fn post_part(&self, me: &Instance, part: &[u8], ttl: Duration) -> Result<()> {
        check_part(part)?;
        let mut set = redis::cmd("SET");
        set.arg(keys::part(&me.id)).arg(part).arg("PX").arg(checked_ms(ttl)?);
        self.link.command(&set).await.map(drop)
    }

    async fn parts(&self) -> Result<Vec<Vec<u8>>> {
        let part = |id: InstanceId| async move {
            let mut get = redis::cmd("GET");
            get.arg(keys::part(&id));
            match self.link.command(&get).await? {
                Value::Nil => Ok(None),
                Value::BulkString(part) => Ok(Some(part)),
                value => Err(Error::corrupt("a part of the snapshot", value)),
            }
        };
        let parts = try_join_all(instance_ids(&self.link).await?.into_iter().map(part)).await?;
        Ok(parts.into_iter().flatten().collect())
    }

    async fn publish(&self, task: Task, fence: u64, what: &[u8]) -> Result<Fenced> {
        check_published(what)?;
        let call = self.link.call(&LEADER_PUBLISH, [keys::leader(task)])?.arg(fence).arg(what);
        call.run().await?.fenced()
    }

    async fn published(&self, task: Task) -> Result<Option<Vec<u8>>> {
        let mut get = redis::cmd("HGET");
        get.arg(keys::leader(task)).arg("published");
        match self.link.command(&get).await? {
            Value::Nil => Ok(None),
            Value::BulkString(what) => Ok(Some(what)),
            value => Err(Error::corrupt("what a leader published", value)),
        }
    }
}
