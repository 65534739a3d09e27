use std::sync::Arc;

use async_trait::async_trait;
use lingua_store::bus::{Delivery, EntryId, Inboxes, TakeOver};
use lingua_store::memory::MemoryStore;
use lingua_store::{Backend, Clock, Error, Result};
use parking_lot::Mutex;

use super::*;
use crate::chance::Chance;
use crate::peers::outbox::Undeliverable;
use crate::secret::Secret;
use lingua_protocol::peer::{Batch, BodyRef, PeerResult};

/// What a store does with the next envelopes; then it takes them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Nothing, and says so.
    Down,
    /// Takes it, and its answer is lost.
    Unknown,
    Full,
}

struct Flaky {
    inner: Arc<dyn Inboxes>,
    /// Until then it does this.
    does: Mutex<Option<(Instant, Does)>>,
    ids: Mutex<Vec<u128>>,
}

#[async_trait]
impl Inboxes for Flaky {
    async fn send(&self, to: &Instance, envelope: &Envelope) -> Result<Posting> {
        self.ids.lock().push(envelope.id);
        let does = self.does.lock().filter(|(until, _)| *until > Instant::now());
        match does.map(|(_, does)| does) {
            Some(Does::Down) => Err(Error::Down("away".into())),
            Some(Does::Full) => Ok(Posting::Full),
            Some(Does::Unknown) => {
                self.inner.send(to, envelope).await?;
                Err(Error::Unknown("cut off".into()))
            }
            None => self.inner.send(to, envelope).await,
        }
    }

    async fn receive(&self, me: &Instance, wait: Duration) -> Result<Vec<Delivery>> {
        self.inner.receive(me, wait).await
    }

    async fn rewind(&self, me: &Instance) {
        self.inner.rewind(me).await;
    }

    async fn ack(&self, inbox: &Instance, entries: &[EntryId]) -> Result<()> {
        self.inner.ack(inbox, entries).await
    }

    async fn depth(&self, inbox: &Instance) -> Result<usize> {
        self.inner.depth(inbox).await
    }

    async fn orphans(&self) -> Result<Vec<Instance>> {
        self.inner.orphans().await
    }

    async fn take_over(&self, dead: &Instance, heir: &Instance, ttl: Duration) -> Result<TakeOver> {
        self.inner.take_over(dead, heir, ttl).await
    }
}

struct World {
    store: Backend,
    bus: Arc<Flaky>,
    outbox: Arc<Outbox>,
    returned: Undeliverable,
}

fn instance(id: &str) -> Instance {
    Instance { id: id.parse().unwrap(), boot: 1 }
}

/// `a` sends to `b`, on a store that does this for so long.
async fn world(does: Does, lasting: Duration) -> World {
    let mut store = MemoryStore::open(Clock::system());
    store.presence.announce(&instance("b"), "http://b", LIVE_FOR * 100).await.unwrap();
    let bus = Arc::new(Flaky {
        inner: Arc::clone(&store.bus),
        does: Mutex::new(Some((Instant::now() + lasting, does))),
        ids: Mutex::default(),
    });
    store.bus = Arc::clone(&bus) as Arc<dyn Inboxes>;
    let (outbox, returned) = Outbox::new(
        instance("a"),
        store.clone(),
        Chance::system(),
        Arc::default(),
        Secret::from_seed(b"ours"),
    );
    World { store, bus, outbox, returned }
}

fn freed() -> PeerMessage {
    PeerMessage::SlotFreed { node: "n".parse().unwrap() }
}

fn result() -> PeerMessage {
    let body = BodyRef { name: "ff".into(), bytes: 1, digest: None };
    PeerMessage::Job {
        job: "0123456789abcdefghjkmnpqrs".parse().unwrap(),
        node: "n".parse().unwrap(),
        epoch: 1,
        event: PeerEvent::Result { attempt: 1, result: PeerResult::Success { body } },
    }
}

impl World {
    fn send(&self, message: PeerMessage) {
        self.outbox.send(&instance("b"), message).unwrap();
    }

    /// A message that came back.
    fn returned(&mut self) -> Option<Box<PeerMessage>> {
        match self.returned.try_recv() {
            Ok(Undelivered::Message(_, message)) => Some(message),
            _ => None,
        }
    }

    /// The messages that `b` got within this time.
    async fn received(&self, within: Duration) -> Vec<PeerMessage> {
        let until = Instant::now() + within;
        let mut messages = Vec::new();
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !left.is_zero()
        {
            for delivery in self.store.bus.receive(&instance("b"), left).await.unwrap() {
                messages.extend(Batch::read(&delivery.body).unwrap().0);
            }
        }
        messages
    }
}

#[tokio::test(start_paused = true)]
pub(crate) async fn a_message_is_kept_until_the_store_is_back() {
    let world = world(Does::Down, Duration::from_secs(5)).await;
    world.send(freed());
    assert!(world.received(Duration::from_millis(4_900)).await.is_empty());
    assert!(!world.outbox.is_idle());
    assert_eq!(world.received(Duration::from_millis(500)).await.len(), 1);
    assert!(world.outbox.is_idle());
}

#[tokio::test(start_paused = true)]
async fn after_an_answer_that_did_not_come_the_same_envelope_is_posted_again_and_arrives_once() {
    let world = world(Does::Unknown, Duration::from_secs(1)).await;
    world.send(freed());
    assert_eq!(world.received(Duration::from_secs(20)).await.len(), 1);
    let ids = world.bus.ids.lock().clone();
    assert!(ids.len() > 2 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_in_their_order_after_an_outage() {
    let world = world(Does::Down, Duration::from_secs(2)).await;
    for n in 0..200 {
        world.send(PeerMessage::SlotFreed { node: format!("n{n}").parse().unwrap() });
        if n % 50 == 0 {
            sleep(Duration::from_millis(150)).await;
        }
    }
    let names =
        world.received(Duration::from_secs(4)).await.into_iter().map(|message| match message {
            PeerMessage::SlotFreed { node } => node.to_string(),
            _ => panic!("only these were sent"),
        });
    assert_eq!(names.collect::<Vec<_>>(), (0..200).map(|n| format!("n{n}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_is_too_late_comes_back_and_a_result_does_not() {
    let mut world = world(Does::Down, Duration::from_secs(25)).await;
    world.send(freed());
    world.send(result());
    assert!(world.received(Duration::from_secs(24)).await.is_empty());
    assert!(matches!(world.returned().as_deref(), Some(PeerMessage::SlotFreed { .. })));
    let received = world.received(Duration::from_secs(3)).await;
    assert!(matches!(received[..], [PeerMessage::Job { .. }]));
    assert!(world.returned().is_none() && world.outbox.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_nobody_takes_for_a_minute_comes_back() {
    let mut world = world(Does::Down, RESULT_FOR * 2).await;
    world.send(result());
    sleep(RESULT_FOR + LIVE_FOR).await;
    assert!(matches!(world.returned().as_deref(), Some(PeerMessage::Job { .. })));
    assert!(world.outbox.is_idle());
}

/// An older message must not look new to who reads how old its envelope is.
#[tokio::test(start_paused = true)]
async fn an_envelope_lives_no_longer_than_its_oldest_message() {
    let world = world(Does::Down, Duration::from_secs(3)).await;
    let first = Instant::now();
    world.send(freed());
    sleep(Duration::from_secs(1)).await;
    let second = Instant::now();
    world.send(freed());
    sleep(Duration::from_secs(3)).await;
    let got = world.store.bus.receive(&instance("b"), Duration::ZERO).await.unwrap();
    let ends: Vec<Instant> = got.iter().map(|delivery| delivery.live_until).collect();
    assert_eq!(ends.len(), 2, "of different age, in two envelopes");
    let slack = Duration::from_millis(10);
    assert!(ends[0] <= first + LIVE_FOR + slack && ends[1] <= second + LIVE_FOR + slack);
}

#[tokio::test(start_paused = true)]
async fn a_full_inbox_returns_what_can_go_elsewhere_and_keeps_the_rest() {
    let mut world = world(Does::Full, Duration::from_secs(2)).await;
    let assign = serde_json::json!({ "assign": {
        "node": "n", "epoch": 1, "job": "0123456789abcdefghjkmnpqrs", "attempt": 1, "token": "00",
        "session": "s", "turn": "t", "deadline_ms": 9, "audio": null,
        "work": serde_json::to_value(lingua_protocol::JobInput::default()).unwrap(),
    } });
    world.send(serde_json::from_value(assign).unwrap());
    world.send(freed());
    sleep(Duration::from_millis(500)).await;
    assert!(matches!(world.returned().as_deref(), Some(PeerMessage::Assign(_))));
    assert_eq!(world.received(Duration::from_secs(3)).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_for_a_full_inbox_for_ever() {
    let mut world = world(Does::Full, RESULT_FOR * 2).await;
    world.send(freed());
    sleep(LIVE_FOR + Duration::from_secs(1)).await;
    assert!(world.returned().is_some());
    assert!(world.outbox.is_idle());
}
