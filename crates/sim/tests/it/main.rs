//! The world as a whole.

mod directed;
mod same;
mod seeds;
