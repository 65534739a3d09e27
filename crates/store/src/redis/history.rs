//! Series of points, one per step, on Redis.

use async_trait::async_trait;
use lingua_core::time::millis;
use redis::Value;

use super::connection::Link;
use super::keys;
use super::scripts::HISTORY_APPEND;
use crate::error::{Error, Result};
use crate::history::{History, Series, check_point};

pub(super) struct RedisHistory {
    link: Link,
}

impl RedisHistory {
    pub(super) fn new(link: Link) -> Self {
        RedisHistory { link }
    }
}

#[async_trait]
impl History for RedisHistory {
    async fn append(&self, series: &Series, point: &[u8]) -> Result<bool> {
        let step_ms = series.checked()?;
        check_point(point)?;
        let call = self
            .link
            .call(&HISTORY_APPEND, [keys::history(&series.name)])?
            .arg(step_ms)
            .arg(point)
            .arg(series.points)
            .arg(millis(series.keep()));
        let reply = call.run().await?;
        match reply.word() {
            "appended" => Ok(true),
            "known" => Ok(false),
            _ => Err(reply.unexpected()),
        }
    }

    async fn last(&self, series: &Series, count: u32) -> Result<Vec<Vec<u8>>> {
        series.checked()?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut range = redis::cmd("ZRANGE");
        range.arg(keys::history(&series.name)).arg(-i64::from(count)).arg(-1);
        match self.link.command(&range).await? {
            Value::Array(points) => points.into_iter().map(point).collect(),
            value => Err(Error::corrupt("a series of points", value)),
        }
    }
}

/// A point without the number of its step, which keeps two equal points apart.
fn point(value: Value) -> Result<Vec<u8>> {
    let Value::BulkString(mut member) = value else {
        return Err(Error::corrupt("a point of a series", value));
    };
    match member.iter().position(|byte| *byte == b' ') {
        Some(end) => Ok(member.split_off(end + 1)),
        None => Err(Error::corrupt("a point of a series", member)),
    }
}
