//! How an instance sends to others. What it sends, and what it does with what comes, is in `cluster`.
//!
//! - [`outbox`]: the way out. `seal`: who sent an envelope; it is signed.
//! - [`bodies`]: speech, results and other text, which others fetch over HTTP.
//! - [`question`]: what one instance asks another over HTTP.

pub mod bodies;
pub(crate) mod outbox;
pub(crate) mod question;
pub(crate) mod seal;

pub use question::Asker;
