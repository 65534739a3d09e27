//! A job of another instance whose attempt is on a node here.

use std::sync::Arc;

use bytes::Bytes;
use lingua_core::outcome::Code;
use lingua_core::planted::{self, Flaw};
use lingua_core::{JobId, LeaseToken, NodeId};
use lingua_protocol::peer::{ErrorText, PeerEvent, PeerMessage, PeerReject, PeerResult};
use lingua_store::Instance;

use crate::job::{JobEvent, JobEvents, NodeResult, Reject, RemoteJob, Unheard, is_code};
use crate::peers::outbox::Outbox;
use crate::shared::Shared;

/// The job of another instance, as the listener of its attempt.
pub(super) struct PeerJob {
    pub outbox: Arc<Outbox>,
    /// The instance of the job.
    pub owner: Instance,
    pub job: JobId,
    /// The node that works on it.
    pub node: NodeId,
}

impl PeerJob {
    pub fn events(self) -> JobEvents {
        JobEvents::Remote(Arc::new(self))
    }

    fn event(&self, event: JobEvent) -> Option<PeerEvent> {
        let put = |body| self.outbox.put_body(body);
        Some(match event {
            JobEvent::OnWire { attempt } => PeerEvent::Sent { attempt },
            JobEvent::NotSent { attempt } => PeerEvent::NotSent { attempt },
            JobEvent::Ack { attempt } => PeerEvent::Ack { attempt },
            JobEvent::Reject { attempt, reason } => {
                let (reason, told) = match *reason {
                    Reject::Other(text) if planted::on(Flaw::TextInStore) => {
                        (PeerReject::Other(text), None)
                    }
                    Reject::Other(text) => {
                        (PeerReject::Other(String::new()), Some(put(Bytes::from(text))))
                    }
                    reason => (reason.into(), None),
                };
                PeerEvent::Reject { attempt, reason, told }
            }
            JobEvent::Partial { attempt, body } => {
                PeerEvent::Partial { attempt, body: put(body.into_bytes()) }
            }
            JobEvent::Result { attempt, result } => {
                let result = match *result {
                    NodeResult::Success(body) => {
                        PeerResult::Success { body: put(body.into_bytes()) }
                    }
                    NodeResult::Empty { body, reason } => {
                        PeerResult::Empty { body: put(body.into_bytes()), reason }
                    }
                    NodeResult::Failure { code, message, missing_model } => {
                        let general = Code::ProcessingError.as_str();
                        let known = if is_code(&code) { code.clone() } else { general.to_owned() };
                        let told = serde_json::to_vec(&ErrorText { code, message });
                        let told = told.expect("two texts are JSON").into();
                        PeerResult::Failure {
                            code: known,
                            message: String::new(),
                            missing_model,
                            told: Some(put(told)),
                        }
                    }
                };
                PeerEvent::Result { attempt, result }
            }
            JobEvent::NodeGone { attempt } => PeerEvent::NodeGone { attempt },
            JobEvent::NodeBack { attempt } => PeerEvent::NodeBack { attempt },
            JobEvent::Dropped { attempt } => PeerEvent::Dropped { attempt },
            JobEvent::TurnClosed { attempt } => PeerEvent::TurnClosed { attempt },
            // A cancel comes from the job's instance and not from the node.
            JobEvent::Cancel { .. } => return None,
        })
    }
}

impl RemoteJob for PeerJob {
    fn tell(&self, epoch: u64, event: JobEvent) -> Result<(), Unheard> {
        let Some(event) = self.event(event) else { return Ok(()) };
        let message = PeerMessage::Job { job: self.job, node: self.node.clone(), epoch, event };
        self.outbox.send(&self.owner, message).map_err(|_| Unheard)
    }

    fn is_alive(&self) -> bool {
        self.outbox.is_alive(&self.owner)
    }
}

/// The slot of another instance's attempt, until it is released. Then it is offered to waiting jobs on this and
/// other instances, and the other instance no longer counts it.
pub(super) struct PeerSlot {
    pub shared: Arc<Shared>,
    pub owner: Instance,
    pub node: NodeId,
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        self.shared.fleet.freed_by_peer(&self.node);
        self.shared.fleet.offer_if_ready(&self.node, 1);
        self.shared.outbox.tell_freed(&self.node, false, Some(&self.owner));
    }
}

/// The lease that a token's name on the wire stands for.
pub(super) fn lease_of(job: JobId, attempt: u32, name: &str) -> Option<LeaseToken> {
    let nonce = u128::from_str_radix(name, 16).ok()?;
    Some(LeaseToken { job, attempt, nonce })
}
