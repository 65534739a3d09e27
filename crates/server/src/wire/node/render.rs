//! What a node is told, straight into the text that goes out: no tree in between, and audio is
//! copied once.

use bytes::{BufMut, Bytes, BytesMut};
use lingua_core::JobId;
use lingua_engine::job::{Assign, Refusal, ToNode};
use lingua_engine::nodes::{Registered, Supports};

use super::told::{
    AuthAck, CancelReason, Command, Error, HeartbeatAck, JobAssign, JobCancel, NodeControl,
    NodeRegisterAck, ResultAck, Status,
};
use crate::wire::message::{Base64, Flag, ListAsItCame, ObjectAsItCame, Sentences};

/// First byte of a binary frame that carries the audio of a job.
pub(super) const AUDIO_FRAME: u8 = 0x21;

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
            let (attempt_id, reason) = (*attempt, CancelReason(reason));
            JobCancel { job_id: job.as_str(), attempt_id, reason }.write(out);
        }
        ToNode::ResultAck { job, attempt } => {
            ResultAck { job_id: job.as_str(), attempt_id: *attempt }.write(out);
        }
        ToNode::Control { command, reason } => {
            NodeControl { command: Command(command), reason: reason.as_deref() }.write(out);
        }
        ToNode::Superseded | ToNode::Blocked => {}
    }
}

fn render_assign(assign: &Assign, supports: Supports, out: &mut String) {
    let work = &*assign.work;
    let inline = if supports.binary_audio { 0 } else { work.audio.len().div_ceil(3) * 4 };
    let context = work.context_text.as_ref().map_or(0, String::len);
    out.reserve(ASSIGN_BYTES + context + inline);
    JobAssign {
        job_id: assign.job.as_str(),
        attempt_id: assign.attempt,
        session_id: assign.session.as_str(),
        utterance_index: work.utterance_index,
        src_lang: &work.src_lang,
        tgt_lang: &work.tgt_lang,
        dialect: work.dialect.as_deref(),
        features: ObjectAsItCame::of(&work.features),
        pipeline: ObjectAsItCame::of(&work.pipeline),
        audio: (!supports.binary_audio).then_some(Base64(&work.audio)),
        audio_format: &work.audio_format,
        sample_rate: work.sample_rate,
        mode: work.mode.as_deref(),
        lang_a: work.lang_a.as_deref(),
        lang_b: work.lang_b.as_deref(),
        auto_langs: ListAsItCame::of(&work.auto_langs),
        enable_streaming_asr: work.enable_streaming_asr,
        partial_update_interval_ms: work.partial_update_interval_ms,
        trace_id: &work.trace_id,
        traceparent: assign.traceparent.as_deref(),
        group_id: work.group_id.as_deref(),
        part_index: work.part_index,
        context_text: work.context_text.as_deref(),
        padding_ms: work.padding_ms,
        is_manual_cut: Flag(work.manual_cut),
        is_timeout_triggered: Flag(work.timeout_cut),
        is_max_duration_triggered: Flag(work.max_duration_cut),
        turn_id: &assign.turn,
        deadline_ms: assign.deadline_ms,
        lease_token: supports.tokens.then_some(assign.token.as_str()),
    }
    .write(out);
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
    NodeRegisterAck {
        node_id: registered.connection.node_id().as_str(),
        message: "registered",
        status: Status { ready: registered.ready },
        heartbeat_interval_ms: lingua_core::time::millis(registered.heartbeat),
        epoch: registered.epoch,
        resume: registered.resumed,
    }
    .write(out);
}

/// `heartbeat_ack`
pub(crate) fn heartbeat_ack(now_ms: u64, why_idle: &[String], out: &mut String) {
    let why_idle = (!why_idle.is_empty()).then_some(Sentences(why_idle));
    HeartbeatAck { server_time_ms: now_ms, why_idle }.write(out);
}

/// `auth_ack`
pub(crate) fn auth_ack(expires_ms: Option<u64>, out: &mut String) {
    AuthAck { expires_ms }.write(out);
}

/// `job_cancel` for something that a node runs and that cannot be a job of ours.
pub(crate) fn cancel_stranger(job: &str, attempt: u32, out: &mut String) {
    JobCancel { job_id: job, attempt_id: attempt, reason: CancelReason("unknown") }.write(out);
}

/// `error`
pub(crate) fn error(refusal: &Refusal, out: &mut String) {
    let (message, retry_after_ms) = (refusal.detail.as_str(), refusal.retry_after_ms);
    Error { code: refusal.code.as_str(), message, retry_after_ms }.write(out);
}

#[cfg(test)]
mod tests;
