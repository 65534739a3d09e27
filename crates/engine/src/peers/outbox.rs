//! Messages to other instances: one task for each instance sends them (the peer sender, in `sender`).
//!
//! Messages for one instance are queued while an envelope is on its way, and all that are queued go into the next:
//! a quiet system sends at once, a busy one many at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::hash::HashMap;
use lingua_protocol::peer::{BodyRef, PeerMessage};
use lingua_store::{Backend, Instance};
use parking_lot::RwLock;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::bodies::{Bodies, Fetch, is_meant};
use super::freed::FreedSlotNews;
use super::sender::Queued;
use crate::chance::Chance;
use crate::metrics::Metrics;
use crate::secret::Secret;
use crate::tasks;

/// Messages in the queue of one sender; one more is refused at once.
const QUEUE: usize = 4_096;

/// After so long a message is too late: the job that it is about has tried another node.
pub(crate) const LIVE_FOR: Duration = Duration::from_secs(10);

/// Undeliverable messages that wait to be handled.
const UNDELIVERABLE: usize = 4_096;

/// Sends messages to other instances.
pub(crate) struct Outbox {
    pub(super) me: Instance,
    pub(super) store: Backend,
    pub(super) chance: Chance,
    senders: RwLock<HashMap<Instance, mpsc::Sender<Queued>>>,
    /// Messages that are queued or in the hands of a sender.
    pub(super) under_way: AtomicUsize,
    /// The addresses of the other instances that are alive.
    pub(super) addresses: RwLock<HashMap<Instance, String>>,
    pub(crate) bodies: Bodies,
    pub(super) freed: FreedSlotNews,
    pub(super) secret: Secret,
    fetch: OnceLock<Arc<dyn Fetch>>,
    pub(super) undeliverable: mpsc::Sender<Undelivered>,
    pub(super) metrics: Arc<Metrics>,
}

/// A message could not be sent.
#[derive(Debug)]
pub(crate) struct NotQueued;

/// What a sender returns.
pub(crate) enum Undelivered {
    /// A message that could not be delivered to this instance.
    Message(Instance, Box<PeerMessage>),
    /// An instance is no longer there.
    Gone,
}

/// Undeliverable messages.
pub(crate) type Undeliverable = mpsc::Receiver<Undelivered>;

impl Outbox {
    pub fn new(
        me: Instance,
        store: Backend,
        chance: Chance,
        metrics: Arc<Metrics>,
        secret: Secret,
    ) -> (Arc<Self>, Undeliverable) {
        let (undeliverable, returned) = mpsc::channel(UNDELIVERABLE);
        let outbox = Outbox {
            me,
            store,
            chance,
            senders: RwLock::default(),
            under_way: AtomicUsize::new(0),
            addresses: RwLock::default(),
            bodies: Bodies::new(secret.clone()),
            freed: FreedSlotNews::default(),
            secret,
            fetch: OnceLock::new(),
            undeliverable,
            metrics,
        };
        (Arc::new(outbox), returned)
    }

    pub fn set_fetch(&self, fetch: Arc<dyn Fetch>) {
        let _ = self.fetch.set(fetch);
    }

    /// Queues a message for an instance.
    pub fn send(self: &Arc<Self>, to: &Instance, message: PeerMessage) -> Result<(), NotQueued> {
        let known = self.senders.read().get(to).cloned();
        let sender = known.unwrap_or_else(|| self.sender(to));
        self.under_way.fetch_add(1, Ordering::Relaxed);
        sender.try_send(Queued { message, since: Instant::now() }).map_err(|_| {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            NotQueued
        })
    }

    /// Whether every message has been delivered or returned as undeliverable.
    pub fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }

    /// Keeps a body for another instance to fetch.
    pub fn put_body(&self, body: Bytes) -> BodyRef {
        self.bodies.keep(body, &self.chance)
    }

    /// Fetches a body that another instance keeps.
    pub async fn fetch_body(&self, from: &Instance, body: &BodyRef) -> Result<Bytes, String> {
        let address = self.addresses.read().get(from).cloned();
        let address = address.ok_or_else(|| format!("nobody knows where {from} is"))?;
        let fetch = self.fetch.get().ok_or("this instance has no way to others")?;
        let fetched = fetch.fetch(from.clone(), address, body.name.clone()).await?;
        match is_meant(body, &fetched, &self.secret) {
            true => Ok(fetched),
            false => Err("what came is not what was promised".to_owned()),
        }
    }

    /// Sets which instances are alive, with their addresses. The senders to others end.
    pub fn set_peers(&self, peers: HashMap<Instance, String>) {
        self.senders.write().retain(|instance, _| peers.contains_key(instance));
        self.freed.retain(|instance| peers.contains_key(instance));
        *self.addresses.write() = peers;
    }

    /// The other instances that are alive.
    pub fn peers(&self) -> Vec<(Instance, String)> {
        let addresses = self.addresses.read();
        addresses.iter().map(|(instance, address)| (instance.clone(), address.clone())).collect()
    }

    /// Whether an instance is known to be alive.
    pub fn is_alive(&self, instance: &Instance) -> bool {
        self.addresses.read().contains_key(instance)
    }

    fn sender(self: &Arc<Self>, to: &Instance) -> mpsc::Sender<Queued> {
        let mut senders = self.senders.write();
        if let Some(sender) = senders.get(to) {
            return sender.clone();
        }
        let (sender, messages) = mpsc::channel(QUEUE);
        senders.insert(to.clone(), sender.clone());
        tasks::spawn("peer sender", Arc::clone(self).deliver(to.clone(), messages));
        sender
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use lingua_store::Clock;
    use lingua_store::memory::MemoryStore;

    use super::*;

    /// Whoever it is that answers.
    struct Answers(&'static [u8]);

    impl Fetch for Answers {
        fn fetch(
            &self,
            _from: Instance,
            _address: String,
            _name: String,
        ) -> Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>> {
            let answer = Bytes::from_static(self.0);
            Box::pin(async move { Ok(answer) })
        }
    }

    #[tokio::test]
    async fn what_comes_from_another_instance_is_used_if_it_is_what_was_promised() {
        let instance = |id: &str| Instance { id: id.parse().unwrap(), boot: 1 };
        let outbox = |answer: &'static [u8]| {
            let store = MemoryStore::open(Clock::system());
            let (metrics, secret) = (Arc::default(), Secret::from_seed(b"ours"));
            let (outbox, _) = Outbox::new(instance("a"), store, Chance::system(), metrics, secret);
            outbox.set_fetch(Arc::new(Answers(answer)));
            outbox.set_peers([(instance("b"), "http://b".to_owned())].into_iter().collect());
            outbox
        };
        let promised = outbox(b"").put_body(Bytes::from_static(b"said"));
        let honest = outbox(b"said").fetch_body(&instance("b"), &promised).await;
        assert_eq!(honest.as_deref(), Ok(&b"said"[..]));
        for answer in [&b"lied"[..], b"", b"said and more"] {
            assert!(outbox(answer).fetch_body(&instance("b"), &promised).await.is_err());
        }
    }
}
