//! What is said over the session socket.
//!
//! - `init`: the first message. `inbound`: every later one, in one pass over the text.
//! - `options`: the fields in which a client says how its speech is to be worked on.
//! - [`framing`]: pieces of speech into whole packets and samples, and how much speech that is.
//! - `render`: what a client is told.
//!
//! Unknown fields are passed over and `null` is the same as absent. A refusal is a sentence that
//! names the field.

mod init;
mod inbound;
mod options;
pub(crate) mod framing;
mod render;

use bytes::Bytes;
use lingua_core::TenantId;
use lingua_engine::sessions::inbound::{FromClient, Opening, WholeUtterance};
use lingua_engine::sessions::options::SpeechOptions;
use lingua_engine::trace::Context;
pub(crate) use lingua_protocol::client::Codec;
use lingua_protocol::fields::traceparent;
use serde_json::value::RawValue;

pub(crate) use inbound::{Aside, aside, decode_binary, decode_text, second_init};
pub(crate) use init::decode_init;
pub(crate) use render::{Renderer, auth_ack, render, room_error, server_heartbeat};

/// Samples a second of speech that comes in pieces.
const SAMPLE_RATE: u32 = 16_000;

/// A client's first message.
pub(crate) struct Init {
    /// What it asks for.
    pub(crate) opening: Opening,
    /// The form of its speech.
    pub(crate) codec: Codec,
    /// It sends speech in binary frames.
    pub(crate) binary: bool,
    /// The tenant that it names.
    pub(crate) named: Option<TenantId>,
    /// What it shows to be let in.
    pub(crate) token: Option<String>,
}

/// The caller's own span. One that is wrong counts as none, whatever it is.
pub(crate) fn parent(value: Option<&RawValue>) -> Option<Context> {
    Context::parse(&traceparent(value)?)
}

/// What a message is read against.
pub(crate) struct Bound<'a> {
    /// The session of the socket.
    pub(crate) session_id: &'a str,
    /// How its speech is worked on; what a message leaves out is taken from here.
    pub(crate) options: &'a SpeechOptions,
    /// Bytes of speech in one message.
    pub(crate) max_audio_bytes: usize,
}

/// What a client says once its session is open.
///
/// Without `Debug`: audio stays out of logs.
pub(crate) enum ClientMessage {
    /// A piece of speech as it came, to be put through a [`framing::Framer`].
    Audio {
        /// The client's number of it.
        seq: u32,
        /// The utterance ends with it.
        is_final: bool,
        /// The speech; may be empty, and may end within a packet.
        audio: Bytes,
    },
    /// A whole utterance.
    Whole(Box<WholeUtterance>),
    /// Something else for the session.
    Other(FromClient),
    /// A sign of life, to be answered with [`server_heartbeat`].
    Heartbeat {
        /// The client's own clock.
        timestamp: Option<u64>,
    },
    /// A newer token, to be answered with [`auth_ack`].
    Auth {
        /// The token.
        token: String,
    },
    /// About rooms and calls, which are not served.
    Aside(Aside),
    /// A second `session_init`, to be answered with [`second_init`].
    SecondInit,
}

#[cfg(test)]
mod tests;
