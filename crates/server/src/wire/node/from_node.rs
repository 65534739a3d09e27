//! What a node says, described by the types that it is read with.

use lingua_core::node::Health;
use serde_json::{Value, json};

use super::about_itself::AboutItself;
use super::decode::{Auth, Message};
use crate::wire::described::{Described, of, only, some_of};

/// What every word about a job has; a mark says that it must be there.
const ABOUT_A_JOB: [&str; 3] = ["job_id!", "attempt_id", "lease_token"];

/// Every message of a node.
pub(crate) fn described() -> Vec<Described> {
    let mut message = of::<Message<'_>>();
    if let Some(forms) = message["properties"]["error"]["oneOf"].as_array_mut() {
        forms.push(json!({ "type": "string" }));
    }
    let about_job = |name, about, own: &[&str], more: Value| {
        let schemas = [some_of(&message, &ABOUT_A_JOB), some_of(&message, own), more];
        Described::read(&[name], about, &schemas)
    };
    let itself = only(of::<AboutItself>(), "health", &Health::ALL.map(Health::as_str));
    let mut register = itself.clone();
    register["required"] = json!(["language_capabilities"]);
    let failure = some_of(&message, &["code", "message"]);
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
            crate::wire::session::said_by_node(),
        ),
        Described::read(&["auth"], "A newer token.", &[of::<Auth>()]),
        Described::read(&["node_error"], "Something is wrong with the node itself.", &[failure]),
    ]
}

/// What a node is told in binary frames.
pub(crate) fn frames() -> Vec<Described> {
    vec![Described::binary(
        "job_audio_frame",
        "The speech of the `job_assign` before it, for a node with `binary_audio`.",
        super::render::AUDIO_FRAME,
        &[
            ("length", "1", "of job_id"),
            ("job_id", "length", "as in job_assign"),
            ("audio", "rest", "the speech"),
        ],
    )]
}
