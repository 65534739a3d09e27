//! How everything stands, told off the way of jobs (D20).
//!
//! Every instance counts in memory and says every five seconds what it counted since; the leader
//! puts the parts together and publishes one snapshot; every instance reads that one now and then,
//! and keeps the last half an hour of it. However many look, the store is asked by one.
//!
//! - [`view`]: what is told. `spans`: how long things took. `part`: what an instance says of itself.
//! - `merge`: parts become a snapshot. `findings`: what is wrong, in order of weight.
//! - `board`: the three tasks, and what readers hold on to. `failures`: jobs that ended badly lately.

pub mod view;
pub(crate) mod spans;
pub(crate) mod failures;
pub(crate) mod part;
mod merge;
mod findings;
mod board;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

pub use board::{Board, Frame};
