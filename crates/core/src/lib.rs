//! What the scheduler decides, with nothing that it does.
//!
//! No I/O, no clock, no randomness and no task starts in this crate: time comes in as a [`Moment`],
//! chance as a number, and the answer is a value. In reading order:
//!
//! - [`ids`], [`time`], [`lang`], [`limits`]: the words everything is said in, with their bounds.
//! - [`node`], [`inventory`], [`eligibility`]: what a node can do and what it has, and the one predicate that
//!   says whether it may take a job, with the reasons why not.
//! - [`fleet`]: the nodes as an index by language pair, the order in which a job tries them, and the rules
//!   that rank them.
//! - [`link`]: the machine of one node's connection and the attempts on it. [`rate`]: rate limits.
//! - [`slots`]: capacity as a set of leases, and the token that names one.
//! - [`job`], [`job_key`]: the life of a job in one table, and the identity that makes creating
//!   twice creating once.
//! - [`outcome`]: the stable codes and words that callers see.
//! - [`budget`]: the one deadline of a job and the retries a fleet may afford. [`profile`]: by which figures.
//! - [`hash`]: hashers of maps, whose order a simulation can fix. [`busiest`]: which keys have the most events.
//!   [`usage`]: counts by day. [`planted`]: old flaws that tests switch on.
//! - [`session`]: the machine of one conversation, `on_event(now, Event) -> Effects`.

pub mod ids;
pub mod time;
pub mod lang;
pub mod limits;
pub mod inventory;
pub mod node;
pub mod eligibility;
mod chance;
pub mod hash;
pub mod busiest;
pub mod usage;
pub mod fleet;
pub mod slots;
pub mod rate;
pub mod link;
pub mod job;
pub mod job_key;
pub mod outcome;
pub mod budget;
pub mod profile;
pub mod session;
pub mod planted;

pub use ids::{
    InstanceId, JobId, ModelId, NodeId, Region, RequestId, SessionId, SessionKey, TenantId, TurnId,
};
pub use lang::Lang;
pub use profile::Profile;
pub use slots::LeaseToken;
pub use time::Moment;
