//! What is said over the node socket, and over HTTP in the node's own words.
//!
//! - `decode`: what a node says, into the engine's words, in one pass over the text.
//! - `about_itself`: the fields in which it speaks of itself.
//! - `render`: what it is told, straight into the text that goes out. `told`: the messages, field by
//!   field.
//! - `from_node`: what a node says, described.
//!
//! Unknown fields are passed over and `null` is the same as absent. A refusal is a sentence that
//! names the field.

mod about_itself;
mod decode;
mod render;
mod told;
mod from_node;

pub(crate) use about_itself::AboutItself;
pub(crate) use decode::{FromNode, decode};
pub(crate) use from_node::{described as from_node, frames};
pub(crate) use render::{
    audio_frame, auth_ack, cancel_stranger, error, heartbeat_ack, register_ack, render,
};
pub(crate) use told::described as to_node;
