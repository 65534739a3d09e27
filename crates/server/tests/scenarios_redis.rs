//! The scenarios on a real redis-server each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod scenarios;

scenarios::scenarios!(crate::app::On::Redis);
