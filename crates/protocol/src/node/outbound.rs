//! What a node is told.

use bytes::{BufMut, Bytes, BytesMut};
use lingua_core::JobId;
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::json::{OpenObject, is_appended};
use crate::{JobInput, JobOptions};

/// First byte of a binary frame that carries the audio of a job.
pub(super) const AUDIO_FRAME: u8 = 0x21;

/// What an assign takes beside its audio and the texts that pass through.
const ASSIGN_BYTES: usize = 768;

/// The node is known from now on.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "node_register_ack")]
pub struct NodeRegisterAck<'a> {
    /// Its name.
    pub node_id: &'a str,
    /// For people.
    pub message: &'a str,
    /// Whether it gets jobs, or its warm-up is awaited.
    #[schema(inline)]
    pub status: RegisteredAs,
    /// How often to send `node_heartbeat`.
    pub heartbeat_interval_ms: u64,
    /// Rises with every registration; the newest counts.
    pub epoch: u64,
    /// The node was known here; its jobs go on.
    pub resume: bool,
}

/// Whether a node that has just registered gets jobs.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegisteredAs {
    /// It gets jobs.
    Ready,
    /// Its warm-up is awaited.
    Registering,
}

/// The answer to a heartbeat, for a node with anything in `supports`.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "heartbeat_ack")]
pub struct HeartbeatAck<'a> {
    /// The scheduler's clock, in milliseconds since 1970.
    pub server_time_ms: u64,
    /// Why the node gets no jobs, in sentences. Absent if nothing is in the way, and while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_idle: Option<&'a [String]>,
}

/// Do this. With `binary_audio` the speech follows in a frame of its own.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "job_assign")]
pub struct JobAssign<'a> {
    /// To be said with every word about the job.
    pub job_id: &'a str,
    /// The number of this attempt; to be said with every word about the job.
    pub attempt_id: u32,
    /// Whose it is, under a name for this node alone.
    pub session_id: &'a str,
    /// Which of its utterances.
    pub utterance_index: u64,
    /// What the caller wants.
    #[serde(flatten)]
    #[schema(ignore)]
    pub options: &'a JobOptions,
    /// The speech; not with `binary_audio`.
    #[serde(skip_serializing_if = "is_appended")]
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    pub audio: Option<&'a [u8]>,
    /// What is to be translated, in place of speech: nothing is to be recognised. Only to a node with
    /// `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    /// The form of the speech: `opus`, `pcm16` or `wav`. Not with `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio_format: Option<&'a str>,
    /// Samples a second. Not with `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_rate: Option<u32>,
    /// To follow it through logs.
    pub trace_id: &'a str,
    /// The span of this attempt, of a job that is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<&'a str>,
    /// The turn, as the client is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<&'a str>,
    /// Which part of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_index: Option<u64>,
    /// What was said before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_text: Option<&'a str>,
    /// Silence that was put behind the speech.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding_ms: Option<u64>,
    /// The speaker ended the utterance.
    #[serde(skip_serializing_if = "Flag::is_off")]
    #[schema(inline)]
    pub is_manual_cut: Flag,
    /// A pause ended it.
    #[serde(skip_serializing_if = "Flag::is_off")]
    #[schema(inline)]
    pub is_timeout_triggered: Flag,
    /// Its length ended it.
    #[serde(skip_serializing_if = "Flag::is_off")]
    #[schema(inline)]
    pub is_max_duration_triggered: Flag,
    /// The parts of one turn share it.
    pub turn_id: &'a str,
    /// After this nobody wants the answer; milliseconds since 1970.
    pub deadline_ms: u64,
    /// With `tokens`: to be said with every word about the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<&'a str>,
}

/// What an assign says beside the job's input.
pub struct Attempt<'a> {
    /// The id under which the node knows the job.
    pub job: JobId,
    /// Which dispatch, from 1.
    pub number: u32,
    /// The session as the node may know it.
    pub session_id: &'a str,
    /// The turn, as the node may know it.
    pub turn_id: &'a str,
    /// Epoch milliseconds after which nobody wants the answer.
    pub deadline_ms: u64,
    /// The span that the node's own are a part of.
    pub traceparent: Option<&'a str>,
    /// The name of the lease, for a node with `tokens`.
    pub lease_token: Option<&'a str>,
    /// The audio follows in a frame of its own.
    pub binary_audio: bool,
}

impl Attempt<'_> {
    /// Writes the assign of this input.
    pub fn write(&self, input: &JobInput, out: &mut String) {
        let text = input.text();
        let inline = if self.binary_audio { 0 } else { input.audio.len().div_ceil(3) * 4 };
        out.reserve(ASSIGN_BYTES + input.context_text.as_ref().map_or(0, String::len) + inline);
        let assign = JobAssign {
            job_id: self.job.as_str(),
            attempt_id: self.number,
            session_id: self.session_id,
            utterance_index: input.utterance_index,
            options: &input.options,
            audio: (!self.binary_audio && text.is_none()).then_some(&input.audio),
            text,
            audio_format: text.is_none().then_some(&input.audio_format),
            sample_rate: text.is_none().then_some(input.sample_rate),
            trace_id: &input.trace_id,
            traceparent: self.traceparent,
            group_id: input.group_id.as_deref(),
            part_index: input.part_index,
            context_text: input.context_text.as_deref(),
            padding_ms: input.padding_ms,
            is_manual_cut: Flag(input.manual_cut),
            is_timeout_triggered: Flag(input.timeout_cut),
            is_max_duration_triggered: Flag(input.max_duration_cut),
            turn_id: self.turn_id,
            deadline_ms: self.deadline_ms,
            lease_token: self.lease_token,
        };
        let mut object = OpenObject::begin(&assign, out);
        if let Some(audio) = assign.audio {
            object.base64("audio", audio);
        }
        object.end();
    }
}

/// The binary frame behind an assign for a node with `binary_audio`.
pub fn audio_frame(job: JobId, audio: &Bytes) -> Bytes {
    let id = job.as_str().as_bytes();
    let mut frame = BytesMut::with_capacity(2 + id.len() + audio.len());
    frame.put_u8(AUDIO_FRAME);
    frame.put_u8(u8::try_from(id.len()).expect("a job id has 26 characters"));
    frame.put_slice(id);
    frame.put_slice(audio);
    frame.freeze()
}

/// Said only when it is so.
#[derive(Clone, Copy)]
pub struct Flag(pub bool);

impl Flag {
    fn is_off(&self) -> bool {
        !self.0
    }
}

impl Serialize for Flag {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(self.0)
    }
}

impl PartialSchema for Flag {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true])).into()
    }
}

impl ToSchema for Flag {}

/// Stop working on it; no answer is awaited.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "job_cancel")]
pub struct JobCancel<'a> {
    /// The job.
    pub job_id: &'a str,
    /// The attempt.
    pub attempt_id: u32,
    /// The reason, for people.
    pub reason: &'a str,
}

/// Why a node is to stop.
pub(super) const CANCEL_REASONS: [&str; 9] = [
    "cancelled",
    "deadline",
    "given_up",
    "other_copy_won",
    "no_lease",
    "unknown",
    "draining",
    "session_over",
    "superseded",
];

/// The result arrived, and need not be sent again.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "result_ack")]
pub struct ResultAck<'a> {
    /// The job.
    pub job_id: &'a str,
    /// The attempt.
    pub attempt_id: u32,
}

/// What the node is to do beside its jobs.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "node_control")]
pub struct NodeControl<'a> {
    /// Take no new jobs, take them again, or get the model that it misses.
    pub command: &'a str,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
}

/// What a node is to do.
pub(super) const COMMANDS: [&str; 3] = ["drain", "resume", "update"];

/// A newer token is taken.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "auth_ack")]
pub struct AuthAck {
    /// Until when it is good, in milliseconds since 1970; absent where nobody is asked for tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// A message of the node was refused.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename = "error")]
pub struct Error<'a> {
    /// A stable code.
    pub code: &'a str,
    /// A sentence for people.
    pub message: &'a str,
    /// When trying again makes sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}
