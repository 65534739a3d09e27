//! What was used, by day, on Redis.

use async_trait::async_trait;
use futures_util::future::try_join_all;
use redis::Value;

use super::connection::Link;
use super::keys;
use super::scripts::USAGE_POST;
use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::usage::{Day, MAX_WRITERS, Posted, UsageDays, check_counts};

pub(super) struct RedisUsage {
    link: Link,
}

impl RedisUsage {
    pub(super) fn new(link: Link) -> Self {
        RedisUsage { link }
    }
}

#[async_trait]
impl UsageDays for RedisUsage {
    async fn post(&self, day: Day, me: &Instance, serial: u64, counts: &[u8]) -> Result<Posted> {
        check_counts(counts)?;
        let writer = format!("{}:{:016x}", me.id, me.boot);
        let call = self
            .link
            .call(&USAGE_POST, [keys::usage_writers(day), keys::usage(day, &writer)])?
            .arg(&*writer)
            .arg(serial)
            .arg(counts)
            .arg(day.forgotten().as_millis())
            .arg(MAX_WRITERS as u64);
        let reply = call.run().await?;
        match reply.word() {
            "kept" => Ok(Posted::Kept),
            "older" => Ok(Posted::Older),
            "full" => Ok(Posted::Full),
            _ => Err(reply.unexpected()),
        }
    }

    async fn posted(&self, day: Day) -> Result<Vec<Vec<u8>>> {
        let mut range = redis::cmd("ZRANGE");
        range.arg(keys::usage_writers(day)).arg(0).arg(-1);
        let writers = match self.link.command(&range).await? {
            Value::Array(writers) => writers,
            value => return Err(Error::corrupt("who posted for a day", value)),
        };
        let counted = |writer: Value| async move {
            let Value::BulkString(writer) = writer else {
                return Err(Error::corrupt("who posted for a day", writer));
            };
            let mut get = redis::cmd("GET");
            get.arg(keys::usage(day, &String::from_utf8_lossy(&writer)));
            match self.link.command(&get).await? {
                Value::Nil => Ok(None),
                Value::BulkString(stored) => counts(stored).map(Some),
                value => Err(Error::corrupt("what was counted on a day", value)),
            }
        };
        let counts = try_join_all(writers.into_iter().map(counted)).await?;
        Ok(counts.into_iter().flatten().collect())
    }
}

/// What was counted, without the serial in front.
fn counts(mut stored: Vec<u8>) -> Result<Vec<u8>> {
    match stored.iter().position(|byte| *byte == b' ') {
        Some(end) => Ok(stored.split_off(end + 1)),
        None => Err(Error::corrupt("what was counted on a day", stored)),
    }
}
