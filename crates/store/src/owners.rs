//! Which instance owns a session.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{Moment, SessionKey};

use crate::error::Result;
use crate::instance::Instance;
use crate::nodes::Fenced;

/// How long an epoch is remembered after its lease, so that it is never given twice.
pub const EPOCH_MEMORY: Duration = Duration::from_secs(24 * 3600);

/// Bytes of what one owner leaves to the next.
pub const MAX_STATE_BYTES: usize = 64 * 1024;

/// Session owners. An epoch is never given twice for one session, increases with every claim, and increases
/// over a loss of the store's data too. After a higher epoch is accepted the older owner changes nothing (I9).
/// Every method is atomic per session and safe to repeat.
#[async_trait]
pub trait SessionOwners: Send + Sync {
    /// Makes `instance` the owner of the session, whoever was it before: a person's newest
    /// connection wins.
    async fn claim(
        &self,
        session: &SessionKey,
        instance: &Instance,
        ttl: Duration,
    ) -> Result<Claimed>;

    /// Extends the ownership by this epoch. One that lapsed and that nobody claimed since, or that a
    /// store lost with its data, is back by it.
    async fn renew(
        &self,
        session: &SessionKey,
        instance: &Instance,
        epoch: u64,
        ttl: Duration,
    ) -> Result<Fenced>;

    /// Ends the ownership by this epoch. The epoch itself is remembered.
    async fn release(&self, session: &SessionKey, epoch: u64) -> Result<Fenced>;

    /// The owner, if its lease is not over.
    async fn owner(&self, session: &SessionKey) -> Result<Option<Owner>>;

    /// Keeps for `keep_for` what the next owner needs to go on, if `epoch` is the current one.
    async fn save(
        &self,
        session: &SessionKey,
        epoch: u64,
        state: &[u8],
        keep_for: Duration,
    ) -> Result<Fenced>;

    /// What the last owner saved.
    async fn load(&self, session: &SessionKey) -> Result<Option<Vec<u8>>>;
}

/// A new ownership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimed {
    /// Its epoch.
    pub epoch: u64,
    /// The owner whose lease was not over, if it was another one: it is to be told.
    pub replaced: Option<Instance>,
}

/// Who owns a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The instance.
    pub instance: Instance,
    /// The epoch.
    pub epoch: u64,
    /// The lease's end.
    pub until: Moment,
}
