//! What was wrong in the design papers and must not come back. Each test is named after what is
//! guaranteed instead, and its comment names the flaw by its number in `FLAWS.md`.
//!
//! Flaws that show only on a Redis of its own (18, 62, 63, 65 to 67, 70, 71) have tests beside that
//! backend.

mod capacity;
mod sharing;

pub use capacity::*;
pub use sharing::*;
