//! The scheduler's services, over the store's traits: no axum, no redis.
//!
//! In reading order:
//!
//! - [`settings`]: every figure that may be set.
//! - [`job`]: the words between the doors and the services.
//! - [`engine`]: what a scheduler process is made of, and whether it can take work.
//! - [`nodes`]: who is connected, their records and their word about jobs.
//! - [`jobs`]: how a job finds a node and ends.
//! - [`job_log`]: jobs as operators see them, the last hour of them.
//! - [`sessions`]: people speak, and every sentence comes back.
//! - [`peers`]: how an instance sends to others. [`cluster`]: what they say to each other. `leader`: what one instance does for all, `janitor` among it.
//! - [`audio`]: audio handed in ahead of its job.
//! - [`pairs`]: the pairs that the fleet serves. [`explain`]: why things are as they are. [`snapshot`]: how everything
//!   stands, for many readers.
//! - `usage`: what is used, by day.
//! - [`trace`]: what became of one utterance, step by step.
//! - [`fleet`], [`secret`], [`metrics`]: what they share.
//! - `retention`: what is kept of many tenants.
//! - [`tasks`], [`chance`]: the one way to start a task, the one door for randomness.

pub mod settings;
pub mod job;
pub mod engine;
pub mod nodes;
pub mod jobs;
pub mod job_log;
pub mod sessions;
pub mod peers;
pub mod cluster;
mod leader;
mod janitor;
pub mod audio;
pub mod pairs;
pub mod explain;
pub mod snapshot;
mod usage;
pub mod trace;
pub mod fleet;
pub mod secret;
pub mod metrics;
pub mod tasks;
pub mod chance;
mod retention;
mod shared;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod planted_flaws;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

pub use engine::{Engine, Readiness};
pub use settings::Settings;
