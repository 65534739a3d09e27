//! What a client is told, straight into the text that goes out: no tree in between, and audio is
//! copied once.

use lingua_core::fleet::AnswerForm;
use lingua_core::outcome::Code;
use lingua_core::{JobId, Lang};
use lingua_engine::job::{NodeMessage, Refusal};
use lingua_engine::sessions::outbound::{About, Detail, Opened, Step, ToClient};

use lingua_protocol::client::outbound::{
    AsrPartial, AudioAck, AuthAck, Backpressure, Details, Error, Finalized, GoAway, MissingResult,
    RoomError, ServerHeartbeat, SessionCloseAck, SessionInitAck, Status, TranslationResult,
    UiEvent, write,
};
use lingua_protocol::node::ResultFields;
use lingua_protocol::node::result::partial_text;

use super::{Codec, SAMPLE_RATE};

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
            write(&Finalized { session_id, utterance_index }, out);
        }
        ToClient::Event { step, about: ref utterance, elapsed_ms, error } => {
            about.event(step, utterance, elapsed_ms, error, out);
        }
        ToClient::Partial { about: ref utterance, body } => {
            let Some((text, is_final)) = partial_text(body) else { return false };
            AsrPartial {
                session_id,
                utterance_index: utterance.utterance_index,
                src_lang: utterance.direction.src_lang(),
                tgt_lang: utterance.direction.tgt_lang(),
                job_id: job_id(utterance),
                trace_id: utterance.trace_id,
                text,
                is_final,
            }
            .write(out);
        }
        ToClient::Result { about: ref utterance, turn, part_index, body, form, via, audio_ack } => {
            about.result(utterance, (turn, part_index), body, (form, via), audio_ack, out);
        }
        ToClient::Missing { utterance_index, ref direction, reason, trace_id, audio_ack } => {
            let created_at_ms = about.now_ms;
            let missing = MissingResult {
                session_id,
                utterance_index,
                src_lang: direction.src_lang(),
                tgt_lang: direction.tgt_lang(),
                reason,
                created_at_ms,
                trace_id,
                audio_ack,
            };
            write(&missing, out);
        }
        ToClient::AudioAck { seq } => write(&AudioAck { session_id, seq }, out),
        ToClient::Backpressure { action, resume_after_ms, message } => {
            let message = Some(message).filter(|message| !message.is_empty());
            write(&Backpressure { action, resume_after_ms, message }, out);
        }
        ToClient::GoAway { deadline_ms, reason } => write(&GoAway { deadline_ms, reason }, out),
        ToClient::Error { refusal, details } => error(refusal, details, None, out),
        ToClient::Failed { refusal, about: ref utterance } => {
            let index = Detail::Number(utterance.utterance_index);
            error(refusal, &[("utterance_index", index)], Some(utterance.trace_id), out);
        }
        ToClient::CloseAck => write(&SessionCloseAck { session_id }, out),
    }
    true
}

fn error(
    refusal: &Refusal,
    details: &[(&str, Detail<'_>)],
    trace_id: Option<&str>,
    out: &mut String,
) {
    write(
        &Error {
            code: refusal.code_text(),
            message: &refusal.detail,
            details: Some(Details(details)).filter(|details| !details.0.is_empty()),
            trace_id,
            retry_after_ms: refusal.retry_after_ms,
        },
        out,
    );
}

/// `server_heartbeat`
pub(crate) fn server_heartbeat(session_id: &str, timestamp: u64, out: &mut String) {
    write(&ServerHeartbeat { session_id, timestamp }, out);
}

/// `room_error`
pub(crate) fn room_error(out: &mut String) {
    let code = Code::UnsupportedMessage.as_str();
    write(&RoomError { code, message: "rooms are not served" }, out);
}

/// `auth_ack`
pub(crate) fn auth_ack(session_id: &str, expires_ms: Option<u64>, out: &mut String) {
    write(&AuthAck { session_id, expires_ms }, out);
}

impl Renderer<'_> {
    fn event(
        &self,
        step: Step,
        utterance: &About<'_>,
        elapsed_ms: Option<u64>,
        error: Option<(&str, &str)>,
        out: &mut String,
    ) {
        write(
            &UiEvent {
                session_id: self.session_id,
                utterance_index: utterance.utterance_index,
                src_lang: utterance.direction.src_lang(),
                tgt_lang: utterance.direction.tgt_lang(),
                job_id: job_id(utterance),
                trace_id: utterance.trace_id,
                event: step,
                elapsed_ms,
                status: if error.is_some() || step == Step::Error {
                    Status::Error
                } else {
                    Status::Ok
                },
                error_code: error.map(|(code, _)| code),
                hint: error.map(|(_, hint)| hint),
            },
            out,
        );
    }

    fn result(
        &self,
        utterance: &About<'_>,
        (turn, part_index): (&str, u32),
        body: &NodeMessage,
        (form, via): (Option<AnswerForm>, Option<Lang>),
        audio_ack: Option<u32>,
        out: &mut String,
    ) {
        TranslationResult {
            session_id: self.session_id,
            utterance_index: utterance.utterance_index,
            src_lang: utterance.direction.src_lang(),
            tgt_lang: utterance.direction.tgt_lang(),
            job_id: job_id(utterance),
            trace_id: utterance.trace_id,
            group_id: turn,
            part_index,
            scheduler_sent_at_ms: self.now_ms,
            form: form.map(AnswerForm::as_str),
            via: via.as_ref().map(Lang::as_str),
            audio_ack,
            node: ResultFields::of(body),
        }
        .write(body.len(), out);
    }

    fn opened(&self, opened: &Opened, out: &mut String) {
        write(
            &SessionInitAck {
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
                targets: (!opened.targets.is_empty()).then_some(&opened.targets[..]),
            },
            out,
        );
    }
}

/// Clients take it for a text; before there is a job it is empty.
fn job_id<'a>(about: &'a About<'_>) -> &'a str {
    about.job.as_ref().map_or("", JobId::as_str)
}

#[cfg(test)]
mod tests;
