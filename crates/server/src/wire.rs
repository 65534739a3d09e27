//! What is said through the doors: parsed once at the edge into the engine's words, rendered once.
//!
//! - [`json`] and [`fields`]: how messages are read, checked and written. [`message`]: those that go
//!   out, as types.
//! - [`capability`]: what a node says it can do, over either door.
//! - [`http`]: the bodies of the HTTP door.
//! - [`node`]: the messages of the node socket. [`session`]: those of the session socket.
//! - [`asyncapi`]: the description of both sockets, of what is [`described`].

pub(crate) mod json;
pub(crate) mod fields;
pub(crate) mod message;
pub(crate) mod described;
pub(crate) mod capability;
pub(crate) mod http;
pub(crate) mod node;
pub(crate) mod session;
pub(crate) mod asyncapi;

#[cfg(test)]
mod documented;
