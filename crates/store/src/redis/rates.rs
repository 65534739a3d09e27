//! Windows and rate limits, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::time::millis;
use redis::Value;

use super::connection::Link;
use super::keys;
use super::scripts::RATE_TAKE;
use crate::error::{Error, Result, checked_ms};
use crate::rates::{Name, Rate, RateLimits, Take};

pub(super) struct RedisRates {
    link: Link,
}

impl RedisRates {
    pub(super) fn new(link: Link) -> Self {
        RedisRates { link }
    }
}

#[async_trait]
impl RateLimits for RedisRates {
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
}
