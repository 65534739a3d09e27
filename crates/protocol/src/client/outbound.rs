//! What a client is told.

use lingua_core::fleet::AnswerForm;
use lingua_core::outcome::MissingReason;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::described::Described;
use crate::json::{self, OpenObject, is_appended};
use crate::node::ResultFields;

/// What a result takes beside the node's part.
const RESULT_BYTES: usize = 512;

/// The session is open.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "session_init_ack")]
pub struct SessionInitAck<'a> {
    /// The session; may be left out of all that the client sends.
    pub session_id: &'a str,
    /// For people.
    pub message: &'a str,
    /// To follow the session through logs.
    pub trace_id: &'a str,
    /// The version of this protocol.
    pub protocol_version: &'a str,
    /// Whether the client may send speech in binary frames.
    pub use_binary_frame: bool,
    /// The form of speech in pieces.
    pub negotiated_codec: &'a str,
    /// The same.
    pub negotiated_audio_format: &'a str,
    /// Samples a second.
    pub negotiated_sample_rate: u32,
    /// Number of channels.
    pub negotiated_channel_count: u32,
    /// What to come back with; only for a client with `resume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<&'a str>,
    /// Only after a `resume_token`: the session goes on and nothing is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered: Option<bool>,
    /// The number of the next utterance.
    pub next_index: u64,
    /// How often to send `client_heartbeat`.
    pub heartbeat_interval_ms: u64,
    /// The target languages, if they are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<&'a [String]>,
}

/// The answer to `finalize`.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "finalized")]
pub struct Finalized<'a> {
    /// The session.
    pub session_id: &'a str,
    /// The utterance that was made, or none since nothing had been said.
    pub utterance_index: Option<u64>,
}

/// A step on the way of an utterance, for clients with `events`.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "ui_event")]
pub struct UiEvent<'a> {
    /// The session.
    pub session_id: &'a str,
    /// Which utterance.
    pub utterance_index: u64,
    /// The language spoken; `auto` if the node was to find it out and has not said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_lang: Option<&'a str>,
    /// The language of the job; absent before there is one for each target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tgt_lang: Option<&'a str>,
    /// Its job; empty before there is one.
    pub job_id: &'a str,
    /// To follow it through logs.
    pub trace_id: &'a str,
    /// The step.
    #[schema(inline)]
    pub event: Step,
    /// Milliseconds since it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// Whether it went well.
    #[schema(inline)]
    pub status: Status,
    /// A code, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<&'a str>,
    /// A sentence, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'a str>,
}

/// Words on the way, as the node recognises them.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "asr_partial")]
pub struct AsrPartial<'a> {
    /// The session.
    pub session_id: &'a str,
    /// Which utterance.
    pub utterance_index: u64,
    /// The language spoken; `auto` if the node was to find it out and has not said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_lang: Option<&'a str>,
    /// The language of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tgt_lang: Option<&'a str>,
    /// Its job.
    pub job_id: &'a str,
    /// To follow it through logs.
    pub trace_id: &'a str,
    /// What was recognised so far.
    #[serde(skip_serializing_if = "is_appended")]
    #[schema(value_type = String)]
    pub text: &'a str,
    /// They will not change any more.
    pub is_final: bool,
}

/// An utterance ended with a translation.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "translation_result")]
pub struct TranslationResult<'a> {
    /// The session.
    pub session_id: &'a str,
    /// Which utterance.
    pub utterance_index: u64,
    /// The language spoken; `auto` if the node was to find it out and has not said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_lang: Option<&'a str>,
    /// The language of the translation; absent if the node was to find it out and has not said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tgt_lang: Option<&'a str>,
    /// Its job.
    pub job_id: &'a str,
    /// To follow it through logs.
    pub trace_id: &'a str,
    /// The turn: the parts of a long utterance share it.
    pub group_id: &'a str,
    /// Which part, from 0.
    pub part_index: u32,
    /// When it was told, in milliseconds since 1970.
    pub scheduler_sent_at_ms: u64,
    /// For a client that gave `accept`: what it got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<&'a str>,
    /// The language between, of a translation by way of another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<&'a str>,
    /// For clients with `audio_ack`: speech up to this piece may be forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_ack: Option<u32>,
    /// What the node said, as it said it.
    #[serde(skip)]
    #[schema(ignore)]
    pub node: ResultFields<'a>,
}

/// An utterance ended without one.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "missing_result")]
pub struct MissingResult<'a> {
    /// The session.
    pub session_id: &'a str,
    /// Which utterance.
    pub utterance_index: u64,
    /// The language spoken; `auto` if the node was to find it out and has not said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_lang: Option<&'a str>,
    /// The language that is missing. Absent if it is not known: then every target of the utterance that has no
    /// ending yet is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tgt_lang: Option<&'a str>,
    /// Why there is no result.
    #[serde(serialize_with = "as_word")]
    #[schema(value_type = String)]
    pub reason: MissingReason,
    /// When it was told, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// To follow it through logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<&'a str>,
    /// For clients with `audio_ack`: speech up to this piece may be forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_ack: Option<u32>,
}

/// For clients with `audio_ack`: all pieces up to this one are safe, and may be forgotten.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "audio_ack")]
pub struct AudioAck<'a> {
    /// The session.
    pub session_id: &'a str,
    /// The piece.
    pub seq: u32,
}

/// Hold on.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "backpressure")]
pub struct Backpressure<'a> {
    /// What the client should do.
    #[schema(inline)]
    pub action: Action,
    /// For how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_after_ms: Option<u64>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
}

/// The instance stops.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "go_away")]
pub struct GoAway<'a> {
    /// How much time is left.
    pub deadline_ms: u64,
    /// For people.
    pub reason: &'a str,
}

/// The answer to `client_heartbeat`.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "server_heartbeat")]
pub struct ServerHeartbeat<'a> {
    /// The session.
    pub session_id: &'a str,
    /// The client's, or the scheduler's clock if it gave none.
    pub timestamp: u64,
}

/// A newer token is taken.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "auth_ack")]
pub struct AuthAck<'a> {
    /// The session.
    pub session_id: &'a str,
    /// Until when it is good, in milliseconds since 1970; absent where nobody is asked for tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// A message was refused, or speech dropped; the session goes on unless a close follows.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "error")]
pub struct Error<'a> {
    /// A stable code.
    pub code: &'a str,
    /// A sentence for people.
    pub message: &'a str,
    /// Of speech that was dropped: what.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline)]
    #[schema(value_type = Option<Facts>)]
    pub details: Option<Details<'a>>,
    /// Of an utterance that failed: to follow it through logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<&'a str>,
    /// When trying again makes sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The answer to every message about rooms, which are not served.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "room_error")]
pub struct RoomError<'a> {
    /// A stable code.
    pub code: &'a str,
    /// A sentence for people.
    pub message: &'a str,
}

/// The last message of a session that was closed.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "session_close_ack")]
pub struct SessionCloseAck<'a> {
    /// The session.
    pub session_id: &'a str,
}

impl AsrPartial<'_> {
    /// Writes it behind what is in `out`; its text is JSON already.
    pub fn write(&self, out: &mut String) {
        let mut object = OpenObject::begin(self, out);
        object.raw("text", self.text);
        object.end();
    }
}

impl TranslationResult<'_> {
    /// Writes it behind what is in `out`; the node's part is JSON already, of about so many bytes.
    pub fn write(&self, bytes: usize, out: &mut String) {
        out.reserve(RESULT_BYTES + bytes);
        let mut object = OpenObject::begin(self, out);
        self.node.append_to(&mut object);
        object.end();
    }
}

/// Writes any other message behind what is in `out`.
pub fn write(message: &impl Serialize, out: &mut String) {
    json::write(message, out);
}

fn as_word<S: Serializer>(reason: &MissingReason, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(reason.as_str())
}

/// A step on the way of an utterance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Step {
    /// The first of its speech came.
    InputStarted,
    /// It was cut.
    InputEnded,
    /// It is on its way to a node.
    Dispatched,
    /// A node has it.
    NodeAccepted,
    /// Some of it is recognised.
    AsrPartial,
    /// All of it is recognised.
    AsrFinal,
    /// It is translated.
    NmtDone,
    /// It failed.
    Error,
}

/// How a client is to hold on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// Nothing can be taken now.
    Busy,
    /// Send nothing for a while.
    Pause,
    /// Send less.
    SlowDown,
}

/// Whether a step went well.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did.
    Ok,
    /// It failed.
    Error,
}

/// A fact in an error.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Detail<'a> {
    /// A number.
    Number(u64),
    /// A word.
    Word(&'a str),
}

/// Facts, as pairs of a name and a number or word.
pub struct Details<'a>(pub &'a [(&'a str, Detail<'a>)]);

impl Serialize for Details<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, fact) in self.0 {
            map.serialize_entry(name, fact)?;
        }
        map.end()
    }
}

/// The facts that there are.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what is written")]
pub(super) struct Facts {
    /// Which utterance.
    utterance_index: Option<u64>,
    /// The first piece.
    first_seq: Option<u64>,
    /// The last piece.
    last_seq: Option<u64>,
    /// How much speech it was.
    bytes: Option<u64>,
    /// Why, in a word.
    reason: Option<String>,
}

/// Every message that a client is told.
pub fn to_client() -> Vec<Described> {
    let reasons = MissingReason::ALL.map(MissingReason::as_str);
    vec![
        Described::written::<SessionInitAck<'_>>("session_init_ack"),
        Described::written::<Finalized<'_>>("finalized")
            .always("utterance_index")
            .or_null("utterance_index"),
        Described::written::<UiEvent<'_>>("ui_event"),
        Described::written::<AsrPartial<'_>>("asr_partial").always("text"),
        Described::written::<TranslationResult<'_>>("translation_result")
            .with::<ResultFields<'_>>()
            .one_of("form", &AnswerForm::ALL.map(AnswerForm::as_str)),
        Described::written::<MissingResult<'_>>("missing_result").one_of("reason", &reasons),
        Described::written::<AudioAck<'_>>("audio_ack"),
        Described::written::<Backpressure<'_>>("backpressure"),
        Described::written::<GoAway<'_>>("go_away"),
        Described::written::<ServerHeartbeat<'_>>("server_heartbeat"),
        Described::written::<AuthAck<'_>>("auth_ack"),
        Described::written::<Error<'_>>("error"),
        Described::written::<RoomError<'_>>("room_error"),
        Described::written::<SessionCloseAck<'_>>("session_close_ack"),
    ]
}
