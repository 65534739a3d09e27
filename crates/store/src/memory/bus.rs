//! Which instances are alive, and the messages between them.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::hash::Fast;
use lingua_core::planted::{self, Flaw};
use lingua_core::{InstanceId, Moment};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::expiring::{Expiring, Map};
use super::fork::copied;
use super::{MemoryStore, waiting};
use crate::bus::{
    Delivery, EntryId, Envelope, INBOX_CAPACITY, Inboxes, MAX_ENVELOPE_BYTES, Posting,
    RECEIVE_BATCH, TakeOver,
};
use crate::error::{Error, Result, checked_ms};
use crate::instance::Instance;
use crate::presence::{Announce, Peer, Presence, check_address};

/// One lock for all inboxes: that an instance lives and what is in its inbox belong together, and
/// bodies are copied outside of it.
#[derive(Default)]
pub(super) struct Bus {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Clone, Default)]
struct State {
    alive: Map<InstanceId, Announced>,
    inboxes: Map<Instance, Inbox>,
    /// Of the envelopes' ids.
    hasher: Fast,
    /// The number of the last envelope in any inbox, so that none is ever used twice.
    last: u64,
}

#[derive(Clone)]
struct Announced {
    boot: u64,
    address: String,
    until: Moment,
}

#[derive(Clone, Default)]
struct Inbox {
    envelopes: BTreeMap<u64, StoredEnvelope>,
    /// The last number that was handed to the owner.
    read: u64,
    /// Envelopes that were put here, each for its time.
    seen: Expiring<u128, ()>,
    successor: Option<(Instance, Moment)>,
}

#[derive(Clone)]
struct StoredEnvelope {
    id: u128,
    from: Instance,
    /// Shared, so that it is copied for a reader outside the lock.
    body: Arc<[u8]>,
    not_after: Moment,
}

impl Bus {
    /// The same presences and inboxes once more.
    pub(super) fn copy(&self) -> Self {
        Bus { state: copied(&self.state), news: Notify::new() }
    }
}

impl State {
    fn presence(&self, now: Moment, instance: &Instance) -> Option<&Announced> {
        let presence = self.alive.get(&instance.id)?;
        Some(presence).filter(|p| p.boot == instance.boot && p.until > now)
    }

    fn announce(&mut self, now: Moment, me: &Instance, address: &str, until: Moment) -> Announce {
        self.alive.retain(|_, presence| presence.until > now);
        if let Some(other) = self.alive.get(&me.id).filter(|other| other.boot != me.boot) {
            let lasting = now.until(other.until);
            return Announce::Taken { address: other.address.clone(), lasting };
        }
        let presence = Announced { boot: me.boot, address: address.to_owned(), until };
        self.alive.insert(me.id.clone(), presence);
        self.inboxes.entry(me.clone()).or_default();
        Announce::Announced
    }

    fn send(&mut self, now: Moment, to: &Instance, envelope: StoredEnvelope) -> Posting {
        if self.presence(now, to).is_none() {
            return Posting::Gone;
        }
        let Some(inbox) = self.inboxes.get_mut(to) else { return Posting::Gone };
        let hash = self.hasher.hash_one(envelope.id);
        let seen = inbox.seen.get(now, hash, &envelope.id).is_some();
        if seen && !planted::on(Flaw::EnvelopePostedTwice) {
            return Posting::Posted;
        }
        if inbox.envelopes.len() >= INBOX_CAPACITY {
            return Posting::Full;
        }
        self.last += 1;
        inbox.seen.put(now, hash, envelope.id, (), envelope.not_after);
        inbox.envelopes.insert(self.last, envelope);
        Posting::Posted
    }

    fn take_over(
        &mut self,
        now: Moment,
        dead: &Instance,
        successor: &Instance,
        until: Moment,
    ) -> Option<Vec<(u64, StoredEnvelope)>> {
        let Some(inbox) = self.inboxes.get_mut(dead) else { return Some(Vec::new()) };
        if inbox.successor.as_ref().is_some_and(|(other, held)| other != successor && *held > now) {
            return None;
        }
        inbox.successor = Some((successor.clone(), until));
        let (left, _) = inbox.pick(now, 0);
        if left.is_empty() {
            self.inboxes.remove(dead);
        }
        Some(left)
    }
}

impl Inbox {
    /// A batch of those after number `after`, and the last number looked at. What is over is removed
    /// on the way.
    fn pick(&mut self, now: Moment, after: u64) -> (Vec<(u64, StoredEnvelope)>, u64) {
        let (mut picked, mut over, mut last) = (Vec::new(), Vec::new(), after);
        for (number, envelope) in self.envelopes.range(after + 1..) {
            if picked.len() == RECEIVE_BATCH {
                break;
            }
            last = *number;
            if envelope.not_after > now {
                picked.push((*number, envelope.clone()));
            } else {
                over.push(*number);
            }
        }
        for number in over {
            self.envelopes.remove(&number);
        }
        (picked, last)
    }

    /// What the owner has not been handed yet; `None` if nothing.
    fn receive(&mut self, now: Moment) -> Option<Vec<(u64, StoredEnvelope)>> {
        let (picked, last) = self.pick(now, self.read);
        self.read = last;
        (!picked.is_empty()).then_some(picked)
    }
}

fn deliver(now: Moment, envelopes: Vec<(u64, StoredEnvelope)>) -> Vec<Delivery> {
    let here = Instant::now();
    let deliver = |(number, envelope): (u64, StoredEnvelope)| Delivery {
        entry: EntryId(number.to_string()),
        id: envelope.id,
        from: envelope.from,
        body: envelope.body.to_vec(),
        live_until: here + now.until(envelope.not_after),
    };
    envelopes.into_iter().map(deliver).collect()
}

#[async_trait]
impl Inboxes for MemoryStore {
    async fn send(&self, to: &Instance, envelope: &Envelope) -> Result<Posting> {
        checked_ms(envelope.live_for)?;
        if envelope.body.len() > MAX_ENVELOPE_BYTES {
            return Err(Error::Invalid("an envelope's body has at most 256 KiB"));
        }
        let now = self.clock.now();
        let envelope = StoredEnvelope {
            id: envelope.id,
            from: envelope.from.clone(),
            body: Arc::from(envelope.body.as_slice()),
            not_after: now + envelope.live_for,
        };
        let posting = self.bus.state.lock().send(now, to, envelope);
        if posting == Posting::Posted {
            self.bus.news.notify_waiters();
        }
        Ok(posting)
    }

    async fn receive(&self, me: &Instance, wait: Duration) -> Result<Vec<Delivery>> {
        let look = || {
            let now = self.clock.now();
            let envelopes = self.bus.state.lock().inboxes.get_mut(me)?.receive(now)?;
            Some(deliver(now, envelopes))
        };
        Ok(waiting::within(wait, &self.bus.news, look).await.unwrap_or_default())
    }

    async fn rewind(&self, me: &Instance) {
        if let Some(inbox) = self.bus.state.lock().inboxes.get_mut(me) {
            inbox.read = 0;
        }
    }

    async fn ack(&self, inbox: &Instance, entries: &[EntryId]) -> Result<()> {
        let mut state = self.bus.state.lock();
        if let Some(inbox) = state.inboxes.get_mut(inbox) {
            for number in entries.iter().filter_map(|entry| entry.0.parse().ok()) {
                inbox.envelopes.remove(&number);
            }
        }
        Ok(())
    }

    async fn depth(&self, inbox: &Instance) -> Result<usize> {
        Ok(self.bus.state.lock().inboxes.get(inbox).map_or(0, |inbox| inbox.envelopes.len()))
    }

    async fn orphans(&self) -> Result<Vec<Instance>> {
        let now = self.clock.now();
        let state = self.bus.state.lock();
        let dead = |instance: &&Instance| state.presence(now, instance).is_none();
        Ok(state.inboxes.keys().filter(dead).cloned().collect())
    }

    async fn take_over(
        &self,
        dead: &Instance,
        successor: &Instance,
        ttl: Duration,
    ) -> Result<TakeOver> {
        checked_ms(ttl)?;
        let now = self.clock.now();
        let mut state = self.bus.state.lock();
        if state.presence(now, dead).is_some() {
            return Ok(TakeOver::Alive);
        }
        let left = state.take_over(now, dead, successor, now + ttl);
        drop(state);
        Ok(left.map_or(TakeOver::Held, |left| TakeOver::Entries(deliver(now, left))))
    }
}

#[async_trait]
impl Presence for MemoryStore {
    async fn announce(&self, me: &Instance, address: &str, ttl: Duration) -> Result<Announce> {
        checked_ms(ttl)?;
        check_address(address)?;
        let now = self.clock.now();
        Ok(self.bus.state.lock().announce(now, me, address, now + ttl))
    }

    async fn withdraw(&self, me: &Instance) -> Result<()> {
        let mut state = self.bus.state.lock();
        if state.alive.get(&me.id).is_some_and(|presence| presence.boot == me.boot) {
            state.alive.remove(&me.id);
        }
        Ok(())
    }

    async fn peers(&self) -> Result<Vec<Peer>> {
        let now = self.clock.now();
        let state = self.bus.state.lock();
        let alive = state.alive.iter().filter(|(_, presence)| presence.until > now);
        let peer = |(id, presence): (&InstanceId, &Announced)| Peer {
            instance: Instance { id: id.clone(), boot: presence.boot },
            address: presence.address.clone(),
        };
        Ok(alive.map(peer).collect())
    }
}

#[cfg(test)]
impl Bus {
    /// Presences and inboxes that take room.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.alive.len(), state.inboxes.len())
    }
}
