//! What is here for this instance and there for another: a node's connection, a job's ears.

use std::sync::Arc;

use bytes::Bytes;
use lingua_core::outcome::Code;
use lingua_core::{JobId, LeaseToken, NodeId};
use lingua_store::Instance;
use tokio::sync::mpsc;

use super::post::Post;
use super::words::{PeerEvent, PeerReject, PeerResult, PeerWord, RemoteAssign, Told};
use crate::dispatch::JobEvent;
use crate::job::{Assign, NodeResult, Reject, ToNode, is_code};

/// Where to put what is for a node.
#[derive(Clone)]
pub(crate) enum Outbox {
    /// Its connection is here.
    Here(mpsc::Sender<ToNode>),
    /// Another instance has it.
    There(There),
}

/// A node's connection on another instance.
#[derive(Clone)]
pub(crate) struct There {
    pub post: Arc<Post>,
    pub owner: Instance,
    pub node: NodeId,
    pub epoch: u64,
}

/// It could not be put there.
#[derive(Debug)]
pub(crate) struct Refused;

impl Outbox {
    pub fn try_send(&self, message: ToNode) -> Result<(), Refused> {
        match self {
            Outbox::Here(out) => out.try_send(message).map_err(|_| Refused),
            Outbox::There(there) => there.send(message),
        }
    }

    /// The other instance, if it is one.
    pub fn there(&self) -> Option<&There> {
        match self {
            Outbox::Here(_) => None,
            Outbox::There(there) => Some(there),
        }
    }
}

impl There {
    pub fn say(&self, word: PeerWord) -> Result<(), Refused> {
        self.post.send(&self.owner, word).map_err(|_| Refused)
    }

    fn send(&self, message: ToNode) -> Result<(), Refused> {
        let (node, epoch) = (self.node.clone(), self.epoch);
        let word = match message {
            ToNode::Assign(assign) => self.assign(*assign),
            ToNode::Cancel { job, attempt, reason } => {
                PeerWord::Cancel { node, epoch, job, attempt, reason: reason.to_owned() }
            }
            ToNode::ResultAck { job, attempt } => PeerWord::ResultAck { node, epoch, job, attempt },
            ToNode::Control { command, reason } => {
                PeerWord::Control { node, epoch, command: command.to_owned(), reason }
            }
            // These are said by the instance that has the connection.
            ToNode::Superseded | ToNode::Blocked => return Ok(()),
        };
        self.say(word)
    }

    fn assign(&self, assign: Assign) -> PeerWord {
        let (audio, context) = (&assign.work.audio, assign.work.context_text.as_ref());
        let context = context.filter(|text| !text.is_empty());
        PeerWord::Assign(Box::new(RemoteAssign {
            node: self.node.clone(),
            epoch: self.epoch,
            job: assign.job,
            attempt: assign.attempt,
            token: assign.token,
            session: assign.session,
            turn: assign.turn,
            deadline_ms: assign.deadline_ms,
            audio: (!audio.is_empty()).then(|| self.post.lend(audio.clone())),
            context: context.map(|text| self.post.lend(Bytes::from(text.clone()))),
            work: assign.work,
            traceparent: assign.traceparent,
        }))
    }
}

/// Where to say what happens to an attempt.
#[derive(Clone)]
pub(crate) enum Ears {
    /// The job is of this instance.
    Here(mpsc::Sender<JobEvent>),
    /// It is of another.
    There(FarEars),
}

/// The ears of another instance's job.
#[derive(Clone)]
pub(crate) struct FarEars {
    pub post: Arc<Post>,
    pub to: Instance,
    pub job: JobId,
    /// Which node says it, over which connection.
    pub node: NodeId,
    pub epoch: u64,
}

impl Ears {
    pub fn try_send(&self, event: JobEvent) -> Result<(), Refused> {
        match self {
            Ears::Here(ears) => ears.try_send(event).map_err(|_| Refused),
            Ears::There(far) => far.say(event),
        }
    }

    /// Whether words that may be missed still leave room for those that must not.
    pub fn has_room(&self, reserved: usize) -> bool {
        match self {
            Ears::Here(ears) => ears.capacity() > reserved,
            Ears::There(_) => true,
        }
    }

    /// Whether the job is of another instance.
    pub fn are_far(&self) -> bool {
        matches!(self, Ears::There(_))
    }
}

impl FarEars {
    fn say(&self, event: JobEvent) -> Result<(), Refused> {
        let lend = |body| self.post.lend(body);
        let event = match event {
            JobEvent::Sent { attempt } => PeerEvent::Sent { attempt },
            JobEvent::NotSent { attempt } => PeerEvent::NotSent { attempt },
            JobEvent::Ack { attempt } => PeerEvent::Ack { attempt },
            JobEvent::Reject { attempt, reason } => {
                let (reason, told) = match *reason {
                    Reject::Other(text) => {
                        (PeerReject::Other(String::new()), Some(lend(Bytes::from(text))))
                    }
                    reason => (reason.into(), None),
                };
                PeerEvent::Reject { attempt, reason, told }
            }
            JobEvent::Partial { attempt, body } => {
                PeerEvent::Partial { attempt, body: lend(*body) }
            }
            JobEvent::Result { attempt, result } => {
                let result = match *result {
                    NodeResult::Success(body) => PeerResult::Success { body: lend(body) },
                    NodeResult::Empty { body, reason } => {
                        PeerResult::Empty { body: lend(body), reason }
                    }
                    NodeResult::Failure { code, message, missing_model } => {
                        let general = Code::ProcessingError.as_str();
                        let known = if is_code(&code) { code.clone() } else { general.to_owned() };
                        let told = serde_json::to_vec(&Told { code, message });
                        let told = told.expect("two texts are JSON").into();
                        PeerResult::Failure {
                            code: known,
                            message: String::new(),
                            missing_model,
                            told: Some(lend(told)),
                        }
                    }
                };
                PeerEvent::Result { attempt, result }
            }
            JobEvent::NodeGone { attempt } => PeerEvent::NodeGone { attempt },
            JobEvent::NodeBack { attempt } => PeerEvent::NodeBack { attempt },
            JobEvent::Dropped { attempt } => PeerEvent::Dropped { attempt },
            JobEvent::TurnClosed { attempt } => PeerEvent::TurnClosed { attempt },
            // Whoever has the job cancels it there.
            JobEvent::Cancel { .. } => return Ok(()),
        };
        let (job, node, epoch) = (self.job, self.node.clone(), self.epoch);
        let word = PeerWord::Job { job, node, epoch, event };
        self.post.send(&self.to, word).map_err(|_| Refused)
    }
}

/// The lease that a token's name on the wire stands for.
pub(crate) fn lease_of(job: JobId, attempt: u32, name: &str) -> Option<LeaseToken> {
    let nonce = u128::from_str_radix(name, 16).ok()?;
    Some(LeaseToken { job, attempt, nonce })
}
