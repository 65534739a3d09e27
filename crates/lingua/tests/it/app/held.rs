//! A store of which single answers can be held back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lingua_core::slots::{Commit, Usage};
use lingua_core::{LeaseToken, ModelId, Moment, NodeId};
use lingua_store::bus::{Delivery, EntryId, Envelope, Inboxes, Posting, TakeOver};
use lingua_store::nodes::{Beat, BeatReply, Fenced, NodeRecord, NodeRecords, Put, Registration};
use lingua_store::slots::{Confirm, Report, Reserve, SlotLeases, Wish};
use lingua_store::{Backend, Instance, Result};
use tokio::sync::watch;

/// Where calls wait while it is closed.
pub struct Gate(watch::Sender<State>);

#[derive(Default)]
struct State {
    closed: bool,
    waiting: usize,
    /// How many may pass although it is closed.
    let_in: usize,
}

impl Gate {
    pub fn new() -> Arc<Self> {
        Arc::new(Gate(watch::Sender::default()))
    }

    pub fn close(&self) {
        self.0.send_modify(|state| state.closed = true);
    }

    pub fn open(&self) {
        self.0.send_modify(|state| state.closed = false);
    }

    /// Lets one call pass, and stays closed.
    pub fn let_one_in(&self) {
        self.0.send_modify(|state| state.let_in += 1);
    }

    /// Returns when a call waits.
    pub async fn has_caught(&self) {
        let caught =
            async { self.0.subscribe().wait_for(|state| state.waiting > 0).await.map(drop) };
        tokio::time::timeout(Duration::from_secs(15), caught).await.unwrap().unwrap();
    }

    async fn pass(&self) {
        self.0.send_modify(|state| state.waiting += 1);
        let may_pass = |state: &State| !state.closed || state.let_in > 0;
        self.0.subscribe().wait_for(may_pass).await.unwrap();
        self.0.send_modify(|state| {
            state.waiting -= 1;
            state.let_in = state.let_in.saturating_sub(1);
        });
    }
}

/// A store whose word that a node lives waits at this gate.
pub fn beats(store: Backend, gate: &Arc<Gate>) -> Backend {
    let nodes = Nodes { inner: store.nodes.clone(), beats: Arc::clone(gate) };
    Backend { nodes: Arc::new(nodes), ..store }
}

/// A store whose word that a node took a job waits at this gate.
pub fn commits(store: Backend, gate: &Arc<Gate>) -> Backend {
    let slots = Slots { inner: store.slots.clone(), commits: Arc::clone(gate) };
    Backend { slots: Arc::new(slots), ..store }
}

/// A store over which what other instances say is received through this gate.
pub fn inbox(store: Backend, gate: &Arc<Gate>) -> Backend {
    let bus = Bus { inner: store.bus.clone(), received: Arc::clone(gate), sent: Gate::new() };
    Backend { bus: Arc::new(bus), ..store }
}

/// A store over which what is said to other instances is sent through this gate.
pub fn outbox(store: Backend, gate: &Arc<Gate>) -> Backend {
    let bus = Bus { inner: store.bus.clone(), received: Gate::new(), sent: Arc::clone(gate) };
    Backend { bus: Arc::new(bus), ..store }
}

struct Nodes {
    inner: Arc<dyn NodeRecords>,
    beats: Arc<Gate>,
}

#[async_trait]
impl NodeRecords for Nodes {
    async fn put(&self, node: &NodeId, registration: &Registration) -> Result<Put> {
        self.inner.put(node, registration).await
    }

    async fn beat(&self, node: &NodeId, beat: &Beat) -> Result<BeatReply> {
        self.beats.pass().await;
        self.inner.beat(node, beat).await
    }

    async fn offline(&self, node: &NodeId, epoch: u64) -> Result<Fenced> {
        self.inner.offline(node, epoch).await
    }

    async fn forget(&self, node: &NodeId, unseen_for: Duration) -> Result<bool> {
        self.inner.forget(node, unseen_for).await
    }

    async fn note_gap(&self, node: &NodeId, model: &ModelId, lasting: Duration) -> Result<()> {
        self.inner.note_gap(node, model, lasting).await
    }

    async fn get(&self, node: &NodeId) -> Result<Option<NodeRecord>> {
        self.inner.get(node).await
    }
}

struct Slots {
    inner: Arc<dyn SlotLeases>,
    commits: Arc<Gate>,
}

#[async_trait]
impl SlotLeases for Slots {
    async fn reserve(&self, wish: &Wish<'_>) -> Result<Reserve> {
        self.inner.reserve(wish).await
    }

    async fn commit(&self, node: &NodeId, token: LeaseToken, lease: Duration) -> Result<Commit> {
        self.commits.pass().await;
        self.inner.commit(node, token, lease).await
    }

    async fn renew(
        &self,
        node: &NodeId,
        token: LeaseToken,
        lease: Duration,
    ) -> Result<Option<Moment>> {
        self.inner.renew(node, token, lease).await
    }

    async fn release(&self, node: &NodeId, token: LeaseToken) -> Result<bool> {
        self.inner.release(node, token).await
    }

    async fn confirm(&self, node: &NodeId, report: &Report<'_>) -> Result<Confirm> {
        self.inner.confirm(node, report).await
    }

    async fn usage(&self, node: &NodeId) -> Result<Usage> {
        self.inner.usage(node).await
    }
}

struct Bus {
    inner: Arc<dyn Inboxes>,
    received: Arc<Gate>,
    sent: Arc<Gate>,
}

#[async_trait]
impl Inboxes for Bus {
    async fn send(&self, to: &Instance, envelope: &Envelope) -> Result<Posting> {
        self.sent.pass().await;
        self.inner.send(to, envelope).await
    }

    async fn receive(&self, me: &Instance, wait: Duration) -> Result<Vec<Delivery>> {
        let received = self.inner.receive(me, wait).await?;
        if !received.is_empty() {
            self.received.pass().await;
        }
        Ok(received)
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

    async fn take_over(
        &self,
        dead: &Instance,
        successor: &Instance,
        ttl: Duration,
    ) -> Result<TakeOver> {
        self.inner.take_over(dead, successor, ttl).await
    }
}
