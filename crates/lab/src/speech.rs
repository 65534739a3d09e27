//! Speech that can be recognised again: test signals, recordings, and the marks in them.
//!
//! What a simulated speaker says begins with a [`Mark`], and a simulated node tells of each job the
//! mark it found and the [`Digest`] of all the audio it was given. So whoever listens can see which
//! sentence a result is of, and that it is whole: nothing split off, lost, doubled or mixed in.
//!
//! In reading order: [`mark`], [`signal`] the test signals, `opus` their packets, [`wav`] recordings.

pub mod mark;
mod opus;
pub mod signal;
pub mod wav;

pub use mark::{Digest, Echo, Mark};
pub(crate) use signal::millis_of;
pub use signal::{Codec, Signal};
