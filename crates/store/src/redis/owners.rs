//! Session owners, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::SessionKey;
use lingua_core::time::millis;
use redis::Value;

use super::connection::Link;
use super::keys;
use super::scripts::{OWNER_CLAIM, OWNER_READ, OWNER_RELEASE, OWNER_RENEW, OWNER_SAVE};
use crate::error::{Error, Result, checked_ms};
use crate::instance::Instance;
use crate::nodes::Fenced;
use crate::owners::{Claimed, EPOCH_MEMORY, MAX_STATE_BYTES, Owner, SessionOwners};

pub(super) struct RedisOwners {
    link: Link,
}

impl RedisOwners {
    pub(super) fn new(link: Link) -> Self {
        RedisOwners { link }
    }
}

#[async_trait]
impl SessionOwners for RedisOwners {
    async fn claim(
        &self,
        session: &SessionKey,
        instance: &Instance,
        ttl: Duration,
    ) -> Result<Claimed> {
        let call = self
            .link
            .call(&OWNER_CLAIM, [keys::session_owner(session)])?
            .show(instance)
            .arg(checked_ms(ttl)?)
            .arg(millis(EPOCH_MEMORY));
        let mut reply = call.run().await?;
        match reply.word() {
            "claimed" => {
                let epoch = reply.number()?;
                let before: Option<Instance> = reply.optional()?;
                Ok(Claimed { epoch, replaced: before.filter(|before| before != instance) })
            }
            _ => Err(reply.unexpected()),
        }
    }

    async fn renew(
        &self,
        session: &SessionKey,
        instance: &Instance,
        epoch: u64,
        ttl: Duration,
    ) -> Result<Fenced> {
        let call = self
            .link
            .call(&OWNER_RENEW, [keys::session_owner(session)])?
            .show(instance)
            .arg(epoch)
            .arg(checked_ms(ttl)?)
            .arg(millis(EPOCH_MEMORY));
        call.run().await?.fenced()
    }

    async fn release(&self, session: &SessionKey, epoch: u64) -> Result<Fenced> {
        let call = self.link.call(&OWNER_RELEASE, [keys::session_owner(session)])?.arg(epoch);
        call.run().await?.fenced()
    }

    async fn owner(&self, session: &SessionKey) -> Result<Option<Owner>> {
        let call = self.link.call(&OWNER_READ, [keys::session_owner(session)])?;
        let mut reply = call.run().await?;
        match reply.word() {
            "nobody" => Ok(None),
            "owner" => {
                let (instance, epoch) = (reply.parse()?, reply.number()?);
                Ok(Some(Owner { instance, epoch, until: reply.moment()? }))
            }
            _ => Err(reply.unexpected()),
        }
    }

    async fn save(
        &self,
        session: &SessionKey,
        epoch: u64,
        state: &[u8],
        keep_for: Duration,
    ) -> Result<Fenced> {
        if state.len() > MAX_STATE_BYTES {
            return Err(Error::Invalid("a session's state has at most 64 KiB"));
        }
        let keys = [keys::session_owner(session), keys::session_state(session)];
        let call =
            self.link.call(&OWNER_SAVE, keys)?.arg(epoch).arg(state).arg(checked_ms(keep_for)?);
        call.run().await?.fenced()
    }

    async fn load(&self, session: &SessionKey) -> Result<Option<Vec<u8>>> {
        let mut get = redis::cmd("GET");
        get.arg(keys::session_state(session));
        match self.link.command(&get).await? {
            Value::Nil => Ok(None),
            Value::BulkString(state) => Ok(Some(state)),
            value => Err(Error::corrupt("a session's state", value)),
        }
    }
}
