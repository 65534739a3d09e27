//! Results whose instance or session is gone: they still find the person who spoke.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::job::JobState;
use lingua_core::outcome::Code;
use lingua_core::{JobId, NodeId, SessionId, SessionKey, TenantId};
use lingua_store::jobs::{Assignment, EndedBy, Ending, Finish};
use tokio::time::Instant;

use super::Cluster;
use super::words::{PeerEnded, PeerResult, PeerWord};
use crate::job::{Ended, NodeResult, Refusal, ToNode};
use crate::secret::token_name;
use crate::tasks;

/// A client that was cut off comes back within this, or its session is gone.
const FIND_SESSION: Duration = Duration::from_secs(60);

/// Between two looks for a session's owner.
const LOOK: Duration = Duration::from_millis(300);

/// Looks for a session that an ending was sent after.
const ARRIVAL_LOOKS: u32 = 10;

/// An instance that is told of an ending fetches what is in it within this, or not at all.
const FETCH: Duration = Duration::from_secs(2);

/// How long an instance that has the job may take to say so after its node came here.
const ADOPTION: Duration = Duration::from_millis(1_500);

/// An ending without anybody to hear it.
pub(crate) enum Stray {
    /// A session's job is over, and the session is no longer here.
    Ended { session: SessionKey, job: JobId, ended: Ended },
    /// A node brings a result of a job that is not here.
    Result { node: NodeId, job: JobId, attempt: u32, token: Option<String>, result: NodeResult },
}

/// Something that somebody is on the way with, until it is dropped.
struct Errand(Arc<Cluster>);

impl Errand {
    fn begin(cluster: &Arc<Cluster>) -> Self {
        cluster.errands.fetch_add(1, Ordering::Relaxed);
        Errand(Arc::clone(cluster))
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.0.errands.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Cluster {
    /// Lets endings that are on their way to other instances arrive, at most for so long: what is in
    /// them is fetched from here.
    pub async fn run_errands(&self, within: Duration) {
        let end = Instant::now() + within;
        let strays = &self.shared.strays;
        let mut quiet = 0;
        while quiet < 2 && Instant::now() < end {
            let is_quiet = strays.capacity() == strays.max_capacity()
                && self.errands.load(Ordering::Relaxed) == 0
                && self.shared.post.is_idle();
            // Twice, for between two counts something may be in neither.
            quiet = if is_quiet { quiet + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(super) fn on_stray(self: &Arc<Self>, stray: Stray) {
        let (cluster, errand) = (Arc::clone(self), Errand::begin(self));
        match stray {
            Stray::Ended { session, job, ended } => tasks::start(async move {
                let _errand = errand;
                cluster.find_session(session, job, ended).await;
            }),
            Stray::Result { node, job, attempt, token, result } => tasks::start(async move {
                let _errand = errand;
                // Its instance may live, and be about to say that it wants to hear of it; then the
                // node is heard when it says it again.
                tokio::time::sleep(ADOPTION).await;
                cluster.end_orphan(&node, job, attempt, token.as_deref(), result).await;
            }),
        }
    }

    pub(super) fn on_orphan_result(
        self: &Arc<Self>,
        job: JobId,
        node: &NodeId,
        attempt: u32,
        result: PeerResult,
    ) {
        let body = result.body().and_then(|body| self.shared.post.bodies.get(&body.name));
        let result = result.with(body.unwrap_or_default());
        let (cluster, node) = (Arc::clone(self), node.clone());
        tasks::start(async move { cluster.end_orphan(&node, job, attempt, None, result).await });
    }

    /// Ends a job in the name of an instance that is gone, if this attempt is still the one that
    /// counts, and brings the result to its session.
    async fn end_orphan(
        &self,
        node: &NodeId,
        job: JobId,
        attempt: u32,
        token: Option<&str>,
        result: NodeResult,
    ) {
        if self.nodes.holds(node, &job, attempt) {
            return;
        }
        let store = &self.shared.store;
        let record = match store.jobs.get(&job).await {
            Ok(record) => record,
            // The node says it again.
            Err(error) => return tracing::debug!(%error, "an orphan is looked after later"),
        };
        let acknowledge = || {
            let masked = self.shared.secret.masked(job);
            self.nodes.tell_here(node, ToNode::ResultAck { job: masked, attempt });
        };
        let own = |assignment: &Assignment| {
            assignment.node == *node
                && assignment.token.attempt == attempt
                && token.is_none_or(|token| token == token_name(assignment.token))
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
            Err(error) => return tracing::debug!(%error, "an orphan is looked after later"),
        }
        tracing::info!(node.id = %node, job.id = %job, "a result outlived its instance");
        let _ = store.slots.release(node, token).await;
        acknowledge();
        self.find_session(session, job, ended).await;
    }

    /// Brings an ending to the session, wherever it is now.
    async fn find_session(&self, session: SessionKey, job: JobId, ended: Ended) {
        let until = Instant::now() + FIND_SESSION;
        let mut ended = Some(ended);
        while let Some(news) = ended.take() {
            if let Err(news) = self.sessions.tell_job(&session, job, news) {
                let owner = self.shared.store.owners.owner(&session).await.ok().flatten();
                let there = owner.map(|owner| owner.instance);
                let there = there.filter(|instance| self.shared.post.is_alive(instance));
                match there {
                    Some(instance) => {
                        let ended = self.lent(news);
                        let body = ended.body().cloned();
                        let (tenant, session) =
                            (session.tenant().clone(), session.session().clone());
                        let word = PeerWord::SessionJob { tenant, session, job, ended };
                        if self.shared.post.send(&instance, word).is_ok()
                            && let Some(body) = body
                        {
                            self.shared.post.bodies.fetched(&body, FETCH).await;
                        }
                    }
                    None if Instant::now() < until => {
                        ended = Some(news);
                        tokio::time::sleep(LOOK).await;
                    }
                    None => tracing::debug!(job.id = %job, "nobody came back for an ending"),
                }
            }
        }
    }

    /// An ending for another instance, which fetches what is in it from here.
    fn lent(&self, ended: Ended) -> PeerEnded {
        match ended {
            Ended::Done(body) => PeerEnded::Done { body: self.shared.post.lend(body) },
            Ended::Empty { reason, .. } => PeerEnded::Empty { reason },
            Ended::Failed(refusal) => {
                let told = Some(self.shared.post.lend(Bytes::from(refusal.detail)));
                let code = refusal.code.as_str().to_owned();
                PeerEnded::Failed { code, detail: String::new(), told }
            }
            Ended::Cancelled(reason) => PeerEnded::Cancelled { reason },
        }
    }

    pub(super) fn on_session_job(
        self: &Arc<Self>,
        from: &lingua_store::Instance,
        tenant: TenantId,
        session: SessionId,
        job: JobId,
        ended: PeerEnded,
    ) {
        let (cluster, from) = (Arc::clone(self), from.clone());
        let session = SessionKey::new(tenant, session);
        tasks::start(async move {
            let ended = match ended {
                PeerEnded::Done { body } => match cluster.borrow(&from, &body).await {
                    Ok(body) => Ended::Done(body),
                    Err(error) => {
                        tracing::info!(instance.id = %from.id, error, "a result could not be fetched");
                        let detail = "the result could not be fetched";
                        Ended::Failed(Refusal::new(Code::NodeUnavailable, detail))
                    }
                },
                PeerEnded::Empty { reason } => Ended::Empty { body: None::<Bytes>, reason },
                PeerEnded::Failed { code, detail, told } => {
                    let fetched = match &told {
                        Some(told) => cluster.borrow(&from, told).await.ok(),
                        None => None,
                    };
                    let detail =
                        fetched.map_or(detail, |text| String::from_utf8_lossy(&text).into_owned());
                    let code = Code::parse(&code).unwrap_or(Code::ProcessingError);
                    Ended::Failed(Refusal::new(code, detail))
                }
                PeerEnded::Cancelled { reason } => Ended::Cancelled(reason),
            };
            // Its client may just be coming back. If it is not here any more either, its deadline
            // ends it.
            let mut ended = ended;
            for _ in 0..ARRIVAL_LOOKS {
                match cluster.sessions.tell_job(&session, job, ended) {
                    Ok(()) => return,
                    Err(news) => ended = news,
                }
                tokio::time::sleep(LOOK).await;
            }
        });
    }
}
