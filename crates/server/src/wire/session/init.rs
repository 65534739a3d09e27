//! The first message of a client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::TenantId;
use lingua_engine::job::Refusal;
use lingua_engine::sessions::words::{Opening, Resume, Supports};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::manner::{Wishes, check_words};
use super::said::{is_object, kind_of, stranger};
use super::{Codec, Init};
use crate::identity::{MAX_TOKEN_CHARS as MAX_CREDENTIAL_CHARS, default_tenant};
use crate::wire::fields::{MAX_INDEX, MAX_WORD_CHARS, invalid, text, traceparent, within, wrong};
use crate::wire::json::{self, Text};

/// Characters of what a client comes back with.
const MAX_TOKEN_CHARS: usize = 256;

/// `session_init` without what [`Wishes`] reads. `pairing_code` is not looked at.
#[derive(Deserialize, ToSchema)]
pub(super) struct Fields<'a> {
    /// Which client it is; for logs.
    #[schema(max_length = 128)]
    client_version: String,
    /// Where it runs; for logs.
    #[schema(max_length = 128)]
    platform: String,
    /// Whose session it is. Where tokens are asked for: the token's, and no other may be named.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    tenant_id: Option<String>,
    /// Who it is, where tokens are asked for and the request had none.
    #[schema(max_length = 4096)]
    token: Option<String>,
    /// To follow the session through logs; made up if absent.
    #[schema(max_length = 128)]
    trace_id: Option<String>,
    /// The client's span that the session is a part of; one that is wrong counts as none.
    #[schema(value_type = Option<serde_json::Value>)]
    traceparent: Option<Box<RawValue>>,
    /// What the last `session_init_ack` gave, to go on with that session.
    #[schema(max_length = 256)]
    resume_token: Option<String>,
    /// With it: the last utterance whose ending was heard.
    #[schema(maximum = 9007199254740991.0)]
    last_index: Option<u64>,
    /// `binary`, `audio_ack`, `resume`, `events`; other words are passed over. Absent: `events`.
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<String>>, max_items = 64)]
    supports: Option<Vec<Text<'a>>>,
    /// Whether the translation is to be spoken. False: text only. True: spoken or not at all. Absent:
    /// spoken if a node has a voice for it, else text.
    speech: Option<bool>,
    /// The form of speech in pieces, in any case. Absent: `opus`.
    codec: Option<String>,
    /// Time without a piece of speech that ends an utterance. Absent: 3000.
    #[schema(minimum = 200, maximum = 30000)]
    pause_ms: Option<u64>,
    /// Speech after which an utterance is cut. Absent: 10000.
    #[schema(minimum = 1000, maximum = 30000)]
    max_utterance_ms: Option<u64>,
}

/// Reads the first message of a client at this address.
pub(crate) fn decode_init(message: &str, address: IpAddr) -> Result<Init, Refusal> {
    is_object(message)?;
    match kind_of(message)?.as_ref() {
        "session_init" => {}
        kind => {
            let refusal = stranger(kind);
            return Err(refusal.unwrap_or_else(|| invalid("session_init comes first")));
        }
    }
    let fields: Fields<'_> = json::read(message).map_err(invalid)?;
    let wishes: Wishes = json::read(message).map_err(invalid)?;
    text("client_version", Some(fields.client_version), MAX_WORD_CHARS)?;
    text("platform", Some(fields.platform), MAX_WORD_CHARS)?;
    let tenant = fields.tenant_id.map(TenantId::new).transpose();
    let named = tenant.map_err(|error| wrong("tenant_id", error))?;
    let shown = said(text("token", fields.token, MAX_CREDENTIAL_CHARS)?);
    let codec = codec(fields.codec.as_deref())?;
    let (supports, binary) = supports(fields.supports.as_deref())?;
    let last_index = fields.last_index.map(|index| within("last_index", index, 0..=MAX_INDEX));
    let last_index = last_index.transpose()?;
    let token = said(text("resume_token", fields.resume_token, MAX_TOKEN_CHARS)?);
    let opening = Opening {
        tenant: named.clone().unwrap_or_else(default_tenant),
        subject: None,
        address,
        manner: Arc::new(wishes.of_session(codec, fields.speech, supports.existing)?),
        trace_id: said(text("trace_id", fields.trace_id, MAX_WORD_CHARS)?),
        traceparent: traceparent(fields.traceparent.as_deref()),
        supports,
        pause: fields.pause_ms.map(Duration::from_millis),
        max_utterance: fields.max_utterance_ms.map(Duration::from_millis),
        resume: token.map(|token| Resume { token, last_index }),
    };
    Ok(Init { opening, codec, binary, named, token: shown })
}

/// Some clients send every field, and those without a value as an empty word.
pub(super) fn said(word: Option<String>) -> Option<String> {
    word.filter(|word| !word.is_empty())
}

fn codec(word: Option<&str>) -> Result<Codec, Refusal> {
    let Some(word) = word else { return Ok(Codec::default()) };
    let known = [Codec::Opus, Codec::Pcm16];
    let known = known.into_iter().find(|codec| codec.as_str().eq_ignore_ascii_case(word));
    known.ok_or_else(|| wrong("codec", "is opus or pcm16"))
}

/// What the client understands, and whether it sends binary frames. Words that say nothing to us are
/// passed over. A client without the list is one from before there was one: it wants events and
/// partials.
fn supports(words: Option<&[Text<'_>]>) -> Result<(Supports, bool), Refusal> {
    let Some(words) = words else {
        return Ok((Supports { events: true, existing: true, ..Supports::default() }, false));
    };
    check_words("supports", words.len(), words.iter().map(|Text(word)| word))?;
    let lists = |name: &str| words.iter().any(|Text(word)| word.eq_ignore_ascii_case(name));
    let supports = Supports {
        audio_ack: lists("audio_ack"),
        resume: lists("resume"),
        events: lists("events"),
        existing: false,
    };
    Ok((supports, lists("binary")))
}
