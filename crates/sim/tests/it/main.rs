//! The world as a whole.

mod same;
mod seeds;
