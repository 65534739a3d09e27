//! What the engine and its doors say to each other about jobs.
//!
//! Nothing here is JSON: a door parses once at the edge into these types and renders them again.
//! What only passes through stays the text it was.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::eligibility::Need;
use lingua_core::outcome::Code;
use lingua_core::select::Heard;
use lingua_core::{JobId, NodeId, SessionId, SessionKey, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::cluster::remote::Ears;
use crate::dispatch::JobEvent;
use crate::sessions::mail::Observer;
use crate::trace::Context;

/// JSON that passes through as it is.
pub type Json = Arc<RawValue>;

/// What a job asks for. It does not change while the job lives.
///
/// Without `Debug`: audio and context stay out of logs.
pub struct JobSpec {
    /// Derived from the job's key, so that creating twice is creating once.
    pub id: JobId,
    /// Whose conversation it belongs to.
    pub session: SessionKey,
    /// The session's epoch that made it; `None` for a job without a session actor, whose deadline
    /// any instance watches.
    pub epoch: Option<u64>,
    /// What the node must be able to do.
    pub need: Need,
    /// If no node speaks the target language, text alone will do.
    pub text_will_do: bool,
    /// Try this node first.
    pub preferred: Option<NodeId>,
    /// Try no other.
    pub strict: bool,
    /// The turn that its speech is a part of, if it has several: later parts prefer the node of the
    /// first.
    pub turn: Option<TurnId>,
    /// What the session knows of its past; `None` lets the dispatcher remember for it.
    pub past: Option<Past>,
    /// What is to be done.
    pub work: Arc<Work>,
    /// From now to its deadline.
    pub deadline_in: Duration,
    /// The trace that it is a part of, by its caller's word or its session's.
    pub trace: Option<Context>,
    /// Who wants to hear what becomes of it: the session that it belongs to.
    pub observer: Option<Observer>,
}

/// Who heard the conversation so far.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The node of the last utterance.
    pub last: Option<NodeId>,
    /// Who heard how much.
    pub heard: Heard,
}

/// What is to be done, as the node is told. Immutable, so that a retry has something to send.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The utterance's number within its session.
    pub utterance_index: u64,
    /// As the caller wrote it; may be `auto`.
    pub src_lang: String,
    /// As the caller wrote it.
    pub tgt_lang: String,
    /// Passed on.
    pub dialect: Option<String>,
    /// Passed on.
    pub features: Option<Json>,
    /// Passed on; the door fills it in where the caller left it out.
    pub pipeline: Option<Json>,
    /// The speech. It goes to other instances by a way of its own.
    #[serde(skip)]
    pub audio: Bytes,
    /// `opus`, `pcm16`, …
    pub audio_format: String,
    /// In Hz.
    pub sample_rate: u32,
    /// Passed on.
    pub mode: Option<String>,
    /// Passed on.
    pub lang_a: Option<String>,
    /// Passed on.
    pub lang_b: Option<String>,
    /// Passed on.
    pub auto_langs: Option<Json>,
    /// The caller wants partial results.
    pub enable_streaming_asr: bool,
    /// How often.
    pub partial_update_interval_ms: Option<u64>,
    /// For following one utterance through all logs.
    pub trace_id: String,
    /// Passed on.
    pub group_id: Option<String>,
    /// Which part of its turn.
    pub part_index: Option<u64>,
    /// The last final sentences of the conversation. To other instances they go by a way of their own.
    #[serde(serialize_with = "left_out")]
    pub context_text: Option<String>,
    /// Silence that the node appends.
    pub padding_ms: Option<u64>,
    /// The speaker ended the utterance.
    pub manual_cut: bool,
    /// A pause ended it.
    pub timeout_cut: bool,
    /// Its length ended it.
    pub max_duration_cut: bool,
}

/// Writes nothing in the place of what must not go through the store.
fn left_out<S: serde::Serializer>(_text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_none()
}

impl Work {
    /// The same without speech: the node has no voice for it.
    pub(crate) fn without_voice(&self) -> Work {
        let steps = self.pipeline.as_ref().map(|steps| serde_json::from_str(steps.get()));
        let mut steps: serde_json::Map<String, serde_json::Value> =
            steps.and_then(Result::ok).unwrap_or_default();
        steps.insert("use_tts".to_owned(), false.into());
        let steps = serde_json::value::to_raw_value(&steps).expect("a map of JSON is JSON");
        Work { pipeline: Some(steps.into()), ..self.clone() }
    }
}

/// One dispatch of a job, on its way to a node.
pub struct Assign {
    /// The id under which the node knows the job.
    pub job: JobId,
    /// Which dispatch, from 1.
    pub attempt: u32,
    /// The name of the lease, for nodes that understand it.
    pub token: String,
    /// The session as the node may know it.
    pub session: SessionId,
    /// The turn, as the node may know it.
    pub turn: String,
    /// Epoch milliseconds after which nobody wants the answer.
    pub deadline_ms: u64,
    /// Not to be sent later: whoever has the job gives this attempt up then, and its slot may be
    /// another's soon after.
    pub send_by: Instant,
    /// The span that the node's own are a part of, as a `traceparent`.
    pub traceparent: Option<String>,
    /// What is to be done.
    pub work: Arc<Work>,
    /// Whom to tell that it is on the wire.
    pub receipt: Receipt,
}

/// Whom to tell that an assign is on the wire; nobody, if the node says itself that it has it.
#[derive(Default)]
pub struct Receipt(pub(crate) Option<Ears>);

impl Assign {
    /// Whether it must not be sent any more. A process that was stopped for a while finds such ones
    /// when it goes on.
    pub fn is_late(&self) -> bool {
        Instant::now() > self.send_by
    }

    /// Whether anybody waits to hear that it is on the wire.
    pub fn wants_receipt(&self) -> bool {
        self.receipt.0.is_some()
    }

    /// It is on the wire. For a node that does not ack, this is the ack.
    pub fn sent(&self) {
        if let Some(receipt) = &self.receipt.0 {
            // A job that ended meanwhile has no ears, and needs none.
            let _ = receipt.try_send(JobEvent::Sent { attempt: self.attempt });
        }
    }
}

/// What goes to a node.
pub enum ToNode {
    /// Do this.
    Assign(Box<Assign>),
    /// No longer do that.
    Cancel {
        /// The id under which the node knows the job.
        job: JobId,
        /// Which dispatch.
        attempt: u32,
        /// Why, in a word.
        reason: &'static str,
    },
    /// The result arrived; it need not be sent again.
    ResultAck {
        /// The id under which the node knows the job.
        job: JobId,
        /// Which dispatch.
        attempt: u32,
    },
    /// `drain`, `resume` or `update`.
    Control {
        /// Which.
        command: &'static str,
        /// Why, for people.
        reason: Option<String>,
    },
    /// A newer connection of the same node took over: close this one.
    Superseded,
    /// An administrator shut the node out: close the connection.
    Blocked,
}

/// What a node says about a job.
pub struct JobWord {
    /// The id under which the node knows the job.
    pub job: JobId,
    /// Which dispatch; some messages do not say.
    pub attempt: Option<u32>,
    /// The name of the lease, if the node sends it.
    pub token: Option<String>,
    /// What it says.
    pub report: JobReport,
}

/// What a node says about a job.
pub enum JobReport {
    /// It takes it.
    Ack,
    /// It has begun.
    Started,
    /// It does not take it.
    Reject(Reject),
    /// Something on the way: the message as it came.
    Partial(Bytes),
    /// It is done with it, one way or the other.
    Result(NodeResult),
}

impl JobReport {
    /// The same, unless it holds more bytes than one result may: then the attempt failed, or what was on
    /// the way is left out. Says whether it did.
    pub(crate) fn bounded(self, most: usize) -> (Self, bool) {
        match self {
            JobReport::Partial(body) if body.len() > most => (JobReport::Started, true),
            JobReport::Result(NodeResult::Success(body) | NodeResult::Empty { body, .. })
                if body.len() > most =>
            {
                let result = NodeResult::Failure {
                    code: Code::MessageTooLarge.as_str().to_owned(),
                    message: format!("the result has {} bytes, more than {most}", body.len()),
                    missing_model: None,
                };
                (JobReport::Result(result), true)
            }
            other => (other, false),
        }
    }

    /// A word for metrics and logs.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            JobReport::Ack => "ack",
            JobReport::Started => "started",
            JobReport::Reject(_) => "reject",
            JobReport::Partial(_) => "partial",
            JobReport::Result(_) => "result",
        }
    }
}

/// Why a node does not take a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reject {
    /// It has no slot free, by its own count.
    Busy,
    /// It misses this model, if it says which.
    MissingModel(Option<String>),
    /// Something else, in its own words.
    Other(String),
}

/// How a node ended its attempt.
#[derive(Clone)]
pub enum NodeResult {
    /// With an answer: the message as it came.
    Success(Bytes),
    /// With nothing to say: silence, or speech that went into another part of the turn.
    Empty {
        /// The message as it came.
        body: Bytes,
        /// The node's word for it.
        reason: String,
    },
    /// With an error.
    Failure {
        /// The node's own code, or one of ours.
        code: String,
        /// For people.
        message: String,
        /// The model that it misses, if that is why.
        missing_model: Option<String>,
    },
}

/// Whether a failure with this code is the node's fault: a model that it does not have is a fact
/// about it, and speech that it has already worked on is nobody's fault.
pub(crate) fn is_fault(code: &str) -> bool {
    code != Code::ModelNotAvailable.as_str() && !code.starts_with("DUPLICATE_")
}

/// A code of a node's own that may be passed on and logged.
pub(crate) fn is_code(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Why work is refused or ends without a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// One of ours.
    pub code: Code,
    /// The node's own code, if it was the node's failure.
    pub node_code: Option<String>,
    /// A sentence for people.
    pub detail: String,
    /// When trying again makes sense.
    pub retry_after_ms: Option<u64>,
    /// For the audit log: a word that stays the same whatever the sentence says.
    pub reason: Option<&'static str>,
}

impl Refusal {
    /// A refusal with this code and sentence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Refusal { code, node_code: None, detail: detail.into(), retry_after_ms: None, reason: None }
    }

    /// The same, with a word for the audit log.
    pub fn because(self, reason: &'static str) -> Self {
        Refusal { reason: Some(reason), ..self }
    }

    /// The same, with a time after which to try again.
    pub fn retry_after(self, ms: u64) -> Self {
        Refusal { retry_after_ms: Some(ms), ..self }
    }

    /// What callers see as the code: a node's own is passed on as it is.
    pub fn code_text(&self) -> &str {
        self.node_code.as_deref().unwrap_or(self.code.as_str())
    }

    /// The store is out of reach.
    pub fn store_down(error: &lingua_store::Error) -> Self {
        tracing::debug!(%error, "refused for want of the store");
        Refusal::new(
            Code::SchedulerDependencyDown,
            "the store does not answer; new work is refused until it does",
        )
        .retry_after(1_000)
    }
}

/// How a job ended.
#[derive(Clone)]
pub enum Ended {
    /// With an answer: the node's message as it came.
    Done(Bytes),
    /// With nothing to say.
    Empty {
        /// The node's message as it came, if there was one.
        body: Option<Bytes>,
        /// Why.
        reason: String,
    },
    /// Without an answer.
    Failed(Refusal),
    /// Nobody wanted it any more.
    Cancelled(String),
}

impl Ended {
    /// A word for metrics, logs and the store: empty for a good end.
    pub fn code(&self) -> &str {
        match self {
            Ended::Done(_) | Ended::Empty { .. } => "",
            Ended::Failed(refusal) => refusal.code_text(),
            Ended::Cancelled(_) => Code::JobCancelled.as_str(),
        }
    }

    /// Bytes that remembering it takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Ended::Done(body) => body.len(),
            Ended::Empty { body, .. } => body.as_ref().map_or(0, Bytes::len),
            Ended::Failed(refusal) => refusal.detail.len(),
            Ended::Cancelled(reason) => reason.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_too_large_is_a_failure_of_its_attempt() {
        let body = |bytes: usize| Bytes::from(vec![b'x'; bytes]);
        for (report, kept) in [
            (JobReport::Result(NodeResult::Success(body(10))), true),
            (JobReport::Result(NodeResult::Success(body(11))), false),
            (JobReport::Result(NodeResult::Empty { body: body(11), reason: "x".into() }), false),
            (JobReport::Partial(body(10)), true),
            (JobReport::Partial(body(11)), false),
        ] {
            let was_partial = matches!(report, JobReport::Partial(_));
            let (bounded, too_large) = report.bounded(10);
            assert_eq!(too_large, !kept);
            match bounded {
                JobReport::Result(NodeResult::Failure { code, .. }) => {
                    assert!(!kept && code == "MESSAGE_TOO_LARGE");
                }
                JobReport::Started => assert!(!kept && was_partial),
                _ => assert!(kept),
            }
        }
    }
}
