//! One task for each instance that messages go to: it keeps a message until the store has it, or until
//! it is too late.
//!
//! After an answer that did not come the same envelope is posted again under the same id, which the
//! store and the receiver know: so each message has its effect once. An envelope that was not
//! posted in its time comes back, but for results: they are worth more than the time of one
//! envelope, and go into the next.

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

/// What an envelope has in common is its age: the receiver reads from it how old its messages are.
const SAME_AGE: Duration = Duration::from_millis(100);

/// How long a result is worth bringing: its speaker waits no longer than that for any sentence.
const RESULT_FOR: Duration = Duration::from_secs(60);

/// Between two tries of an envelope; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// After an outage of the store every instance counts as gone until it has said again that it lives: it has
/// so long for it.
const SAY_AGAIN: Duration = Duration::from_secs(2);

/// A message in line, and since when.
pub(super) struct Queued {
    pub word: PeerMessage,
    pub since: Instant,
}

/// How long a message is worth bringing.
fn wanted_for(word: &PeerMessage) -> Duration {
    match word {
        PeerMessage::Job { event: PeerEvent::Result { .. }, .. }
        | PeerMessage::SessionJob { .. } => RESULT_FOR,
        _ => LIVE_FOR,
    }
}

/// What became of an envelope.
enum Posted {
    /// The store has it.
    Yes,
    /// The instance is gone.
    Gone,
    /// The inbox is full: it was not taken.
    Full,
    /// Its time is over.
    TooLate,
    /// It cannot be sent at all.
    Never,
}

impl Outbox {
    pub(super) async fn deliver(self: Arc<Self>, to: Instance, mut line: mpsc::Receiver<Queued>) {
        let mut words = Vec::with_capacity(BATCH);
        while line.recv_many(&mut words, BATCH).await > 0 {
            let mut left = VecDeque::from_iter(words.drain(..));
            while let Some(letter) = Letter::write(&mut left, Instant::now()) {
                let kept = self.deliver_one(&to, letter).await;
                // In their order, before what came after them.
                kept.into_iter().rev().for_each(|queued| left.push_front(queued));
            }
        }
    }

    /// Returns the messages that go into another envelope.
    async fn deliver_one(&self, to: &Instance, letter: Letter) -> Vec<Queued> {
        let Letter { mut body, words, live_for } = letter;
        body.push(b']');
        let id = self.chance.nonce();
        seal::seal(&self.secret, &Route { id, from: &self.me, to }, &mut body);
        let envelope = Envelope { id, from: self.me.clone(), body, live_for };
        let posted = self.post(to, envelope).await;
        let is_worth = |q: &Queued| q.since.elapsed() < wanted_for(&q.word);
        let is_full = matches!(posted, Posted::Full);
        let (keep, undeliverable): (Vec<Queued>, Vec<Queued>) = match posted {
            Posted::Yes => {
                self.over(words.len());
                self.metrics.bus_sent(words.len() as u64);
                return Vec::new();
            }
            Posted::Full => {
                tracing::warn!(instance.id = %to.id, "the inbox of an instance is full");
                // An attempt that was not sent is placed elsewhere at once.
                let waits = |q: &Queued| !matches!(q.word, PeerMessage::Assign(_)) && is_worth(q);
                words.into_iter().partition(waits)
            }
            Posted::TooLate => words.into_iter().partition(is_worth),
            Posted::Gone => {
                tracing::debug!(instance.id = %to.id, "an instance is gone");
                // Heard of a moment before the next look at who is there.
                if self.addresses.write().remove(to).is_some() {
                    let _ = self.undeliverable.try_send(Undelivered::Gone);
                }
                (Vec::new(), words)
            }
            Posted::Never => (Vec::new(), words),
        };
        self.over(undeliverable.len());
        for Queued { word, .. } in undeliverable {
            self.metrics.bus_bounced();
            // Whoever waits for it hears of it, or gives up by itself.
            let _ = self.undeliverable.try_send(Undelivered::Word(to.clone(), Box::new(word)));
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
                    tracing::debug!(instance.id = %to.id, %error, "words are delivered later");
                    back_by = Some(Instant::now() + SAY_AGAIN);
                }
                Err(error) => {
                    tracing::warn!(instance.id = %to.id, %error, "words cannot be delivered");
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

    /// So many messages are delivered, or came back.
    fn over(&self, words: usize) {
        self.under_way.fetch_sub(words, Ordering::Relaxed);
    }
}

/// An envelope in the making. A message alone always fits: bodies do not go along, and everything else
/// is bounded at the edge.
struct Letter {
    body: Vec<u8>,
    words: Vec<Queued>,
    live_for: Duration,
}

impl Letter {
    /// Takes the first messages that fit into one envelope.
    fn write(left: &mut VecDeque<Queued>, now: Instant) -> Option<Letter> {
        let oldest = left.front()?.since;
        let age = now.saturating_duration_since(oldest);
        // A message that has outlived an envelope is a result, which begins anew.
        let live_for = if age < LIVE_FOR { LIVE_FOR - age } else { LIVE_FOR };
        let mut letter = Letter { body: Vec::new(), words: Vec::new(), live_for };
        while let Some(queued) = left.pop_front() {
            let text = serde_json::to_vec(&queued.word).expect("words are always JSON");
            let is_young = queued.since.saturating_duration_since(oldest) <= SAME_AGE;
            if !(is_young && letter.has_room(text.len())) {
                left.push_front(queued);
                break;
            }
            let before: &[u8] = if letter.words.is_empty() { b"{\"words\":[" } else { b"," };
            letter.body.extend_from_slice(before);
            letter.body.extend_from_slice(&text);
            letter.words.push(queued);
        }
        Some(letter)
    }

    fn has_room(&self, bytes: usize) -> bool {
        let fits = self.body.len() + bytes + 2 + seal::BYTES <= MAX_ENVELOPE_BYTES;
        self.words.is_empty() || (fits && self.words.len() < BATCH)
    }
}

#[cfg(test)]
pub(crate) mod tests;
