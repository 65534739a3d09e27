//! The laboratory itself: what tests stand on must be right.
#![allow(clippy::unwrap_used, reason = "the steps that tests share fail as tests do")]

mod cluster;
mod fake_node;
mod proxy;
mod redis_server;
mod sentinel;
mod speaker;
