//! What a client says, as its connection decoded it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::{Lang, TenantId};

use super::options::SpeechOptions;
use crate::trace;

/// What a client asks for when it opens a session.
#[derive(Clone)]
pub struct Opening {
    /// Whose session it is.
    pub tenant: TenantId,
    /// Who opens it, by their token; nobody else gets it back. Absent where no token is asked for.
    pub subject: Option<Arc<str>>,
    /// From where.
    pub address: IpAddr,
    /// How its speech is to be worked on.
    pub options: Arc<SpeechOptions>,
    /// For following the session through all logs; made up if absent.
    pub trace_id: Option<String>,
    /// The client's own span that the session is a part of.
    pub traceparent: Option<trace::Context>,
    /// What it understands.
    pub supports: Supports,
    /// Time without a piece of speech that ends an utterance, if it asks for its own.
    pub pause: Option<Duration>,
    /// The longest utterance, if it asks for its own.
    pub max_utterance: Option<Duration>,
    /// It had a session before.
    pub resume: Option<Resume>,
}

/// What a client says of the session that it had.
#[derive(Clone)]
pub struct Resume {
    /// What it was given then.
    pub token: String,
    /// Up to which utterance, in its own numbers, it has seen every ending.
    pub last_index: Option<u64>,
    /// The same of single targets, where it has seen more of one than of another.
    pub last_indexes: Vec<(Lang, u64)>,
}

/// What a client understands beyond what every client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Supports {
    /// It frees speech that is acknowledged, and numbers its pieces through.
    pub audio_ack: bool,
    /// It comes back with its token, and sends again what was not acknowledged.
    pub resume: bool,
    /// It wants to hear of the steps on the way.
    pub events: bool,
    /// It is from before there was a list: of what goes wrong it shows `error` and nothing else, each
    /// in a window of its own.
    pub existing: bool,
}

/// What a client says once its session is open. Messages that are wrong, and those
/// that do not concern the session, are answered by the connection itself.
///
/// Without `Debug`: audio stays out of logs.
pub enum FromClient {
    /// A piece of speech: whole packets or samples.
    Audio {
        /// The client's number of it.
        seq: u32,
        /// The speech; may be empty.
        audio: Bytes,
        /// How much speech it is.
        duration: Duration,
        /// The utterance ends with it.
        is_final: bool,
    },
    /// A whole utterance.
    Utterance(Box<WholeUtterance>),
    /// What was said so far is an utterance.
    Finalize,
    /// From now on with these options.
    SetLanguages(Arc<SpeechOptions>),
    /// This utterance, in the client's numbers, is no longer wanted.
    Cancel {
        /// Its number.
        utterance_index: u64,
    },
    /// The client's loudspeaker plays.
    TtsStarted,
    /// It is silent again.
    TtsPlayEnded,
    /// The conversation is over.
    Close,
}

impl FromClient {
    /// Whether it shows that the pieces before it were all of their utterance.
    pub(super) fn ends_pieces(&self) -> bool {
        match self {
            FromClient::Audio { .. }
            | FromClient::Finalize
            | FromClient::SetLanguages(_)
            | FromClient::Close => true,
            FromClient::Utterance(_)
            | FromClient::Cancel { .. }
            | FromClient::TtsStarted
            | FromClient::TtsPlayEnded => false,
        }
    }
}

/// A whole utterance of a client: speech, or a text in its place.
pub struct WholeUtterance {
    /// The client's number of it, if it gave one.
    pub client_index: Option<u64>,
    /// How it is to be worked on.
    pub options: Arc<SpeechOptions>,
    /// The speech, or the text.
    pub audio: Bytes,
    /// How much speech it is.
    pub duration: Duration,
    /// The speaker ended it.
    pub manual_cut: bool,
    /// For following it through all logs.
    pub trace_id: Option<String>,
    /// The client's own span that it is a part of.
    pub traceparent: Option<trace::Context>,
}
