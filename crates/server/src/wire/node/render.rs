//! What a node is told, straight into the text that goes out: no tree in between, and audio is
//! copied once.

use bytes::{BufMut, Bytes, BytesMut};
use lingua_core::JobId;
use lingua_engine::job::{Assign, Refusal, ToNode};
use lingua_engine::nodes::{Registered, Supports};

use crate::wire::json::Object;

/// First byte of a binary frame that carries the audio of a job.
const AUDIO_FRAME: u8 = 0x21;

/// What an assign takes beside its audio and the texts that pass through.
const ASSIGN_BYTES: usize = 768;

/// Writes one message. [`ToNode::Superseded`] and [`ToNode::Blocked`] have no text: they close the
/// connection.
///
/// With `binary_audio` the assign carries no audio, and [`audio_frame`] is what follows it.
pub(crate) fn render(message: &ToNode, supports: Supports, out: &mut String) {
    match message {
        ToNode::Assign(assign) => render_assign(assign, supports, out),
        ToNode::Cancel { job, attempt, reason } => {
            let mut object = Object::begin("job_cancel", out);
            object.plain("job_id", job.as_str());
            object.number("attempt_id", u64::from(*attempt));
            object.text("reason", reason);
            object.end();
        }
        ToNode::ResultAck { job, attempt } => {
            let mut object = Object::begin("result_ack", out);
            object.plain("job_id", job.as_str());
            object.number("attempt_id", u64::from(*attempt));
            object.end();
        }
        ToNode::Control { command, reason } => {
            let mut object = Object::begin("node_control", out);
            object.text("command", command);
            object.maybe_text("reason", reason.as_deref());
            object.end();
        }
        ToNode::Superseded | ToNode::Blocked => {}
    }
}

fn render_assign(assign: &Assign, supports: Supports, out: &mut String) {
    let work = &*assign.work;
    let inline = if supports.binary_audio { 0 } else { work.audio.len().div_ceil(3) * 4 };
    let context = work.context_text.as_ref().map_or(0, String::len);
    out.reserve(ASSIGN_BYTES + context + inline);
    let mut object = Object::begin("job_assign", out);
    object.plain("job_id", assign.job.as_str());
    object.number("attempt_id", u64::from(assign.attempt));
    object.plain("session_id", assign.session.as_str());
    object.number("utterance_index", work.utterance_index);
    object.text("src_lang", &work.src_lang);
    object.text("tgt_lang", &work.tgt_lang);
    object.maybe_text("dialect", work.dialect.as_deref());
    object.maybe_json("features", work.features.as_ref());
    object.maybe_json("pipeline", work.pipeline.as_ref());
    if !supports.binary_audio {
        object.base64("audio", &work.audio);
    }
    object.text("audio_format", &work.audio_format);
    object.number("sample_rate", u64::from(work.sample_rate));
    object.maybe_text("mode", work.mode.as_deref());
    object.maybe_text("lang_a", work.lang_a.as_deref());
    object.maybe_text("lang_b", work.lang_b.as_deref());
    object.maybe_json("auto_langs", work.auto_langs.as_ref());
    object.boolean("enable_streaming_asr", work.enable_streaming_asr);
    object.maybe_number("partial_update_interval_ms", work.partial_update_interval_ms);
    object.text("trace_id", &work.trace_id);
    object.maybe_text("traceparent", assign.traceparent.as_deref());
    object.maybe_text("group_id", work.group_id.as_deref());
    object.maybe_number("part_index", work.part_index);
    object.maybe_text("context_text", work.context_text.as_deref());
    object.maybe_number("padding_ms", work.padding_ms);
    object.flag("is_manual_cut", work.manual_cut);
    object.flag("is_timeout_triggered", work.timeout_cut);
    object.flag("is_max_duration_triggered", work.max_duration_cut);
    object.text("turn_id", &assign.turn);
    object.number("deadline_ms", assign.deadline_ms);
    if supports.tokens {
        object.text("lease_token", &assign.token);
    }
    object.end();
}

/// The binary frame behind an assign for a node with `binary_audio`.
pub(crate) fn audio_frame(job: JobId, audio: &Bytes) -> Bytes {
    let id = job.as_str().as_bytes();
    let mut frame = BytesMut::with_capacity(2 + id.len() + audio.len());
    frame.put_u8(AUDIO_FRAME);
    frame.put_u8(u8::try_from(id.len()).expect("a job id has 26 characters"));
    frame.put_slice(id);
    frame.put_slice(audio);
    frame.freeze()
}

/// `node_register_ack`
pub(crate) fn register_ack(registered: &Registered, out: &mut String) {
    let mut object = Object::begin("node_register_ack", out);
    object.plain("node_id", registered.connection.node_id().as_str());
    object.text("message", "registered");
    object.plain("status", if registered.ready { "ready" } else { "registering" });
    let interval = lingua_core::time::millis(registered.heartbeat);
    object.number("heartbeat_interval_ms", interval);
    object.number("epoch", registered.epoch);
    object.boolean("resume", registered.resumed);
    object.end();
}

/// `heartbeat_ack`
pub(crate) fn heartbeat_ack(now_ms: u64, out: &mut String) {
    let mut object = Object::begin("heartbeat_ack", out);
    object.number("server_time_ms", now_ms);
    object.end();
}

/// `auth_ack`
pub(crate) fn auth_ack(expires_ms: Option<u64>, out: &mut String) {
    let mut object = Object::begin("auth_ack", out);
    object.maybe_number("expires_ms", expires_ms);
    object.end();
}

/// `job_cancel` for something that a node runs and that cannot be a job of ours.
pub(crate) fn cancel_stranger(job: &str, attempt: u32, out: &mut String) {
    let mut object = Object::begin("job_cancel", out);
    object.text("job_id", job);
    object.number("attempt_id", u64::from(attempt));
    object.plain("reason", "unknown");
    object.end();
}

/// `error`
pub(crate) fn error(refusal: &Refusal, out: &mut String) {
    let mut object = Object::begin("error", out);
    object.plain("code", refusal.code.as_str());
    object.text("message", &refusal.detail);
    object.maybe_number("retry_after_ms", refusal.retry_after_ms);
    object.end();
}

#[cfg(test)]
mod tests;
