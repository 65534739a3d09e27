//! What is said through the doors, between the messages of [`lingua_protocol`] and the engine's own words.
//!
//! - [`http`]: the bodies of the HTTP door.
//! - [`node`]: what nodes are told. [`session`]: what clients say and are told.
//! - [`asyncapi`]: the description of both sockets.

pub(crate) mod http;
pub(crate) mod node;
pub(crate) mod session;
pub(crate) mod asyncapi;

#[cfg(test)]
mod documented;
