//! What a client is told, straight into the text that goes out: no tree in between, and audio is
//! copied once.

use lingua_core::JobId;
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;
use lingua_engine::sessions::words::{About, Detail, Opened, Step, ToClient};

use super::told::{
    AsrPartial, AudioAck, AuthAck, Backpressure, Details, Error, Finalized, GoAway, MissingResult,
    RoomError, ServerHeartbeat, SessionCloseAck, SessionInitAck, Status, TranslationResult,
    UiEvent,
};
use super::{Codec, SAMPLE_RATE, from_node};
use crate::wire::message::{OrNull, TextAsItCame};

/// What a result takes beside the node's part.
const RESULT_BYTES: usize = 512;

/// What the door knows and a word does not say.
pub(crate) struct Renderer<'a> {
    /// The session of the socket; empty as long as it has none.
    pub(crate) session_id: &'a str,
    /// The form of the client's speech.
    pub(crate) codec: Codec,
    /// The client sends speech in binary frames.
    pub(crate) binary: bool,
    /// Epoch milliseconds.
    pub(crate) now_ms: u64,
    /// How often the client is to give a sign of life.
    pub(crate) heartbeat_interval_ms: u64,
}

/// Writes one message behind what is in `out`. `false`: there is nothing in it for the client, and
/// nothing was written.
pub(crate) fn render(word: &ToClient<'_>, about: &Renderer<'_>, out: &mut String) -> bool {
    let session_id = about.session_id;
    match *word {
        ToClient::Opened(opened) => about.opened(opened, out),
        ToClient::Finalized { utterance_index } => {
            Finalized { session_id, utterance_index: OrNull(utterance_index) }.write(out);
        }
        ToClient::Event { step, about: ref utterance, elapsed_ms, error } => UiEvent {
            session_id,
            utterance_index: utterance.utterance_index,
            job_id: job_id(utterance),
            trace_id: utterance.trace_id,
            event: step,
            elapsed_ms,
            status: Status { failed: error.is_some() || step == Step::Error },
            error_code: error.map(|(code, _)| code),
            hint: error.map(|(_, hint)| hint),
        }
        .write(out),
        ToClient::Partial { about: ref utterance, body } => {
            let Some((text, is_final)) = from_node::partial_text(body) else { return false };
            AsrPartial {
                session_id,
                utterance_index: utterance.utterance_index,
                job_id: job_id(utterance),
                trace_id: utterance.trace_id,
                text: TextAsItCame(text),
                is_final,
            }
            .write(out);
        }
        ToClient::Result { about: ref utterance, turn, part_index, body, audio_ack } => {
            out.reserve(RESULT_BYTES + body.len());
            let part = from_node::result(body);
            TranslationResult {
                session_id,
                utterance_index: utterance.utterance_index,
                job_id: job_id(utterance),
                trace_id: utterance.trace_id,
                group_id: turn,
                part_index,
                scheduler_sent_at_ms: about.now_ms,
                audio_ack,
                text_asr: part.text_asr,
                text_translated: part.text_translated,
                tts_audio: part.tts_audio,
                tts_format: part.tts_format,
                extra: part.extra,
                service_timings: part.service_timings,
                network_timings: part.network_timings,
                asr_quality_level: part.asr_quality_level,
                reason_codes: part.reason_codes,
                quality_score: part.quality_score,
                rerun_count: part.rerun_count,
                segments_meta: part.segments_meta,
            }
            .write(out);
        }
        ToClient::Missing { utterance_index, reason, trace_id, audio_ack } => {
            let created_at_ms = about.now_ms;
            let missing = MissingResult {
                session_id,
                utterance_index,
                reason,
                created_at_ms,
                trace_id,
                audio_ack,
            };
            missing.write(out);
        }
        ToClient::AudioAck { seq } => AudioAck { session_id, seq }.write(out),
        ToClient::Backpressure { action, resume_after_ms, message } => {
            let message = Some(message).filter(|message| !message.is_empty());
            Backpressure { action, resume_after_ms, message }.write(out);
        }
        ToClient::GoAway { deadline_ms, reason } => GoAway { deadline_ms, reason }.write(out),
        ToClient::Error { refusal, details } => error(refusal, details, None, out),
        ToClient::Failed { refusal, about: ref utterance } => {
            let index = Detail::Number(utterance.utterance_index);
            error(refusal, &[("utterance_index", index)], Some(utterance.trace_id), out);
        }
        ToClient::CloseAck => SessionCloseAck { session_id }.write(out),
    }
    true
}

fn error(
    refusal: &Refusal,
    details: &[(&str, Detail<'_>)],
    trace_id: Option<&str>,
    out: &mut String,
) {
    Error {
        code: refusal.code_text(),
        message: &refusal.detail,
        details: Some(Details(details)).filter(|details| !details.0.is_empty()),
        trace_id,
        retry_after_ms: refusal.retry_after_ms,
    }
    .write(out);
}

/// `server_heartbeat`
pub(crate) fn server_heartbeat(session_id: &str, timestamp: u64, out: &mut String) {
    ServerHeartbeat { session_id, timestamp }.write(out);
}

/// `room_error`
pub(crate) fn room_error(out: &mut String) {
    let code = Code::UnsupportedMessage.as_str();
    RoomError { code, message: "rooms are not served" }.write(out);
}

/// `auth_ack`
pub(crate) fn auth_ack(session_id: &str, expires_ms: Option<u64>, out: &mut String) {
    AuthAck { session_id, expires_ms }.write(out);
}

impl Renderer<'_> {
    fn opened(&self, opened: &Opened, out: &mut String) {
        SessionInitAck {
            session_id: opened.session.as_str(),
            message: "session opened",
            trace_id: &opened.trace_id,
            protocol_version: "1.0",
            use_binary_frame: self.binary,
            negotiated_codec: self.codec.as_str(),
            negotiated_audio_format: self.codec.as_str(),
            negotiated_sample_rate: SAMPLE_RATE,
            negotiated_channel_count: 1,
            resume_token: opened.resume_token.as_deref(),
            recovered: opened.recovered,
            next_index: opened.next_index,
            heartbeat_interval_ms: self.heartbeat_interval_ms,
        }
        .write(out);
    }
}

/// Clients take it for a text; before there is a job it is empty.
fn job_id<'a>(about: &'a About<'_>) -> &'a str {
    about.job.as_ref().map_or("", JobId::as_str)
}

#[cfg(test)]
mod tests;
