//! The messages of the session socket.
//!
//! - [`inbound`]: what a client says. [`outbound`]: what it is told.
//! - `describe`: what it says, described.

pub mod inbound;
pub mod outbound;
mod describe;

pub use describe::from_client;
pub use inbound::Codec;
pub use outbound::{Action, Detail, Step, to_client};
