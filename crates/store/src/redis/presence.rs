//! Which instances are alive, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lingua_core::InstanceId;
use redis::Value;

use super::connection::Link;
use super::keys;
use super::reply::text;
use super::scripts::{PRESENCE_ANNOUNCE, PRESENCE_WITHDRAW};
use crate::error::{Error, Result, checked_ms};
use crate::instance::Instance;
use crate::presence::{Announce, Peer, Presence, check_address};

pub(super) struct RedisPresence {
    link: Link,
}

impl RedisPresence {
    pub(super) fn new(link: Link) -> Self {
        RedisPresence { link }
    }
}

#[async_trait]
impl Presence for RedisPresence {
    async fn announce(&self, me: &Instance, address: &str, ttl: Duration) -> Result<Announce> {
        check_address(address)?;
        let mut list = redis::cmd("SADD");
        list.arg(keys::instances()).arg(me.id.as_str());
        self.link.command(&list).await?;
        let call = self
            .link
            .call(&PRESENCE_ANNOUNCE, [keys::presence(&me.id), keys::boots(&me.id)])?
            .arg(format!("{:016x}", me.boot))
            .arg(address)
            .arg(checked_ms(ttl)?);
        let mut reply = call.run().await?;
        match reply.word() {
            "announced" => Ok(Announce::Announced),
            "taken" => Ok(Announce::Taken {
                address: reply.text()?,
                lasting: Duration::from_millis(reply.number()?),
            }),
            _ => Err(reply.unexpected()),
        }
    }

    async fn withdraw(&self, me: &Instance) -> Result<()> {
        let call = self
            .link
            .call(&PRESENCE_WITHDRAW, [keys::presence(&me.id)])?
            .arg(format!("{:016x}", me.boot));
        call.run().await.map(drop)
    }

    async fn peers(&self) -> Result<Vec<Peer>> {
        let ids = instance_ids(&self.link).await?;
        let peers = try_join_all(ids.into_iter().map(|id| peer(&self.link, id))).await?;
        Ok(peers.into_iter().flatten().collect())
    }
}

pub(super) async fn members(link: &Link, key: String) -> Result<Vec<String>> {
    let mut members = redis::cmd("SMEMBERS");
    members.arg(key);
    match link.command(&members).await? {
        Value::Array(ids) | Value::Set(ids) => {
            ids.into_iter().map(|id| text("the list of instances", id)).collect()
        }
        value => Err(Error::corrupt("the list of instances", value)),
    }
}

pub(super) async fn instance_ids(link: &Link) -> Result<Vec<InstanceId>> {
    let ids = members(link, keys::instances()).await?;
    let parse =
        |id: &String| InstanceId::new(id).map_err(|_| Error::corrupt("the list of instances", id));
    ids.iter().map(parse).collect()
}

pub(super) async fn peer(link: &Link, id: InstanceId) -> Result<Option<Peer>> {
    let mut read = redis::cmd("HMGET");
    read.arg(keys::presence(&id)).arg("boot").arg("address");
    let answer = link.command(&read).await?;
    let (boot, address): (Option<String>, Option<String>) =
        redis::from_redis_value(answer).map_err(|e| Error::corrupt("a presence", e))?;
    let Some((boot, address)) = boot.zip(address) else { return Ok(None) };
    Ok(Some(Peer { instance: Instance { id, boot: parse_boot(&boot)? }, address }))
}

pub(super) fn parse_boot(text: &str) -> Result<u64> {
    u64::from_str_radix(text, 16).map_err(|_| Error::corrupt("an instance's boot", text))
}
