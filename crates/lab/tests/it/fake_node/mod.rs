//! Simulated nodes against a scheduler of a few lines.

mod automatic;
mod desk;
mod returning;
mod scripted;
