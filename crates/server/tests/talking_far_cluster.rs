//! Conversations with the nodes on another instance, over a Redis Cluster.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod talking;

talking::conversations!(crate::app::On::FarCluster);
