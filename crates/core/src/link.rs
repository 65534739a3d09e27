//! Decisions about one node's connection, made from values.
//!
//! - `overload`: when reports of its resources make a node a last resort.
//! - `trust`: how many of its slots a node fills like any other.
//! - `reconcile`: which slots a node vouches for by the number of jobs that it runs.

mod overload;
mod reconcile;
mod trust;

pub use overload::{Overload, OverloadPolicy};
pub use reconcile::{Counted, Reconciled, by_count};
pub use trust::{Arrival, SlowStart, Trust};
