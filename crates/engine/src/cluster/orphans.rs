//! Outcomes whose instance or session is gone. They are delivered to the session, wherever it is now.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::job::JobState;
use lingua_core::outcome::Code;
use lingua_core::planted::{self, Flaw};
use lingua_core::{JobId, NodeId, SessionId, SessionKey, TenantId};
use lingua_protocol::node::message::read_message;
use lingua_protocol::peer::{BodyRef, PeerEnded, PeerMessage, PeerResult};
use lingua_store::Instance;
use lingua_store::jobs::{Assignment, EndedBy, Ending, Finish};
use tokio::time::Instant;

use super::Cluster;
use crate::job::{Ended, NodeResult, OrphanedOutcome, OrphanedResult, Refusal, ToNode};
use crate::tasks;

/// A client that was cut off comes back within this, or its session is gone.
const FIND_SESSION: Duration = Duration::from_secs(60);

/// Between two looks for a session's owner.
const LOOK: Duration = Duration::from_millis(300);

/// Looks for a session that an ending was sent after.
const ARRIVAL_LOOKS: u32 = 10;

/// An instance that is told of an ending fetches what is in it within this, or not at all.
const FETCH: Duration = Duration::from_secs(2);

/// Something that somebody is on the way with, until it is dropped.
struct PendingDelivery(Arc<Cluster>);

impl PendingDelivery {
    fn begin(cluster: &Arc<Cluster>) -> Self {
        cluster.pending_deliveries.fetch_add(1, Ordering::Relaxed);
        PendingDelivery(Arc::clone(cluster))
    }
}

impl Drop for PendingDelivery {
    fn drop(&mut self) {
        self.0.pending_deliveries.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Cluster {
    /// Lets endings that are on their way to other instances arrive, at most for so long: what is in
    /// them is fetched from here.
    pub async fn flush_deliveries(&self, within: Duration) {
        let end = Instant::now() + within;
        let orphans = &self.shared.orphans;
        let mut quiet = 0;
        while quiet < 2 && Instant::now() < end && !planted::on(Flaw::DrainLeavesEndings) {
            let is_quiet = orphans.capacity() == orphans.max_capacity()
                && self.pending_deliveries.load(Ordering::Relaxed) == 0
                && self.shared.outbox.is_idle();
            // Twice, for between two counts something may be in neither.
            quiet = if is_quiet { quiet + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(super) fn on_orphan(self: &Arc<Self>, orphan: OrphanedOutcome) {
        let (cluster, delivery) = (Arc::clone(self), PendingDelivery::begin(self));
        match orphan {
            OrphanedOutcome::Ended { session, job, ended } => tasks::start(async move {
                let _delivery = delivery;
                cluster.find_session(session, job, ended).await;
            }),
            OrphanedOutcome::Result(result) => tasks::start(async move {
                let _delivery = delivery;
                cluster.end_orphan(*result).await;
            }),
        }
    }

    /// A result whose receiver is gone. Its body is fetched from the sender `from`.
    pub(super) fn on_orphan_result(
        self: &Arc<Self>,
        from: &Instance,
        job: JobId,
        node: &NodeId,
        attempt: u32,
        result: PeerResult,
    ) {
        let (cluster, from, node) = (Arc::clone(self), from.clone(), node.clone());
        let delivery = PendingDelivery::begin(self);
        tasks::start(async move {
            let _delivery = delivery;
            let body = match result.body() {
                None => Ok(Bytes::new()),
                Some(body) => cluster.body_of(&from, body).await,
            };
            let result = match body {
                Ok(body) => result.with(body),
                Err(_) if result.stands_alone() => result.with(Bytes::new()),
                Err(error) => {
                    return tracing::info!(instance.id = %from.id, error, "a result could not be fetched");
                }
            };
            let orphaned = OrphanedResult { node, job, attempt, nonce: None, result };
            cluster.end_orphan(orphaned).await;
        });
    }

    /// An ending whose receiver is gone is delivered to the session, wherever it is now.
    pub(super) fn deliver_again(
        self: &Arc<Self>,
        from: &Instance,
        session: SessionKey,
        job: JobId,
        ended: PeerEnded,
    ) {
        let (cluster, from) = (Arc::clone(self), from.clone());
        let delivery = PendingDelivery::begin(self);
        tasks::start(async move {
            let _delivery = delivery;
            let ended = cluster.ended_of(&from, ended).await;
            // The session's owner in the store may lag behind for a moment.
            tokio::time::sleep(LOOK).await;
            cluster.find_session(session, job, ended).await;
        });
    }

    /// A body that another instance or this one keeps.
    async fn body_of(&self, from: &Instance, body: &BodyRef) -> Result<Bytes, String> {
        if *from == self.shared.instance {
            let kept = self.shared.outbox.bodies.get(&body.name);
            return kept.ok_or_else(|| "it was kept too long ago".to_owned());
        }
        self.fetch_body(from, body).await
    }

    /// Ends a job whose instance is gone, if this attempt is still the current one, and delivers the result to
    /// its session.
    async fn end_orphan(&self, orphaned: OrphanedResult) {
        let OrphanedResult { node, job, attempt, nonce, result } = orphaned;
        let here = self.nodes.get(&node);
        if here.as_ref().is_some_and(|here| here.holds(&job, attempt)) {
            return;
        }
        let store = &self.shared.store;
        let record = match store.jobs.get(&job).await {
            Ok(record) => record,
            // The node repeats the result.
            Err(error) => return tracing::debug!(%error, "an orphaned result is handled later"),
        };
        let acknowledge = || {
            if let Some(here) = &here {
                let masked = self.shared.secret.masked(job);
                here.send_to_node(ToNode::ResultAck { job: masked, attempt });
            }
        };
        let own = |assignment: &Assignment| {
            assignment.node == node
                && assignment.token.attempt == attempt
                && nonce.is_none_or(|nonce| nonce == assignment.token.nonce)
        };
        let current = record.filter(|record| !record.state.is_terminal());
        let Some((session, assignment)) = current.and_then(|record| {
            record.assignment.filter(own).map(|assignment| (record.session, assignment))
        }) else {
            return acknowledge();
        };
        let ended = match result {
            NodeResult::Success(body) => Ended::Done(body),
            NodeResult::Empty { body, reason } => Ended::Empty { body: Some(body), reason },
            NodeResult::Failure { message, .. } => {
                Ended::Failed(Refusal::new(Code::ProcessingError, message))
            }
        };
        let state =
            if matches!(ended, Ended::Failed(_)) { JobState::Failed } else { JobState::Done };
        let ending = Ending { state, code: ended.code().to_owned() };
        let token = assignment.token;
        let finished = store.jobs.finish(&job, &EndedBy::Assignment(assignment), &ending).await;
        match finished {
            Ok(Finish::Finished) => {}
            Ok(_) => return acknowledge(),
            Err(error) => return tracing::debug!(%error, "an orphaned result is handled later"),
        }
        tracing::info!(node.id = %node, job.id = %job, "a result outlived its instance");
        if store.slots.release(&node, token).await.is_ok() {
            self.shared.fleet.freed_in_store(&node);
        }
        acknowledge();
        self.find_session(session, job, ended).await;
    }

    /// Delivers an ending to the session, wherever it is now.
    async fn find_session(&self, session: SessionKey, job: JobId, ended: Ended) {
        let until = Instant::now() + FIND_SESSION;
        let mut ended = Some(ended);
        while let Some(news) = ended.take() {
            if let Err(news) = self.sessions.tell_job(&session, job, news).await {
                let owner = self.shared.store.owners.owner(&session).await.ok().flatten();
                let there = owner.map(|owner| owner.instance);
                let there = there.filter(|instance| self.shared.outbox.is_alive(instance));
                match there {
                    Some(instance) => {
                        let ended = self.with_bodies(news);
                        let body = ended.body().cloned();
                        let (tenant, session) =
                            (session.tenant().clone(), session.session().clone());
                        let message = PeerMessage::SessionJob { tenant, session, job, ended };
                        if self.shared.outbox.send(&instance, message).is_ok()
                            && let Some(body) = body
                        {
                            self.shared.outbox.bodies.fetched(&body, FETCH).await;
                        }
                    }
                    None if Instant::now() < until => {
                        ended = Some(news);
                        tokio::time::sleep(LOOK).await;
                    }
                    None => {
                        tracing::debug!(job.id = %job, "the session of an ending did not come back")
                    }
                }
            }
        }
    }

    /// An ending for another instance, which fetches its body from here.
    fn with_bodies(&self, ended: Ended) -> PeerEnded {
        match ended {
            Ended::Done(body) => {
                PeerEnded::Done { body: self.shared.outbox.put_body(body.into_bytes()) }
            }
            Ended::Empty { reason, .. } => PeerEnded::Empty { reason },
            Ended::Failed(refusal) => {
                let told = Some(self.shared.outbox.put_body(Bytes::from(refusal.detail)));
                let code = refusal.code.as_str().to_owned();
                PeerEnded::Failed { code, detail: String::new(), told }
            }
            Ended::Cancelled(reason) => PeerEnded::Cancelled { reason },
        }
    }

    pub(super) fn on_session_job(
        self: &Arc<Self>,
        from: &Instance,
        tenant: TenantId,
        session: SessionId,
        job: JobId,
        ended: PeerEnded,
    ) {
        let (cluster, from) = (Arc::clone(self), from.clone());
        let session = SessionKey::new(tenant, session);
        tasks::start(async move {
            let ended = cluster.ended_of(&from, ended).await;
            // Its client may be reconnecting. If the session does not come here, the job's deadline ends it.
            let mut ended = ended;
            for _ in 0..ARRIVAL_LOOKS {
                match cluster.sessions.tell_job(&session, job, ended).await {
                    Ok(()) => return,
                    Err(news) => ended = news,
                }
                tokio::time::sleep(LOOK).await;
            }
        });
    }

    /// An ending, with its body fetched.
    async fn ended_of(&self, from: &Instance, ended: PeerEnded) -> Ended {
        match ended {
            PeerEnded::Done { body } => match self.body_of(from, &body).await {
                Ok(body) => Ended::Done(read_message(body)),
                Err(error) => {
                    tracing::info!(instance.id = %from.id, error, "a result could not be fetched");
                    let detail = "the result could not be fetched";
                    Ended::Failed(Refusal::new(Code::NodeUnavailable, detail))
                }
            },
            PeerEnded::Empty { reason } => Ended::Empty { body: None, reason },
            PeerEnded::Failed { code, detail, told } => {
                let fetched = match &told {
                    Some(told) => self.body_of(from, told).await.ok(),
                    None => None,
                };
                let detail =
                    fetched.map_or(detail, |text| String::from_utf8_lossy(&text).into_owned());
                let code = Code::parse(&code).unwrap_or(Code::ProcessingError);
                Ended::Failed(Refusal::new(code, detail))
            }
            PeerEnded::Cancelled { reason } => Ended::Cancelled(reason),
        }
    }
}
