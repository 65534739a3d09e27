//! The store of many instances: Redis or Valkey, standalone, behind Sentinels, or a Cluster.
//!
//! Every step is one Lua script on keys of one hash slot, on the server's own clock. Scripts may be
//! repeated, so the client may re-send without harm. In reading order: [`url`] (which topology),
//! `wire` (how to connect), `checks` (what a server must be), `connection` (one multiplexed link,
//! watched), `keys`, `scripts`, `reply`, then one file per trait. [`ceiling`] is the yardstick of the
//! bench.

pub mod url;
mod wire;
mod checks;
mod connection;
mod keys;
mod scripts;
mod reply;
mod nodes;
mod slots;
mod jobs;
mod owners;
mod bus;
mod once;
pub mod ceiling;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use connection::Link;

pub use checks::OpenError;
pub use keys::PREFIX;
pub use scripts::{SCRIPTS, Script};
pub use url::Target;

/// How long the store may take for what.
#[derive(Clone, Debug)]
pub struct Options {
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// Until a step is answered; then its outcome is unknown.
    pub response_timeout: Duration,
    /// Between two looks whether the store still answers.
    pub ping_interval: Duration,
    /// Steps on their way at the same time, per server; more wait their turn.
    pub max_in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connect_timeout: Duration::from_millis(800),
            response_timeout: Duration::from_millis(500),
            ping_interval: Duration::from_millis(250),
            max_in_flight: 1024,
        }
    }
}

/// Connects, checks that the server is one we can trust with leases, and keeps the link alive from
/// then on. Everything about it ends when the last clone of the backend is dropped.
pub async fn open(url: &str, options: Options) -> Result<Backend, OpenError> {
    let target = Target::parse(url).map_err(OpenError::Url)?;
    let description = target.to_string().into();
    let link = Link::open(target, options).await?;
    let (status, pulse) = (link.status(), link.pulse());
    Ok(Backend {
        nodes: Arc::new(nodes::RedisNodes::new(link.clone())),
        slots: Arc::new(slots::RedisSlots::new(link.clone())),
        jobs: Arc::new(jobs::RedisJobs::new(link.clone())),
        owners: Arc::new(owners::RedisOwners::new(link.clone())),
        bus: Arc::new(bus::RedisBus::new(link.clone())),
        once: Arc::new(once::RedisOnce::new(link)),
        status,
        pulse,
        description,
    })
}
