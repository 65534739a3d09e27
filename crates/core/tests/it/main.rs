//! The properties of the machines and of choosing, over any order of events.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

mod pool_model;
mod select_fairness;
mod select_load;
mod session_properties;
mod session_scenarios;
