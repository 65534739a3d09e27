//! Where the scheduler keeps what must outlive a process or be agreed between several.
//!
//! Small traits, each named by what it keeps and with what an implementer owes. Three backends give the same answers:
//! `memory`, the same kept in a directory, and `redis` (a feature). In reading order:
//!
//! - [`error`], [`clock`], [`instance`], [`backend`]: what can go wrong, whose time it is, who asks, and
//!   all traits together.
//! - [`nodes`]: node records, their feed, and administrators' orders. [`reputations`]: what nodes did and failed.
//!   [`slots`]: slot leases.
//! - [`jobs`]: job records and deadlines. [`requests`]: request ids. [`turns`]: nodes of turns.
//! - [`owners`]: session owners. [`leaders`]: leaders of tasks. [`snapshots`]: the snapshot of all instances.
//! - [`presence`]: which instances are alive. [`bus`]: messages between them.
//! - [`rates`]: windows and rate limits. [`revocations`]: the revocation list. [`history`]: series of points for charts. [`usage`]: what was used, by day.
//! - `journal`: what is kept in a directory. [`memory`]: one process, no server, with a journal or without. `redis`: standalone, Sentinel or Cluster. [`mod@open`]: each by its URL.
//!
//! Every method may be called again with the same arguments: the second time changes nothing and
//! says so. [`Error::Unknown`] means the step may or may not have happened; calling again tells.

pub mod error;
pub mod clock;
pub mod instance;
pub mod backend;
pub mod nodes;
pub mod reputations;
pub mod slots;
pub mod jobs;
pub mod requests;
pub mod turns;
pub mod owners;
pub mod leaders;
pub mod snapshots;
pub mod presence;
pub mod bus;
pub mod rates;
pub mod revocations;
pub mod history;
pub mod usage;
mod journal;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
pub mod open;
#[cfg(all(feature = "redis", any(test, feature = "fuzzing")))]
#[doc(hidden)]
pub mod fuzzing;

pub use backend::{Backend, Options, Pulse, Status};
pub use clock::Clock;
pub use error::{Error, OpenError, Result};
pub use history::History;
pub use instance::Instance;
pub use open::{Location, open};
pub use usage::UsageDays;
