//! Node records, their feed and orders, on Redis.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use lingua_core::limits::MAX_SLOTS;
use lingua_core::node::Health;
use lingua_core::slots::SPENT_RETENTION;
use lingua_core::time::millis;
use lingua_core::{ModelId, Moment, NodeId};
use parking_lot::Mutex;
use redis::Value;
use redis::streams::{StreamRangeReply, StreamReadReply};

use super::connection::{Link, OwnWire};
use super::keys;
use super::reply::{Reply, text};
use super::scripts::{NODE_BEAT, NODE_FORGET, NODE_GAP, NODE_OFFLINE, NODE_PUT, NODE_READ};
use crate::error::{Error, Result, checked_ms};
use crate::nodes::{
    Beat, BeatReply, Changes, Claim, FeedCursor, Fenced, MAX_GAPS_PER_NODE, NODE_SHARDS, NodeFeed,
    NodeOrders, NodeRecord, NodeRecords, Order, Put, Registration,
};

/// Changes kept for readers that lag; who lags further reads everything again.
const FEED_LENGTH: usize = 10_000;

/// Changes read at once.
const FEED_BATCH: usize = 1_000;

/// Spent and lapsed tokens forgotten by one heartbeat, so that it stays short.
const FORGET_AT_ONCE: usize = 1_024;

/// Records read at the same time in a resync.
const READS_AT_ONCE: usize = 64;

pub(super) struct RedisNodes {
    pub(super) link: Link,
    /// The feed's own connection: reading it blocks.
    feed: Mutex<Option<OwnWire>>,
}

impl RedisNodes {
    pub(super) fn new(link: Link) -> Self {
        RedisNodes { link, feed: Mutex::new(None) }
    }

    /// Tells the feed that a node changed. The record is the truth and a resync heals a lost hint,
    /// so a failure here is not a failure of the step.
    async fn announce(&self, node: &NodeId) {
        let mut add = redis::cmd("XADD");
        add.arg(keys::fleet()).arg("MAXLEN").arg("~").arg(FEED_LENGTH).arg("*");
        add.arg("node").arg(node.as_str());
        if let Err(error) = self.link.command(&add).await {
            tracing::debug!(%error, node.id = %node, "a change was not announced");
        }
    }

    async fn list(&self, verb: &str, node: &NodeId) -> Result<()> {
        let mut cmd = redis::cmd(verb);
        cmd.arg(keys::nodes(keys::node_shard(node))).arg(node.as_str());
        self.link.command(&cmd).await.map(drop)
    }
}

impl RedisNodes {
    /// Takes a node without a record off the list.
    async fn unlist(&self, node: &NodeId) -> Result<()> {
        self.list("SREM", node).await?;
        // It may have registered between the two steps; then it belongs on the list.
        match NodeRecords::get(self, node).await? {
            Some(_) => self.list("SADD", node).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl NodeRecords for RedisNodes {
    async fn put(&self, node: &NodeId, registration: &Registration) -> Result<Put> {
        let Registration { claim, owner, profile, vitals, known } = registration;
        if !(1..=MAX_SLOTS).contains(&vitals.max) {
            return Err(Error::Invalid("a node has from 1 to 256 slots"));
        }
        let (claim, epoch) = match claim {
            Claim::Newest => ("newest", 0),
            Claim::Again(epoch) => ("again", *epoch),
        };
        let json = serde_json::to_vec(profile).expect("a profile has only string keys");
        let call = self
            .link
            .call(&NODE_PUT, [keys::node_record(node)])?
            .arg(claim)
            .arg(epoch)
            .show(owner)
            .arg(json)
            .show(crate::nodes::ProfileVersion::of(profile))
            .arg(vitals.max)
            .arg(vitals.health.as_str())
            .flag(vitals.overloaded)
            .arg(checked_ms(vitals.fresh_for)?)
            .flag(*known);
        // On the list first: an id without a record is skipped, a record without an id is lost.
        self.list("SADD", node).await?;
        let mut reply = call.run().await?;
        match reply.word() {
            "stored" => {
                let epoch = reply.number()?;
                let before = reply.optional()?;
                if before.is_none() {
                    // Somebody may have found the id without a record and taken it off meanwhile.
                    self.list("SADD", node).await?;
                }
                self.announce(node).await;
                Ok(Put::Stored { epoch, replaced: before.filter(|before| before != owner) })
            }
            "superseded" => Ok(Put::Superseded { epoch: reply.number()? }),
            _ => Err(reply.unexpected()),
        }
    }

    async fn beat(&self, node: &NodeId, beat: &Beat) -> Result<BeatReply> {
        let vitals = &beat.vitals;
        if !(1..=MAX_SLOTS).contains(&vitals.max) {
            return Err(Error::Invalid("a node has from 1 to 256 slots"));
        }
        let keys = [keys::node_record(node), keys::node_leases(node)];
        let call = self
            .link
            .call(&NODE_BEAT, keys)?
            .arg(beat.epoch)
            .show(beat.version)
            .arg(vitals.max)
            .arg(vitals.health.as_str())
            .flag(vitals.overloaded)
            .arg(checked_ms(vitals.fresh_for)?)
            .arg(millis(SPENT_RETENTION))
            .arg(FORGET_AT_ONCE as u64);
        let mut reply = call.run().await?;
        match reply.word() {
            "kept" => {
                let (changed, confirmed) = (reply.number()? == 1, reply.number()? == 1);
                if changed {
                    self.announce(node).await;
                }
                Ok(BeatReply::Kept { confirmed })
            }
            "put_again" => Ok(BeatReply::PutAgain),
            "superseded" => Ok(BeatReply::Superseded { epoch: reply.number()? }),
            _ => Err(reply.unexpected()),
        }
    }

    async fn offline(&self, node: &NodeId, epoch: u64) -> Result<Fenced> {
        let call = self.link.call(&NODE_OFFLINE, [keys::node_record(node)])?.arg(epoch);
        let fenced = call.run().await?.fenced()?;
        if fenced == Fenced::Done {
            self.announce(node).await;
        }
        Ok(fenced)
    }

    async fn forget(&self, node: &NodeId, unseen_for: Duration) -> Result<bool> {
        let keys = [keys::node_record(node), keys::node_leases(node), keys::node_gaps(node)];
        let call = self.link.call(&NODE_FORGET, keys)?.arg(checked_ms(unseen_for)?);
        let reply = call.run().await?;
        match reply.word() {
            "forgotten" => {
                self.unlist(node).await?;
                self.announce(node).await;
                Ok(true)
            }
            "unknown" => self.unlist(node).await.map(|()| false),
            "kept" => Ok(false),
            _ => Err(reply.unexpected()),
        }
    }

    async fn note_gap(&self, node: &NodeId, model: &ModelId, lasting: Duration) -> Result<()> {
        let keys = [keys::node_record(node), keys::node_gaps(node)];
        let call = self
            .link
            .call(&NODE_GAP, keys)?
            .show(model)
            .arg(checked_ms(lasting)?)
            .arg(MAX_GAPS_PER_NODE as u64);
        let reply = call.run().await?;
        match reply.word() {
            "noted" => {
                self.announce(node).await;
                Ok(())
            }
            "unknown" => Ok(()),
            _ => Err(reply.unexpected()),
        }
    }

    async fn get(&self, node: &NodeId) -> Result<Option<NodeRecord>> {
        let keys = [keys::node_record(node), keys::node_gaps(node), keys::node_order(node)];
        let reply = self.link.call(&NODE_READ, keys)?.run().await?;
        match reply.word() {
            "record" => record(node, reply).map(Some),
            "unknown" => Ok(None),
            _ => Err(reply.unexpected()),
        }
    }
}

#[async_trait]
impl NodeFeed for RedisNodes {
    async fn shard(&self, shard: u32) -> Result<Vec<NodeRecord>> {
        if shard >= NODE_SHARDS {
            return Err(Error::Invalid("there are 64 shards of nodes"));
        }
        let mut members = redis::cmd("SMEMBERS");
        members.arg(keys::nodes(shard));
        let ids = match self.link.command(&members).await? {
            Value::Array(ids) | Value::Set(ids) => ids,
            value => return Err(Error::corrupt("the list of nodes", value)),
        };
        let read = |id| async move {
            let id = text("the list of nodes", id)?;
            let node = NodeId::new(&id).map_err(|_| Error::corrupt("the list of nodes", &id))?;
            let record = NodeRecords::get(self, &node).await?;
            if record.is_none() {
                // Whoever listed it died before it wrote the record, or after it forgot it.
                self.unlist(&node).await?;
            }
            Ok(record)
        };
        let records = stream::iter(ids).map(read).buffer_unordered(READS_AT_ONCE);
        records.try_filter_map(|record| async { Ok(record) }).try_collect().await
    }

    async fn changes(&self, cursor: Option<&FeedCursor>, wait: Duration) -> Result<Changes> {
        let Some(cursor) = cursor else {
            let mut last = redis::cmd("XREVRANGE");
            last.arg(keys::fleet()).arg("+").arg("-").arg("COUNT").arg(1);
            let end = entry_ids(self.link.command(&last).await?)?;
            let end = end.into_iter().next().unwrap_or_else(|| "0-0".to_owned());
            return Ok(Changes { nodes: Vec::new(), cursor: FeedCursor(end), resync: true });
        };
        // Taken out while it waits: who else reads the feed does so over another one.
        let wire = self.feed.lock().take().filter(OwnWire::is_current);
        let mut wire = match wire {
            Some(wire) => wire,
            None => self.link.own_wire(MAX_WAIT).await?,
        };
        let wait = wait.clamp(Duration::from_millis(1), MAX_WAIT);
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT").arg(FEED_BATCH).arg("BLOCK").arg(millis(wait));
        read.arg("STREAMS").arg(keys::fleet()).arg(&cursor.0);
        let answer = wire.query(&read, wait).await?;
        *self.feed.lock() = Some(wire);
        let answer: Option<StreamReadReply> =
            redis::from_redis_value(answer).map_err(|e| Error::corrupt("the feed", e))?;
        let entries = answer.into_iter().flat_map(|a| a.keys).flat_map(|k| k.ids);
        let mut changes = Changes { nodes: Vec::new(), cursor: cursor.clone(), resync: false };
        let (mut seen, mut count) = (HashSet::new(), 0);
        for entry in entries {
            count += 1;
            changes.cursor = FeedCursor(entry.id.clone());
            let node = entry.get::<String>("node").and_then(|id| NodeId::new(id).ok());
            changes.nodes.extend(node.filter(|node| seen.insert(node.clone())));
        }
        // Only a reader with a whole batch before it can have lagged behind the feed's beginning.
        changes.resync = count == FEED_BATCH && self.lost_since(cursor).await?;
        Ok(changes)
    }
}

#[async_trait]
impl NodeOrders for RedisNodes {
    async fn set(&self, node: &NodeId, order: Order) -> Result<bool> {
        let known = NodeRecords::get(self, node).await?.is_some()
            || NodeOrders::get(self, node).await? != Order::Serve;
        if !known {
            return Ok(false);
        }
        let mut write = match order {
            Order::Serve => redis::cmd("DEL"),
            Order::Drain | Order::Block => redis::cmd("SET"),
        };
        write.arg(keys::node_order(node));
        if order != Order::Serve {
            write.arg(order.as_str());
        }
        self.link.command(&write).await?;
        self.announce(node).await;
        Ok(true)
    }

    async fn get(&self, node: &NodeId) -> Result<Order> {
        let mut read = redis::cmd("GET");
        read.arg(keys::node_order(node));
        match self.link.command(&read).await? {
            Value::Nil => Ok(Order::Serve),
            word => order_of(&text("a node's order", word)?),
        }
    }
}

/// The longest that one read of a stream blocks.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(10);

impl RedisNodes {
    /// Whether the entry that the cursor stands at has been trimmed away.
    async fn lost_since(&self, cursor: &FeedCursor) -> Result<bool> {
        let mut at = redis::cmd("XRANGE");
        at.arg(keys::fleet()).arg(&cursor.0).arg(&cursor.0);
        Ok(entry_ids(self.link.command(&at).await?)?.is_empty())
    }
}

fn entry_ids(answer: Value) -> Result<Vec<String>> {
    let range: StreamRangeReply =
        redis::from_redis_value(answer).map_err(|e| Error::corrupt("the feed", e))?;
    Ok(range.ids.into_iter().map(|entry| entry.id).collect())
}

pub(super) fn record(node: &NodeId, mut reply: Reply) -> Result<NodeRecord> {
    let read_at = reply.moment()?;
    let epoch = reply.number()?;
    let owner = reply.parse()?;
    let json = reply.text()?;
    let profile = serde_json::from_str(&json)
        .map_err(|e| Error::corrupt("a node's profile", e.to_string()))?;
    let version = reply.parse()?;
    let max = reply.small()?;
    let health = reply.text()?;
    let health = Health::parse(&health).ok_or_else(|| Error::corrupt("a node's health", health))?;
    let overloaded = reply.number()? == 1;
    let fresh_until = reply.moment()?;
    let order = order_of(&reply.text()?)?;
    let mut gaps = Vec::new();
    let mut listed = reply.list()?.into_iter();
    while let (Some(model), Some(until)) = (listed.next(), listed.next()) {
        let model = text("a node's gaps", model)?;
        let until = text("a node's gaps", until)?;
        let ms: f64 = until.parse().map_err(|_| Error::corrupt("a node's gaps", &until))?;
        let model = ModelId::new(&model).map_err(|_| Error::corrupt("a node's gaps", &model))?;
        gaps.push((model, Moment::from_millis(ms as u64)));
    }
    gaps.sort_by(|a, b| a.0.cmp(&b.0));
    let node = node.clone();
    Ok(NodeRecord {
        node,
        epoch,
        owner,
        profile,
        version,
        max,
        health,
        overloaded,
        fresh_until,
        gaps,
        order,
        read_at,
    })
}

fn order_of(word: &str) -> Result<Order> {
    Order::parse(word).ok_or_else(|| Error::corrupt("a node's order", word))
}
