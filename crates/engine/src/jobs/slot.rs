//! A slot that a job holds on a node.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::job::Event;
use lingua_core::{LeaseToken, Moment, NodeId};
use lingua_store::jobs::{Assignment, EndedBy, Ending, Finish};
use lingua_store::slots::{HeldSlot, YOUNG};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::assignment::{self, Terms};
use super::node_port::{NodePort, Order};
use super::spans::AttemptSpans;
use crate::fleet::Placement;
use crate::job::{JobEvent, JobSpec};
use crate::shared::Shared;
use crate::tasks;

/// Tries to tell a store that was down that a slot is free; after them its lease is over anyway.
const RELEASE_TRIES: u32 = 5;

/// How long a slot that was refused for a reason that passes is left alone.
const REST: Duration = Duration::from_millis(250);

/// A slot that an attempt holds: the lease in the store and the placement in the fleet view. It is
/// released, or abandoned to the node while that may still work; dropped by accident, it is released
/// too.
#[must_use]
pub(super) struct Slot {
    shared: Arc<Shared>,
    pub port: NodePort,
    pub token: LeaseToken,
    granted: Granted,
    /// The slot in the fleet view; `None` once the slot is over.
    placement: Option<Placement>,
    pub spans: Option<Box<AttemptSpans>>,
}

/// When a slot was granted: on the store's clock, if the store said so, and on ours.
#[derive(Clone, Copy)]
pub(super) struct Granted {
    pub at: Option<Moment>,
    pub here: Instant,
}

impl Slot {
    pub fn new(
        shared: Arc<Shared>,
        port: NodePort,
        token: LeaseToken,
        granted: Granted,
        placement: Placement,
    ) -> Self {
        Slot { shared, port, token, granted, placement: Some(placement), spans: None }
    }

    pub fn end_spans(&mut self, reason: &str) {
        if let Some(spans) = self.spans.take() {
            spans.ended(reason);
        }
    }

    pub fn assignment(&self) -> Assignment {
        Assignment { node: self.port.id().clone(), token: self.token }
    }

    /// Puts the attempt on the node's connection.
    pub fn send(&mut self, spec: &JobSpec, terms: Terms, events: mpsc::Sender<JobEvent>) -> Event {
        let calls = self.port.calls();
        let lease = self.shared.settings.timing.reserve_lease_ms_of(calls);
        let order = Order {
            token: self.token,
            index: spec.work.utterance_index,
            lease: Duration::from_millis(lease),
            events,
        };
        let assign = assignment::of(&self.shared, spec, self.token, terms);
        self.port.assign(&self.shared, assign, order)
    }

    /// Gives it back: whoever waits gets it. Nothing that the node says about the attempt has any
    /// effect from now on.
    pub async fn release(mut self) {
        let placement = self.end();
        let released = self.held().give_back(&*self.shared.store.slots).await;
        self.released(released, placement);
    }

    /// Gives it back together with the end of its job, and says what became of that. The slot itself
    /// stays, for what is still to be said to its node.
    pub async fn release_ending(
        &mut self,
        by: &EndedBy,
        ending: &Ending,
    ) -> lingua_store::Result<Finish> {
        // The node's own table no longer has it from here on: a repeated result finds nothing.
        let placement = self.end();
        let (store, job) = (&self.shared.store, &self.token.job);
        let (finished, released) =
            store.jobs.end(job, by, ending, &*store.slots, &self.held()).await;
        self.released(released, placement);
        finished
    }

    /// The node refused the job for want of a slot of its own: the slot is given back, and counts as
    /// taken here for a moment more, so that not everybody asks in vain.
    pub async fn release_with_cooldown(mut self) {
        let placement = self.end();
        if let Err(error) = self.shared.store.slots.release(self.port.id(), self.token).await {
            tracing::debug!(node.id = %self.port.id(), %error, "a slot is left to lapse");
        }
        if let Some(placement) = placement {
            cool_down(placement);
        }
    }

    /// Gives the attempt up. From now on whoever has the node's connection looks after the slot: it is
    /// given back once the node obeys, once its lease lapses, or once the node says that it is done.
    pub fn abandon(&mut self, reason: &'static str) {
        if let Some(placement) = self.placement.take() {
            self.port.abandon(&self.shared, self.token, reason, placement);
        }
    }

    /// How long it lasts for a running job without a word from its node.
    pub fn running_lease(&self) -> Duration {
        let shortest = Duration::from_millis(self.shared.settings.timing.running_lease_ms);
        self.port.running_lease().unwrap_or(shortest)
    }

    fn end(&mut self) -> Option<Placement> {
        self.port.end_attempt(self.token);
        self.placement.take()
    }

    fn held(&self) -> HeldSlot<'_> {
        let Granted { at, here } = self.granted;
        let granted = at.filter(|_| here.elapsed() < YOUNG);
        HeldSlot { node: self.port.id(), token: self.token, granted }
    }

    fn released(&self, released: lingua_store::Result<()>, placement: Option<Placement>) {
        let Err(error) = released else { return };
        tracing::debug!(node.id = %self.port.id(), %error, "a slot is given back later");
        if let Some(placement) = placement {
            self.release_later(placement);
        }
    }

    fn release_later(&self, placement: Placement) {
        let (node, shared, token) = (self.port.id().clone(), Arc::clone(&self.shared), self.token);
        tasks::spawn("give a slot back", async move {
            release_later(&shared, &node, token).await;
            drop(placement);
        });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A runtime that shuts down drops its tasks: it must not be given another.
        if let Some(placement) = self.placement.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            self.port.end_attempt(self.token);
            self.release_later(placement);
        }
    }
}

/// Counts the slot as taken for a moment more.
pub(super) fn cool_down(placement: Placement) {
    tasks::start(async move {
        tokio::time::sleep(REST).await;
        drop(placement);
    });
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
