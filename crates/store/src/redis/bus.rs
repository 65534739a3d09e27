//! Messages between instances, on Redis Streams.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::Moment;
use lingua_core::time::millis;
use redis::Value;
use redis::streams::{StreamId, StreamReadReply};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connection::{Link, OwnWire};
use super::keys;
use super::nodes::MAX_WAIT;
use super::presence::{instance_ids, members, parse_boot, peer};
use super::scripts::{BUS_SEND, BUS_TAKE_OVER};
use crate::bus::{
    Delivery, EntryId, Envelope, INBOX_CAPACITY, Inboxes, MAX_ENVELOPE_BYTES, Posting,
    RECEIVE_BATCH, TakeOver,
};
use crate::error::{Error, Result, checked_ms};
use crate::instance::Instance;

pub(super) struct RedisBus {
    link: Link,
    /// Where each inbox read here stands, with the connection that reading it blocks.
    readers: Mutex<HashMap<Instance, Reader>>,
}

#[derive(Default)]
struct Reader {
    position: Option<String>,
    wire: Option<OwnWire>,
}

impl RedisBus {
    pub(super) fn new(link: Link) -> Self {
        RedisBus { link, readers: Mutex::default() }
    }
}

#[async_trait]
impl Inboxes for RedisBus {
    async fn send(&self, to: &Instance, envelope: &Envelope) -> Result<Posting> {
        if envelope.body.len() > MAX_ENVELOPE_BYTES {
            return Err(Error::Invalid("an envelope holds at most 256 KiB"));
        }
        let keys = [keys::presence(&to.id), keys::inbox(to), keys::seen(to)];
        let call = self
            .link
            .call(&BUS_SEND, keys)?
            .arg(format!("{:016x}", to.boot))
            .arg(format!("{:032x}", envelope.id))
            .show(&envelope.from)
            .arg(envelope.body.as_slice())
            .arg(checked_ms(envelope.live_for)?)
            .arg(INBOX_CAPACITY as u64);
        let reply = call.run().await?;
        match reply.word() {
            "posted" => Ok(Posting::Posted),
            "gone" => Ok(Posting::Gone),
            "full" => Ok(Posting::Full),
            _ => Err(reply.unexpected()),
        }
    }

    async fn receive(&self, me: &Instance, wait: Duration) -> Result<Vec<Delivery>> {
        let (position, wire) = {
            let mut readers = self.readers.lock().await;
            let reader = readers.entry(me.clone()).or_default();
            match reader.wire.take() {
                Some(wire) if !wire.is_current() => {
                    // Of another server the numbers of entries say nothing about those of this one.
                    reader.position = None;
                    (None, None)
                }
                wire => (reader.position.clone(), wire),
            }
        };
        let mut wire = match wire {
            Some(wire) => wire,
            None => self.link.own_wire(MAX_WAIT).await?,
        };
        let wait = wait.clamp(Duration::from_millis(1), MAX_WAIT);
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT").arg(RECEIVE_BATCH).arg("BLOCK").arg(millis(wait));
        read.arg("STREAMS").arg(keys::inbox(me)).arg(position.as_deref().unwrap_or("0-0"));
        let answer = wire.query(&read, wait).await?;
        let asked = Instant::now();
        let now = wire.query(&redis::cmd("TIME"), Duration::ZERO).await?;
        let (seconds, micros): (u64, u64) =
            redis::from_redis_value(now).map_err(|e| Error::corrupt("the store's time", e))?;
        let now = Asked { at: asked, now: Moment::from_millis(seconds * 1000 + micros / 1000) };
        let answer: Option<StreamReadReply> =
            redis::from_redis_value(answer).map_err(|e| Error::corrupt("an inbox", e))?;
        let entries: Vec<StreamId> =
            answer.into_iter().flat_map(|a| a.keys).flat_map(|k| k.ids).collect();
        let mut readers = self.readers.lock().await;
        let reader = readers.entry(me.clone()).or_default();
        reader.wire = Some(wire);
        // A rewind in the meantime stands: what was read now will be read again.
        if let Some(last) = entries.last()
            && reader.position == position
        {
            reader.position = Some(last.id.clone());
        }
        drop(readers);
        self.still_live(me, entries, now).await
    }

    async fn rewind(&self, me: &Instance) {
        self.readers.lock().await.remove(me);
    }

    async fn ack(&self, inbox: &Instance, entries: &[EntryId]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut delete = redis::cmd("XDEL");
        delete.arg(keys::inbox(inbox));
        for entry in entries {
            delete.arg(&entry.0);
        }
        self.link.command(&delete).await.map(drop)
    }

    async fn depth(&self, inbox: &Instance) -> Result<usize> {
        let mut length = redis::cmd("XLEN");
        length.arg(keys::inbox(inbox));
        match self.link.command(&length).await? {
            Value::Int(depth) => Ok(usize::try_from(depth).unwrap_or(0)),
            value => Err(Error::corrupt("the depth of an inbox", value)),
        }
    }

    async fn orphans(&self) -> Result<Vec<Instance>> {
        let mut orphans = Vec::new();
        for id in instance_ids(&self.link).await? {
            let alive = peer(&self.link, id.clone()).await?.map(|peer| peer.instance.boot);
            let boots = members(&self.link, keys::boots(&id)).await?;
            if alive.is_none() && boots.is_empty() {
                // Gone without a trace; a name that lives after all is announced again in a moment.
                let mut unlist = redis::cmd("SREM");
                unlist.arg(keys::instances()).arg(id.as_str());
                self.link.command(&unlist).await?;
            }
            for boot in boots {
                let boot = parse_boot(&boot)?;
                if alive != Some(boot) {
                    orphans.push(Instance { id: id.clone(), boot });
                }
            }
        }
        Ok(orphans)
    }

    async fn take_over(
        &self,
        dead: &Instance,
        successor: &Instance,
        ttl: Duration,
    ) -> Result<TakeOver> {
        let keys = [
            keys::presence(&dead.id),
            keys::inbox(dead),
            keys::seen(dead),
            keys::inbox_successor(dead),
            keys::boots(&dead.id),
        ];
        loop {
            let call = self
                .link
                .call(&BUS_TAKE_OVER, keys.clone())?
                .arg(format!("{:016x}", dead.boot))
                .show(successor)
                .arg(checked_ms(ttl)?)
                .arg(RECEIVE_BATCH);
            let asked = Instant::now();
            let mut reply = call.run().await?;
            let (now, list) = match reply.word() {
                "alive" => return Ok(TakeOver::Alive),
                "held" => return Ok(TakeOver::Held),
                "entries" => (reply.moment()?, reply.value()?),
                _ => return Err(reply.unexpected()),
            };
            let range: redis::streams::StreamRangeReply =
                redis::from_redis_value(list).map_err(|e| Error::corrupt("an inbox", e))?;
            let found = range.ids.len();
            let live = self.still_live(dead, range.ids, Asked { at: asked, now }).await?;
            // A batch of nothing but envelopes whose time is over is followed by the next.
            if found == 0 || !live.is_empty() {
                return Ok(TakeOver::Entries(live));
            }
        }
    }
}

impl RedisBus {
    /// Reads the entries, and removes those whose time is over or that are not ours.
    async fn still_live(
        &self,
        inbox: &Instance,
        entries: Vec<StreamId>,
        asked: Asked,
    ) -> Result<Vec<Delivery>> {
        let mut live = Vec::with_capacity(entries.len());
        let mut over = Vec::new();
        for entry in entries {
            match delivery(&entry, asked) {
                Some(delivery) => live.push(delivery),
                None => over.push(EntryId(entry.id)),
            }
        }
        self.ack(inbox, &over).await?;
        Ok(live)
    }
}

/// The store's time, and when it was asked for it.
#[derive(Clone, Copy)]
struct Asked {
    at: Instant,
    now: Moment,
}

fn delivery(entry: &StreamId, asked: Asked) -> Option<Delivery> {
    let not_after = Moment::from_millis(entry.get::<u64>("not_after")?);
    let left = Some(asked.now.until(not_after)).filter(|left| !left.is_zero())?;
    Some(Delivery {
        entry: EntryId(entry.id.clone()),
        id: u128::from_str_radix(&entry.get::<String>("id")?, 16).ok()?,
        from: entry.get::<String>("from")?.parse().ok()?,
        body: entry.get("body")?,
        live_until: asked.at + left,
    })
}
