//! What happens once per window, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::time::millis;
use redis::Value;

use super::connection::Link;
use super::keys;
use super::scripts::{MARK_LIST, MARK_PUT, RATE_TAKE};
use crate::error::{Error, Result, checked_ms};
use crate::once::{MAX_MARKS, Name, OnceWindow, Rate, Take, marked_ms};

pub(super) struct RedisOnce {
    link: Link,
}

impl RedisOnce {
    pub(super) fn new(link: Link) -> Self {
        RedisOnce { link }
    }
}

#[async_trait]
impl OnceWindow for RedisOnce {
    async fn first(&self, name: &Name, window: Duration) -> Result<bool> {
        let mut set = redis::cmd("SET");
        set.arg(keys::once(name)).arg(1).arg("NX").arg("PX").arg(checked_ms(window)?);
        match self.link.command(&set).await? {
            Value::Okay => Ok(true),
            Value::Nil => Ok(false),
            value => Err(Error::corrupt("a window", value)),
        }
    }

    async fn take(&self, name: &Name, rate: Rate) -> Result<Take> {
        let rate = rate.checked()?;
        let call = self
            .link
            .call(&RATE_TAKE, [keys::rate(name)])?
            .arg(millis(rate.interval))
            .arg(rate.burst);
        let mut reply = call.run().await?;
        match reply.word() {
            "allowed" => Ok(Take::Allowed),
            "limited" => Ok(Take::Limited { retry_after: Duration::from_millis(reply.number()?) }),
            _ => Err(reply.unexpected()),
        }
    }

    async fn mark(&self, mark: &Name, keep_for: Duration) -> Result<bool> {
        let call = self
            .link
            .call(&MARK_PUT, [keys::marks()])?
            .arg(mark.as_str())
            .arg(marked_ms(keep_for)?)
            .arg(MAX_MARKS);
        let reply = call.run().await?;
        match reply.word() {
            "marked" => Ok(true),
            "full" => Ok(false),
            _ => Err(reply.unexpected()),
        }
    }

    async fn marks(&self) -> Result<Vec<Name>> {
        let mut reply = self.link.call(&MARK_LIST, [keys::marks()])?.run().await?;
        match reply.word() {
            "marks" => reply.parsed_list::<String>()?.into_iter().map(Name::new).collect(),
            _ => Err(reply.unexpected()),
        }
    }
}
