//! An attempt comes to nothing: try elsewhere, wait for the other copy, or end.

use std::sync::Arc;

use lingua_core::job::JobStep;
use lingua_core::outcome::{Code, Retry};
use lingua_core::time::millis;
use tokio::time::Instant;

use super::ending::ended_attempt;
use super::registry::Job;
use super::run::{MAX_REJECTED, Run, Try};
use crate::job::{Ended, Refusal, Reject, ToNode, is_code, is_fault};
use crate::nodes::{Fault, SentOver};

/// How an attempt ends without an answer.
pub(super) struct Failed {
    pub refusal: Refusal,
    /// What counts against the node, if anything does.
    pub blame: Option<Fault>,
    /// The node has nothing of it any more.
    pub freed: bool,
}

/// The node of an attempt is gone.
pub(super) fn gone(over: SentOver) -> Failed {
    let refusal = Refusal::new(Code::NodeUnavailable, "the node's connection was lost");
    Failed { refusal, blame: over.fault(None), freed: false }
}

/// The node says that it does not have the attempt.
pub(super) fn dropped(live: &Try) -> Failed {
    let refusal = Refusal::new(Code::NodeUnavailable, "the node no longer has the job");
    let present = live.slot.node.lock().link.as_ref().map(|link| link.serial);
    Failed { refusal, blame: live.over.fault(present), freed: true }
}

impl Run {
    pub(super) async fn rejected(&mut self, i: usize, reason: Reject) -> Option<Option<Ended>> {
        let node = Arc::clone(&self.tries[i].slot.node);
        // It was not begun: the dispatch does not count, and the next node is tried at once.
        self.dispatches = self.dispatches.saturating_sub(1);
        self.rejected += 1;
        let refusal = match &reason {
            Reject::Busy => {
                self.busy.push(node.id.clone());
                Refusal::new(Code::AllNodesBusy, "the node has no slot free by its own count")
            }
            Reject::MissingModel(model) => {
                self.d.note_gap(&node, self.spec.need.route, model.as_deref());
                Refusal::new(Code::ModelNotAvailable, "the node misses a model")
            }
            Reject::Other(text) => {
                let text: String = text.chars().take(200).collect();
                Refusal::new(Code::NodeUnavailable, format!("the node refused the job: {text}"))
            }
        };
        self.failed(i, Failed { refusal, blame: None, freed: true }).await
    }

    pub(super) async fn node_failed(
        &mut self,
        i: usize,
        code: String,
        message: String,
        missing_model: Option<String>,
    ) -> Option<Option<Ended>> {
        let node = Arc::clone(&self.tries[i].slot.node);
        if self.tries[i].over.supports.result_ack {
            // What became of the job is not the node's concern: it need not say this again.
            let job = self.d.shared.secret.masked(self.job.id);
            node.tell(ToNode::ResultAck { job, attempt: self.tries[i].attempt() });
        }
        let message: String = message.chars().take(512).collect();
        let known = Code::parse(&code).filter(|code| code.retry() == Retry::OtherNode);
        if known == Some(Code::ModelNotAvailable) {
            self.d.note_gap(&node, self.spec.need.route, missing_model.as_deref());
        }
        let blame = is_fault(&code).then_some(Fault::Job);
        let mut refusal = Refusal::new(known.unwrap_or(Code::ProcessingError), message);
        if known.is_none() && is_code(&code) {
            refusal.node_code = Some(code);
        }
        self.failed(i, Failed { refusal, blame, freed: true }).await
    }

    /// An attempt is over without an answer: try elsewhere, wait for the other copy, or end.
    pub(super) async fn failed(&mut self, i: usize, failed: Failed) -> Option<Option<Ended>> {
        let mut live = self.tries.swap_remove(i);
        let Failed { refusal, blame, freed } = failed;
        live.traced_to(refusal.code_text());
        let node = Arc::clone(&live.slot.node);
        tracing::debug!(
            job.id = %self.job.id, node.id = %node.id, attempt = live.attempt(),
            reason = refusal.code_text(), "an attempt failed"
        );
        let number = live.attempt();
        let now_ms = self.d.shared.clock.now().as_millis();
        self.job.change(|view| ended_attempt(view, number, now_ms, refusal.code_text()));
        // A node that is full has not failed.
        if refusal.code != Code::AllNodesBusy {
            node.lock().failures.note(now_ms, self.job.id, refusal.code_text());
        }
        if let Some(fault) = blame {
            let wasted = u32::try_from(millis(live.sent_at.elapsed())).unwrap_or(u32::MAX);
            self.d.shared.fleet.took(&node.id, wasted);
            let mut inner = node.lock();
            if inner.failure(Instant::now(), fault) {
                inner.todo.beat = true;
                tracing::warn!(node.id = %node.id, "the node failed too often and is left alone");
            }
            drop(inner);
            self.d.nodes.refresh(&node);
            self.d.nodes.sync(&node);
        }
        if self.busy.contains(&node.id) {
            live.slot.release_to_rest().await;
        } else {
            if !self.excluded.contains(&node.id) {
                self.excluded.push(node.id.clone());
            }
            self.let_go(live, freed, "given_up").await;
        }
        if !self.tries.is_empty() {
            return None;
        }
        let code = refusal.code;
        self.failure = Some(refusal);
        self.again(code).await.err()
    }

    /// Whether and how the job goes on after a failed attempt.
    async fn again(&mut self, code: Code) -> Result<(), Option<Ended>> {
        let last = || Some(Ended::Failed(self.failure.clone().expect("an attempt failed")));
        let refused = self.rejected > 0 && self.dispatches == 0;
        if !self.may_dispatch_again() || self.rejected > MAX_REJECTED {
            return Err(last());
        }
        // A job that no node began costs nothing to try again.
        let free = refused || matches!(code, Code::AllNodesBusy | Code::ModelNotAvailable);
        if !free && !self.d.budget.lock().try_retry(self.d.shared.clock.now()) {
            self.d.shared.metrics.retries_refused.inc();
            return Err(last());
        }
        self.d.shared.metrics.retry(code.as_str());
        self.job.change(|view| Job::step(view, JobStep::Retry));
        self.place(true).await
    }

    /// Lets an attempt go. A node that may still work on it and cannot be told to stop keeps its
    /// slot until the lease lapses, so that it never gets more than it can do.
    pub(super) async fn let_go(&self, live: Try, freed: bool, reason: &'static str) {
        if freed {
            live.slot.release().await;
            return;
        }
        let job = self.d.shared.secret.masked(self.job.id);
        let cancel = ToNode::Cancel { job, attempt: live.attempt(), reason };
        let told = live.slot.node.tell(cancel);
        // The instance of a node elsewhere gives the slot back once it has told the node.
        let here = live.slot.node.lock().elsewhere.is_none();
        if told && here && live.over.supports.cancel {
            live.slot.release().await;
        } else {
            live.slot.leave();
        }
    }
}
