//! The messages of the node socket, described by the types that they are read and written with.

use lingua_core::node::Health;
use serde_json::{Value, json};

use super::inbound::{Auth, JobFields};
use super::outbound::{
    AUDIO_FRAME, AuthAck, CANCEL_REASONS, COMMANDS, Error, HeartbeatAck, JobAssign, JobCancel,
    NodeControl, NodeRegisterAck, ResultAck,
};
use super::registration::NodeStatus;
use super::result::ResultFields;
use crate::described::{Described, of, only, some_of};
use crate::options::JobOptions;

/// What every word about a job has; a mark says that it must be there.
const ABOUT_A_JOB: [&str; 3] = ["job_id!", "attempt_id", "lease_token"];

/// Every message of a node.
pub fn from_node() -> Vec<Described> {
    let mut message = of::<JobFields<'_>>();
    if let Some(forms) = message["properties"]["error"]["oneOf"].as_array_mut() {
        forms.push(json!({ "type": "string" }));
    }
    let about_job = |name, about, own: &[&str], more: Value| {
        let schemas = [some_of(&message, &ABOUT_A_JOB), some_of(&message, own), more];
        Described::read(&[name], about, &schemas)
    };
    let itself = only(of::<NodeStatus>(), "health", &Health::ALL.map(Health::as_str));
    let mut register = itself.clone();
    register["required"] = json!(["language_capabilities"]);
    let failure = some_of(&message, &["code", "message"]);
    let mut result = Described::written::<ResultFields<'_>>("").payload;
    result["required"] = json!([]);
    result["properties"]["src_lang"] = spoken();
    vec![
        Described::read(
            &["node_register", "register"],
            "Who it is and what it can do.",
            &[register],
        ),
        Described::read(
            &["node_heartbeat", "heartbeat"],
            "That it lives. What is there replaces what was said before as a whole.",
            &[itself],
        ),
        about_job("job_ack", "It has the job and will do it.", &[], json!({})),
        about_job("job_started", "It works on it.", &[], json!({})),
        about_job(
            "job_reject",
            "It does not take it, which is not held against it.",
            &["reason", "details"],
            json!({}),
        ),
        about_job(
            "asr_partial",
            "Words on the way; they reach the speaker.",
            &[],
            json!({ "properties": {
                "text": { "type": "string", "description": "What was recognised so far." },
                "is_final": { "type": "boolean", "description": "They will not change any more." },
                "src_lang": spoken(),
            } }),
        ),
        about_job(
            "job_progress",
            "Anything else on the way; the job's view shows the last one.",
            &[],
            json!({}),
        ),
        about_job(
            "job_result",
            "How it ended. Whatever else is in it goes to callers over HTTP as it came.",
            &["success!", "error", "extra"],
            result,
        ),
        Described::read(&["auth"], "A newer token.", &[of::<Auth>()]),
        Described::read(&["node_error"], "Something is wrong with the node itself.", &[failure]),
    ]
}

/// Which of two languages a node found to be spoken.
fn spoken() -> Value {
    let what =
        "Of a job whose `src_lang` is `auto`: the language that was spoken, `lang_a` or `lang_b`.";
    json!({ "type": "string", "description": what })
}

/// Every message that a node is told.
pub fn to_node() -> Vec<Described> {
    let cancel = Described::written::<JobCancel<'_>>("job_cancel");
    let control = Described::written::<NodeControl<'_>>("node_control");
    vec![
        Described::written::<NodeRegisterAck<'_>>("node_register_ack"),
        Described::written::<HeartbeatAck<'_>>("heartbeat_ack"),
        Described::written::<JobAssign<'_>>("job_assign")
            .with::<JobOptions>()
            .always("enable_streaming_asr"),
        cancel.one_of("reason", &CANCEL_REASONS),
        Described::written::<ResultAck<'_>>("result_ack"),
        control.one_of("command", &COMMANDS),
        Described::written::<AuthAck>("auth_ack"),
        Described::written::<Error<'_>>("error"),
        Described::binary(
            "job_audio_frame",
            "The speech of the `job_assign` before it, for a node with `binary_audio`.",
            AUDIO_FRAME,
            &[
                ("length", "1", "of job_id"),
                ("job_id", "length", "as in job_assign"),
                ("audio", "rest", "the speech"),
            ],
        ),
    ]
}
