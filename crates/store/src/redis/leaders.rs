//! Leaders of tasks, on Redis.

use std::time::Duration;

use async_trait::async_trait;

use super::connection::Link;
use super::keys;
use super::scripts::{LEADER_RESIGN, LEADER_TAKE};
use crate::error::{Result, checked_ms};
use crate::instance::Instance;
use crate::leaders::{Lead, Leaders, Task};

pub(super) struct RedisLeaders {
    link: Link,
}

impl RedisLeaders {
    pub(super) fn new(link: Link) -> Self {
        RedisLeaders { link }
    }
}

#[async_trait]
impl Leaders for RedisLeaders {
    async fn lead(&self, task: Task, instance: &Instance, ttl: Duration) -> Result<Lead> {
        let call = self
            .link
            .call(&LEADER_TAKE, [keys::leader(task)])?
            .show(instance)
            .arg(checked_ms(ttl)?);
        let mut reply = call.run().await?;
        match reply.word() {
            "leading" => Ok(Lead::Leading { fence: reply.number()? }),
            "held" => Ok(Lead::Held { by: reply.parse()? }),
            _ => Err(reply.unexpected()),
        }
    }

    async fn resign(&self, task: Task, instance: &Instance, fence: u64) -> Result<()> {
        let call = self.link.call(&LEADER_RESIGN, [keys::leader(task)])?.show(instance).arg(fence);
        call.run().await.map(drop)
    }
}
