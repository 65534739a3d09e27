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
mod reputations;
mod slots;
mod jobs;
mod deadlines;
mod requests;
mod turns;
mod owners;
mod leaders;
mod presence;
mod snapshots;
mod bus;
mod rates;
mod revocations;
mod history;
mod usage;
pub mod ceiling;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::sync::Arc;

use crate::backend::Backend;
use connection::Link;

pub use crate::backend::Options;
pub use crate::error::OpenError;
pub use keys::PREFIX;
pub use scripts::{SCRIPTS, Script};
pub use url::Target;

/// Connects, checks that the server is one we can trust with leases, and keeps the link alive from
/// then on. Everything about it ends when the last clone of the backend is dropped.
pub async fn open(url: &str, options: Options) -> Result<Backend, OpenError> {
    let target = Target::parse(url).map_err(OpenError::Url)?;
    let description = target.to_string().into();
    let link = Link::open(target, options).await?;
    let (status, pulse) = (link.status(), link.pulse());
    let nodes = Arc::new(nodes::RedisNodes::new(link.clone()));
    Ok(Backend {
        feed: nodes.clone(),
        orders: nodes.clone(),
        reputations: nodes.clone(),
        nodes,
        slots: Arc::new(slots::RedisSlots::new(link.clone())),
        jobs: Arc::new(jobs::RedisJobs::new(link.clone())),
        deadlines: Arc::new(deadlines::RedisDeadlines::new(link.clone())),
        requests: Arc::new(requests::RedisRequests::new(link.clone())),
        turns: Arc::new(turns::RedisTurns::new(link.clone())),
        owners: Arc::new(owners::RedisOwners::new(link.clone())),
        leaders: Arc::new(leaders::RedisLeaders::new(link.clone())),
        snapshots: Arc::new(snapshots::RedisSnapshots::new(link.clone())),
        presence: Arc::new(presence::RedisPresence::new(link.clone())),
        bus: Arc::new(bus::RedisBus::new(link.clone())),
        rates: Arc::new(rates::RedisRates::new(link.clone())),
        revocations: Arc::new(revocations::RedisRevocations::new(link.clone())),
        history: Arc::new(history::RedisHistory::new(link.clone())),
        usage: Arc::new(usage::RedisUsage::new(link)),
        closing: None,
        status,
        pulse,
        description,
    })
}
