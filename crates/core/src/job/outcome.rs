//! How attempts and jobs end.

use super::message::NodeMessage;
use crate::outcome::Code;

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
    Success(NodeMessage),
    /// Without an answer, and without a failure: silence, or speech that belongs to another part of the turn.
    Empty {
        /// The message as it came.
        body: NodeMessage,
        /// The node's reason code.
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

/// Whether a failure with this code counts against the node. A missing model does not, and neither does
/// speech that the node has worked on already.
pub fn is_fault(code: &str) -> bool {
    code != Code::ModelNotAvailable.as_str() && !code.starts_with("DUPLICATE_")
}

/// Whether this is a code that may be passed on and logged.
pub fn is_code(text: &str) -> bool {
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
    /// After how many milliseconds to try again.
    pub retry_after_ms: Option<u64>,
    /// A stable reason for the audit log.
    pub reason: Option<&'static str>,
}

impl Refusal {
    /// A refusal with this code and sentence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Refusal { code, node_code: None, detail: detail.into(), retry_after_ms: None, reason: None }
    }

    /// The same, with a reason for the audit log.
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
    pub fn store_down() -> Self {
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
    Done(NodeMessage),
    /// Without an answer, because nothing was said.
    Empty {
        /// The node's message as it came, if there was one.
        body: Option<NodeMessage>,
        /// The reason, for people.
        reason: String,
    },
    /// Without an answer.
    Failed(Refusal),
    /// Its caller or session gave it up.
    Cancelled(String),
}

impl Ended {
    /// A code for metrics, logs and the store; empty if it did not fail.
    pub fn code(&self) -> &str {
        match self {
            Ended::Done(_) | Ended::Empty { .. } => "",
            Ended::Failed(refusal) => refusal.code_text(),
            Ended::Cancelled(_) => Code::JobCancelled.as_str(),
        }
    }

    /// Bytes that remembering it takes.
    pub fn size(&self) -> usize {
        match self {
            Ended::Done(body) => body.size(),
            Ended::Empty { body, .. } => body.as_ref().map_or(0, NodeMessage::size),
            Ended::Failed(refusal) => refusal.detail.len(),
            Ended::Cancelled(reason) => reason.len(),
        }
    }
}
