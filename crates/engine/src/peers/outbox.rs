//! What goes to other instances: one task for each that sends it (the peer sender).
//!
//! Messages for one instance wait in line while an envelope is on its way, and all that wait go into
//! the next: a quiet system sends at once, a busy one many at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::hash::HashMap;
use lingua_protocol::peer::{BodyRef, PeerMessage};
use lingua_store::bus::{Envelope, MAX_ENVELOPE_BYTES, Posting};
use lingua_store::{Backend, Instance};
use parking_lot::RwLock;
use tokio::sync::mpsc;

use super::bodies::{Bodies, Fetch, is_meant};
use super::seal::{self, Route};
use crate::chance::Chance;
use crate::metrics::Metrics;
use crate::secret::Secret;
use crate::tasks;

/// Messages that wait for one sender; one more is refused at once.
const LINE: usize = 4_096;

/// Messages of one envelope.
const BATCH: usize = 64;

/// After so long nobody waits for a message any more: the jobs it is about have looked elsewhere.
pub(crate) const LIVE_FOR: Duration = Duration::from_secs(10);

/// Messages that came back and wait for somebody to deal with them.
const UNDELIVERABLE: usize = 4_096;

/// The way out.
pub(crate) struct Outbox {
    me: Instance,
    store: Backend,
    chance: Chance,
    senders: RwLock<HashMap<Instance, mpsc::Sender<PeerMessage>>>,
    /// Messages in line or in the hands of a sender.
    under_way: AtomicUsize,
    /// Where other instances live.
    addresses: RwLock<HashMap<Instance, String>>,
    pub(crate) bodies: Bodies,
    secret: Secret,
    fetch: OnceLock<Arc<dyn Fetch>>,
    undeliverable: mpsc::Sender<Undelivered>,
    metrics: Arc<Metrics>,
}

/// A message could not be sent.
#[derive(Debug)]
pub(crate) struct NotQueued;

/// What comes back from the way out.
pub(crate) enum Undelivered {
    /// A message that could not be delivered.
    Word(PeerMessage),
    /// An instance is no longer there.
    Gone,
}

/// What comes back.
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

    /// Puts a message in line for an instance.
    pub fn send(self: &Arc<Self>, to: &Instance, word: PeerMessage) -> Result<(), NotQueued> {
        let known = self.senders.read().get(to).cloned();
        let sender = known.unwrap_or_else(|| self.sender(to));
        self.under_way.fetch_add(1, Ordering::Relaxed);
        sender.try_send(word).map_err(|_| {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            NotQueued
        })
    }

    /// Whether every message has been delivered, or has come back.
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

    /// Who is alive, and where. Couriers of others end.
    pub fn set_peers(&self, peers: HashMap<Instance, String>) {
        self.senders.write().retain(|instance, _| peers.contains_key(instance));
        *self.addresses.write() = peers;
    }

    /// Everybody else that is alive.
    pub fn peers(&self) -> Vec<(Instance, String)> {
        let addresses = self.addresses.read();
        addresses.iter().map(|(instance, address)| (instance.clone(), address.clone())).collect()
    }

    /// Whether an instance is known to be alive.
    pub fn is_alive(&self, instance: &Instance) -> bool {
        self.addresses.read().contains_key(instance)
    }

    fn sender(self: &Arc<Self>, to: &Instance) -> mpsc::Sender<PeerMessage> {
        let mut senders = self.senders.write();
        if let Some(sender) = senders.get(to) {
            return sender.clone();
        }
        let (sender, words) = mpsc::channel(LINE);
        senders.insert(to.clone(), sender.clone());
        tasks::spawn("peer sender", Arc::clone(self).deliver(to.clone(), words));
        sender
    }

    async fn deliver(self: Arc<Self>, to: Instance, mut line: mpsc::Receiver<PeerMessage>) {
        let mut words = Vec::with_capacity(BATCH);
        while line.recv_many(&mut words, BATCH).await > 0 {
            let mut envelope = Writing::default();
            for word in words.drain(..) {
                let text = serde_json::to_vec(&word).expect("words are always JSON");
                if !envelope.has_room(text.len()) {
                    self.deliver_one(&to, std::mem::take(&mut envelope)).await;
                }
                envelope.add(&text, word);
            }
            self.deliver_one(&to, envelope).await;
        }
    }

    async fn deliver_one(&self, to: &Instance, written: Writing) {
        let Writing { mut body, words } = written;
        body.push(b']');
        let id = self.chance.nonce();
        seal::seal(&self.secret, &Route { id, from: &self.me, to }, &mut body);
        let envelope = Envelope { id, from: self.me.clone(), body, live_for: LIVE_FOR };
        let sent = self.store.bus.send(to, &envelope).await;
        self.under_way.fetch_sub(words.len(), Ordering::Relaxed);
        match sent {
            Ok(Posting::Posted) => return self.metrics.bus_sent(words.len() as u64),
            Ok(Posting::Gone) => {
                tracing::debug!(instance.id = %to.id, "an instance is gone");
                // Heard of a moment before the next look at who is there.
                if self.addresses.write().remove(to).is_some() {
                    let _ = self.undeliverable.try_send(Undelivered::Gone);
                }
            }
            Ok(Posting::Full) => {
                tracing::warn!(instance.id = %to.id, "the inbox of an instance is full")
            }
            Err(error) => tracing::debug!(instance.id = %to.id, %error, "words were not delivered"),
        }
        for word in words {
            self.metrics.bus_bounced();
            // Whoever waits for it hears of it, or gives up by itself.
            let _ = self.undeliverable.try_send(Undelivered::Word(word));
        }
    }
}

/// An envelope in the making. A message alone always fits: bodies do not go along, and everything else
/// is bounded at the edge.
#[derive(Default)]
struct Writing {
    body: Vec<u8>,
    words: Vec<PeerMessage>,
}

impl Writing {
    fn has_room(&self, bytes: usize) -> bool {
        self.words.is_empty() || self.body.len() + bytes + 2 + seal::BYTES <= MAX_ENVELOPE_BYTES
    }

    fn add(&mut self, text: &[u8], word: PeerMessage) {
        let before: &[u8] = if self.words.is_empty() { b"{\"words\":[" } else { b"," };
        self.body.extend_from_slice(before);
        self.body.extend_from_slice(text);
        self.words.push(word);
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
