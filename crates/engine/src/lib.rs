//! The scheduler's services, over the store's traits: no axum, no redis.
//!
//! In reading order:
//!
//! - [`tasks`]: the one way to start a task, which names it and reports its panic.
//! - [`engine`]: what a scheduler process is made of, and whether it can take work.

pub mod tasks;
pub mod engine;

pub use engine::{Engine, Readiness};
