//! The calls of the nodes' machines to the store. Each is a task of its own, so that a store that hangs delays
//! no message of a node about its jobs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use lingua_core::link::event::{self, Answer, Call};
use lingua_core::link::{Event, Reputation};
use lingua_core::{JobId, LeaseToken, NodeId};
use lingua_store::nodes::{Beat, BeatReply, Claim, ProfileVersion, Put, Registration, Vitals};
use lingua_store::slots::{Confirm, Report};

use tokio::time::Instant;

use super::NodeHost;
use super::handle::NodeHandle;
use super::link::SlotGuard;
use crate::tasks;

impl NodeHost {
    /// Calls the store, and feeds the machine its answer.
    pub(super) fn call_store(self: &Arc<Self>, node: Arc<NodeHandle>, epoch: u64, call: Call) {
        let host = Arc::clone(self);
        tasks::spawn("node record", async move {
            let began = matches!(call, Call::Beat(..)).then(Instant::now);
            let answer = host.answer(&node, epoch, call).await;
            if let Some(began) = began.filter(|_| answer.is_ok()) {
                host.shared.metrics.nodes.heartbeats.observe(began.elapsed().as_secs_f64());
            }
            let answer = answer.unwrap_or_else(|error| {
                tracing::debug!(node.id = %node.id, %error, "the node's record was not written");
                Answer::Failed
            });
            node.apply(Event::Answered { epoch, answer });
        });
    }

    async fn answer(
        &self,
        node: &NodeHandle,
        epoch: u64,
        call: Call,
    ) -> lingua_store::Result<Answer> {
        let store = &self.shared.store;
        match call {
            Call::Put(vitals, known) => {
                let registration = Registration {
                    claim: Claim::Again(epoch),
                    owner: self.shared.instance.clone(),
                    profile: (**node.lock().machine.profile().0).clone(),
                    vitals: store_vitals(vitals),
                    known: true,
                };
                let put = store.nodes.put(&node.id, &registration).await?;
                // After the record, which says which instance is the owner.
                self.keep(node, epoch, known.as_deref()).await?;
                Ok(match put {
                    Put::Stored { .. } => Answer::Stored,
                    Put::Superseded { .. } => Answer::Superseded,
                })
            }
            Call::Beat(vitals, known) => {
                let version = ProfileVersion::from_bits(node.lock().machine.profile().1);
                let beat = Beat { epoch, version, vitals: store_vitals(vitals) };
                // Both at once: what is known costs a heartbeat no extra round trip.
                let kept = self.keep(node, epoch, known.as_deref());
                let (beat, ()) = try_join(store.nodes.beat(&node.id, &beat), kept).await?;
                Ok(match beat {
                    BeatReply::Kept { confirmed } => Answer::Kept { confirmed },
                    BeatReply::PutAgain => Answer::PutAgain,
                    BeatReply::Superseded { .. } => Answer::Superseded,
                })
            }
            Call::LookUp(jobs) => self.look_up(node, &jobs).await.map(Answer::Found),
            Call::Confirm(report) => self.confirm(node, epoch, &report).await,
            Call::Renew { tokens, lease } => {
                let mut renewed = Vec::with_capacity(tokens.len());
                for token in tokens {
                    if store.slots.renew(&node.id, token, lease).await?.is_some() {
                        renewed.push(token);
                    }
                }
                Ok(Answer::Renewed(renewed))
            }
        }
    }

    /// Writes what is known of the node, if that changed. Whether this instance is still the owner, and whether the
    /// store lost the record, follows from the call for the record.
    async fn keep(
        &self,
        node: &NodeHandle,
        epoch: u64,
        known: Option<&Reputation>,
    ) -> lingua_store::Result<()> {
        match known {
            Some(known) => {
                self.shared.store.reputations.keep(&node.id, epoch, known).await.map(drop)
            }
            None => Ok(()),
        }
    }

    /// The leases of jobs that another process sent to the node. As many at once as the node may have
    /// looked up.
    async fn look_up(
        &self,
        node: &NodeHandle,
        jobs: &[(JobId, u32)],
    ) -> lingua_store::Result<Vec<Option<LeaseToken>>> {
        let records = jobs.iter().map(|(job, _)| self.shared.store.jobs.get(job));
        let records = try_join_all(records).await?;
        // A node that does not stop when told to works on, and the job keeps its slot.
        let stops = node.supports().cancel;
        let found = jobs.iter().zip(records).map(|((_, attempt), record)| {
            let current = record.filter(|record| !(stops && record.state.is_terminal()))?;
            let own = current.assignment.filter(|assignment| {
                assignment.node == node.id && assignment.token.attempt == *attempt
            })?;
            Some(own.token)
        });
        Ok(found.collect())
    }

    async fn confirm(
        &self,
        node: &NodeHandle,
        epoch: u64,
        report: &event::Report,
    ) -> lingua_store::Result<Answer> {
        let report = Report {
            epoch,
            running: report.running.as_deref(),
            lease: report.lease,
            grace: report.grace,
            reserve_lease: report.reserve_lease,
            quarantine: report.quarantine,
        };
        Ok(match self.shared.store.slots.confirm(&node.id, &report).await? {
            Confirm::Confirmed(confirmed) => {
                if !confirmed.dropped.is_empty() {
                    self.shared.fleet.freed_in_store(&node.id);
                }
                Answer::Confirmed(confirmed)
            }
            Confirm::Unknown => Answer::NoRecord,
            Confirm::Superseded { .. } => Answer::Superseded,
        })
    }

    /// Extends a lease, if the store answers.
    pub(super) fn renew(self: &Arc<Self>, id: NodeId, token: LeaseToken, lease: Duration) {
        let host = Arc::clone(self);
        tasks::spawn("renew a lease", async move {
            let _ = host.shared.store.slots.renew(&id, token, lease).await;
        });
    }

    /// Releases the slot of an abandoned attempt.
    pub(super) fn release(
        self: &Arc<Self>,
        node: Arc<NodeHandle>,
        token: LeaseToken,
        slot: Option<SlotGuard>,
    ) {
        let host = Arc::clone(self);
        tasks::spawn("release a slot", async move {
            if let Err(error) = host.shared.store.slots.release(&node.id, token).await {
                tracing::debug!(node.id = %node.id, %error, "a slot is left to expire");
            }
            // Only now does it count as free in the view.
            drop(slot);
            node.refresh();
        });
    }
}

fn store_vitals(vitals: event::Vitals) -> Vitals {
    let event::Vitals { open_slots, health, overloaded, fresh_for } = vitals;
    Vitals { max: open_slots, health, overloaded, fresh_for }
}
