//! What instances say to each other.
//!
//! JSON, so that two neighbouring versions understand each other: fields are only ever added, and a
//! message that an instance does not know it leaves alone. Messages go through the store, so nothing that
//! people said or nodes wrote goes along: a [`BodyRef`] says where to fetch it. Where the version before
//! wrote such text into a message, its place is left empty and still read.
#![allow(missing_docs, reason = "the names of these fields say it")]

use lingua_core::job::{NodeResult, Reject};
use lingua_core::{JobId, NodeId, SessionId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::JobInput;
use crate::node::message::read_message;

/// Several messages in one envelope, in their order. Each is read by itself, so that one of a later
/// version spoils no other.
#[derive(Deserialize)]
pub struct Batch {
    words: Vec<Box<RawValue>>,
}

impl Batch {
    /// The messages of an envelope that this version understands, and how many it does not.
    pub fn read(body: &[u8]) -> serde_json::Result<(Vec<PeerMessage>, usize)> {
        let batch: Batch = serde_json::from_slice(body)?;
        let all = batch.words.len();
        let read = |word: Box<RawValue>| serde_json::from_str(word.get()).ok();
        let words: Vec<PeerMessage> = batch.words.into_iter().filter_map(read).collect();
        let unknown = all - words.len();
        Ok((words, unknown))
    }
}

/// How far a job is to get.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// A node was chosen for it, or it is over.
    Placed,
    /// It is over.
    Over,
}

/// One message.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerMessage {
    /// To the instance that holds a node's connection: put this attempt on it.
    Assign(Box<RemoteAssign>),
    /// To the same: the attempt goes on, and its news are wanted here. The node was elsewhere when it
    /// was sent.
    Adopt(Box<RemoteAdopt>),
    /// To the same: no longer do that.
    Cancel { node: NodeId, epoch: u64, job: JobId, attempt: u32, reason: String },
    /// To the same: the result arrived.
    ResultAck { node: NodeId, epoch: u64, job: JobId, attempt: u32 },
    /// To the same: tell the node this.
    Control { node: NodeId, epoch: u64, command: String, reason: Option<String> },
    /// To the same: nobody waits for this attempt any more; with `over` it is over, otherwise the
    /// node may still work and its slot stays out.
    Forget {
        node: NodeId,
        job: JobId,
        attempt: u32,
        over: bool,
        /// It failed by the node's fault; unknown to the version before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        blame: bool,
        /// Why it failed; unknown to the version before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// To the same: the node did something that counts as a failed job. Unknown to the version before.
    NodeFault { node: NodeId },
    /// To the same: the node's owner or an operator says that it is well. Unknown to the version before.
    Vouch { node: NodeId },
    /// To the instance that has a job: this happened to an attempt of it.
    Job { job: JobId, node: NodeId, epoch: u64, event: PeerEvent },
    /// A slot of this node is free again.
    SlotFreed { node: NodeId },
    /// To everybody: jobs wait here for a slot, for so long by this word; zero if none does. Unknown to the
    /// version before.
    JobsWait { for_ms: u64 },
    /// These services of a node run now, and did not before.
    ServicesRun { node: NodeId, services: Vec<String> },
    /// To an instance that had a session: another has it now.
    SessionMoved { tenant: TenantId, session: SessionId, epoch: u64 },
    /// To everybody: whoever has this job is to say so, and when it is that far.
    WatchJob { job: JobId, goal: Goal },
    /// To who asked: this instance has the job, and will tell.
    JobWatched { job: JobId, goal: Goal },
    /// To who asked: the job is that far.
    JobReached { job: JobId, goal: Goal },
    /// To the instance that has a session: one of its jobs is over.
    SessionJob { tenant: TenantId, session: SessionId, job: JobId, ended: PeerEnded },
}

impl PeerMessage {
    /// The same, with the ids by which nodes know jobs as this instance makes them.
    pub fn renamed(mut self, rename: impl Fn(JobId) -> JobId) -> Self {
        match &mut self {
            PeerMessage::Assign(remote) => remote.job = rename(remote.job),
            PeerMessage::Cancel { job, .. } | PeerMessage::ResultAck { job, .. } => {
                *job = rename(*job)
            }
            // These have the jobs' own ids, or none.
            PeerMessage::Adopt(_)
            | PeerMessage::Control { .. }
            | PeerMessage::Forget { .. }
            | PeerMessage::NodeFault { .. }
            | PeerMessage::Vouch { .. }
            | PeerMessage::Job { .. }
            | PeerMessage::SlotFreed { .. }
            | PeerMessage::JobsWait { .. }
            | PeerMessage::SessionMoved { .. }
            | PeerMessage::SessionJob { .. }
            | PeerMessage::WatchJob { .. }
            | PeerMessage::JobWatched { .. }
            | PeerMessage::JobReached { .. }
            | PeerMessage::ServicesRun { .. } => {}
        }
        self
    }
}

impl PeerEnded {
    /// What is to be fetched for it.
    pub fn body(&self) -> Option<&BodyRef> {
        match self {
            PeerEnded::Done { body } => Some(body),
            PeerEnded::Failed { told, .. } => told.as_ref(),
            PeerEnded::Empty { .. } | PeerEnded::Cancelled { .. } => None,
        }
    }
}

/// An attempt on its way to a node of another instance.
#[derive(Serialize, Deserialize)]
pub struct RemoteAssign {
    pub node: NodeId,
    /// Of the connection that it is meant for.
    pub epoch: u64,
    /// As the node knows it.
    pub job: JobId,
    pub attempt: u32,
    /// The nonce of its lease.
    pub token: String,
    pub session: SessionId,
    pub turn: String,
    pub deadline_ms: u64,
    pub work: std::sync::Arc<JobInput>,
    pub audio: Option<BodyRef>,
    /// The last sentences, which `work` leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<BodyRef>,
    /// For the node's own spans; unknown to instances from before there were traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// An attempt that a node has already.
#[derive(Serialize, Deserialize)]
pub struct RemoteAdopt {
    pub node: NodeId,
    pub epoch: u64,
    /// By its own id.
    pub job: JobId,
    pub attempt: u32,
    pub token: String,
    pub turn: String,
    pub index: u64,
}

/// Where a body is, and how large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyRef {
    pub name: String,
    pub bytes: usize,
    /// Of what is to be fetched; absent from the version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What happened to an attempt.
#[derive(Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum PeerEvent {
    Sent {
        attempt: u32,
    },
    NotSent {
        attempt: u32,
    },
    Ack {
        attempt: u32,
    },
    Reject {
        attempt: u32,
        reason: PeerReject,
        /// The node's own messages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<BodyRef>,
    },
    Partial {
        attempt: u32,
        body: BodyRef,
    },
    Result {
        attempt: u32,
        result: PeerResult,
    },
    NodeGone {
        attempt: u32,
    },
    NodeBack {
        attempt: u32,
    },
    Dropped {
        attempt: u32,
    },
    TurnClosed {
        attempt: u32,
    },
}

/// Why a node does not take a job.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerReject {
    Busy,
    MissingModel(Option<String>),
    Other(String),
}

impl From<Reject> for PeerReject {
    fn from(reject: Reject) -> Self {
        match reject {
            Reject::Busy => PeerReject::Busy,
            Reject::MissingModel(model) => PeerReject::MissingModel(model),
            Reject::Other(text) => PeerReject::Other(text),
        }
    }
}

impl From<PeerReject> for Reject {
    fn from(reject: PeerReject) -> Self {
        match reject {
            PeerReject::Busy => Reject::Busy,
            PeerReject::MissingModel(model) => Reject::MissingModel(model),
            PeerReject::Other(text) => Reject::Other(text),
        }
    }
}

/// How a node ended its attempt.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerResult {
    Success {
        body: BodyRef,
    },
    Empty {
        body: BodyRef,
        reason: String,
    },
    Failure {
        code: String,
        message: String,
        missing_model: Option<String>,
        /// The node's own [`ErrorText`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<BodyRef>,
    },
}

/// A node's own messages for its failure.
#[derive(Serialize, Deserialize)]
pub struct ErrorText {
    pub code: String,
    pub message: String,
}

impl PeerResult {
    /// The result, once what is to be fetched for it is here.
    pub fn with(self, body: bytes::Bytes) -> NodeResult {
        match self {
            PeerResult::Success { .. } => NodeResult::Success(read_message(body)),
            PeerResult::Empty { reason, .. } => {
                NodeResult::Empty { body: read_message(body), reason }
            }
            PeerResult::Failure { code, message, missing_model, .. } => {
                let told = serde_json::from_slice(&body).unwrap_or(ErrorText { code, message });
                NodeResult::Failure { code: told.code, message: told.message, missing_model }
            }
        }
    }

    /// What is to be fetched for it.
    pub fn body(&self) -> Option<&BodyRef> {
        match self {
            PeerResult::Success { body } | PeerResult::Empty { body, .. } => Some(body),
            PeerResult::Failure { told, .. } => told.as_ref(),
        }
    }

    /// Whether it is worth telling without what could not be fetched.
    pub fn stands_alone(&self) -> bool {
        matches!(self, PeerResult::Failure { .. })
    }
}

/// How a session's job ended.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerEnded {
    Done {
        body: BodyRef,
    },
    Empty {
        reason: String,
    },
    Failed {
        code: String,
        detail: String,
        /// The sentence, which may be a node's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<BodyRef>,
    },
    Cancelled {
        reason: String,
    },
}

#[cfg(test)]
mod tests;
