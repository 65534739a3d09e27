//! The jobs of this instance: those that are open, and for a while those that ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::Route;
use lingua_core::fleet::AnswerForm;
use lingua_core::job::JobState;
use lingua_core::{JobId, Lang, NodeId, Profile, SessionKey};
use lingua_store::jobs::JobRecord;
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::job::{Ended, FOR_ENDINGS, JobEvent, JobSpec, NodeMessage, Refusal};
use crate::job_log::{AttemptSummary, JobSummary};
use crate::retention::TenantRetention;
use crate::settings::Settings;
use crate::tasks;

/// A job of this instance, as callers follow it.
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Whose conversation it belongs to.
    pub session: SessionKey,
    /// The direction.
    pub route: Route,
    /// The translation is to be spoken.
    speech: bool,
    /// Its profile.
    pub profile: Profile,
    /// How long what was said lasts, as far as it is known.
    pub(super) speech_ms: u64,
    trace_id: Arc<str>,
    /// The channel of its task; `None` once it ended.
    events: Mutex<Option<mpsc::Sender<JobEvent>>>,
    view: Mutex<View>,
    changed: Notify,
    /// Apart from `changed`, so that a caller that waits only for the end is not woken before.
    ended: Notify,
}

/// What callers see of a job.
#[derive(Clone)]
pub struct View {
    /// Its state.
    pub state: JobState,
    /// Epoch milliseconds.
    pub created_ms: u64,
    /// When the first dispatch went out.
    pub dispatched_ms: Option<u64>,
    /// When a node first took it.
    pub acked_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// How long it waited in the queue.
    pub waited_ms: u64,
    /// Its attempts.
    pub attempts: Vec<AttemptSummary>,
    /// The last intermediate result, as it came.
    pub partial: Option<NodeMessage>,
    /// Notes on the choice of nodes.
    pub notes: Vec<String>,
    /// The form that the answer has, or is to have.
    pub got: Got,
    /// Its legs, of a job by way of another language.
    pub legs: Vec<LegView>,
    /// How it ended.
    pub ended: Option<Ended>,
    /// Another instance has it, and this is what the store knows.
    pub remote: Option<JobRecord>,
}

/// The form of an answer, and the language between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Got {
    /// The form.
    pub form: AnswerForm,
    /// The language between, of a job by way of another language.
    pub via: Option<Lang>,
}

/// One of the two jobs of a translation by way of another language.
#[derive(Clone, Debug)]
pub struct LegView {
    /// Its id.
    pub job: JobId,
    /// Its direction.
    pub route: Route,
}

impl Job {
    pub(super) fn new(spec: &JobSpec, events: mpsc::Sender<JobEvent>, created_ms: u64) -> Self {
        let view = View {
            state: JobState::New,
            created_ms,
            dispatched_ms: None,
            acked_ms: None,
            ended_ms: None,
            waited_ms: 0,
            attempts: Vec::new(),
            partial: None,
            notes: Vec::new(),
            got: Got { form: AnswerForm::of(spec.need.speech), via: None },
            legs: Vec::new(),
            ended: None,
            remote: None,
        };
        Job {
            id: spec.id,
            session: spec.session.clone(),
            route: spec.need.route,
            speech: spec.need.speech,
            profile: spec.profile,
            speech_ms: spec.work.speech_ms,
            trace_id: spec.work.trace_id.as_str().into(),
            events: Mutex::new(Some(events)),
            view: Mutex::new(view),
            changed: Notify::new(),
            ended: Notify::new(),
        }
    }

    /// A summary for operators.
    pub fn summary(&self) -> JobSummary {
        let view = self.view.lock();
        let (code, detail) = match &view.ended {
            None => (None, None),
            Some(Ended::Done(_)) => (Some("ok"), None),
            Some(Ended::Empty { reason, .. }) => (Some("empty"), Some(reason.as_str())),
            Some(Ended::Failed(refusal)) => (Some(refusal.code_text()), Some(&*refusal.detail)),
            Some(ended @ Ended::Cancelled(reason)) => (Some(ended.code()), Some(reason.as_str())),
        };
        JobSummary {
            id: self.id,
            session: self.session.clone(),
            route: self.route,
            speech: self.speech,
            profile: self.profile,
            trace_id: Arc::clone(&self.trace_id),
            state: view.state,
            code: code.map(JobSummary::cut),
            detail: detail.map(JobSummary::cut),
            created_ms: view.created_ms,
            dispatched_ms: view.dispatched_ms,
            acked_ms: view.acked_ms,
            ended_ms: view.ended_ms,
            waited_ms: view.waited_ms,
            attempts: view.attempts.clone(),
            notes: view.notes.clone(),
        }
    }

    /// What callers see of it now.
    pub fn view(&self) -> View {
        self.view.lock().clone()
    }

    /// The form that the answer has, or is to have.
    pub fn got(&self) -> Got {
        self.view.lock().got
    }

    /// What the store knows of it, if another instance has it.
    pub fn remote(&self) -> Option<JobRecord> {
        self.view.lock().remote.clone()
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let answer = change(&mut self.view.lock());
        self.changed.notify_waiters();
        answer
    }

    /// The job is over, or another instance has it: its task gets no more messages.
    pub(super) fn close(&self, change: impl FnOnce(&mut View)) {
        self.events.lock().take();
        self.change(change);
        self.ended.notify_waiters();
    }

    /// Waits until `ready` says so, or the job is over.
    pub async fn until(&self, ready: impl Fn(&View) -> bool) {
        self.wait(&self.changed, ready).await;
    }

    async fn wait(&self, told: &Notify, ready: impl Fn(&View) -> bool) {
        loop {
            let changed = told.notified();
            tokio::pin!(changed);
            // Enabled before the view is read, so that a change after that is not missed.
            changed.as_mut().enable();
            {
                let view = self.view.lock();
                if view.ended.is_some() || view.remote.is_some() || ready(&view) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Waits for the end, at most so long.
    pub async fn ended_within(&self, wait: Duration) -> View {
        let _ = tokio::time::timeout(wait, self.wait(&self.ended, |_| false)).await;
        self.view()
    }

    /// Waits for the first dispatch: the node and attempt, or why there is none.
    pub async fn dispatched(&self) -> Result<(NodeId, u32), Refusal> {
        self.until(|view| !view.attempts.is_empty()).await;
        let view = self.view.lock();
        if let Some(attempt) = view.attempts.last() {
            return Ok((attempt.node.clone(), attempt.number));
        }
        Err(match &view.ended {
            Some(Ended::Failed(refusal)) => refusal.clone(),
            Some(Ended::Cancelled(reason)) => {
                Refusal::new(lingua_core::outcome::Code::JobCancelled, reason.clone())
            }
            _ => Refusal::new(
                lingua_core::outcome::Code::Conflict,
                "the job ran on another instance",
            ),
        })
    }

    /// Sends a message to its task; `false` if the job is over.
    pub(super) fn tell(&self, event: JobEvent) -> bool {
        let Some(events) = self.events.lock().clone() else { return false };
        if event.may_be_missed() && events.capacity() <= FOR_ENDINGS {
            return true;
        }
        match events.try_send(event) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(event)) => {
                tasks::start(async move {
                    let _ = events.send(event).await;
                });
                true
            }
        }
    }

    /// Cancels the job. If it is over, nothing changes.
    pub fn cancel(&self, reason: &'static str) {
        self.tell(JobEvent::Cancel { reason });
    }
}

/// All jobs of this instance.
pub(super) struct Registry {
    inner: Mutex<Inner>,
}

struct Inner {
    jobs: HashMap<JobId, Arc<Job>, lingua_core::hash::Quality>,
    ended: TenantRetention<JobId>,
}

impl Registry {
    pub fn new(settings: &Settings) -> Self {
        let ended = TenantRetention::new(settings.results, settings.admission.shares.clone());
        Registry { inner: Mutex::new(Inner { jobs: HashMap::default(), ended }) }
    }

    pub fn get(&self, id: &JobId) -> Option<Arc<Job>> {
        self.inner.lock().jobs.get(id).cloned()
    }

    /// The job of this id, made if it is missing. Returns whether it was made.
    pub fn get_or_insert(&self, id: JobId, make: impl FnOnce() -> Arc<Job>) -> (Arc<Job>, bool) {
        let mut inner = self.inner.lock();
        if let Some(job) = inner.jobs.get(&id) {
            return (Arc::clone(job), false);
        }
        let job = make();
        inner.jobs.insert(id, Arc::clone(&job));
        (job, true)
    }

    /// Jobs that are open now.
    pub fn open(&self) -> Vec<Arc<Job>> {
        let jobs: Vec<Arc<Job>> = self.inner.lock().jobs.values().cloned().collect();
        let open = |view: &View| view.ended.is_none() && view.remote.is_none();
        jobs.into_iter().filter(|job| open(&job.view.lock())).collect()
    }

    /// The job ended and is kept for a while. Beyond the bounds the oldest of the tenant with most for its share is
    /// removed.
    pub fn ended(&self, job: &Job, bytes: usize, now: Instant) {
        let mut gone = Vec::new();
        let mut inner = self.inner.lock();
        let Inner { jobs, ended } = &mut *inner;
        ended.insert(job.session.tenant(), job.id, bytes, now);
        while let Some(over) = ended.expire(now).or_else(|| ended.evict()) {
            gone.extend(jobs.remove(&over));
        }
        // Dropped outside the lock, because freeing the memory may take a while.
        drop(inner);
    }

    /// Forgets a job that another instance has.
    pub fn remove(&self, id: &JobId) {
        self.inner.lock().jobs.remove(id);
    }
}
