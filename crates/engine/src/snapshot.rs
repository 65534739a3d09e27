//! How everything stands, told off the way of jobs (D20).
//!
//! Every instance counts in memory and says every five seconds what it counted since; the leader
//! puts the parts together and publishes one snapshot; every instance reads that one now and then,
//! and keeps the last half an hour of it. However many look, the store is asked by one. By the minute the
//! leader writes a point into the store, which holds a day of them.
//!
//! - [`view`]: what is told. `part`, `own_part`: what an instance says of itself.
//! - `merge`: parts become a snapshot. `findings`: what is wrong, in order of weight.
//! - `minutes`: a day by the minute. `node_history`: what each node did.
//! - `board`: the three tasks, and what readers hold on to.

pub mod view;
pub(crate) mod part;
mod merge;
mod findings;
mod board;
mod own_part;
mod minutes;
mod node_history;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

pub use board::{Board, Frame};
pub use minutes::MINUTE_MS;
pub use node_history::{NodePoint, merged};
