//! What is said through the doors: parsed once at the edge into the engine's words, rendered once.
//!
//! - [`capability`]: what a node says it can do, over either door.
//! - [`http`]: the bodies of the HTTP door.
//! - [`node`]: the messages of the node socket.

pub(crate) mod capability;
pub(crate) mod http;
pub(crate) mod node;
