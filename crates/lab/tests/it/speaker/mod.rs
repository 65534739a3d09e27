//! Simulated speakers, spoken to by a scheduler that is moved by hand or echoes.

mod automatic;
mod desk;
mod existing;
mod scripted;
