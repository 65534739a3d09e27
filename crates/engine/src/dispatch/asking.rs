//! Asking for a slot on one node: the store reserves it and writes the attempt down.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::outcome::Code;
use lingua_core::select::Candidate;
use lingua_core::{LeaseToken, NodeId};
use lingua_store::jobs::{Assign as Assigned, Assignment, Create, JobRecord, NewJob};
use lingua_store::nodes::ProfileVersion;
use lingua_store::slots::{self, Refusal as Closed, Reserve};
use tokio::time::Instant;

use super::KEEP_RECORD;
use super::run::{MAX_REJECTED, Run};
use super::slot::{Granted, Slot, release_later};
use crate::job::{Ended, Refusal};
use crate::nodes::NodeState;
use crate::tasks;

/// A slot that the store refused for a reason that passes is looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What became of one candidate.
pub(super) enum Asked {
    /// The job is on its way to it.
    Placed,
    /// Ask another.
    Refused,
    /// The job is over.
    Over(Option<Ended>),
}

/// What became of the job's record.
pub(super) enum Written {
    /// It is there.
    Yes,
    /// The job is over.
    Over(Option<Ended>),
    /// It was there before.
    Elsewhere(Box<JobRecord>),
}

impl Run {
    /// Asks the store for a slot on the node, and sends the job if it has one.
    pub(super) async fn ask(&mut self, candidate: Candidate) -> Asked {
        let Candidate { node, version, source } = candidate;
        let shared = Arc::clone(&self.d.shared);
        let number = self.attempt + 1;
        let token = LeaseToken { job: self.job.id, attempt: number, nonce: shared.chance.nonce() };
        let lease = self.d.nodes.reserve_lease(&node);
        let (version, models) = (store_version(version), &self.spec.need.models);
        let wish = slots::Wish { node: &node, token, version, models, lease };
        let assignment = Assignment { node: node.clone(), token };
        let slots = &shared.store.slots;
        let asking = self.traced.asks(&node);
        let (reserved, written) = if self.created {
            (slots.reserve(&wish).await, None)
        } else {
            // One round trip between "utterance ended" and "job on the wire".
            let (reserved, written) = match self.new_job(Some(assignment.clone())) {
                Ok(new) => {
                    let (created, reserved) = shared.store.jobs.begin(&new, &**slots, &wish).await;
                    (reserved, written(created))
                }
                Err(over) => (slots.reserve(&wish).await, over),
            };
            self.attempt = number;
            let over = match written {
                Written::Yes => {
                    self.created = true;
                    None
                }
                Written::Over(ended) => Some(ended),
                Written::Elsewhere(record) => {
                    self.elsewhere(*record);
                    Some(None)
                }
            };
            (reserved, over)
        };
        if let Some(mut asking) = asking {
            asking.note("reason", answer_word(&reserved));
        }
        let granted = self.granted(&node, token, lease, reserved);
        let slot = match (granted, written) {
            (Err(asked), None) => return asked,
            (Err(_), Some(ended)) => return Asked::Over(ended),
            (Ok(granted), written) => {
                let Some(state) = self.d.nodes.get(&node) else {
                    release_later(&shared, &node, token).await;
                    return written.map_or(Asked::Refused, Asked::Over);
                };
                let nodes = Arc::clone(&self.d.nodes);
                let slot = Slot::new(nodes, Arc::clone(&shared), state, token, granted);
                if let Some(ended) = written {
                    slot.release().await;
                    return Asked::Over(ended);
                }
                slot
            }
        };
        if self.attempt < number {
            let limit = shared.settings.timing.max_attempts + MAX_REJECTED + 2;
            let assigned = match shared.store.jobs.assign(&self.job.id, &assignment, limit).await {
                // The store lost the record, and this actor has been the job's only owner all along.
                Ok(Assigned::Unknown) => self.write_again(assignment).await,
                other => other,
            };
            match assigned {
                Ok(Assigned::Assigned) => self.attempt = number,
                other => {
                    slot.release().await;
                    return Asked::Over(Some(not_assigned(other)));
                }
            }
        }
        self.send(slot, source).await
    }

    /// Writes a record anew that the store lost, with the assignment that it is lost at.
    async fn write_again(&mut self, assignment: Assignment) -> lingua_store::Result<Assigned> {
        self.created = false;
        match self.write_down(Some(assignment)).await {
            Written::Yes => {
                self.created = true;
                Ok(Assigned::Assigned)
            }
            Written::Over(_) | Written::Elsewhere(_) => Ok(Assigned::Unknown),
        }
    }

    /// What the store's answer means, with the fleet view brought in line with it.
    fn granted(
        &self,
        node: &NodeId,
        token: LeaseToken,
        lease: Duration,
        reserved: lingua_store::Result<Reserve>,
    ) -> Result<Granted, Asked> {
        let metrics = &self.d.shared.metrics;
        let fleet = &self.d.shared.fleet;
        match reserved {
            Ok(Reserve::Granted { until, .. }) => {
                metrics.granted.inc();
                Ok(Granted { at: Some(until - lease), here: Instant::now() })
            }
            Ok(Reserve::Already { .. }) => {
                metrics.granted.inc();
                Ok(Granted { at: None, here: Instant::now() })
            }
            Ok(Reserve::Full { used, max }) => {
                metrics.reserve("full");
                fleet.true_load(node, used, max);
                if let Some(state) = self.d.nodes.get(node) {
                    self.d.nodes.recount(&state);
                }
                Err(Asked::Refused)
            }
            Ok(Reserve::Spent) => {
                metrics.reserve("spent");
                fleet.ended(node);
                Err(Asked::Refused)
            }
            Ok(Reserve::Refused(why)) => {
                metrics.reserve(refused_word(why));
                tracing::debug!(node.id = %node, reason = refused_word(why), "slot refused");
                // Until it is looked at again the slot counts as taken: not everybody need ask.
                if let Some(state) = self.d.nodes.get(node) {
                    self.look_again_later(state);
                } else {
                    fleet.remove(node);
                }
                Err(Asked::Refused)
            }
            Err(error) => {
                metrics.reserve("store_down");
                fleet.ended(node);
                // The step may have happened: whatever it took is given back.
                let (shared, node) = (Arc::clone(&self.d.shared), node.clone());
                tasks::spawn("give a slot back", async move {
                    release_later(&shared, &node, token).await;
                });
                Err(Asked::Over(Some(Ended::Failed(Refusal::store_down(&error)))))
            }
        }
    }

    fn look_again_later(&self, node: Arc<NodeState>) {
        let d = Arc::clone(&self.d);
        tasks::start(async move {
            tokio::time::sleep(LOOK_AGAIN).await;
            d.nodes.slot_came_back(&node);
        });
    }

    /// Writes the job's record, once.
    pub(super) async fn write_down(&self, first: Option<Assignment>) -> Written {
        if self.created {
            return Written::Yes;
        }
        match self.new_job(first) {
            Ok(new) => written(self.d.shared.store.jobs.create(&new).await),
            Err(over) => over,
        }
    }

    /// The record to write, unless the deadline is there.
    fn new_job(&self, first: Option<Assignment>) -> Result<NewJob<'_>, Written> {
        let deadline_in = self.deadline.saturating_duration_since(Instant::now());
        if deadline_in.as_millis() == 0 {
            let late = Refusal::new(Code::JobTimeout, "the job's deadline passed");
            return Err(Written::Over(Some(Ended::Failed(late))));
        }
        Ok(NewJob {
            id: self.job.id,
            session: &self.spec.session,
            epoch: self.spec.epoch,
            first,
            deadline_in,
            keep_for: KEEP_RECORD,
        })
    }
}

fn written(created: lingua_store::Result<Create>) -> Written {
    match created {
        Ok(Create::Created) => Written::Yes,
        // Another instance has it, or had it: the same request, the same answer.
        Ok(Create::Exists(record)) => Written::Elsewhere(Box::new(record)),
        Ok(Create::Superseded { .. }) => {
            let newer = "a newer connection has the session";
            Written::Over(Some(Ended::Cancelled(newer.into())))
        }
        Err(error) => Written::Over(Some(Ended::Failed(Refusal::store_down(&error)))),
    }
}

/// The version under which the store knows the profile.
fn store_version(version: lingua_core::pool::ProfileVersion) -> ProfileVersion {
    ProfileVersion::from_bits(version.get())
}

/// What the store answered to a wish for a slot, in the words of the metrics.
fn answer_word(answer: &lingua_store::Result<Reserve>) -> &'static str {
    match answer {
        Ok(Reserve::Granted { .. } | Reserve::Already { .. }) => "granted",
        Ok(Reserve::Full { .. }) => "full",
        Ok(Reserve::Spent) => "spent",
        Ok(Reserve::Refused(why)) => refused_word(*why),
        Err(_) => "store_down",
    }
}

fn refused_word(why: Closed) -> &'static str {
    match why {
        Closed::UnknownNode => "unknown_node",
        Closed::Changed(_) => "changed",
        Closed::Closed => "closed",
        Closed::Stale => "stale",
        Closed::MissingModel => "missing_model",
        Closed::Unconfirmed => "unconfirmed",
        Closed::Held(_) => "held",
    }
}

fn not_assigned(answer: lingua_store::Result<Assigned>) -> Ended {
    match answer {
        Ok(Assigned::Ended(_)) => {
            Ended::Failed(Refusal::new(Code::JobTimeout, "the job had been ended before"))
        }
        Ok(other) => {
            tracing::warn!(answer = ?other, "an attempt was not written down");
            Ended::Failed(Refusal::new(Code::Conflict, "another instance has the job"))
        }
        Err(error) => Ended::Failed(Refusal::store_down(&error)),
    }
}
