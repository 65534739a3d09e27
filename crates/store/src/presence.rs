//! Which instances are alive, and where.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::instance::Instance;

/// Presence by lease: an instance announces itself again and again while it lives.
#[async_trait]
pub trait Presence: Send + Sync {
    /// Says for `ttl` that this instance is alive and where. Refused while another life of the same
    /// name is: two processes must not share a name.
    async fn announce(&self, me: &Instance, address: &str, ttl: Duration) -> Result<Announce>;

    /// Says that this instance is gone. What is left in its inbox waits for a successor.
    async fn withdraw(&self, me: &Instance) -> Result<()>;

    /// Who is alive.
    async fn peers(&self) -> Result<Vec<Peer>>;
}

/// Refuses an address that is empty, longer than 256 characters or not printable.
pub(crate) fn check_address(address: &str) -> Result<()> {
    let printable = address.chars().all(|c| c.is_ascii_graphic());
    if address.is_empty() || address.len() > 256 || !printable {
        return Err(Error::Invalid("an address is 1 to 256 printable ASCII characters"));
    }
    Ok(())
}

/// What became of an announcement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Announce {
    /// Known to all for the time asked.
    Announced,
    /// The name is taken by a living process.
    Taken {
        /// Where it is.
        address: String,
        /// How long its word still holds.
        lasting: Duration,
    },
}

/// A living instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The instance that is alive.
    pub instance: Instance,
    /// The address that it announces.
    pub address: String,
}
