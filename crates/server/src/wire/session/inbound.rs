//! What a client says once its session is open.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeSliceError, Engine as _};
use bytes::Bytes;
use lingua_core::outcome::Code;
use lingua_engine::audio::too_large;
use lingua_engine::job::Refusal;
use lingua_engine::sessions::inbound::{FromClient, WholeUtterance};
use lingua_engine::sessions::options::SpeechOptions;
use lingua_protocol::client::inbound::{
    AUDIO_FRAME, Addressed, AudioChunk, Auth, Cancel, FINAL_FRAME, Heartbeat, TextUtterance,
    Utterance,
};
use lingua_protocol::fields::{
    MAX_DEPTH, MAX_INDEX, MAX_WORD_CHARS, audio_format, deeper_than, invalid, text, typed, within,
    wrong,
};
use lingua_protocol::json::{self, Kind, Text};
use lingua_protocol::raw::RawMessage;

use super::framing::duration_of;
use super::init;
use super::options::Wishes;
use super::{Bound, ClientMessage, parent};
use crate::identity::MAX_TOKEN_CHARS;

/// Characters of a message's type that are quoted.
const MAX_KIND_CHARS: usize = 64;

/// Reads a text frame.
pub(crate) fn decode_text(message: &str, bound: &Bound<'_>) -> Result<ClientMessage, Refusal> {
    is_object(message)?;
    let chunk: AudioChunk<'_> = match serde_json::from_str(message) {
        Ok(chunk) => chunk,
        // Some field is wrong; whether it is one that counts, the message's type says.
        Err(_) => match kind_of(message)?.as_ref() {
            "audio_chunk" => json::read(message).map_err(invalid)?,
            kind => return bound.other(kind, message),
        },
    };
    if chunk.kind != "audio_chunk" {
        return bound.other(&chunk.kind, message);
    }
    bound.check_session(chunk.session_id.as_ref())?;
    let seq = chunk.seq.ok_or_else(|| missing("seq"))?;
    let is_final = chunk.is_final.ok_or_else(|| missing("is_final"))?;
    let audio = match &chunk.payload {
        Some(Text(payload)) => decode_base64("payload", payload, bound.max_audio_bytes)?,
        None => Bytes::new(),
    };
    Ok(ClientMessage::Audio { seq, is_final, audio })
}

/// Reads a binary frame: `0x01, u8 L, u32 seq, u32 timestamp, u8 is_final, u8 0, session_id, audio`
/// or `0x02, u8 L, u32 seq, u32 timestamp, session_id`. The audio is a part of the frame.
pub(crate) fn decode_binary(frame: Bytes, bound: &Bound<'_>) -> Result<ClientMessage, Refusal> {
    let head = match frame.first() {
        Some(&AUDIO_FRAME) => 12,
        Some(&FINAL_FRAME) => 10,
        Some(other) => {
            return Err(invalid(format!(
                "binary frame: begins with 0x01 or 0x02, not {other:#04x}"
            )));
        }
        None => return Err(invalid("binary frame: is empty")),
    };
    let short = || {
        let bytes = frame.len();
        invalid(format!("binary frame: {bytes} bytes do not hold its head and session_id"))
    };
    if frame.len() < head {
        return Err(short());
    }
    let end = head + usize::from(frame[1]);
    let id = frame.get(head..end).ok_or_else(short)?;
    if !id.is_empty() && id != bound.session_id.as_bytes() {
        return Err(not_ours());
    }
    let seq = u32::from_le_bytes([frame[2], frame[3], frame[4], frame[5]]);
    let audio = frame.slice(end..);
    if head == 10 {
        if !audio.is_empty() {
            return Err(invalid("binary frame: nothing follows the session_id of a 0x02 frame"));
        }
        return Ok(ClientMessage::Audio { seq, is_final: true, audio });
    }
    if audio.len() > bound.max_audio_bytes {
        return Err(too_large(bound.max_audio_bytes));
    }
    Ok(ClientMessage::Audio { seq, is_final: frame[10] != 0, audio })
}

/// The answer to a second `session_init`.
pub(crate) fn second_init() -> Refusal {
    invalid("session_init comes once: this socket has its session")
}

/// A message is one object of few levels: a list of the fields' values would be read as well.
pub(super) fn is_object(message: &str) -> Result<(), Refusal> {
    if !message.trim_ascii_start().starts_with('{') {
        return Err(invalid("a message is one JSON object"));
    }
    if deeper_than(message.as_bytes(), MAX_DEPTH) {
        return Err(invalid(format!("the message is nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(())
}

/// The type of a message.
pub(super) fn kind_of(message: &str) -> Result<Cow<'_, str>, Refusal> {
    json::read(message).map(|Kind { kind }| kind).map_err(invalid)
}

/// The refusal of a type that this socket does not serve.
pub(super) fn stranger(kind: &str) -> Option<Refusal> {
    let detail = match kind {
        "session_init" | "audio_chunk" | "utterance" | "text_utterance" | "finalize"
        | "set_languages" | "cancel" | "client_heartbeat" | "tts_started" | "tts_play_ended"
        | "session_close" | "auth" => {
            return None;
        }
        kind => {
            let name: String = kind.chars().take(MAX_KIND_CHARS).collect();
            format!("{name:?} is not a message that a client sends")
        }
    };
    Some(Refusal::new(Code::UnsupportedMessage, detail))
}

/// What existing clients send for rooms and calls, which are not served. It is no mistake of theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aside {
    /// About rooms: answered that there are none.
    Room,
    /// Signalling between browsers, which comes in bursts: passed over.
    Signalling,
}

/// What that message is, if it is beside the session.
pub(crate) fn aside(message: &str) -> Option<Aside> {
    let kind = is_object(message).and_then(|()| kind_of(message)).ok()?;
    aside_kind(&kind)
}

fn aside_kind(kind: &str) -> Option<Aside> {
    if kind.starts_with("room_") {
        Some(Aside::Room)
    } else if kind.starts_with("webrtc_") {
        Some(Aside::Signalling)
    } else {
        None
    }
}

impl Bound<'_> {
    /// Everything but a piece of speech.
    fn other(&self, kind: &str, message: &str) -> Result<ClientMessage, Refusal> {
        if let Some(aside) = aside_kind(kind) {
            return Ok(ClientMessage::Aside(aside));
        }
        if let Some(refusal) = stranger(kind) {
            return Err(refusal);
        }
        let word = match kind {
            "session_init" => return Ok(ClientMessage::SecondInit),
            "utterance" => return self.utterance(message),
            "text_utterance" => return self.text_utterance(message),
            "client_heartbeat" => {
                let beat: Heartbeat<'_> = json::read(message).map_err(invalid)?;
                self.check_session(beat.session_id.as_ref())?;
                return Ok(ClientMessage::Heartbeat { timestamp: beat.timestamp });
            }
            "auth" => {
                let auth: Auth = json::read(message).map_err(invalid)?;
                let token = text("token", Some(auth.token), MAX_TOKEN_CHARS)?;
                return Ok(ClientMessage::Auth { token: token.unwrap_or_default() });
            }
            "cancel" => {
                let cancel: Cancel<'_> = json::read(message).map_err(invalid)?;
                self.check_session(cancel.session_id.as_ref())?;
                return Ok(ClientMessage::Other(FromClient::Cancel {
                    utterance_index: cancel.utterance_index,
                }));
            }
            "set_languages" => {
                let raw = RawMessage::read(message).map_err(invalid)?;
                let wishes = Wishes::of_session(&raw)?;
                FromClient::SetLanguages(Arc::new(wishes.within(self.options, false)?))
            }
            "finalize" => FromClient::Finalize,
            "tts_started" => FromClient::TtsStarted,
            "tts_play_ended" => FromClient::TtsPlayEnded,
            _ => FromClient::Close,
        };
        self.check_address(message)?;
        Ok(ClientMessage::Other(word))
    }

    fn utterance(&self, message: &str) -> Result<ClientMessage, Refusal> {
        let raw = RawMessage::read(message).map_err(invalid)?;
        let said: Utterance<'_> = raw.view().map_err(invalid)?;
        let wishes = Wishes::of_utterance(&raw)?;
        self.check_session(said.session_id.as_ref())?;
        let client_index = within("utterance_index", said.utterance_index, 0..=MAX_INDEX)?;
        let audio_format = audio_format(said.audio_format.as_deref())?;
        let rate = within("sample_rate", said.sample_rate.unwrap_or(16_000), 8_000..=192_000)?;
        let sample_rate = u32::try_from(rate).expect("checked above");
        let trace_id = init::said(text("trace_id", said.trace_id, MAX_WORD_CHARS)?);
        let options = wishes.within(self.options, false)?;
        let audio = decode_base64("audio", &said.audio, self.max_audio_bytes)?;
        if audio.is_empty() {
            return Err(wrong("audio", "is empty"));
        }
        Ok(ClientMessage::Whole(Box::new(WholeUtterance {
            client_index: Some(client_index),
            options: Arc::new(SpeechOptions { audio_format, sample_rate, ..options }),
            duration: duration_of(audio_format, sample_rate, &audio)?,
            audio,
            manual_cut: said.manual_cut.unwrap_or(true),
            trace_id,
            traceparent: parent(said.traceparent.as_deref()),
        })))
    }

    fn text_utterance(&self, message: &str) -> Result<ClientMessage, Refusal> {
        let raw = RawMessage::read(message).map_err(invalid)?;
        let said: TextUtterance<'_> = raw.view().map_err(invalid)?;
        let wishes = Wishes::of_utterance(&raw)?;
        self.check_session(said.session_id.as_ref())?;
        let index = said.utterance_index.map(|n| within("utterance_index", n, 0..=MAX_INDEX));
        let client_index = index.transpose()?;
        let trace_id = init::said(text("trace_id", said.trace_id, MAX_WORD_CHARS)?);
        let options = wishes.within(self.options, true)?;
        Ok(ClientMessage::Whole(Box::new(WholeUtterance {
            client_index,
            options: Arc::new(options),
            duration: Duration::ZERO,
            audio: typed("text", said.text)?,
            // It has no pieces.
            manual_cut: true,
            trace_id,
            traceparent: parent(said.traceparent.as_deref()),
        })))
    }

    fn check_address(&self, message: &str) -> Result<(), Refusal> {
        let Addressed { session_id } = json::read(message).map_err(invalid)?;
        self.check_session(session_id.as_ref())
    }

    /// A message without a session is one to the socket's own.
    fn check_session(&self, id: Option<&Text<'_>>) -> Result<(), Refusal> {
        match id {
            Some(Text(id)) if id != self.session_id => Err(not_ours()),
            _ => Ok(()),
        }
    }
}

fn not_ours() -> Refusal {
    Refusal::new(Code::InvalidSession, "session_id: is not the session of this socket")
}

fn missing(field: &str) -> Refusal {
    invalid(format!("missing field `{field}`"))
}

/// Audio, straight into the bytes that are kept.
fn decode_base64(field: &str, encoded: &str, max_bytes: usize) -> Result<Bytes, Refusal> {
    let padding = encoded.bytes().rev().take(2).take_while(|byte| *byte == b'=').count();
    // Of exactly this size if it is base64 at all.
    let bytes = (encoded.len() / 4 * 3).saturating_sub(padding);
    if bytes > max_bytes {
        return Err(too_large(max_bytes));
    }
    let mut audio = vec![0; bytes];
    match STANDARD.decode_slice(encoded, &mut audio) {
        Ok(written) if written == bytes => Ok(audio.into()),
        Err(DecodeSliceError::DecodeError(_)) => Err(wrong(field, "is not standard padded base64")),
        _ => Err(wrong(field, "is not standard padded base64")),
    }
}
