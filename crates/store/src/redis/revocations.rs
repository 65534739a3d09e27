//! The revocation list, on Redis.

use std::time::Duration;

use async_trait::async_trait;

use super::connection::Link;
use super::keys;
use super::scripts::{MARK_LIST, MARK_PUT};
use crate::error::Result;
use crate::rates::Name;
use crate::revocations::{MAX_REVOCATIONS, Revocations, kept_ms};

pub(super) struct RedisRevocations {
    link: Link,
}

impl RedisRevocations {
    pub(super) fn new(link: Link) -> Self {
        RedisRevocations { link }
    }
}

#[async_trait]
impl Revocations for RedisRevocations {
    async fn add(&self, entry: &Name, keep_for: Duration) -> Result<bool> {
        let call = self
            .link
            .call(&MARK_PUT, [keys::marks()])?
            .arg(entry.as_str())
            .arg(kept_ms(keep_for)?)
            .arg(MAX_REVOCATIONS);
        let reply = call.run().await?;
        match reply.word() {
            "marked" => Ok(true),
            "full" => Ok(false),
            _ => Err(reply.unexpected()),
        }
    }

    async fn list(&self) -> Result<Vec<Name>> {
        let mut reply = self.link.call(&MARK_LIST, [keys::marks()])?.run().await?;
        match reply.word() {
            "marks" => reply.parsed_list::<String>()?.into_iter().map(Name::new).collect(),
            _ => Err(reply.unexpected()),
        }
    }
}
