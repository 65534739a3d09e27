//! Messages from one instance to another.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::error::Result;
use crate::instance::Instance;

/// Envelopes that one inbox holds before the sender is refused.
pub const INBOX_CAPACITY: usize = 10_000;

/// Bytes of one envelope's body: control messages only, audio never goes through the store.
pub const MAX_ENVELOPE_BYTES: usize = 256 * 1024;

/// Envelopes handed out by one call.
pub const RECEIVE_BATCH: usize = 256;

/// One inbox for each life of an instance. An envelope is kept until the receiver acknowledges it or its time is
/// over; the same id is delivered once. Envelopes are delivered in the order of sending.
#[async_trait]
pub trait Inboxes: Send + Sync {
    /// Puts an envelope into the inbox of exactly this life of an instance, or says at once why not.
    /// Sending the same envelope again is sending it once.
    async fn send(&self, to: &Instance, envelope: &Envelope) -> Result<Posting>;

    /// Envelopes that came since the last call, waiting up to `wait` for the first. Those whose time
    /// is over are left out and removed. Unacknowledged ones come again only to a successor or after
    /// [`Inboxes::rewind`].
    async fn receive(&self, me: &Instance, wait: Duration) -> Result<Vec<Delivery>>;

    /// Lets the next [`Inboxes::receive`] begin with the oldest unacknowledged envelope: for a
    /// receiver that may have lost a reply.
    async fn rewind(&self, me: &Instance);

    /// Removes what was dealt with, from the caller's own inbox or one it took over.
    async fn ack(&self, inbox: &Instance, entries: &[EntryId]) -> Result<()>;

    /// Envelopes in an inbox, those that were handed out and not acknowledged counted.
    async fn depth(&self, inbox: &Instance) -> Result<usize>;

    /// Inboxes whose instance is no longer alive.
    async fn orphans(&self) -> Result<Vec<Instance>>;

    /// Takes over the inbox of a dead instance for `ttl`: at most one successor at a time, and none while
    /// the instance lives. Removes the inbox when nothing is left in it.
    async fn take_over(
        &self,
        dead: &Instance,
        successor: &Instance,
        ttl: Duration,
    ) -> Result<TakeOver>;
}

/// What goes from one instance to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// 128 bits of chance; the same envelope sent twice has the same.
    pub id: u128,
    /// Who sends it.
    pub from: Instance,
    /// What it says; the store does not look inside.
    pub body: Vec<u8>,
    /// Not to be acted on later than so long after sending.
    pub live_for: Duration,
}

/// An envelope taken out of an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// To acknowledge it by.
    pub entry: EntryId,
    /// The envelope's id.
    pub id: u128,
    /// Who sent it.
    pub from: Instance,
    /// What it says.
    pub body: Vec<u8>,
    /// When its time is over, on this machine's clock: never later than by the store's, however
    /// long the answer took.
    pub live_until: Instant,
}

/// A place in an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryId(pub(crate) String);

/// What became of an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posting {
    /// In the inbox, now or already.
    Posted,
    /// That life of the instance is over.
    Gone,
    /// The inbox is full.
    Full,
}

/// What became of a wish to take an inbox over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TakeOver {
    /// Its owner lives.
    Alive,
    /// Another successor is at it.
    Held,
    /// What was left, oldest first and at most a few hundred at a time; empty when all is done.
    Entries(Vec<Delivery>),
}
