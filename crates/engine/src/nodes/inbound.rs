//! Messages of nodes about jobs. The node's machine decides whether a message has an effect.

use std::sync::Arc;

use lingua_core::link::event::{self, TokenClaim};
use lingua_core::link::{Event, Kinds};
use lingua_core::{JobId, NodeId};

use super::link::Wire;
use super::{Connection, NodeHost, Nodes};
use crate::job::{JobEvents, JobMessage, JobReport, NodeResult, OrphanedResult, ToNode};

/// The name of the limit on one result, as the configuration and the metrics have it.
const RESULT_BYTES: &str = "result_bytes";

/// What became of a node's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageOutcome {
    /// The job has it.
    Applied,
    /// It is not about an attempt that the node has. It had no effect.
    Stale,
}

impl Nodes {
    /// Applies a node's message about a job.
    pub fn on_job_message(&self, from: &Connection, message: JobMessage) -> MessageOutcome {
        let JobMessage { job: masked, attempt, token, report } = message;
        let shared = self.shared();
        let (report, too_large) = report.bounded(shared.settings.max_result_bytes);
        if too_large {
            shared.metrics.limited(RESULT_BYTES);
        }
        let job = shared.secret.masked(masked);
        if let (JobReport::Result(NodeResult::Failure { code, .. }), Some(attempt)) =
            (&report, attempt)
        {
            self.note_remote_failure(from, (job, attempt), code);
        }
        let kind = report.message_kind();
        let token = match token.as_deref() {
            None => TokenClaim::Absent,
            Some(name) => {
                u128::from_str_radix(name, 16).map_or(TokenClaim::Invalid, TokenClaim::Nonce)
            }
        };
        let message = event::JobMessage { job, attempt, token, kind, payload: report };
        let applied = from.node.apply(Event::Message { epoch: from.epoch, message });
        if applied.stale {
            let (node, kind) = (&from.node.id, kind.as_str());
            tracing::debug!(node.id = %node, job.id = %job, attempt, kind, "stale message");
            return MessageOutcome::Stale;
        }
        MessageOutcome::Applied
    }

    /// Notes for people that a job of another instance failed here. A job of this instance notes its
    /// failures itself.
    fn note_remote_failure(&self, from: &Connection, (job, attempt): (JobId, u32), code: &str) {
        let state = from.node.lock();
        let is_remote = matches!(state.machine.listener(&job, attempt), Some(JobEvents::Remote(_)));
        drop(state);
        if is_remote {
            let (at_ms, code) = (self.shared().clock.now().as_millis(), code.to_owned());
            from.node.apply(Event::FailureNoted { at_ms, job, code });
        }
    }

    /// The masked id of a job that the node names by its masked id or by the job's own id, which whoever
    /// submitted the job knows. An id of no job on the node is returned as it is.
    pub fn masked_id(&self, from: &Connection, named: JobId) -> JobId {
        let masked = self.shared().secret.masked(named);
        let state = from.node.lock();
        match state.machine.has_job(&named) && !state.machine.has_job(&masked) {
            true => masked,
            false => named,
        }
    }

    /// An assignment that was queued on the connection was not sent: the job is tried on another node at
    /// once, and this node is not chosen here for a while. `masked` is the job as the node knows it.
    pub fn send_failed(&self, from: &Connection, masked: JobId, attempt: u32) {
        let job = self.shared().secret.masked(masked);
        from.node.apply(Event::SendFailed { epoch: from.epoch, job, attempt });
    }
}

impl NodeHost {
    /// No job here waits for a result: its instance may be gone. The result is acknowledged once that is
    /// known.
    pub(super) fn orphaned(
        self: &Arc<Self>,
        node: &NodeId,
        message: event::JobMessage<<Wire as Kinds>::Payload>,
    ) {
        let (JobReport::Result(result), Some(attempt)) = (message.payload, message.attempt) else {
            return;
        };
        let nonce = match message.token {
            TokenClaim::Nonce(nonce) => Some(nonce),
            TokenClaim::Absent | TokenClaim::Invalid => None,
        };
        let job = message.job;
        let result = OrphanedResult { node: node.clone(), job, attempt, nonce, result };
        if self.peers().orphaned(result).is_err()
            && let Some(node) = self.get(node)
        {
            node.send_to_node(ToNode::ResultAck { job: self.shared.secret.masked(job), attempt });
        }
    }
}
