//! How a job stands, over HTTP.

use std::collections::BTreeMap;

use lingua_core::JobId;
use lingua_core::outcome::Code;
use lingua_engine::job::{Ended, NodeMessage, Refusal};
use lingua_engine::job_log::AttemptSummary;
use lingua_engine::jobs::{Job, LegView, View};
use lingua_protocol::json::write;
use lingua_store::jobs::JobRecord;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// What a node's message says of itself beside its content: not part of the result.
const NOT_CONTENT: [&str; 6] =
    ["type", "job_id", "attempt_id", "node_id", "session_id", "lease_token"];

/// The state of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobBody {
    /// The job.
    job_id: String,
    /// The conversation that it belongs to.
    session_id: String,
    /// It never goes back; the last three are final.
    #[schema(value_type = JobStateWord)]
    state: &'static str,
    /// The node of the latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// The number of the latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_id: Option<u32>,
    /// All attempts; of a translation by way of another language, one for each of the two jobs.
    attempts: Vec<AttemptBody>,
    /// Its profile: `stable` or `fast`. Missing for a job of another instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "stable")]
    profile: Option<&'static str>,
    /// What the answer is, or is to be: `speech`, `captions` (the translation in writing) or `original` (what
    /// was said, in writing). Missing for a job of another instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "speech")]
    form: Option<&'static str>,
    /// The language between, of a translation by way of another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "en")]
    via: Option<String>,
    /// The two jobs of a translation by way of another language.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    legs: Vec<LegBody>,
    /// The times of its steps; absent for a job of another instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
    /// Notes about the choice of the node.
    notes: Vec<String>,
    /// The last progress that the node reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    partial: Option<Box<RawValue>>,
    /// The node's answer: the fields of `job_result` that it sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"text_asr": "hello", "text_translated": "你好"}))]
    result: Option<Box<RawValue>>,
    /// Why a job is done without a translation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "ASR_EMPTY")]
    empty_reason: Option<String>,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<JobError>,
}

impl JobBody {
    /// The course of the job, without its text.
    pub(crate) fn without_words(self) -> Self {
        JobBody { partial: None, result: None, ..self }
    }
}

/// Where a job is.
#[derive(ToSchema)]
#[schema(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(dead_code, reason = "it describes the words of the core's own type")]
pub(crate) enum JobStateWord {
    New,
    Selecting,
    Waiting,
    Reserved,
    Dispatched,
    Acked,
    Retrying,
    Done,
    Failed,
    Cancelled,
}

/// An attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptBody {
    /// From 1.
    number: u32,
    /// Its node.
    node_id: String,
    /// How the node came to be chosen: `preferred`, `turn` (it has the earlier parts), `sample`, `rest`
    /// (beyond the sample), `spared` (nothing else was free), `full` (asked all the same), `handed` (its slot
    /// came free while the job was queued), `pivot` (one of two jobs chose it, see `legs`).
    #[schema(example = "sample")]
    source: &'static str,
    /// Epoch milliseconds.
    sent_ms: u64,
    /// When the node acknowledged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    acked_ms: Option<u64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms: Option<u64>,
    /// How it ended: `ok`, or a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

/// One of the two jobs of a translation by way of another language.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LegBody {
    /// The job.
    job_id: String,
    /// `src->tgt`.
    #[schema(example = "de->en")]
    direction: String,
}

/// The times of its steps, in epoch milliseconds.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Timings {
    /// When it was submitted.
    pub(crate) created_ms: u64,
    /// First sent to a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dispatched_ms: Option<u64>,
    /// First acknowledged by a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) acked_ms: Option<u64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_ms: Option<u64>,
    /// How long it was queued; a duration.
    pub(crate) waited_ms: u64,
}

/// Why a job has no result.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobError {
    /// A stable code; a node's own is passed on as it is.
    #[schema(example = "NO_CAPABLE_NODE")]
    code: String,
    /// A sentence for people.
    detail: String,
    /// When to submit it again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// The outcome of a cancellation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cancelled {
    /// Always true; errors have another form.
    pub(crate) ok: bool,
    /// `CANCELLED`, or how it had ended before.
    #[schema(value_type = JobStateWord)]
    pub(crate) state: &'static str,
}

impl JobBody {
    /// A job of this instance.
    pub(crate) fn of(job: &Job, view: View) -> Self {
        let last = view.attempts.last();
        let (result, empty_reason, error) = match view.ended {
            None => (None, None, None),
            Some(Ended::Done(body)) => (content(&body), None, None),
            Some(Ended::Empty { body, reason }) => {
                (body.as_ref().and_then(content), Some(reason), None)
            }
            Some(Ended::Failed(refusal)) => (None, None, Some(JobError::of(refusal))),
            Some(Ended::Cancelled(reason)) => {
                let detail = format!("the job was cancelled: {reason}");
                (None, None, Some(JobError::of(Refusal::new(Code::JobCancelled, detail))))
            }
        };
        JobBody {
            job_id: job.id.to_string(),
            session_id: job.session.session().to_string(),
            state: view.state.as_str(),
            node_id: last.map(|attempt| attempt.node.to_string()),
            attempt_id: last.map(|attempt| attempt.number),
            attempts: view.attempts.iter().map(AttemptBody::of).collect(),
            profile: Some(job.profile.as_str()),
            form: Some(view.got.form.as_str()),
            via: view.got.via.map(|via| via.to_string()),
            legs: view.legs.iter().map(LegBody::of).collect(),
            timings: Some(Timings {
                created_ms: view.created_ms,
                dispatched_ms: view.dispatched_ms,
                acked_ms: view.acked_ms,
                ended_ms: view.ended_ms,
                waited_ms: view.waited_ms,
            }),
            notes: view.notes,
            partial: view.partial.as_ref().and_then(content),
            result,
            empty_reason,
            error,
        }
    }

    /// The same for a caller on another instance: without the result, which stays here.
    pub(crate) fn for_another(mut self, instance: &str) -> Self {
        if self.result.take().is_some() {
            let note = format!("instance {instance} looked after this job and keeps its result");
            self.notes.push(note);
        }
        JobBody { partial: None, ..self }
    }

    /// A job that another instance has or had, as the store knows it.
    pub(crate) fn of_record(id: JobId, record: &JobRecord) -> Self {
        let note = "known from the store only: the result of a job is kept by the instance that \
                    looked after it";
        let error = (!record.code.is_empty()).then(|| JobError {
            code: record.code.clone(),
            detail: "the job ended without an answer on another instance".to_owned(),
            retry_after_ms: None,
        });
        let assignment = record.assignment.as_ref();
        JobBody {
            job_id: id.to_string(),
            session_id: record.session.session().to_string(),
            state: record.state.as_str(),
            node_id: assignment.map(|assignment| assignment.node.to_string()),
            attempt_id: assignment.map(|assignment| assignment.token.attempt),
            attempts: Vec::new(),
            profile: None,
            form: None,
            via: None,
            legs: Vec::new(),
            timings: None,
            notes: vec![note.to_owned()],
            partial: None,
            result: None,
            empty_reason: None,
            error,
        }
    }
}

impl LegBody {
    fn of(leg: &LegView) -> Self {
        LegBody { job_id: leg.job.to_string(), direction: leg.route.to_string() }
    }
}

impl AttemptBody {
    fn of(attempt: &AttemptSummary) -> Self {
        AttemptBody {
            number: attempt.number,
            node_id: attempt.node.to_string(),
            source: attempt.source,
            sent_ms: attempt.sent_ms,
            acked_ms: attempt.acked_ms,
            ended_ms: attempt.ended_ms,
            outcome: attempt.outcome.as_ref().map(|outcome| outcome.as_str().to_owned()),
        }
    }
}

impl JobError {
    fn of(refusal: Refusal) -> Self {
        JobError {
            code: refusal.code_text().to_owned(),
            detail: refusal.detail,
            retry_after_ms: refusal.retry_after_ms,
        }
    }
}

/// What a node's message holds apart from whom and what it is about, as it was written. Of a field that is there
/// twice the last counts.
fn content(message: &NodeMessage) -> Option<Box<RawValue>> {
    let fields: BTreeMap<&str, &str> =
        message.fields().filter(|(name, _)| !NOT_CONTENT.contains(name)).collect();
    let mut text = String::with_capacity(message.len());
    for (name, json) in fields {
        text.push(if text.is_empty() { '{' } else { ',' });
        write(&name, &mut text);
        text.push(':');
        text.push_str(json);
    }
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    RawValue::from_string(text).ok()
}

#[cfg(test)]
mod tests {
    use lingua_core::job::JobState;
    use utoipa::PartialSchema;

    use bytes::Bytes;
    use lingua_protocol::node::message::read_message;

    use super::*;

    #[test]
    fn content_passes_through_as_it_was_written() {
        let message = br#"{"type":"job_result","job_id":"x","session_id":"s","node_id":"n","attempt_id":1,"lease_token":"t","success":true,"extra":{"n":1.50,"u":"\u00e9"}}"#;
        let content = content(&read_message(Bytes::from_static(message))).unwrap();
        assert_eq!(content.get(), r#"{"extra":{"n":1.50,"u":"\u00e9"},"success":true}"#);
    }

    #[test]
    fn a_name_is_known_however_it_is_written() {
        let content =
            content(&read_message(Bytes::from_static(br#"{"t\u0079pe":"x","n\u00e9":1}"#)))
                .unwrap();
        assert_eq!(content.get(), r#"{"né":1}"#);
    }

    #[test]
    fn the_described_states_are_those_of_the_core() {
        let schema = serde_json::to_value(JobStateWord::schema()).unwrap();
        let words: Vec<&str> = JobState::ALL.iter().map(|state| state.as_str()).collect();
        assert_eq!(schema["enum"], serde_json::json!(words));
    }
}
