//! What nodes say about jobs. The machine decides whether it has an effect.

use std::sync::Arc;

use lingua_core::link::Event;
use lingua_core::link::event::{TokenClaim, Word};
use lingua_core::{JobId, NodeId};

use super::link::Wire;
use super::{Connection, NodeHost, Nodes};
use crate::job::{JobEvents, JobReport, JobWord, NodeResult, OrphanedResult, ToNode};
use lingua_core::link::Kinds;

/// The name of the limit on one result, as the configuration and the metrics have it.
const RESULT_BYTES: &str = "result_bytes";

/// What became of a node's word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The job has it.
    Taken,
    /// Not about an attempt that the node has: no effect.
    Stale,
}

impl Nodes {
    /// Takes a node's word about a job.
    pub fn job_word(&self, from: &Connection, word: JobWord) -> Heard {
        let JobWord { job: masked, attempt, token, report } = self.bounded(word);
        let job = self.shared().secret.masked(masked);
        let kind = report.word_kind();
        let token = match token.as_deref() {
            None => TokenClaim::Absent,
            Some(name) => {
                u128::from_str_radix(name, 16).map_or(TokenClaim::Invalid, TokenClaim::Nonce)
            }
        };
        self.note_remote_failure(from, job, attempt, &report);
        let word = Word { job, attempt, token, kind, payload: report };
        let applied = from.node.apply(Event::Word { epoch: from.epoch, word });
        if applied.stale {
            let (node, kind) = (&from.node.id, kind.as_str());
            tracing::debug!(node.id = %node, job.id = %job, attempt, kind, "stale word");
            return Heard::Stale;
        }
        Heard::Taken
    }

    /// A job of another instance failed here, for people. Those of this instance note it themselves.
    fn note_remote_failure(
        &self,
        from: &Connection,
        job: JobId,
        attempt: Option<u32>,
        report: &JobReport,
    ) {
        let JobReport::Result(NodeResult::Failure { code, .. }) = report else { return };
        let Some(attempt) = attempt else { return };
        let state = from.node.lock();
        let is_remote = matches!(state.machine.listener(&job, attempt), Some(JobEvents::Remote(_)));
        drop(state);
        if is_remote {
            let (at_ms, code) = (self.shared().clock.now().as_millis(), code.clone());
            from.node.apply(Event::FailureNoted { at_ms, job, code });
        }
    }

    /// The name under which the node knows a job that it calls by that name or by the job's own id, as whoever
    /// handed the job in knows it. One that the node does not have stays what it is.
    pub fn name_of(&self, from: &Connection, said: JobId) -> JobId {
        let masked = self.shared().secret.masked(said);
        let state = from.node.lock();
        match state.machine.has_job(&said) && !state.machine.has_job(&masked) {
            true => masked,
            false => said,
        }
    }

    /// A word that no client's connection is too small for.
    fn bounded(&self, word: JobWord) -> JobWord {
        let (report, too_large) = word.report.bounded(self.shared().settings.max_result_bytes);
        if too_large {
            self.shared().metrics.limited(RESULT_BYTES);
        }
        JobWord { report, ..word }
    }

    /// A job that was put on the connection did not get through: it is tried elsewhere at once, and
    /// the node is not chosen here for a while. `masked` is the job as the node knows it.
    pub fn send_failed(&self, from: &Connection, masked: JobId, attempt: u32) {
        let job = self.shared().secret.masked(masked);
        from.node.apply(Event::SendFailed { epoch: from.epoch, job, attempt });
    }
}

impl NodeHost {
    /// Nobody here waits for a result: its instance may be gone. It is acknowledged once that is clear.
    pub(super) fn orphaned(self: &Arc<Self>, node: &NodeId, word: Word<<Wire as Kinds>::Payload>) {
        let (JobReport::Result(result), Some(attempt)) = (word.payload, word.attempt) else {
            return;
        };
        let nonce = match word.token {
            TokenClaim::Nonce(nonce) => Some(nonce),
            TokenClaim::Absent | TokenClaim::Invalid => None,
        };
        let job = word.job;
        let result = OrphanedResult { node: node.clone(), job, attempt, nonce, result };
        if self.peers().orphaned(result).is_err()
            && let Some(node) = self.get(node)
        {
            node.send_to_node(ToNode::ResultAck { job: self.shared.secret.masked(job), attempt });
        }
    }
}
