//! A job finds a node, and ends by its deadline at the latest.
//!
//! Every job is a task of its own (`actor`) that performs what the machine of [`lingua_core::job`] decides:
//! choose, reserve, send, wait for the ack and the answer, retry on another node, end. Callers hold a [`Job`] and
//! see it change.
//!
//! - `registry`: the jobs of this instance. `actor`: the task of one. `choosing`: which node it tries. `attempts`: its
//!   attempts, and its record in the store. `slot`: a slot that is held, and what the node is sent for it. `relay`: two
//!   jobs in place of one.
//! - `reporting`: what callers and sessions are told. `lack`: why no node takes a job.
//! - `admission`: how many jobs are admitted. `queue`: jobs that wait for a slot. `fairness`: which tenant is
//!   next there.
//! - `spans`: traces. `gaps`: missing models. `conversations`: which node had which utterances. `demand`:
//!   directions without a node. `orphans`: jobs whose instance died.

mod actor;
mod admission;
mod attempts;
mod choosing;
mod conversations;
mod demand;
mod fairness;
mod gaps;
mod lack;
mod orphans;
mod queue;
mod registry;
mod relay;
mod reporting;
mod slot;
mod spans;

pub(crate) use queue::{FreedSlotQueue, WaitQueue};
pub use registry::{Got, Job, LegView, View};

use std::sync::Arc;
use std::time::Duration;

use lingua_core::budget::RetryBudget;
use lingua_core::eligibility::Route;
use lingua_core::fleet::select::SelectPolicy;
use lingua_core::job::{JobState, Policy};
use lingua_core::outcome::Code;
use lingua_core::{JobId, NodeId, Profile, RequestId, TenantId};
use lingua_store::Status;
use lingua_store::jobs::{EndedBy, Ending, JobRecord};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::job::{JobEvent, JobSpec, Refusal, store_down};
use crate::job_log::{AttemptOutcome, AttemptSummary};
use crate::nodes::{NodeRouter, Nodes};
use crate::peers::freed::ANNOUNCE_WAITING_EVERY;
use crate::shared::Shared;
use crate::tasks;
use actor::JobActor;
use admission::Admission;
use conversations::Conversations;
use demand::Demand;
pub use demand::InVain;
use registry::Registry;

/// Events that wait for one job. Partials leave room for what ends it.
const EVENT_BUFFER: usize = 32;

/// How long after its deadline the store remembers a job.
const KEEP_RECORD: Duration = Duration::from_secs(120);

/// How long a repeated message of a node waits for the first one to take effect.
const PAST_MESSAGE_WAIT: Duration = Duration::from_millis(250);

/// Where the job of a request is.
pub enum Submitted {
    /// On this instance.
    Here(Arc<Job>),
    /// On another one, or it is over: what the store knows of it.
    Remote(JobId, JobRecord),
}

/// The service of jobs.
pub struct Dispatcher {
    shared: Arc<Shared>,
    nodes: Arc<Nodes>,
    router: Arc<dyn NodeRouter>,
    queue: Arc<WaitQueue>,
    /// By profile.
    policies: [Arc<Policy>; Profile::ALL.len()],
    selects: [SelectPolicy; Profile::ALL.len()],
    admission: Admission,
    registry: Registry,
    budget: Mutex<RetryBudget>,
    conversations: Conversations,
    demand: Demand,
}

impl Dispatcher {
    pub(crate) fn new(
        shared: Arc<Shared>,
        nodes: Arc<Nodes>,
        router: Arc<dyn NodeRouter>,
        queue: Arc<WaitQueue>,
    ) -> Self {
        let settings = &shared.settings;
        let policies = Profile::ALL.map(|profile| Arc::new(settings.policy_of(profile)));
        let selects = Profile::ALL.map(|profile| settings.select_of(profile));
        let conversations = Conversations::new(settings.select.exposure_cap_percent < 100);
        Dispatcher {
            registry: Registry::new(&shared.settings),
            admission: Admission::new(shared.settings.admission.clone()),
            shared,
            nodes,
            router,
            queue,
            policies,
            selects,
            budget: Mutex::default(),
            conversations,
            demand: Demand::default(),
        }
    }

    /// Starts a job. A second one of the same id is the same job, whatever else it asks for.
    pub fn submit(self: &Arc<Self>, spec: JobSpec) -> Result<Arc<Job>, Refusal> {
        if let Some(job) = self.registry.get(&spec.id) {
            return Ok(job);
        }
        self.admit(spec.session.tenant())?;
        Ok(self.start(spec))
    }

    /// Starts a leg of a job by way of another language. It was admitted with that job.
    fn submit_leg(self: &Arc<Self>, spec: JobSpec) -> Result<Arc<Job>, Refusal> {
        self.check_store()?;
        self.admission.enter_part(spec.session.tenant());
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
                self.admission.release(&tenant);
                Ok(match self.registry.get(&spec.id) {
                    Some(job) => Submitted::Here(job),
                    None => Submitted::Remote(spec.id, record),
                })
            }
            Err(refusal) => {
                self.admission.release(&tenant);
                Err(refusal)
            }
        }
    }

    /// Admits one more job of this tenant, or refuses it.
    fn admit(&self, tenant: &TenantId) -> Result<(), Refusal> {
        self.check_store()?;
        self.admission.enter(tenant).map_err(|(met, refusal)| {
            self.shared.metrics.limited(met.as_str());
            refusal
        })
    }

    fn check_store(&self) -> Result<(), Refusal> {
        match &*self.shared.store.status.borrow() {
            Status::Down { reason } => Err(store_down(&lingua_store::Error::Down(reason.clone()))),
            _ => Ok(()),
        }
    }

    /// The settings of a profile.
    fn policy(&self, profile: Profile) -> &Arc<Policy> {
        &self.policies[profile as usize]
    }

    /// Starts a job that was admitted.
    fn start(self: &Arc<Self>, spec: JobSpec) -> Arc<Job> {
        let (sender, receiver) = mpsc::channel(EVENT_BUFFER);
        let created_ms = self.shared.clock.now().as_millis();
        let job_events = sender.clone();
        let make = || Arc::new(Job::new(&spec, job_events, created_ms));
        let (job, made) = self.registry.get_or_insert(spec.id, make);
        if made {
            self.shared.metrics.jobs.open_jobs.inc();
            let actor = JobActor::new(Arc::clone(self), Arc::clone(&job), spec, (sender, receiver));
            tasks::start(actor.run());
        } else {
            self.admission.release(job.session.tenant());
        }
        job
    }

    /// A request ended before any node had its job: its id is free again.
    pub async fn release_request(&self, tenant: &TenantId, request: &RequestId, job: JobId) {
        if let Err(error) = self.shared.store.requests.release(tenant, request, &job).await {
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
        let claim = self.shared.store.requests.claim(tenant, request, &job, keep).await;
        match claim {
            Ok(bound) if bound == job => Ok(()),
            Ok(_) => Err(Refusal::new(
                Code::Conflict,
                "this request_id was used for another session, direction or feature",
            )),
            Err(error) => Err(store_down(&error)),
        }
    }

    /// A job of this instance.
    pub fn job(&self, id: &JobId) -> Option<Arc<Job>> {
        self.registry.get(id)
    }

    /// What the store knows of a job, of whichever instance.
    pub async fn record(&self, id: &JobId) -> Result<Option<JobRecord>, Refusal> {
        self.shared.store.jobs.get(id).await.map_err(|error| store_down(&error))
    }

    /// The answer to a late or repeated message of a node about a job, which it names by the masked id or the
    /// job's own: the same message took effect before, or the attempt is not the node's current one.
    pub async fn past_message(
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
                // Or it is the job's own id, which the caller that submitted the job may have told the node.
                job = masked;
            }
        }
        if let Some(job) = self.job(&job) {
            let own = |a: &&AttemptSummary| a.number == attempt && a.node == *node;
            let outcome = |view: &View| view.attempts.iter().find(own)?.outcome.clone();
            // The first message may be taking effect at this moment.
            let known = job.until(|view| outcome(view).is_some());
            if job.view().attempts.iter().any(|a| own(&a)) {
                let _ = tokio::time::timeout(PAST_MESSAGE_WAIT, known).await;
                let applied = outcome(&job.view()) == Some(AttemptOutcome::Ok);
                return if applied { Ok(()) } else { Err(stale()) };
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

    /// The end of a drain: waits so long for open jobs to end, then cancels the others.
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

    /// Directions for which no node was found lately, the most wanted first.
    pub fn unmet(&self) -> Vec<(Route, bool)> {
        self.demand.unmet()
    }

    /// What was asked for by name in vain lately, of directions that are served; the most wanted first.
    pub fn unmet_by_name(&self) -> Vec<InVain> {
        self.demand.unmet_by_name()
    }

    /// Whether any job waits for a slot.
    pub(crate) fn any_waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Jobs that wait for a slot of this direction.
    pub fn waiting(&self, route: Route, speech: bool) -> usize {
        self.queue.length(route, speech)
    }

    /// Waiting jobs by direction, the most first.
    pub(crate) fn queue_lengths(&self) -> Vec<(String, u64)> {
        let lengths = self.queue.lengths().into_iter();
        lengths.map(|(route, length)| (route.to_string(), length as u64)).collect()
    }

    /// Runs until the engine ends: waiting jobs choose again now and then.
    pub(crate) async fn watch_queue(self: Arc<Self>) {
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.queue.look_again();
        }
    }
}

impl Dispatcher {
    /// Runs until the engine ends: tells other instances while jobs wait here, so that they announce the slots
    /// that they free.
    pub(crate) async fn tell_that_jobs_wait(self: Arc<Self>) {
        loop {
            self.queue.joined.notified().await;
            while !self.queue.is_empty() {
                self.shared.outbox.tell_jobs_wait();
                tokio::time::sleep(ANNOUNCE_WAITING_EVERY).await;
            }
        }
    }
}

/// Writes an ending as soon as the store answers.
fn finish_later(dispatcher: &Dispatcher, id: JobId, by: EndedBy, ending: Ending, is_watched: bool) {
    let shared = Arc::clone(&dispatcher.shared);
    tasks::spawn("write an ending down", async move {
        for _ in 0..5 {
            if shared.store_up_within(Duration::from_secs(10)).await
                && shared.store.jobs.finish(&id, &by, &ending).await.is_ok()
            {
                if is_watched {
                    let _ = shared.store.deadlines.unwatch(&id).await;
                }
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
}
