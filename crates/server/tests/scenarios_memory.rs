//! The scenarios on the embedded store.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod scenarios;

scenarios::scenarios!(crate::app::On::Memory);
