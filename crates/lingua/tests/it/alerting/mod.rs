//! Rules under Prometheus itself, and faults that set them off.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

pub mod line;
pub mod prometheus;
pub mod rules;
pub mod scenes;
pub mod stage;
