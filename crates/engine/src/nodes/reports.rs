//! What nodes say about jobs. It has an effect only if it comes over the node's newest connection
//! and is about an attempt that the node has; everything else is counted and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::{JobId, LeaseToken, NodeId};
use tokio::time::Instant;

use super::state::{Held, Inner, NodeState};
use super::{Connection, Fault, JobEvent, Nodes, Supports};
use crate::cluster::Stray;
use crate::dispatch::FOR_ENDINGS;
use crate::job::{JobReport, JobWord, NodeResult, ToNode, is_fault};
use crate::secret::token_name;
use crate::tasks;

/// A node to which nothing could be sent is not chosen here for so long.
pub(crate) const INHIBITION: Duration = Duration::from_secs(1);

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
    pub fn job_word(self: &Arc<Self>, from: &Connection, word: JobWord) -> Heard {
        let JobWord { job: masked, attempt, token, report } = self.bounded(word);
        let job = self.shared.secret.masked(masked);
        let kind = report.kind();
        let is_result = matches!(report, JobReport::Result(_));
        let mut inner = from.node.lock();
        let current = inner.link.as_ref().filter(|link| link.serial == from.serial);
        let supports = current.map(|link| link.supports);
        // Who was told the name of its lease says it; older agents were not.
        let is_named = token.is_some() || supports.is_none_or(|supports| !supports.tokens);
        let held = inner.held.get_mut(&job).filter(|held| held.is_meant(attempt, token.as_deref()));
        let (Some(supports), Some(held)) = (supports, held.filter(|_| is_named)) else {
            drop(inner);
            self.shared.metrics.stale(kind);
            tracing::debug!(node.id = %from.node.id, job.id = %job, attempt, kind, "stale word");
            let repeats = is_named && supports.is_some_and(|supports| supports.result_ack);
            if repeats
                && let Some(attempt) = attempt
                && let JobReport::Result(result) = report
                && self.may_look_up(from).is_ok()
            {
                // It may be of an instance that is gone. It is acknowledged once that is clear, and
                // until then said again and again.
                let node = from.node.id.clone();
                let stray = Stray::Result { node, job, attempt, token, result };
                if self.shared.strays.try_send(stray).is_err() {
                    from.node.tell(ToNode::ResultAck { job: masked, attempt });
                }
            }
            return Heard::Stale;
        };
        let attempt = held.attempt;
        held.heard.get_or_insert_with(Instant::now);
        held.answered |= is_result || kind == "reject";
        let Some(ears) = held.job.clone() else {
            // Given up before; what it still says is that its slot is free.
            if is_result || kind == "reject" {
                let token = held.token;
                inner.held.remove(&job);
                drop(inner);
                self.give_back(&from.node, token);
            }
            self.shared.metrics.stale(kind);
            return Heard::Stale;
        };
        let event = match report {
            // Said again and again it must not fill the mailbox: endings have to fit.
            JobReport::Ack | JobReport::Started if !ears.has_room(FOR_ENDINGS) => {
                return Heard::Taken;
            }
            JobReport::Ack | JobReport::Started => JobEvent::Ack { attempt },
            JobReport::Reject(reason) => JobEvent::Reject { attempt, reason: Box::new(reason) },
            JobReport::Partial(body) => {
                let lease = inner.lease;
                let held = inner.held.get_mut(&job).expect("found above");
                let due = held.renewed.elapsed() > lease / 3;
                if due {
                    held.renewed = Instant::now();
                    let token = held.token;
                    drop(inner);
                    self.renew(&from.node, token, lease);
                }
                if !ears.has_room(FOR_ENDINGS) {
                    return Heard::Taken;
                }
                JobEvent::Partial { attempt, body: Box::new(body) }
            }
            JobReport::Result(result) => {
                if !supports.any() {
                    inner.close_turn(&job);
                }
                if ears.are_far() {
                    // Whoever has the job sees how it ended; this instance sees how the node does.
                    let changed = match &result {
                        NodeResult::Failure { code, .. } => {
                            inner.reported(self.shared.clock.now().as_millis(), job, code)
                        }
                        _ => inner.success(&self.shared.settings),
                    };
                    inner.todo.beat |= changed;
                    if changed {
                        drop(inner);
                        self.refresh(&from.node);
                        self.sync(&from.node);
                    }
                }
                JobEvent::Result { attempt, result: Box::new(result) }
            }
        };
        match ears.try_send(event) {
            Ok(()) => Heard::Taken,
            Err(_) => {
                self.shared.metrics.stale(kind);
                Heard::Stale
            }
        }
    }

    /// The name under which the node knows a job that it calls by that name or by the job's own id, as whoever
    /// handed the job in knows it. One that the node does not have stays what it is.
    pub fn name_of(&self, from: &Connection, said: JobId) -> JobId {
        let masked = self.shared.secret.masked(said);
        let inner = from.node.lock();
        match inner.held.contains_key(&said) && !inner.held.contains_key(&masked) {
            true => masked,
            false => said,
        }
    }

    /// How long a slot is held for a job on its way to this node.
    pub(crate) fn reserve_lease(&self, node: &NodeId) -> Duration {
        let calls = self.get(node).is_some_and(|node| node.supports().calls);
        Duration::from_millis(self.shared.settings.timing.reserve_lease_ms_of(calls))
    }

    /// A word that no client's connection is too small for.
    fn bounded(&self, word: JobWord) -> JobWord {
        let (report, too_large) = word.report.bounded(self.shared.settings.max_result_bytes);
        if too_large {
            self.shared.metrics.limited(RESULT_BYTES);
        }
        JobWord { report, ..word }
    }

    /// A job that was put on the connection did not get through: it is tried elsewhere at once, and
    /// the node is not chosen here for a while. `masked` is the job as the node knows it.
    pub fn send_failed(&self, from: &Connection, masked: JobId, attempt: u32) {
        let job = self.shared.secret.masked(masked);
        {
            let mut inner = from.node.lock();
            if inner.link.as_ref().is_some_and(|link| link.serial == from.serial) {
                inner.inhibited_until = Some(Instant::now() + INHIBITION);
            }
            let held = inner.held.get(&job).filter(|held| held.attempt == attempt);
            if let Some(ears) = held.and_then(|held| held.job.as_ref()) {
                let _ = ears.try_send(JobEvent::NotSent { attempt });
            }
        }
        self.refresh(&from.node);
    }

    /// Gives the slot of an attempt back that its job gave up before.
    fn give_back(self: &Arc<Self>, node: &Arc<NodeState>, token: LeaseToken) {
        let (nodes, node) = (Arc::clone(self), Arc::clone(node));
        tasks::spawn("give a slot back", async move {
            if let Err(error) = nodes.shared.store.slots.release(&node.id, token).await {
                tracing::debug!(node.id = %node.id, %error, "a slot is left to lapse");
            }
            nodes.slot_came_back(&node);
        });
    }

    fn renew(self: &Arc<Self>, node: &Arc<NodeState>, token: LeaseToken, lease: Duration) {
        let (nodes, id) = (Arc::clone(self), node.id.clone());
        tasks::spawn("renew a lease", async move {
            let _ = nodes.shared.store.slots.renew(&id, token, lease).await;
        });
    }
}

impl NodeState {
    /// What it understands, by its connection of this moment.
    pub(crate) fn supports(&self) -> Supports {
        self.lock().link.as_ref().map(|link| link.supports).unwrap_or_default()
    }
}

impl Held {
    fn is_meant(&self, attempt: Option<u32>, token: Option<&str>) -> bool {
        attempt.is_none_or(|attempt| attempt == self.attempt)
            && token.is_none_or(|token| token == token_name(self.token))
    }
}

impl Inner {
    /// A job of another instance failed here. Says whether that changes what the node gets.
    fn reported(&mut self, at_ms: u64, job: JobId, code: &str) -> bool {
        self.failures.note(at_ms, job, code);
        is_fault(code) && self.failure(Instant::now(), Fault::Job)
    }

    /// An older agent keeps the speech of a turn's earlier parts for a later one, and gives no
    /// result for them: they end with it.
    fn close_turn(&self, closing: &JobId) {
        let Some(closing) = self.held.get(closing) else { return };
        for held in self.held.values() {
            // One with an answer of its own ends by that, which may still be on its way.
            if held.index < closing.index
                && held.turn == closing.turn
                && !held.answered
                && let Some(ears) = &held.job
            {
                let _ = ears.try_send(JobEvent::TurnClosed { attempt: held.attempt });
            }
        }
    }
}
