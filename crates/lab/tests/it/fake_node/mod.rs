//! Simulated nodes against a scheduler of a few lines.

mod automatic;
mod desk;
mod existing;
mod returning;
mod scripted;
