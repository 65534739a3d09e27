//! A slot that a job holds on a node, and what the node is sent for it.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::job::event::{Fault, NotSent};
use lingua_core::job::{Event, Link};
use lingua_core::link::NewAttempt;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use lingua_core::{LeaseToken, Moment, NodeId};
use lingua_store::jobs::{Assignment, EndedBy, Ending, Finish};
use lingua_store::slots::{HeldSlot, YOUNG};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::spans::AttemptSpans;
use crate::fleet::Placement;
use crate::job::{Assign, JobEvent, JobEvents, JobSpec, Receipt};
use crate::nodes::link::SlotGuard;
use crate::nodes::{LinkCommand, NodePort, SendError};
use crate::secret::token_name;
use crate::settings::SessionAlias;
use crate::shared::Shared;
use crate::tasks;

/// Tries to release a slot while the store is down. After them its lease has expired anyway.
const RELEASE_TRIES: u32 = 5;

/// How long a slot counts as taken here after it was refused for a reason that passes.
const REST: Duration = Duration::from_millis(250);

/// A slot that an attempt holds: the lease in the store and the placement in the fleet view. It is released, or
/// abandoned to the node while that may still work. Dropping it releases it too.
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

/// What differs between two attempts of a job beside their nodes.
pub(super) struct Terms {
    /// Until the job's deadline.
    pub left: Duration,
    /// For the way to the node and its ack.
    pub placing: Duration,
    pub traceparent: Option<String>,
}

/// How an attempt failed.
pub(super) struct AttemptFailure<'a> {
    pub code: Code,
    pub text: &'a str,
    pub fault: Fault,
    pub wasted: Duration,
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

    /// Tells the node's machine that the attempt failed. A failure that the node reported is counted already.
    pub fn failed(&self, failure: &AttemptFailure<'_>) {
        let LeaseToken { job, attempt, .. } = self.token;
        // A node that is full has not failed.
        if failure.code != Code::AllNodesBusy {
            let (at_ms, code) = (self.shared.clock.now().as_millis(), failure.text.to_owned());
            self.port.post(LinkCommand::NoteFailure { at_ms, job, code });
        }
        if failure.fault != Fault::None {
            self.record_latency(failure.wasted);
            self.port.post(LinkCommand::AttemptFailed { job, attempt });
        }
    }

    /// The attempt ended after so long for each second of speech.
    pub fn record_latency(&self, took: Duration) {
        let ms = u32::try_from(millis(took)).unwrap_or(u32::MAX);
        self.shared.fleet.record_latency(self.port.id(), ms);
    }

    /// Puts the attempt on the node's connection: `Sent` or `NotSent`.
    pub fn send(&mut self, spec: &JobSpec, terms: Terms, events: mpsc::Sender<JobEvent>) -> Event {
        let (attempt, listener) = (self.token.attempt, JobEvents::Local(events));
        let mut assign = self.assign(spec, terms);
        let sent = self.port.link().ok_or(SendError::NotConnected).and_then(|link| {
            let supports = link.reach().supports;
            if !supports.ack {
                assign.receipt = Receipt { listener: Some(listener.clone()), epoch: 0 };
            }
            let lease = self.shared.settings.timing.reserve_lease_ms_of(supports.calls);
            let new = NewAttempt {
                token: self.token,
                turn: assign.turn.clone(),
                index: spec.work.utterance_index,
                listener,
                lease: Duration::from_millis(lease),
                wanted_until: None,
            };
            link.assign(assign, new)
        });
        let node = self.port.id();
        match sent {
            Ok(supports) => {
                let link = Link {
                    result_ack: supports.result_ack,
                    calls: supports.calls,
                    keeps_speech: !supports.any(),
                };
                Event::Sent { attempt, link }
            }
            Err(SendError::Full) => {
                self.shared.metrics.reserve("lapsed");
                tracing::debug!(node.id = %node, "a slot was granted whose job is still there");
                Event::NotSent { attempt, reason: NotSent::Full }
            }
            Err(error) => {
                tracing::info!(node.id = %node, reason = ?error, "nothing could be sent");
                Event::NotSent { attempt, reason: NotSent::Unreachable }
            }
        }
    }

    /// What the node is sent: it knows the job, the session and the turn by masked ids.
    fn assign(&self, spec: &JobSpec, terms: Terms) -> Assign {
        let secret = &self.shared.secret;
        let job = secret.masked(spec.id);
        let turn = match &spec.turn {
            Some(turn) => secret.session_alias(&spec.session, turn.as_str()).to_string(),
            None => job.to_string(),
        };
        let session = match self.shared.settings.node_session_alias {
            SessionAlias::Turn => secret.session_alias(&spec.session, &turn),
            SessionAlias::Session => spec.session.session().clone(),
        };
        Assign {
            job,
            attempt: self.token.attempt,
            token: token_name(self.token),
            session,
            turn,
            deadline_ms: self.shared.clock.now().as_millis() + millis(terms.left),
            send_by: Instant::now() + terms.placing,
            traceparent: terms.traceparent,
            work: Arc::clone(&spec.work),
            receipt: Receipt::default(),
        }
    }

    /// Releases it; a waiting job gets it. What the node still sends about the attempt has no effect.
    pub async fn release(mut self) {
        let placement = self.end();
        let released = self.held().give_back(&*self.shared.store.slots).await;
        self.released(released, placement);
    }

    /// Releases it in the same step as its job ends, and returns the store's answer about the job. The value
    /// stays, because the node is still to get messages.
    pub async fn release_ending(
        &mut self,
        by: &EndedBy,
        ending: &Ending,
    ) -> lingua_store::Result<Finish> {
        // The node's machine forgets the attempt, so a repeated result is stale.
        let placement = self.end();
        let (store, job) = (&self.shared.store, &self.token.job);
        let (finished, released) =
            store.jobs.end(job, by, ending, &*store.slots, &self.held()).await;
        self.released(released, placement);
        finished
    }

    /// Releases it after the node rejected the job as busy. It counts as taken here for a moment more, so that
    /// not every job asks this node in vain.
    pub async fn release_with_cooldown(mut self) {
        let placement = self.end();
        if let Err(error) = self.shared.store.slots.release(self.port.id(), self.token).await {
            tracing::debug!(node.id = %self.port.id(), %error, "a slot is left to expire");
        }
        if let Some(placement) = placement {
            cool_down(placement);
        }
    }

    /// Has the node told to stop. From now on whoever has the node's connection looks after the slot: it is
    /// released once the node stops or reports, or when its lease expires.
    pub fn abandon(mut self, reason: &'static str) {
        let Some(placement) = self.placement.take() else { return };
        if !self.port.supports().cancel {
            self.shared.metrics.jobs.slots_left.inc();
        }
        let (job, attempt) = (self.token.job, self.token.attempt);
        let slot = Some(SlotGuard::Placed(placement));
        self.port.post(LinkCommand::Abandon { job, attempt, reason, slot });
    }

    /// How long the lease of a running job lasts without a message from the node.
    pub fn running_lease(&self) -> Duration {
        let shortest = Duration::from_millis(self.shared.settings.timing.running_lease_ms);
        self.port.running_lease().unwrap_or(shortest)
    }

    fn end(&mut self) -> Option<Placement> {
        self.end_attempt();
        self.placement.take()
    }

    /// What the node still sends about the attempt has no effect from now on.
    fn end_attempt(&self) {
        let LeaseToken { job, attempt, .. } = self.token;
        self.port.post(LinkCommand::End { job, attempt });
    }

    fn held(&self) -> HeldSlot<'_> {
        let Granted { at, here } = self.granted;
        let granted = at.filter(|_| here.elapsed() < YOUNG);
        HeldSlot { node: self.port.id(), token: self.token, granted }
    }

    fn released(&self, released: lingua_store::Result<()>, placement: Option<Placement>) {
        let Err(error) = released else { return };
        tracing::debug!(node.id = %self.port.id(), %error, "a slot is released later");
        if let Some(placement) = placement {
            self.release_later(placement);
        }
    }

    fn release_later(&self, placement: Placement) {
        let (node, shared, token) = (self.port.id().clone(), Arc::clone(&self.shared), self.token);
        tasks::spawn("release a slot", async move {
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
            self.end_attempt();
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

/// Releases a slot as soon as the store answers.
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
