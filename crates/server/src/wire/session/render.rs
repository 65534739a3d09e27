//! What a client is told, straight into the text that goes out: no tree in between, and audio is
//! copied once.

use lingua_core::JobId;
use lingua_engine::job::Refusal;
use lingua_engine::sessions::words::{About, Detail, Opened, Step, ToClient};

use super::{Codec, SAMPLE_RATE, from_node};
use crate::wire::json::Object;

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
    match word {
        ToClient::Opened(opened) => about.opened(opened, out),
        ToClient::Finalized { utterance_index } => {
            let mut object = about.begin("finalized", out);
            match utterance_index {
                Some(index) => object.number("utterance_index", *index),
                None => object.word("utterance_index", "null"),
            }
            object.end();
        }
        ToClient::Event { step, about: utterance, elapsed_ms, error } => {
            about.event(*step, utterance, *elapsed_ms, *error, out);
        }
        ToClient::Partial { about: utterance, body } => {
            let Some((text, is_final)) = from_node::partial_text(body) else { return false };
            let mut object = about.begin("asr_partial", out);
            of_utterance(utterance, &mut object);
            object.word("text", text);
            object.boolean("is_final", is_final);
            object.end();
        }
        ToClient::Result { about: utterance, turn, part_index, body, audio_ack } => {
            out.reserve(RESULT_BYTES + body.len());
            let mut object = about.begin("translation_result", out);
            of_utterance(utterance, &mut object);
            object.text("group_id", turn);
            object.number("part_index", u64::from(*part_index));
            object.number("scheduler_sent_at_ms", about.now_ms);
            object.maybe_number("audio_ack", audio_ack.map(u64::from));
            from_node::write_result(body, &mut object);
            object.end();
        }
        ToClient::Missing { utterance_index, reason, trace_id, audio_ack } => {
            let mut object = about.begin("missing_result", out);
            object.number("utterance_index", *utterance_index);
            object.plain("reason", reason.as_str());
            object.number("created_at_ms", about.now_ms);
            object.maybe_text("trace_id", *trace_id);
            object.maybe_number("audio_ack", audio_ack.map(u64::from));
            object.end();
        }
        ToClient::AudioAck { seq } => {
            let mut object = about.begin("audio_ack", out);
            object.number("seq", u64::from(*seq));
            object.end();
        }
        ToClient::Backpressure { action, resume_after_ms, message } => {
            let mut object = Object::begin("backpressure", out);
            object.plain("action", action.as_str());
            object.maybe_number("resume_after_ms", *resume_after_ms);
            object.maybe_text("message", Some(*message).filter(|message| !message.is_empty()));
            object.end();
        }
        ToClient::GoAway { deadline_ms, reason } => {
            let mut object = Object::begin("go_away", out);
            object.number("deadline_ms", *deadline_ms);
            object.text("reason", reason);
            object.end();
        }
        ToClient::Error { refusal, details } => error(refusal, details, out),
        ToClient::CloseAck => about.begin("session_close_ack", out).end(),
    }
    true
}

/// `server_heartbeat`
pub(crate) fn server_heartbeat(session_id: &str, timestamp: u64, out: &mut String) {
    let mut object = Object::begin("server_heartbeat", out);
    object.text("session_id", session_id);
    object.number("timestamp", timestamp);
    object.end();
}

/// `auth_ack`
pub(crate) fn auth_ack(session_id: &str, expires_ms: Option<u64>, out: &mut String) {
    let mut object = Object::begin("auth_ack", out);
    object.text("session_id", session_id);
    object.maybe_number("expires_ms", expires_ms);
    object.end();
}

impl Renderer<'_> {
    /// A message that says of which session it is.
    fn begin<'o>(&self, kind: &str, out: &'o mut String) -> Object<'o> {
        let mut object = Object::begin(kind, out);
        object.text("session_id", self.session_id);
        object
    }

    fn opened(&self, opened: &Opened, out: &mut String) {
        let mut object = Object::begin("session_init_ack", out);
        object.plain("session_id", opened.session.as_str());
        object.plain("message", "session opened");
        object.text("trace_id", &opened.trace_id);
        object.plain("protocol_version", "1.0");
        object.boolean("use_binary_frame", self.binary);
        object.plain("negotiated_codec", self.codec.as_str());
        object.plain("negotiated_audio_format", self.codec.as_str());
        object.number("negotiated_sample_rate", u64::from(SAMPLE_RATE));
        object.number("negotiated_channel_count", 1);
        object.maybe_text("resume_token", opened.resume_token.as_deref());
        if let Some(recovered) = opened.recovered {
            object.boolean("recovered", recovered);
        }
        object.number("next_index", opened.next_index);
        object.number("heartbeat_interval_ms", self.heartbeat_interval_ms);
        object.end();
    }

    fn event(
        &self,
        step: Step,
        utterance: &About<'_>,
        elapsed_ms: Option<u64>,
        error: Option<(&str, &str)>,
        out: &mut String,
    ) {
        let mut object = self.begin("ui_event", out);
        of_utterance(utterance, &mut object);
        object.plain("event", step.as_str());
        object.maybe_number("elapsed_ms", elapsed_ms);
        let failed = error.is_some() || step == Step::Error;
        object.plain("status", if failed { "error" } else { "ok" });
        if let Some((code, hint)) = error {
            object.text("error_code", code);
            object.text("hint", hint);
        }
        object.end();
    }
}

/// Which utterance it is about. Clients take `job_id` for a text; before there is a job it is empty.
fn of_utterance(about: &About<'_>, object: &mut Object<'_>) {
    object.number("utterance_index", about.utterance_index);
    object.plain("job_id", about.job.as_ref().map_or("", JobId::as_str));
    object.text("trace_id", about.trace_id);
}

fn error(refusal: &Refusal, details: &[(&str, Detail<'_>)], out: &mut String) {
    let mut object = Object::begin("error", out);
    object.text("code", refusal.code_text());
    object.text("message", &refusal.detail);
    if !details.is_empty() {
        let mut inner = object.object("details");
        for (name, detail) in details {
            match detail {
                Detail::Number(number) => inner.number(name, *number),
                Detail::Word(word) => inner.text(name, word),
            }
        }
        inner.end();
    }
    object.maybe_number("retry_after_ms", refusal.retry_after_ms);
    object.end();
}

#[cfg(test)]
mod tests;
