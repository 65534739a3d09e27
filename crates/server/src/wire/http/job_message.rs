//! What nodes say about jobs, over HTTP.

use std::collections::BTreeMap;

use bytes::Bytes;
use lingua_core::outcome::Code;
use lingua_core::{JobId, NodeId};
use lingua_engine::job::{JobMessage, JobReport, NodeResult, Refusal, Reject};
use lingua_protocol::node::{self, FromNode};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{text, within, wrong};

/// Characters of a node's reason.
const MAX_REASON_CHARS: usize = 512;

/// A node acknowledges a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"job_id": "7m2k9x4c0v8b3n5q1w6e2r7t4y", "attempt_id": 1, "node_id": "node-123"}))]
pub(crate) struct AckRequest {
    /// As in `job_assign`.
    #[schema(value_type = String)]
    job_id: JobId,
    /// As in `job_assign`.
    #[schema(minimum = 1)]
    attempt_id: u32,
    /// The node.
    #[schema(value_type = String)]
    node_id: NodeId,
    /// As in `job_assign`, if there was one.
    lease_token: Option<String>,
}

/// A node has done a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({
    "job_id": "7m2k9x4c0v8b3n5q1w6e2r7t4y", "attempt_id": 1, "node_id": "node-123", "status": "ok",
    "result": {"text_asr": "hello", "text_translated": "你好", "tts_audio": "AAEC", "tts_format": "opus"}
}))]
pub(crate) struct DoneRequest {
    /// As in `job_assign`.
    #[schema(value_type = String)]
    job_id: JobId,
    /// As in `job_assign`.
    #[schema(minimum = 1)]
    attempt_id: u32,
    /// The node.
    #[schema(value_type = String)]
    node_id: NodeId,
    /// As in `job_assign`, if there was one.
    lease_token: Option<String>,
    /// `ok`.
    status: Option<String>,
    /// The fields of `job_result`: `text_asr`, `text_translated`, `tts_audio`, `tts_format`, `extra`,
    /// … An `extra.reason` of `ASR_EMPTY` or `NO_TEXT_ASSIGNED` is an empty ending; `success: false`
    /// with an `error` is a failure.
    #[schema(value_type = Option<Object>)]
    result: Option<Box<RawValue>>,
}

/// A node failed a job.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({
    "job_id": "7m2k9x4c0v8b3n5q1w6e2r7t4y", "attempt_id": 1, "node_id": "node-123", "status": "error",
    "reason": "MODEL_NOT_AVAILABLE", "model": "nmt-en-zh.2"
}))]
pub(crate) struct FailRequest {
    /// As in `job_assign`.
    #[schema(value_type = String)]
    job_id: JobId,
    /// As in `job_assign`.
    #[schema(minimum = 1)]
    attempt_id: u32,
    /// The node.
    #[schema(value_type = String)]
    node_id: NodeId,
    /// As in `job_assign`, if there was one.
    lease_token: Option<String>,
    /// `error`.
    status: Option<String>,
    /// A code or a text. `BUSY`: it has no free slot, which does not count as a failure.
    /// `MODEL_NOT_AVAILABLE`: it misses a model.
    reason: String,
    /// The model that it misses.
    model: Option<String>,
}

/// What a node says, and who it is.
pub(crate) struct JobCall {
    pub(crate) node: NodeId,
    pub(crate) attempt: u32,
    pub(crate) message: JobMessage,
}

impl AckRequest {
    pub(crate) fn call(self) -> Result<JobCall, Refusal> {
        call(self.node_id, self.job_id, self.attempt_id, self.lease_token, JobReport::Ack)
    }
}

impl DoneRequest {
    pub(crate) fn call(self) -> Result<JobCall, Refusal> {
        is_status(self.status.as_deref(), "ok")?;
        within("attempt_id", self.attempt_id.into(), 1..=u32::MAX.into())?;
        let mut fields: BTreeMap<String, &RawValue> = match &self.result {
            Some(result) => serde_json::from_str(result.get())
                .map_err(|_| wrong("result", "is not an object"))?,
            None => BTreeMap::new(),
        };
        fields.retain(|_, value| value.get() != "null");
        // The same message as over the socket, so that whoever hears it need not know the door.
        let raw = |json: String| RawValue::from_string(json).expect("ids and numbers are JSON");
        let [kind, success] = ["\"job_result\"", "true"].map(|json| raw(json.to_owned()));
        let job = raw(format!("\"{}\"", self.job_id));
        let attempt = raw(self.attempt_id.to_string());
        fields.extend([("type".into(), &*kind), ("job_id".into(), &*job)]);
        fields.insert("attempt_id".into(), &attempt);
        fields.entry("success".into()).or_insert(&success);
        fields.remove("lease_token");
        let message = serde_json::to_string(&fields).map_err(|error| wrong("result", error))?;
        let message = Bytes::from(message);
        let text = std::str::from_utf8(&message).map_err(|error| wrong("result", error))?;
        match node::decode(text, || message.clone()) {
            Ok(FromNode::Job(message)) => {
                let message = JobMessage { token: self.lease_token, ..message };
                Ok(JobCall { node: self.node_id, attempt: self.attempt_id, message })
            }
            Ok(_) => Err(wrong("result", "is not a result")),
            Err(refusal) => Err(wrong("result", refusal.detail)),
        }
    }
}

impl FailRequest {
    pub(crate) fn call(self) -> Result<JobCall, Refusal> {
        is_status(self.status.as_deref(), "error")?;
        let reason = text("reason", Some(self.reason), MAX_REASON_CHARS)?.unwrap_or_default();
        if reason.is_empty() {
            return Err(wrong("reason", "is empty"));
        }
        let model = text("model", self.model, 128)?;
        let report = match reason.as_str() {
            "BUSY" => JobReport::Reject(Reject::Busy),
            reason if reason == Code::ModelNotAvailable.as_str() => {
                JobReport::Reject(Reject::MissingModel(model))
            }
            _ => JobReport::Result(NodeResult::Failure {
                code: reason.clone(),
                message: format!("the node failed: {reason}"),
                missing_model: model,
            }),
        };
        call(self.node_id, self.job_id, self.attempt_id, self.lease_token, report)
    }
}

fn call(
    node: NodeId,
    job: JobId,
    attempt: u32,
    token: Option<String>,
    report: JobReport,
) -> Result<JobCall, Refusal> {
    within("attempt_id", attempt.into(), 1..=u32::MAX.into())?;
    Ok(JobCall {
        node,
        attempt,
        message: JobMessage { job, attempt: Some(attempt), token, report },
    })
}

fn is_status(status: Option<&str>, right: &str) -> Result<(), Refusal> {
    match status {
        Some(status) if status != right => {
            Err(wrong("status", format_args!("is {right:?} on this call, not {status:?}")))
        }
        _ => Ok(()),
    }
}
