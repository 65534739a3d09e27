//! One task for each receiving instance: it keeps a message until the store has it, or until it is too late.
//!
//! If the store does not answer, the same envelope is posted again under the same id, which the store and the
//! receiver remember: so each message has its effect once. The messages of an envelope that was not posted in time
//! are undeliverable. Results are wanted for longer than one envelope lives, and go into the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lingua_core::planted::{self, Flaw};
use lingua_protocol::peer::{PeerEvent, PeerMessage};
use lingua_store::Instance;
use lingua_store::bus::{Envelope, MAX_ENVELOPE_BYTES, Posting};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::outbox::{LIVE_FOR, Outbox, Undelivered};
use super::seal::{self, Route};

/// Messages of one envelope.
const BATCH: usize = 64;

/// The messages of one envelope are of about the same age, which the receiver derives from the envelope.
const SAME_AGE: Duration = Duration::from_millis(100);

/// How long a result is wanted: its speaker waits no longer than that for any sentence.
const RESULT_FOR: Duration = Duration::from_secs(60);

/// Between two tries of an envelope; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// After an outage of the store every instance has so long to announce itself again before it counts as gone.
const ANNOUNCE_GRACE: Duration = Duration::from_secs(2);

/// A queued message, and since when it is.
pub(super) struct Queued {
    pub message: PeerMessage,
    pub since: Instant,
}

/// How long a message is wanted.
fn wanted_for(message: &PeerMessage) -> Duration {
    match message {
        PeerMessage::Job { event: PeerEvent::Result { .. }, .. }
        | PeerMessage::SessionJob { .. } => RESULT_FOR,
        _ => LIVE_FOR,
    }
}

/// The outcome of posting an envelope.
enum Posted {
    /// The store has it.
    Yes,
    /// The instance is gone.
    Gone,
    /// The inbox is full: the store refused it.
    Full,
    /// Its time is over.
    TooLate,
    /// It cannot be sent at all.
    Never,
}

impl Outbox {
    pub(super) async fn deliver(self: Arc<Self>, to: Instance, mut queue: mpsc::Receiver<Queued>) {
        let mut messages = Vec::with_capacity(BATCH);
        while queue.recv_many(&mut messages, BATCH).await > 0 {
            let mut left = VecDeque::from_iter(messages.drain(..));
            while let Some(pending) = PendingEnvelope::write(&mut left, Instant::now()) {
                let kept = self.deliver_one(&to, pending).await;
                // In their order, before what came after them.
                kept.into_iter().rev().for_each(|queued| left.push_front(queued));
            }
        }
    }

    /// Returns the messages that go into another envelope.
    async fn deliver_one(&self, to: &Instance, pending: PendingEnvelope) -> Vec<Queued> {
        let PendingEnvelope { mut body, messages, live_for } = pending;
        body.push(b']');
        let id = self.chance.nonce();
        seal::seal(&self.secret, &Route { id, from: &self.me, to }, &mut body);
        let envelope = Envelope { id, from: self.me.clone(), body, live_for };
        let posted = self.post(to, envelope).await;
        let is_worth = |q: &Queued| q.since.elapsed() < wanted_for(&q.message);
        let is_full = matches!(posted, Posted::Full);
        let (keep, undeliverable): (Vec<Queued>, Vec<Queued>) = match posted {
            Posted::Yes => {
                self.over(messages.len());
                self.metrics.bus_sent(messages.len() as u64);
                return Vec::new();
            }
            Posted::Full => {
                tracing::warn!(instance.id = %to.id, "the inbox of an instance is full");
                // An attempt that was not sent is placed elsewhere at once.
                let waits =
                    |q: &Queued| !matches!(q.message, PeerMessage::Assign(_)) && is_worth(q);
                messages.into_iter().partition(waits)
            }
            Posted::TooLate => messages.into_iter().partition(is_worth),
            Posted::Gone => {
                tracing::debug!(instance.id = %to.id, "an instance is gone");
                // It is noticed here before the next look at who is alive.
                if self.addresses.write().remove(to).is_some() {
                    let _ = self.undeliverable.try_send(Undelivered::Gone);
                }
                (Vec::new(), messages)
            }
            Posted::Never => (Vec::new(), messages),
        };
        self.over(undeliverable.len());
        for Queued { message, .. } in undeliverable {
            self.metrics.bus_bounced();
            // If this queue is full too, the job that waits for an answer times out.
            let _ =
                self.undeliverable.try_send(Undelivered::Message(to.clone(), Box::new(message)));
        }
        if is_full {
            sleep(LONGEST_PAUSE).await;
        }
        keep
    }

    /// Posts an envelope, again and again under its id until the store says what became of it.
    async fn post(&self, to: &Instance, mut envelope: Envelope) -> Posted {
        let until = Instant::now() + envelope.live_for;
        let mut pause = FIRST_PAUSE;
        let mut status = self.store.status.clone();
        let mut back_by = None;
        loop {
            match self.store.bus.send(to, &envelope).await {
                Ok(Posting::Posted) => return Posted::Yes,
                Ok(Posting::Gone) if back_by.is_some_and(|by| Instant::now() < by) => {}
                Ok(Posting::Gone) => return Posted::Gone,
                Ok(Posting::Full) => return Posted::Full,
                Err(error) if error.is_down() && !planted::on(Flaw::MessageTriedOnce) => {
                    tracing::debug!(instance.id = %to.id, %error, "messages are delivered later");
                    back_by = Some(Instant::now() + ANNOUNCE_GRACE);
                }
                Err(error) => {
                    tracing::warn!(instance.id = %to.id, %error, "messages cannot be delivered");
                    return Posted::Never;
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            // As soon as the store is back; a store that says nothing of itself is tried too.
            let _ = timeout(LONGEST_PAUSE, status.wait_for(|status| status.is_up())).await;
            envelope.live_for = until.saturating_duration_since(Instant::now());
            if envelope.live_for < Duration::from_millis(1) {
                return Posted::TooLate;
            }
        }
    }

    /// So many messages are delivered, or returned.
    fn over(&self, messages: usize) {
        self.under_way.fetch_sub(messages, Ordering::Relaxed);
    }
}

/// An envelope that is being filled. A single message always fits: bodies are not part of it, and everything else
/// is bounded at the edge.
struct PendingEnvelope {
    body: Vec<u8>,
    messages: Vec<Queued>,
    live_for: Duration,
}

impl PendingEnvelope {
    /// Takes the first messages that fit.
    fn write(left: &mut VecDeque<Queued>, now: Instant) -> Option<PendingEnvelope> {
        let oldest = left.front()?.since;
        let age = now.saturating_duration_since(oldest);
        // Only a result outlives an envelope; its next one lives as long as any.
        let live_for = if age < LIVE_FOR { LIVE_FOR - age } else { LIVE_FOR };
        let mut pending = PendingEnvelope { body: Vec::new(), messages: Vec::new(), live_for };
        while let Some(queued) = left.pop_front() {
            let text = serde_json::to_vec(&queued.message).expect("messages are always JSON");
            let is_young = queued.since.saturating_duration_since(oldest) <= SAME_AGE;
            if !(is_young && pending.has_room(text.len())) {
                left.push_front(queued);
                break;
            }
            let before: &[u8] = if pending.messages.is_empty() { b"{\"words\":[" } else { b"," };
            pending.body.extend_from_slice(before);
            pending.body.extend_from_slice(&text);
            pending.messages.push(queued);
        }
        Some(pending)
    }

    fn has_room(&self, bytes: usize) -> bool {
        let fits = self.body.len() + bytes + 2 + seal::BYTES <= MAX_ENVELOPE_BYTES;
        self.messages.is_empty() || (fits && self.messages.len() < BATCH)
    }
}

#[cfg(test)]
pub(crate) mod tests;
