//! What a node is told, message by message.

use lingua_core::node::Health;
use serde_json::{Value, json};

use crate::wire::json::Object;
use crate::wire::message::{
    Base64, Field, Flag, ListAsItCame, ObjectAsItCame, Sentences, messages,
};

messages! {
    /// The node is known from now on.
    "node_register_ack" NodeRegisterAck<'a> {
        /// Its name.
        node_id: &'a str,
        /// For people.
        message: &'a str,
        /// Whether it gets jobs, or its warm-up is awaited.
        status: Status,
        /// How often to send `node_heartbeat`.
        heartbeat_interval_ms: u64,
        /// Rises with every registration; the newest counts.
        epoch: u64,
        /// The node was known here; its jobs go on.
        resume: bool,
    }

    /// The answer to a heartbeat, for a node with anything in `supports`.
    "heartbeat_ack" HeartbeatAck<'a> {
        /// The scheduler's clock, in milliseconds since 1970.
        server_time_ms: u64,
        /// Why the node gets no jobs, in sentences. Absent if nothing is in the way, and while it
        /// works.
        why_idle: Option<Sentences<'a>>,
    }

    /// Do this. With `binary_audio` the speech follows in a frame of its own.
    "job_assign" JobAssign<'a> {
        /// To be said with every word about the job.
        job_id: &'a str,
        /// The number of this attempt; to be said with every word about the job.
        attempt_id: u32,
        /// Whose it is, under a name for this node alone.
        session_id: &'a str,
        /// Which of its utterances.
        utterance_index: u64,
        /// The language that is spoken; `auto` is one of `lang_a` and `lang_b`.
        src_lang: &'a str,
        /// The language that it becomes.
        tgt_lang: &'a str,
        /// As the client said.
        dialect: Option<&'a str>,
        /// As the client said.
        features: Option<ObjectAsItCame<'a>>,
        /// The steps to take.
        pipeline: Option<ObjectAsItCame<'a>>,
        /// The speech; not with `binary_audio`.
        audio: Option<Base64<'a>>,
        /// The form of the speech: `opus`, `pcm16` or `wav`.
        audio_format: &'a str,
        /// Samples a second.
        sample_rate: u32,
        /// `one_way` or `two_way_auto`.
        mode: Option<&'a str>,
        /// One language of the conversation.
        lang_a: Option<&'a str>,
        /// The other one.
        lang_b: Option<&'a str>,
        /// As the client said.
        auto_langs: Option<ListAsItCame<'a>>,
        /// Whether `asr_partial` is wanted.
        enable_streaming_asr: bool,
        /// How often.
        partial_update_interval_ms: Option<u64>,
        /// To follow it through logs.
        trace_id: &'a str,
        /// The span of this attempt, of a job that is traced.
        traceparent: Option<&'a str>,
        /// The turn, as the client is told.
        group_id: Option<&'a str>,
        /// Which part of the turn.
        part_index: Option<u64>,
        /// What was said before.
        context_text: Option<&'a str>,
        /// Silence that was put behind the speech.
        padding_ms: Option<u64>,
        /// The speaker ended the utterance.
        is_manual_cut: Flag,
        /// A pause ended it.
        is_timeout_triggered: Flag,
        /// Its length ended it.
        is_max_duration_triggered: Flag,
        /// The parts of one turn share it.
        turn_id: &'a str,
        /// After this nobody wants the answer; milliseconds since 1970.
        deadline_ms: u64,
        /// With `tokens`: to be said with every word about the job.
        lease_token: Option<&'a str>,
    }

    /// Stop working on it; no answer is awaited.
    "job_cancel" JobCancel<'a> {
        /// The job.
        job_id: &'a str,
        /// The attempt.
        attempt_id: u32,
        /// Why.
        reason: CancelReason<'a>,
    }

    /// The result arrived, and need not be sent again.
    "result_ack" ResultAck<'a> {
        /// The job.
        job_id: &'a str,
        /// The attempt.
        attempt_id: u32,
    }

    /// What the node is to do beside its jobs.
    "node_control" NodeControl<'a> {
        /// Take no new jobs, take them again, or get the model that it misses.
        command: Command<'a>,
        /// For people.
        reason: Option<&'a str>,
    }

    /// A newer token is taken.
    "auth_ack" AuthAck {
        /// Until when it is good, in milliseconds since 1970; absent where nobody is asked for tokens.
        expires_ms: Option<u64>,
    }

    /// A message of the node was refused.
    "error" Error<'a> {
        /// A stable code.
        code: &'a str,
        /// A sentence for people.
        message: &'a str,
        /// When trying again makes sense.
        retry_after_ms: Option<u64>,
    }
}

/// Whether a node that has just registered gets jobs.
pub(super) struct Status {
    pub(super) ready: bool,
}

impl Field for Status {
    fn write(&self, name: &str, object: &mut Object<'_>) {
        let health = if self.ready { Health::Ready } else { Health::Registering };
        object.plain(name, health.as_str());
    }

    fn schema() -> Value {
        let words = [Health::Ready, Health::Registering].map(Health::as_str);
        json!({ "type": "string", "enum": words })
    }
}

macro_rules! one_of {
    ($($(#[$doc:meta])+ $name:ident [$($word:literal),+ $(,)?]),+ $(,)?) => {$(
        $(#[$doc])+
        pub(super) struct $name<'a>(pub(super) &'a str);

        impl Field for $name<'_> {
            fn write(&self, name: &str, object: &mut Object<'_>) {
                object.text(name, self.0);
            }

            fn schema() -> Value {
                json!({ "type": "string", "enum": [$($word),+] })
            }
        }
    )+};
}

one_of! {
    /// Why a node is to stop.
    CancelReason [
        "cancelled", "deadline", "given_up", "other_copy_won", "no_lease", "unknown", "draining",
        "session_over", "superseded",
    ],
    /// What a node is to do.
    Command ["drain", "resume", "update"],
}
