//! The world as a whole.
#![allow(clippy::print_stdout, reason = "figures for who runs it with --nocapture")]

mod directed;
mod planted;
mod same;
mod seeds;
