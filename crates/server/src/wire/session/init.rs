//! The first message of a client.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::{Lang, TenantId};
use lingua_engine::job::Refusal;
use lingua_engine::sessions::inbound::{Opening, Resume, Supports};
use lingua_protocol::client::inbound::SessionInit;
use lingua_protocol::fields::{
    MAX_INDEX, MAX_WORD_CHARS, invalid, language, profile, text, within, wrong,
};
use lingua_protocol::json::Text;
use lingua_protocol::options::{MAX_WORDS, check_words};
use lingua_protocol::raw::RawMessage;

use super::inbound::{is_object, kind_of, stranger};
use super::options::{self, Wishes};
use super::{Codec, Init, parent};
use crate::identity::{MAX_TOKEN_CHARS as MAX_CREDENTIAL_CHARS, default_tenant};

/// Characters of what a client comes back with.
const MAX_TOKEN_CHARS: usize = 256;

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
    let raw = RawMessage::read(message).map_err(invalid)?;
    let fields: SessionInit<'_> = raw.view().map_err(invalid)?;
    let wishes = Wishes::of_session(&raw)?;
    text("client_version", Some(fields.client_version), MAX_WORD_CHARS)?;
    text("platform", Some(fields.platform), MAX_WORD_CHARS)?;
    let tenant = fields.tenant_id.map(TenantId::new).transpose();
    let named = tenant.map_err(|error| wrong("tenant_id", error))?;
    let shown = said(text("token", fields.token, MAX_CREDENTIAL_CHARS)?);
    let codec = codec(fields.codec.as_deref())?;
    let (supports, binary) = supports(fields.supports.as_deref())?;
    let last_index = fields.last_index.map(|index| within("last_index", index, 0..=MAX_INDEX));
    let last_index = last_index.transpose()?;
    let last_indexes = last_indexes(fields.last_indexes.unwrap_or_default())?;
    let token = said(text("resume_token", fields.resume_token, MAX_TOKEN_CHARS)?);
    let accept: Option<Vec<&str>> =
        fields.accept.as_ref().map(|words| words.iter().map(|Text(word)| &**word).collect());
    let wanted = options::WantedOptions {
        speech: fields.speech,
        accept: accept.as_deref(),
        profile: profile("profile", fields.profile.as_deref())?,
        existing: supports.existing,
    };
    let opening = Opening {
        tenant: named.clone().unwrap_or_else(default_tenant),
        subject: None,
        address,
        options: Arc::new(wishes.opening(codec, &wanted)?),
        trace_id: said(text("trace_id", fields.trace_id, MAX_WORD_CHARS)?),
        traceparent: parent(fields.traceparent.as_deref()),
        supports,
        pause: fields.pause_ms.map(Duration::from_millis),
        max_utterance: fields.max_utterance_ms.map(Duration::from_millis),
        resume: token.map(|token| Resume { token, last_index, last_indexes }),
    };
    Ok(Init { opening, codec, binary, named, token: shown })
}

/// Some clients send every field, and those without a value as an empty word.
pub(super) fn said(word: Option<String>) -> Option<String> {
    word.filter(|word| !word.is_empty())
}

/// The last utterance heard of each target.
fn last_indexes(said: BTreeMap<String, u64>) -> Result<Vec<(Lang, u64)>, Refusal> {
    let field = "last_indexes";
    if said.len() > MAX_WORDS {
        return Err(wrong(field, format_args!("has more than {MAX_WORDS} languages")));
    }
    let one = |(tag, index): (String, u64)| {
        Ok((language(field, &tag)?, within(field, index, 0..=MAX_INDEX)?))
    };
    said.into_iter().map(one).collect()
}

fn codec(word: Option<&str>) -> Result<Codec, Refusal> {
    let Some(word) = word else { return Ok(Codec::default()) };
    let known = Codec::ALL.into_iter().find(|codec| codec.as_str().eq_ignore_ascii_case(word));
    known.ok_or_else(|| wrong("codec", "is opus or pcm16"))
}

/// What the client understands, and whether it sends binary frames. Words that say nothing to us are
/// passed over. A client without the list is one from before there was one: it wants events and
/// partials.
fn supports(words: Option<&[Text<'_>]>) -> Result<(Supports, bool), Refusal> {
    let Some(words) = words else {
        return Ok((Supports { events: true, existing: true, ..Supports::default() }, false));
    };
    check_words("supports", words)?;
    let lists = |name: &str| words.iter().any(|Text(word)| word.eq_ignore_ascii_case(name));
    let supports = Supports {
        audio_ack: lists("audio_ack"),
        resume: lists("resume"),
        events: lists("events"),
        existing: false,
    };
    Ok((supports, lists("binary")))
}
