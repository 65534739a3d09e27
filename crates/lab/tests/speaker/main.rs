//! Simulated speakers, spoken to by a scheduler that is moved by hand or echoes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod automatic;
mod desk;
mod scripted;
