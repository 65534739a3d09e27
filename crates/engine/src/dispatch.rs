//! A job finds a node, exactly one, and never hangs.
//!
//! Every job is an actor of its own ([`run`]): it chooses, reserves, sends, waits for the ack and the
//! answer, tries elsewhere, and ends by its deadline whatever happens. Callers hold a [`Job`] and see
//! it change.
//!
//! - [`registry`]: the jobs of this instance. `run`: the life of one.
//! - `placing`: how it gets onto a node, or `in_line`; `asking` for a slot there, `sending` it. `slot`:
//!   what it holds there.
//! - `failing`: an attempt that came to nothing. `ending`: its one ending.
//! - `admission`: how many are taken in. `waiting`: the lines of jobs for which all is full. `shares`: whose
//!   turn it is in them.
//! - `traced`: its spans. `gaps`: missing models. `conversations`: who heard what. `demand`: what was
//!   asked for in vain. `sweep`: jobs whose instance
//!   died.

mod admission;
mod asking;
mod conversations;
mod demand;
mod ending;
mod failing;
mod gaps;
mod in_line;
mod placing;
mod registry;
mod run;
mod sending;
mod shares;
mod slot;
mod sweep;
mod traced;
mod waiting;

pub use registry::{AttemptView, Job, View};
pub(crate) use waiting::Waiting;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::budget::RetryBudget;
use lingua_core::eligibility::Route;
use lingua_core::job::JobState;
use lingua_core::outcome::Code;
use lingua_core::{JobId, NodeId, RequestId, TenantId};
use lingua_store::Status;
use lingua_store::jobs::JobRecord;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::job::{JobSpec, NodeResult, Refusal, Reject};
use crate::nodes::Nodes;
use crate::shared::Shared;
use crate::tasks;
use admission::Admission;
use conversations::Conversations;
use demand::Demand;
use registry::Registry;

/// Events that wait for one job. Partials leave room for what ends it.
const MAILBOX: usize = 32;

/// How long after its deadline the store remembers a job.
const KEEP_RECORD: Duration = Duration::from_secs(120);

/// For a node's first word to take effect, when the same word comes again.
const PAST_WORD_WAIT: Duration = Duration::from_millis(250);

/// What happens to a job. Small, because every mailbox has room for many: what is large is boxed.
pub(crate) enum JobEvent {
    /// It is on the node's wire.
    Sent { attempt: u32 },
    /// It did not get onto the node's wire.
    NotSent { attempt: u32 },
    /// The node takes it.
    Ack { attempt: u32 },
    /// The node does not.
    Reject { attempt: u32, reason: Box<Reject> },
    /// Something on the way.
    Partial { attempt: u32, body: Box<Bytes> },
    /// The node is done.
    Result { attempt: u32, result: Box<NodeResult> },
    /// The node's connection is gone.
    NodeGone { attempt: u32 },
    /// It is back.
    NodeBack { attempt: u32 },
    /// The node says that it does not have it.
    Dropped { attempt: u32 },
    /// The closing part of its turn has its speech.
    TurnClosed { attempt: u32 },
    /// Nobody wants it any more.
    Cancel { reason: &'static str },
}

/// Places of a job's mailbox that are kept free of what may be missed, so that an ending always fits.
pub(crate) const FOR_ENDINGS: usize = 8;

impl JobEvent {
    /// Whether one like it is in a mailbox that is nearly full: a node may say these again and again.
    fn may_be_missed(&self) -> bool {
        matches!(self, JobEvent::Ack { .. } | JobEvent::Partial { .. })
    }
}

/// Where the job of a request is.
pub enum Submitted {
    /// On this instance.
    Here(Arc<Job>),
    /// On another one, or it is over: what the store knows of it.
    Elsewhere(JobId, JobRecord),
}

/// The service of jobs.
pub struct Dispatcher {
    shared: Arc<Shared>,
    nodes: Arc<Nodes>,
    waiting: Arc<Waiting>,
    admission: Admission,
    registry: Registry,
    budget: Mutex<RetryBudget>,
    conversations: Conversations,
    demand: Demand,
}

impl Dispatcher {
    pub(crate) fn new(shared: Arc<Shared>, nodes: Arc<Nodes>, waiting: Arc<Waiting>) -> Self {
        Dispatcher {
            registry: Registry::new(&shared.settings),
            admission: Admission::new(shared.settings.admission.clone()),
            shared,
            nodes,
            waiting,
            budget: Mutex::default(),
            conversations: Conversations::default(),
            demand: Demand::default(),
        }
    }

    /// Takes a job on. One of the same id is the same job, whatever else is said.
    pub fn submit(self: &Arc<Self>, spec: JobSpec) -> Result<Arc<Job>, Refusal> {
        if let Some(job) = self.registry.get(&spec.id) {
            return Ok(job);
        }
        self.admit(spec.session.tenant())?;
        Ok(self.start(spec))
    }

    /// The same for a request with an id of its own, which stands for one job on all instances. A
    /// request that is refused leaves nothing in the store.
    pub async fn submit_request(
        self: &Arc<Self>,
        spec: JobSpec,
        request: &RequestId,
    ) -> Result<Submitted, Refusal> {
        if let Some(job) = self.registry.get(&spec.id) {
            return Ok(Submitted::Here(job));
        }
        let tenant = spec.session.tenant().clone();
        self.admit(&tenant)?;
        let claim = self.claim_request(&tenant, request, spec.id);
        let (claimed, known) = futures_util::future::join(claim, self.record(&spec.id)).await;
        match claimed.and(known) {
            Ok(None) => Ok(Submitted::Here(self.start(spec))),
            Ok(Some(record)) => {
                self.admission.leave(&tenant);
                Ok(match self.registry.get(&spec.id) {
                    Some(job) => Submitted::Here(job),
                    None => Submitted::Elsewhere(spec.id, record),
                })
            }
            Err(refusal) => {
                self.admission.leave(&tenant);
                Err(refusal)
            }
        }
    }

    /// Whether one more job of this tenant is taken in.
    fn admit(&self, tenant: &TenantId) -> Result<(), Refusal> {
        if let Status::Down { reason } = &*self.shared.store.status.borrow() {
            return Err(Refusal::store_down(&lingua_store::Error::Down(reason.clone())));
        }
        self.admission.enter(tenant).map_err(|(met, refusal)| {
            self.shared.metrics.limited(met.as_str());
            refusal
        })
    }

    /// Begins a job that was admitted.
    fn start(self: &Arc<Self>, spec: JobSpec) -> Arc<Job> {
        let (sender, events) = mpsc::channel(MAILBOX);
        let created_ms = self.shared.clock.now().as_millis();
        let ears = sender.clone();
        let make = || Arc::new(Job::new(spec.id, spec.session.clone(), ears, created_ms));
        let (job, made) = self.registry.get_or_insert(spec.id, make);
        if made {
            self.shared.metrics.open_jobs.inc();
            tasks::start(
                run::Run::new(Arc::clone(self), Arc::clone(&job), spec, (sender, events)).drive(),
            );
        } else {
            self.admission.leave(job.session.tenant());
        }
        job
    }

    /// Nothing came of a request before any node had its job: its id is free again.
    pub async fn release_request(&self, tenant: &TenantId, request: &RequestId, job: JobId) {
        if let Err(error) = self.shared.store.jobs.release_request(tenant, request, &job).await {
            tracing::debug!(job.id = %job, %error, "a request's id stays bound until it is forgotten");
        }
    }

    /// The job that a request's id stands for: this one, unless the id stands for another.
    pub async fn claim_request(
        &self,
        tenant: &TenantId,
        request: &RequestId,
        job: JobId,
    ) -> Result<(), Refusal> {
        let keep = Duration::from_millis(self.shared.settings.timing.deadline_ms) + KEEP_RECORD;
        let claim = self.shared.store.jobs.claim_request(tenant, request, &job, keep).await;
        match claim {
            Ok(bound) if bound == job => Ok(()),
            Ok(_) => Err(Refusal::new(
                Code::Conflict,
                "this request_id was used for another session, direction or feature",
            )),
            Err(error) => Err(Refusal::store_down(&error)),
        }
    }

    /// A job of this instance.
    pub fn job(&self, id: &JobId) -> Option<Arc<Job>> {
        self.registry.get(id)
    }

    /// What the store knows of a job, of whichever instance.
    pub async fn record(&self, id: &JobId) -> Result<Option<JobRecord>, Refusal> {
        self.shared.store.jobs.get(id).await.map_err(|error| Refusal::store_down(&error))
    }

    /// What a node's late or repeated word about a job means, for a node that wants an answer: it
    /// names the job as the node knows it or by its own id. The word was heard before, or it is about an attempt that is not the node's.
    pub async fn past_word(
        &self,
        masked: JobId,
        node: &NodeId,
        attempt: u32,
    ) -> Result<(), Refusal> {
        let stale = || {
            let detail = "this is not the job's current attempt on this node; stop working on it";
            Refusal::new(Code::StaleAttempt, detail)
        };
        let mut job = self.shared.secret.masked(masked);
        let mut record = None;
        if self.job(&job).is_none() {
            record = self.record(&job).await?;
            if record.is_none() {
                // Or the job's own id, which whoever handed it in may have told the node.
                job = masked;
            }
        }
        if let Some(job) = self.job(&job) {
            let own = |a: &&AttemptView| a.number == attempt && a.node == *node;
            let outcome = |view: &View| view.attempts.iter().find(own)?.outcome.clone();
            // The first word may be on its way into the store at this moment.
            let known = job.until(|view| outcome(view).is_some());
            if job.view().attempts.iter().any(|a| own(&a)) {
                let _ = tokio::time::timeout(PAST_WORD_WAIT, known).await;
                let heard = outcome(&job.view()).is_some_and(|outcome| outcome == "ok");
                return if heard { Ok(()) } else { Err(stale()) };
            }
        }
        if record.is_none() {
            record = self.record(&job).await?;
        }
        let Some(record) = record else {
            return Err(Refusal::new(Code::NotFound, "there is no such job"));
        };
        let own = record.assignment.as_ref().is_some_and(|assignment| {
            assignment.node == *node && assignment.token.attempt == attempt
        });
        if own && record.state == JobState::Done { Ok(()) } else { Err(stale()) }
    }

    /// Something happened to an attempt of a job of this instance.
    pub(crate) fn tell(&self, id: &JobId, event: JobEvent) {
        let told = self.registry.get(id).is_some_and(|job| job.tell(event));
        if !told {
            self.shared.metrics.stale("far");
        }
    }

    /// Jobs that are open now.
    pub fn open_jobs(&self) -> Vec<Arc<Job>> {
        self.registry.open()
    }

    /// Lets open jobs end for so long, then gives up those that have not: what is left of a drain.
    pub async fn end_within(&self, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        for round in 0.. {
            let open = self.open_jobs();
            if open.is_empty() {
                return;
            }
            if round == 0 {
                tracing::info!(jobs = open.len(), "waiting for open jobs to end");
            }
            if tokio::time::Instant::now() >= end {
                tracing::warn!(jobs = open.len(), "giving up jobs that did not end in time");
                for job in &open {
                    job.cancel("draining");
                }
                let ended = open.iter().map(|job| job.ended_within(Duration::from_secs(2)));
                futures_util::future::join_all(ended).await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Directions that were asked for in vain lately, the most wanted first.
    pub fn unmet(&self) -> Vec<(Route, bool)> {
        self.demand.unmet()
    }

    /// Jobs in line for a direction.
    pub fn waiting(&self, route: Route, speech: bool) -> usize {
        self.waiting.length(route, speech)
    }

    /// Jobs in line by direction, the longest lines first.
    pub(crate) fn lines(&self) -> Vec<(String, u64)> {
        let lines = self.waiting.lines().into_iter();
        lines.map(|(route, length)| (route.to_string(), length as u64)).collect()
    }

    /// Runs until the engine ends: those in line look again now and then.
    pub(crate) async fn watch_lines(self: Arc<Self>) {
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.waiting.look_again();
        }
    }
}
