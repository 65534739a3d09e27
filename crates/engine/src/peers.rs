//! How an instance sends to others. What it sends, and what it does with what comes, is in `cluster`.
//!
//! - [`outbox`]: the way out; `sender`: a message is kept until the store has it. `seal`: who sent an envelope; it is
//!   signed.
//! - `freed`: who is told of slots that came free.
//! - [`bodies`]: speech, results and other text, which others fetch over HTTP.
//! - [`question`]: what one instance asks another over HTTP.

pub mod bodies;
pub(crate) mod freed;
pub(crate) mod outbox;
pub(crate) mod question;
pub(crate) mod seal;
pub(crate) mod sender;

pub use question::Asker;
