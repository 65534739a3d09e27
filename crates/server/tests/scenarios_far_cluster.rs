//! The scenarios with the nodes on another instance, over a Redis Cluster.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod scenarios;

scenarios::scenarios!(crate::app::On::FarCluster);
