//! What a client is told, message by message.

use lingua_core::outcome::MissingReason;
use lingua_engine::sessions::words::{Action, Detail, Step};
use serde_json::{Value, json};

use crate::wire::described::some_of;
use crate::wire::json::Object;
use crate::wire::message::{
    Field, ListAsItCame, NumberAsItCame, ObjectAsItCame, ObjectOrListAsItCame, OrNull,
    TextAsItCame, messages,
};

messages! {
    /// The session is open.
    "session_init_ack" SessionInitAck<'a> {
        /// The session; may be left out of all that the client sends.
        session_id: &'a str,
        /// For people.
        message: &'a str,
        /// To follow the session through logs.
        trace_id: &'a str,
        /// The version of this protocol.
        protocol_version: &'a str,
        /// Whether the client may send speech in binary frames.
        use_binary_frame: bool,
        /// The form of speech in pieces.
        negotiated_codec: &'a str,
        /// The same.
        negotiated_audio_format: &'a str,
        /// Samples a second.
        negotiated_sample_rate: u32,
        /// Channels.
        negotiated_channel_count: u32,
        /// What to come back with; only for a client with `resume`.
        resume_token: Option<&'a str>,
        /// Only after a `resume_token`: the session goes on and nothing is lost.
        recovered: Option<bool>,
        /// The number of the next utterance.
        next_index: u64,
        /// How often to send `client_heartbeat`.
        heartbeat_interval_ms: u64,
    }

    /// The answer to `finalize`.
    "finalized" Finalized<'a> {
        /// The session.
        session_id: &'a str,
        /// The utterance that was made, or none since nothing had been said.
        utterance_index: OrNull,
    }

    /// A step on the way of an utterance, for clients with `events`.
    "ui_event" UiEvent<'a> {
        /// The session.
        session_id: &'a str,
        /// Which utterance.
        utterance_index: u64,
        /// Its job; empty before there is one.
        job_id: &'a str,
        /// To follow it through logs.
        trace_id: &'a str,
        /// The step.
        event: Step,
        /// Milliseconds since it was cut.
        elapsed_ms: Option<u64>,
        /// Whether it went well.
        status: Status,
        /// A code, if it failed.
        error_code: Option<&'a str>,
        /// A sentence, if it failed.
        hint: Option<&'a str>,
    }

    /// Words on the way, as the node recognises them.
    "asr_partial" AsrPartial<'a> {
        /// The session.
        session_id: &'a str,
        /// Which utterance.
        utterance_index: u64,
        /// Its job.
        job_id: &'a str,
        /// To follow it through logs.
        trace_id: &'a str,
        /// What was recognised so far.
        text: TextAsItCame<'a>,
        /// They will not change any more.
        is_final: bool,
    }

    /// An utterance ended with a translation.
    "translation_result" TranslationResult<'a> {
        /// The session.
        session_id: &'a str,
        /// Which utterance.
        utterance_index: u64,
        /// Its job.
        job_id: &'a str,
        /// To follow it through logs.
        trace_id: &'a str,
        /// The turn: the parts of a long utterance share it.
        group_id: &'a str,
        /// Which part, from 0.
        part_index: u32,
        /// When it was told, in milliseconds since 1970.
        scheduler_sent_at_ms: u64,
        /// For clients with `audio_ack`: speech up to this piece may be forgotten.
        audio_ack: Option<u32>,
        /// What was heard; empty if the node did not say it.
        text_asr: TextAsItCame<'a>,
        /// What it means; empty if the node did not say it.
        text_translated: TextAsItCame<'a>,
        /// The speech, as base64; may be empty.
        tts_audio: TextAsItCame<'a>,
        /// Its form.
        tts_format: TextAsItCame<'a>,
        /// Anything more, as the node sent it.
        extra: Option<ObjectAsItCame<'a>>,
        /// Times by service, as the node sent them; `total_ms` alone if it told only how long it took.
        service_timings: Option<ServiceTimings<'a>>,
        /// Times on the way, as the node sent them.
        network_timings: Option<ObjectAsItCame<'a>>,
        /// How well it was heard, as the node sent it.
        asr_quality_level: Option<TextAsItCame<'a>>,
        /// Why that is so, as the node sent it.
        reason_codes: Option<ListAsItCame<'a>>,
        /// The same as a number, as the node sent it.
        quality_score: Option<NumberAsItCame<'a>>,
        /// How often the node tried, as it sent it.
        rerun_count: Option<NumberAsItCame<'a>>,
        /// Of the parts of the speech, as the node sent it.
        segments_meta: Option<ObjectOrListAsItCame<'a>>,
    }

    /// An utterance ended without one.
    "missing_result" MissingResult<'a> {
        /// The session.
        session_id: &'a str,
        /// Which utterance.
        utterance_index: u64,
        /// Why.
        reason: MissingReason,
        /// When it was told, in milliseconds since 1970.
        created_at_ms: u64,
        /// To follow it through logs.
        trace_id: Option<&'a str>,
        /// For clients with `audio_ack`: speech up to this piece may be forgotten.
        audio_ack: Option<u32>,
    }

    /// For clients with `audio_ack`: all pieces up to this one are safe, and may be forgotten.
    "audio_ack" AudioAck<'a> {
        /// The session.
        session_id: &'a str,
        /// The piece.
        seq: u32,
    }

    /// Hold on.
    "backpressure" Backpressure<'a> {
        /// How.
        action: Action,
        /// For how long.
        resume_after_ms: Option<u64>,
        /// For people.
        message: Option<&'a str>,
    }

    /// The instance stops.
    "go_away" GoAway<'a> {
        /// How much time is left.
        deadline_ms: u64,
        /// For people.
        reason: &'a str,
    }

    /// The answer to `client_heartbeat`.
    "server_heartbeat" ServerHeartbeat<'a> {
        /// The session.
        session_id: &'a str,
        /// The client's, or the scheduler's clock if it gave none.
        timestamp: u64,
    }

    /// A newer token is taken.
    "auth_ack" AuthAck<'a> {
        /// The session.
        session_id: &'a str,
        /// Until when it is good, in milliseconds since 1970; absent where nobody is asked for tokens.
        expires_ms: Option<u64>,
    }

    /// A message was refused, or speech dropped; the session goes on unless a close follows.
    "error" Error<'a> {
        /// A stable code.
        code: &'a str,
        /// A sentence for people.
        message: &'a str,
        /// Of speech that was dropped: what.
        details: Option<Details<'a>>,
        /// Of an utterance that failed: to follow it through logs.
        trace_id: Option<&'a str>,
        /// When trying again makes sense.
        retry_after_ms: Option<u64>,
    }

    /// The answer to every message about rooms, which are not served.
    "room_error" RoomError<'a> {
        /// A stable code.
        code: &'a str,
        /// A sentence for people.
        message: &'a str,
    }

    /// The last message of a session that was closed.
    "session_close_ack" SessionCloseAck<'a> {
        /// The session.
        session_id: &'a str,
    }
}

/// The part of a `translation_result` that the node says, as it says it.
pub(crate) fn said_by_node() -> Value {
    let told = TranslationResult::described().payload;
    some_of(
        &told,
        &[
            "text_asr",
            "text_translated",
            "tts_audio",
            "tts_format",
            "extra",
            "service_timings",
            "network_timings",
            "asr_quality_level",
            "reason_codes",
            "quality_score",
            "rerun_count",
            "segments_meta",
        ],
    )
}

/// Times by service.
#[derive(Clone, Copy)]
pub(super) enum ServiceTimings<'a> {
    /// As the node sent them.
    AsItCame(ObjectAsItCame<'a>),
    /// All that is known.
    Total {
        /// Milliseconds.
        ms: u64,
    },
}

impl Field for ServiceTimings<'_> {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        match self {
            ServiceTimings::AsItCame(json) => json.write(name, object),
            ServiceTimings::Total { ms } => {
                let mut inner = object.object(name);
                inner.number("total_ms", *ms);
                inner.end();
            }
        }
    }

    fn schema() -> Value {
        ObjectAsItCame::schema()
    }
}

/// `ok` or `error`.
pub(super) struct Status {
    pub(super) failed: bool,
}

impl Field for Status {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        object.plain(name, if self.failed { "error" } else { "ok" });
    }

    fn schema() -> Value {
        json!({ "type": "string", "enum": ["ok", "error"] })
    }
}

/// Facts, as pairs of a name and a number or word.
pub(super) struct Details<'a>(pub(super) &'a [(&'a str, Detail<'a>)]);

impl Field for Details<'_> {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        let mut inner = object.object(name);
        for (name, detail) in self.0 {
            match detail {
                Detail::Number(number) => inner.number(name, *number),
                Detail::Word(word) => inner.text(name, word),
            }
        }
        inner.end();
    }

    fn schema() -> Value {
        json!({ "type": "object", "properties": {
            "utterance_index": { "type": "integer", "minimum": 0, "description": "Which utterance." },
            "first_seq": { "type": "integer", "minimum": 0, "description": "The first piece." },
            "last_seq": { "type": "integer", "minimum": 0, "description": "The last piece." },
            "bytes": { "type": "integer", "minimum": 0, "description": "How much speech it was." },
            "reason": { "type": "string", "description": "Why, in a word." },
        } })
    }
}
