//! What a client says, as it is read. What a message leaves out is decided where it is taken.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::json::Text;

/// First byte of a binary frame with a piece of speech.
pub const AUDIO_FRAME: u8 = 0x01;

/// First byte of a binary frame that ends an utterance.
pub const FINAL_FRAME: u8 = 0x02;

/// `session_init` without its [`JobOptions`](crate::JobOptions) and [`Targets`]. `pairing_code` is not looked at.
#[derive(Deserialize, ToSchema)]
pub struct SessionInit<'a> {
    /// Which client it is; for logs.
    #[schema(max_length = 128)]
    pub client_version: String,
    /// Where it runs; for logs.
    #[schema(max_length = 128)]
    pub platform: String,
    /// Whose session it is. Where tokens are asked for: the token's, and no other may be named.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    pub tenant_id: Option<String>,
    /// Who it is, where tokens are asked for and the request had none.
    #[schema(max_length = 4096)]
    pub token: Option<String>,
    /// To follow the session through logs; made up if absent.
    #[schema(max_length = 128)]
    pub trace_id: Option<String>,
    /// The client's span that the session is a part of; one that is wrong counts as none.
    #[schema(value_type = Option<serde_json::Value>)]
    pub traceparent: Option<Box<RawValue>>,
    /// What the last `session_init_ack` gave, to go on with that session.
    #[schema(max_length = 256)]
    pub resume_token: Option<String>,
    /// With it: the last utterance whose ending was heard.
    #[schema(maximum = 9007199254740991.0)]
    pub last_index: Option<u64>,
    /// The same for single targets, by language: of a session with several, where more was heard of one
    /// than of another. At most 64.
    pub last_indexes: Option<BTreeMap<String, u64>>,
    /// `binary`, `audio_ack`, `resume`, `events`; other words are passed over. Absent: `events`.
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<String>>, max_items = 64)]
    pub supports: Option<Vec<Text<'a>>>,
    /// Whether the translation is to be spoken. False: text only. True: spoken or not at all. Absent:
    /// spoken if a node has a voice for it, else text.
    pub speech: Option<bool>,
    /// What the person takes, `speech`, `captions` and `original`: one of the first two at least. Absent: as
    /// `speech` says. With it the results say what they are.
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 3)]
    pub accept: Option<Vec<Text<'a>>>,
    /// `stable` or `fast`: by which figures the jobs of the session are decided. Absent: the tenant's.
    pub profile: Option<String>,
    /// The form of speech in pieces, in any case. Absent: `opus`.
    pub codec: Option<String>,
    /// Time without a piece of speech that ends an utterance. Absent: 3000.
    #[schema(minimum = 200, maximum = 30000)]
    pub pause_ms: Option<u64>,
    /// Speech after which an utterance is cut. Absent: 10000.
    #[schema(minimum = 1000, maximum = 30000)]
    pub max_utterance_ms: Option<u64>,
}

/// The targets of `session_init` and `set_languages`.
#[derive(Deserialize, ToSchema)]
pub struct Targets {
    /// Several languages that it becomes, each by a job of its own: 1 to 8, all different. Not together
    /// with `two_way_auto`.
    #[schema(min_items = 1, max_items = 8)]
    pub targets: Option<Vec<String>>,
}

/// The message that comes a hundred times a second. Of any other, its type is all that counts here.
#[derive(Deserialize, ToSchema)]
pub struct AudioChunk<'a> {
    /// Its type.
    #[serde(rename = "type", borrow)]
    #[schema(ignore)]
    pub kind: Cow<'a, str>,
    /// The session of the socket, or absent.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text<'a>>,
    /// The number of the piece; rises by one within the session.
    #[schema(value_type = u32, minimum = 0, maximum = 4294967294.0)]
    pub seq: Option<u32>,
    /// The utterance ends with this piece, which may be empty.
    #[schema(value_type = bool)]
    pub is_final: Option<bool>,
    /// The speech, in the form that was agreed on; may end within a packet.
    #[serde(borrow)]
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    pub payload: Option<Text<'a>>,
}

/// What is only addressed to the session.
#[derive(Deserialize, ToSchema)]
pub struct Addressed<'a> {
    /// The session of the socket, or absent.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text<'a>>,
}

/// A sign of life.
#[derive(Deserialize, ToSchema)]
pub struct Heartbeat<'a> {
    /// The session of the socket, or absent.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text<'a>>,
    /// The client's clock; comes back.
    pub timestamp: Option<u64>,
}

/// A newer token.
#[derive(Deserialize, ToSchema)]
pub struct Auth {
    /// A newer token of the same subject and tenant.
    #[schema(max_length = 4096)]
    pub token: String,
}

/// An utterance is no longer wanted.
#[derive(Deserialize, ToSchema)]
pub struct Cancel<'a> {
    /// The session of the socket, or absent.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text<'a>>,
    /// The utterance, as its ending would carry it.
    pub utterance_index: u64,
}

/// A whole utterance, without its [`JobOptions`](crate::JobOptions).
#[derive(Deserialize, ToSchema)]
pub struct Utterance<'a> {
    /// The session of the socket, or absent.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text<'a>>,
    /// The client's own number of it; rises, and its ending carries it.
    #[schema(maximum = 9007199254740991.0)]
    pub utterance_index: u64,
    /// The speaker ended it. Absent: true.
    pub manual_cut: Option<bool>,
    /// The speech.
    #[serde(borrow)]
    #[schema(value_type = String, content_encoding = "base64", min_length = 1)]
    pub audio: Cow<'a, str>,
    /// The form of the speech, in any case. Absent: `opus`.
    pub audio_format: Option<String>,
    /// Samples a second. Absent: 16000.
    #[schema(minimum = 8000, maximum = 192000)]
    pub sample_rate: Option<u64>,
    /// To follow it through logs.
    #[schema(max_length = 128)]
    pub trace_id: Option<String>,
    /// The client's span that it is a part of; one that is wrong counts as none.
    #[schema(value_type = Option<serde_json::Value>)]
    pub traceparent: Option<Box<RawValue>>,
}

/// A text in place of speech, without its [`JobOptions`](crate::JobOptions).
#[derive(Deserialize, ToSchema)]
pub struct TextUtterance<'a> {
    /// The session of the socket, or absent.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text<'a>>,
    /// The client's own number of it, as of `utterance`; rises, and its ending carries it. Absent: it is
    /// numbered like speech in pieces, and answered with `finalized`.
    #[schema(maximum = 9007199254740991.0)]
    pub utterance_index: Option<u64>,
    /// The text, in the language of `src_lang`. Nothing has to be recognised.
    #[schema(min_length = 1, max_length = 4096)]
    pub text: String,
    /// To follow it through logs.
    #[schema(max_length = 128)]
    pub trace_id: Option<String>,
    /// The client's span that it is a part of; one that is wrong counts as none.
    #[schema(value_type = Option<serde_json::Value>)]
    pub traceparent: Option<Box<RawValue>>,
}

/// The form of speech that comes in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Codec {
    /// A run of `[u16 LE length][packet]`.
    #[default]
    Opus,
    /// Little-endian samples, 16 kHz, mono.
    Pcm16,
}

impl Codec {
    /// All of them.
    pub const ALL: [Codec; 2] = [Codec::Opus, Codec::Pcm16];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Codec::Opus => "opus",
            Codec::Pcm16 => "pcm16",
        }
    }
}
