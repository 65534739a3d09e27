//! Simulated nodes against a scheduler of a few lines.

#![allow(clippy::unwrap_used, reason = "the steps that tests share fail as tests do")]

mod automatic;
mod desk;
mod returning;
mod scripted;
