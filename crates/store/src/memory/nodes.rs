//! Who is there and what they can do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::limits::MAX_SLOTS;
use lingua_core::node::{Health, NodeProfile};
use lingua_core::planted::{self, Flaw};
use lingua_core::slots::{Leases, SPENT_RETENTION};
use lingua_core::{ModelId, Moment, NodeId};

use super::expiring::{Ends, SWEPT_PER_WRITE};
use super::feed::Feed;
use super::prehashed::Prehashed;
use super::sharded::Sharded;
use super::{MemoryStore, next_epoch};
use crate::error::{Error, Result, checked_ms};
use crate::instance::Instance;
use crate::journal::{Kind, NEVER};
use crate::nodes::{
    Beat, BeatReply, Changes, Claim, FeedCursor, Fenced, MAX_GAPS_PER_NODE, NODE_SHARDS, NodeFeed,
    NodeOrders, NodeRecord, NodeRecords, Order, ProfileVersion, Put, Registration, Vitals,
};

mod kept;

pub(super) use kept::Profiles;

/// All nodes with their leases. A shard's lock covers a node's record and its leases, so that a
/// grant and the record it was decided on are one step; and a node can be forgotten without anybody
/// still holding it.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) shards: Sharded<Shard, { NODE_SHARDS as usize }>,
    pub(super) feed: Feed,
}

/// A share of the nodes.
#[derive(Clone, Default)]
pub(super) struct Shard {
    pub(super) nodes: Prehashed<NodeId, Node>,
    /// Nodes that began without a record, to be looked at again.
    unrecorded: Ends<(u64, NodeId)>,
}

/// A node: its record, if it has one, and what it holds.
#[derive(Clone, Default)]
pub(super) struct Node {
    pub(super) record: Option<Record>,
    pub(super) leases: Leases,
    /// Missing models, each until when, sorted.
    gaps: Vec<(ModelId, Moment)>,
    /// When a token was last spent here.
    pub(super) spent_at: Moment,
    /// What an administrator wants of it.
    order: Order,
}

/// What [`NodeRecord`] tells, and whether the node may have grants.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) epoch: u64,
    owner: Instance,
    /// Shared, so that it is copied for a reader outside the lock.
    profile: Arc<NodeProfile>,
    pub(super) version: ProfileVersion,
    pub(super) max: u32,
    pub(super) health: Health,
    pub(super) overloaded: bool,
    pub(super) fresh_until: Moment,
    /// The leases are known to be complete.
    pub(super) confirmed: bool,
    /// After a loss: no grants until then.
    pub(super) hold_until: Moment,
}

impl Shard {
    /// The node to spend a token on, also one without a record: it is kept for as long as the mark.
    pub(super) fn spending(&mut self, now: Moment, hash: u64, id: &NodeId) -> &mut Node {
        self.sweep(now);
        let node = self.nodes.get_or_insert_with(hash, id, || {
            self.unrecorded.push(now, now + SPENT_RETENTION, (hash, id.clone()));
            Node::default()
        });
        node.spent_at = now;
        node
    }

    /// Forgets a few nodes that have no record and whose marks are over.
    fn sweep(&mut self, now: Moment) {
        for _ in 0..SWEPT_PER_WRITE {
            let Some((hash, id)) = self.unrecorded.pop(now) else { return };
            let known = self.nodes.get(hash, &id);
            match known.map(|node| (&node.record, node.spent_at + SPENT_RETENTION)) {
                Some((None, end)) if end > now => self.unrecorded.push(now, end, (hash, id)),
                Some((None, _)) if known.is_some_and(|node| node.order == Order::Serve) => {
                    self.nodes.remove(hash, &id);
                }
                // With a record it is forgotten by `forget` alone, and an order outlives both.
                Some(_) | None => {}
            }
        }
    }

    fn record(&mut self, hash: u64, node: &NodeId) -> Option<&mut Record> {
        self.nodes.get_mut(hash, node)?.record.as_mut()
    }
}

impl Node {
    /// Whether one of the models is missing.
    pub(super) fn misses(&self, now: Moment, models: &[ModelId]) -> bool {
        self.gaps.iter().any(|(model, until)| *until > now && models.contains(model))
    }

    fn note_gap(&mut self, now: Moment, model: &ModelId, until: Moment) {
        self.gaps.retain(|(_, until)| *until > now);
        match self.gaps.binary_search_by(|(known, _)| known.cmp(model)) {
            Ok(i) => self.gaps[i].1 = self.gaps[i].1.max(until),
            Err(i) => self.gaps.insert(i, (model.clone(), until)),
        }
        if self.gaps.len() > MAX_GAPS_PER_NODE
            && let Some((i, _)) = self.gaps.iter().enumerate().min_by_key(|(_, gap)| gap.1)
        {
            self.gaps.remove(i);
        }
    }

    /// What a reader is told, still to be completed outside the lock.
    fn read(&self, now: Moment) -> Option<Reading> {
        let record = self.record.clone()?;
        let gaps = self.gaps.iter().filter(|(_, until)| *until > now).cloned().collect();
        Some(Reading { record, gaps, order: self.order, at: now })
    }

    /// Writes the record in the name of its claim; leases, gaps and what is confirmed stay.
    fn put(
        &mut self,
        now: Moment,
        registration: &Registration,
        profile: Arc<NodeProfile>,
        version: ProfileVersion,
    ) -> Put {
        let Registration { claim, owner, vitals, known, .. } = registration;
        let previous = self.record.as_ref();
        let (epoch, replaced) = match (claim, previous) {
            (Claim::Newest, _) => {
                let other = previous.filter(|record| record.owner != *owner);
                let replaced = other.map(|record| record.owner.clone());
                (next_epoch(previous.map(|record| record.epoch), now), replaced)
            }
            (Claim::Again(epoch), Some(record)) if record.epoch > *epoch => {
                return Put::Superseded { epoch: record.epoch };
            }
            (Claim::Again(epoch), _) => (*epoch, None),
        };
        if planted::on(Flaw::RegistrationFreesSlots) {
            self.leases = Leases::default();
        }
        self.record = Some(Record {
            epoch,
            owner: owner.clone(),
            profile,
            version,
            max: vitals.max,
            health: vitals.health,
            overloaded: vitals.overloaded,
            fresh_until: now + vitals.fresh_for,
            confirmed: previous.map_or(!known, |record| record.confirmed),
            hold_until: previous.map_or(Moment::ZERO, |record| record.hold_until),
        });
        Put::Stored { epoch, replaced }
    }
}

impl Record {
    /// Says whether something changed that others decide by.
    fn beat(&mut self, now: Moment, vitals: &Vitals) -> bool {
        let before = (self.max, self.health, self.overloaded);
        self.max = vitals.max;
        self.health = vitals.health;
        self.overloaded = vitals.overloaded;
        self.fresh_until = now + vitals.fresh_for;
        before != (self.max, self.health, self.overloaded)
    }
}

/// What is read under the lock, to be told outside of it.
struct Reading {
    record: Record,
    gaps: Vec<(ModelId, Moment)>,
    order: Order,
    at: Moment,
}

impl Reading {
    fn tell(self, node: NodeId) -> NodeRecord {
        let Reading { record, gaps, order, at } = self;
        NodeRecord {
            node,
            epoch: record.epoch,
            owner: record.owner,
            profile: NodeProfile::clone(&record.profile),
            version: record.version,
            max: record.max,
            health: record.health,
            overloaded: record.overloaded,
            fresh_until: record.fresh_until,
            gaps,
            order,
            read_at: at,
        }
    }
}

fn checked(vitals: &Vitals) -> Result<()> {
    checked_ms(vitals.fresh_for)?;
    if !(1..=MAX_SLOTS).contains(&vitals.max) {
        return Err(Error::Invalid("a node has from 1 to 256 slots"));
    }
    Ok(())
}

#[async_trait]
impl NodeRecords for MemoryStore {
    async fn put(&self, node: &NodeId, registration: &Registration) -> Result<Put> {
        checked(&registration.vitals)?;
        let version = ProfileVersion::of(&registration.profile);
        let profile = Arc::new(registration.profile.clone());
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        let known = shard.nodes.get_or_insert_with(hash, node, Node::default);
        let put = known.put(now, registration, profile, version);
        if matches!(put, Put::Stored { .. }) {
            self.note(|journal| {
                journal.note(Kind::Profile, &[node.as_str()], NEVER, &registration.profile);
                known.note(journal, node);
            });
            self.nodes.feed.push(node);
        }
        drop(shard);
        self.kept(put)
    }

    async fn beat(&self, node: &NodeId, beat: &Beat) -> Result<BeatReply> {
        checked(&beat.vitals)?;
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        let Some(record) = shard.record(hash, node) else { return Ok(BeatReply::PutAgain) };
        let old = record.epoch > beat.epoch && !planted::on(Flaw::SupersededInstanceBeats);
        if old {
            return Ok(BeatReply::Superseded { epoch: record.epoch });
        }
        if record.epoch < beat.epoch || record.version != beat.version {
            return Ok(BeatReply::PutAgain);
        }
        if record.beat(now, &beat.vitals) {
            self.nodes.feed.push(node);
        }
        self.note(|journal| record.note(journal, node));
        let confirmed = record.confirmed;
        drop(shard);
        self.kept(BeatReply::Kept { confirmed })
    }

    async fn offline(&self, node: &NodeId, epoch: u64) -> Result<Fenced> {
        self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        let fenced = match shard.record(hash, node) {
            Some(record) if record.epoch > epoch => Fenced::Superseded { epoch: record.epoch },
            Some(record) if record.epoch == epoch => {
                record.health = Health::Offline;
                self.note(|journal| record.note(journal, node));
                self.nodes.feed.push(node);
                Fenced::Done
            }
            _ => Fenced::Unknown,
        };
        drop(shard);
        self.kept(fenced)
    }

    async fn forget(&self, node: &NodeId, unseen_for: Duration) -> Result<bool> {
        checked_ms(unseen_for)?;
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        let Some(known) = shard.nodes.get(hash, node) else { return Ok(false) };
        let unseen = known.record.as_ref().is_some_and(|r| r.fresh_until + unseen_for <= now);
        if !unseen || known.leases.usage(now).used() > 0 {
            return Ok(false);
        }
        if known.order == Order::Serve {
            shard.nodes.remove(hash, node);
        } else if let Some(known) = shard.nodes.get_mut(hash, node) {
            // The order outlives the record.
            *known = Node { order: known.order, ..Node::default() };
        }
        self.note(|journal| {
            for kind in [Kind::Profile, Kind::Node, Kind::Gaps] {
                journal.note_end(kind, &[node.as_str()]);
            }
        });
        self.nodes.feed.push(node);
        drop(shard);
        self.kept(true)
    }

    async fn note_gap(&self, node: &NodeId, model: &ModelId, lasting: Duration) -> Result<()> {
        checked_ms(lasting)?;
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        if let Some(known) = shard.nodes.get_mut(hash, node).filter(|known| known.record.is_some())
        {
            known.note_gap(now, model, now + lasting);
            self.note(|journal| {
                let last = known.gaps.iter().map(|(_, until)| *until).max().unwrap_or(now);
                journal.note(Kind::Gaps, &[node.as_str()], last, &known.gaps);
            });
            self.nodes.feed.push(node);
        }
        drop(shard);
        self.kept(())
    }

    async fn get(&self, node: &NodeId) -> Result<Option<NodeRecord>> {
        let now = self.clock.now();
        let (hash, shard) = self.nodes.shards.of(node);
        let read = shard.nodes.get(hash, node).and_then(|known| known.read(now));
        drop(shard);
        Ok(read.map(|read| read.tell(node.clone())))
    }
}

#[async_trait]
impl NodeFeed for MemoryStore {
    async fn shard(&self, shard: u32) -> Result<Vec<NodeRecord>> {
        let now = self.clock.now();
        let wrong = Error::Invalid("there are 64 shards of nodes");
        let shard = self.nodes.shards.at(shard as usize).ok_or(wrong)?;
        let known = shard.nodes.iter();
        let read: Vec<_> =
            known.filter_map(|(id, known)| Some((id.clone(), known.read(now)?))).collect();
        drop(shard);
        Ok(read.into_iter().map(|(id, read)| read.tell(id)).collect())
    }

    async fn changes(&self, cursor: Option<&FeedCursor>, wait: Duration) -> Result<Changes> {
        Ok(self.nodes.feed.after(cursor, wait).await)
    }
}

#[async_trait]
impl NodeOrders for MemoryStore {
    async fn set(&self, node: &NodeId, order: Order) -> Result<bool> {
        self.change()?;
        {
            let (hash, mut shard) = self.nodes.shards.of(node);
            let Some(known) = shard.nodes.get_mut(hash, node) else { return Ok(false) };
            if known.record.is_none() && known.order == Order::Serve {
                return Ok(false);
            }
            known.order = order;
            self.note(|journal| match order {
                Order::Serve => journal.note_end(Kind::Order, &[node.as_str()]),
                _ => journal.note_bytes(
                    Kind::Order,
                    &[node.as_str()],
                    NEVER,
                    order.as_str().as_bytes(),
                ),
            });
            self.nodes.feed.push(node);
        }
        self.kept_on_disk(true).await
    }

    async fn get(&self, node: &NodeId) -> Result<Order> {
        let (hash, shard) = self.nodes.shards.of(node);
        Ok(shard.nodes.get(hash, node).map(|known| known.order).unwrap_or_default())
    }
}

#[cfg(test)]
impl Nodes {
    /// Nodes that take room, with a record or without.
    pub(super) fn size(&self) -> usize {
        (0..NODE_SHARDS as usize).filter_map(|n| Some(self.shards.at(n)?.nodes.len())).sum()
    }
}
