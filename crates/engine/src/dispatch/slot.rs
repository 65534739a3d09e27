//! A slot that a job holds on a node.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::{LeaseToken, Moment, NodeId};
use lingua_store::jobs::{EndedBy, Ending, Finish};
use lingua_store::slots::{HeldSlot, YOUNG};
use tokio::time::Instant;

use crate::nodes::{NodeState, Nodes};
use crate::shared::Shared;
use crate::tasks;

/// Tries to tell a store that was down that a slot is free; after them its lease is over anyway.
const RELEASE_TRIES: u32 = 5;

/// How long a slot that its node did not want to fill is left alone.
const REST: Duration = Duration::from_millis(250);

/// A slot that a job holds. It is given back, or left to the node while it may still work; dropped
/// by accident, it is given back too.
#[must_use]
pub(super) struct Slot {
    nodes: Arc<Nodes>,
    shared: Arc<Shared>,
    pub node: Arc<NodeState>,
    pub token: LeaseToken,
    granted: Granted,
    over: bool,
}

/// When a slot was granted: on the store's clock, if the store said so, and on ours.
#[derive(Clone, Copy)]
pub(super) struct Granted {
    pub at: Option<Moment>,
    pub here: Instant,
}

impl Slot {
    pub fn new(
        nodes: Arc<Nodes>,
        shared: Arc<Shared>,
        node: Arc<NodeState>,
        token: LeaseToken,
        granted: Granted,
    ) -> Self {
        Slot { nodes, shared, node, token, granted, over: false }
    }

    /// Gives it back: whoever waits gets it. Nothing that the node says about the attempt has any
    /// effect from now on.
    pub async fn release(mut self) {
        self.end();
        let released = self.held().give_back(&*self.shared.store.slots).await;
        self.released(released);
    }

    /// Gives it back together with the end of its job, and says what became of that.
    pub async fn release_ending(
        mut self,
        by: &EndedBy,
        ending: &Ending,
    ) -> lingua_store::Result<Finish> {
        self.end();
        let (store, job) = (&self.shared.store, &self.token.job);
        let (finished, released) =
            store.jobs.end(job, by, ending, &*store.slots, &self.held()).await;
        self.released(released);
        finished
    }

    fn end(&mut self) {
        self.over = true;
        self.node.forget(&self.token.job, self.token.attempt);
    }

    fn held(&self) -> HeldSlot<'_> {
        let Granted { at, here } = self.granted;
        let granted = at.filter(|_| here.elapsed() < YOUNG);
        HeldSlot { node: &self.node.id, token: self.token, granted }
    }

    fn released(&self, released: lingua_store::Result<()>) {
        match released {
            Ok(()) => self.nodes.slot_came_back(&self.node),
            Err(error) => {
                tracing::debug!(node.id = %self.node.id, %error, "a slot is given back later");
                let (nodes, node) = (Arc::clone(&self.nodes), Arc::clone(&self.node));
                let (shared, token) = (Arc::clone(&self.shared), self.token);
                tasks::spawn("give a slot back", async move {
                    release_later(&shared, &node.id, token).await;
                    nodes.slot_came_back(&node);
                });
            }
        }
    }

    /// The node refused the job for want of a slot of its own: the slot is given back, and counts as
    /// taken here for a moment more, so that not everybody asks in vain.
    pub async fn release_to_rest(mut self) {
        self.end();
        if let Err(error) = self.shared.store.slots.release(&self.node.id, self.token).await {
            tracing::debug!(node.id = %self.node.id, %error, "a slot is left to lapse");
        }
        let (nodes, node) = (Arc::clone(&self.nodes), Arc::clone(&self.node));
        tasks::start(async move {
            tokio::time::sleep(REST).await;
            nodes.slot_came_back(&node);
        });
    }

    /// Leaves it to the node, which may still work: its lease lapses, or the node says it is done.
    pub fn leave(mut self) {
        self.over = true;
        self.shared.metrics.slots_left.inc();
        if self.node.disown(&self.token.job, self.token.attempt) {
            self.nodes.recount(&self.node);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.over || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let slot = Slot {
            nodes: Arc::clone(&self.nodes),
            shared: Arc::clone(&self.shared),
            node: Arc::clone(&self.node),
            token: self.token,
            granted: self.granted,
            // A runtime that shuts down drops the task at once: it must not begin another.
            over: true,
        };
        tasks::spawn("give a slot back", slot.release());
    }
}

/// Tells the store that a slot is free as soon as it listens.
pub(super) async fn release_later(shared: &Shared, node: &NodeId, token: LeaseToken) {
    for _ in 0..RELEASE_TRIES {
        if shared.store_up_within(Duration::from_secs(3)).await
            && shared.store.slots.release(node, token).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
