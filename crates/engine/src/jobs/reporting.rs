//! What callers see of a job and what its session is told.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::Route;
use lingua_core::fleet::AnswerForm;
use lingua_core::fleet::select::Source;
use lingua_core::job::{JobState, Leg};
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use lingua_core::{NodeId, SessionKey};
use lingua_protocol::node::timings::timings;
use lingua_store::jobs::JobRecord;
use tokio::time::Instant;

use super::Dispatcher;
use super::registry::{Got, Job, LegView};
use crate::job::{Ended, JobNews, NodeMessage, Observer, OrphanedOutcome, Refusal};
use crate::job_log::{AttemptOutcome, AttemptSummary};
use crate::metrics::{Stage, WantedSlot};

/// Publishes a job to its callers and its session. Dropped before the ending, as by a panic of the job's task, it
/// publishes that the job failed, so that no caller waits for ever.
pub(super) struct Reporter {
    dispatcher: Arc<Dispatcher>,
    job: Arc<Job>,
    observer: Option<Observer>,
    began: Instant,
    /// The last dispatch.
    sent: Option<(u32, Instant)>,
    wanted: Option<WantedSlot>,
    is_open: bool,
}

/// A job that ended, as logs and figures have it.
pub(super) struct Summary<'a> {
    pub session: &'a SessionKey,
    pub direction: Route,
    pub dispatches: u32,
}

impl Reporter {
    pub fn new(dispatcher: Arc<Dispatcher>, job: Arc<Job>, observer: Option<Observer>) -> Self {
        let wanted = Some(dispatcher.shared.metrics.pairs.wants(job.route));
        let began = Instant::now();
        Reporter { dispatcher, job, observer, began, sent: None, wanted, is_open: true }
    }

    pub fn show(&self, state: JobState) {
        self.job.change(|view| view.state = state);
    }

    pub fn waited(&self, state: JobState, waited: Duration) {
        self.dispatcher.shared.metrics.jobs.wait_seconds.observe(waited.as_secs_f64());
        self.job.change(|view| {
            view.waited_ms += millis(waited);
            view.state = state;
        });
    }

    pub fn note(&self, text: String) {
        tracing::info!(job.id = %self.job.id, reason = text, "a note on the choice");
        self.job.change(|view| view.notes.push(text));
    }

    pub async fn dispatched(
        &mut self,
        state: JobState,
        number: u32,
        node: NodeId,
        (source, hedge, first): (Source, bool, bool),
    ) {
        let shared = &self.dispatcher.shared;
        let now = shared.clock.now();
        if first {
            self.dispatcher.budget.lock().fresh(now);
            let took = self.began.elapsed();
            shared.metrics.jobs.place_seconds.observe(took.as_secs_f64());
            shared.metrics.pairs.took(self.job.route, Stage::Queue, took);
        }
        if hedge {
            shared.metrics.jobs.hedges.inc();
        }
        self.sent = Some((number, Instant::now()));
        let now_ms = now.as_millis();
        self.job.change(|view| {
            view.state = state;
            view.dispatched_ms.get_or_insert(now_ms);
            view.attempts.push(AttemptSummary {
                number,
                node,
                source: source.as_str(),
                sent_ms: now_ms,
                acked_ms: None,
                ended_ms: None,
                outcome: None,
            });
        });
        self.tell(JobNews::Assigned { attempt: number, hedge }).await;
    }

    pub async fn accepted(&self, state: JobState, number: u32) {
        if let Some((_, sent)) = self.sent.filter(|(sent, _)| *sent == number) {
            let pairs = &self.dispatcher.shared.metrics.pairs;
            pairs.took(self.job.route, Stage::Send, sent.elapsed());
        }
        let now_ms = self.dispatcher.shared.clock.now().as_millis();
        self.job.change(|view| {
            view.state = state;
            view.acked_ms.get_or_insert(now_ms);
            if let Some(attempt) = view.attempts.iter_mut().find(|a| a.number == number) {
                attempt.acked_ms = Some(now_ms);
            }
        });
        self.tell(JobNews::Accepted { attempt: number }).await;
    }

    pub fn partial(&self, attempt: u32, body: NodeMessage) {
        if let Some(observer) = &self.observer {
            observer.notify_if_room(JobNews::Partial { attempt, body: body.clone() });
        }
        self.job.change(|view| view.partial = Some(body));
    }

    pub fn attempt_over(&self, number: u32, outcome: AttemptOutcome) {
        let now_ms = self.dispatcher.shared.clock.now().as_millis();
        self.job.change(|view| {
            if let Some(attempt) = view.attempts.iter_mut().find(|a| a.number == number) {
                attempt.ended_ms = Some(now_ms);
                attempt.outcome = Some(outcome);
            }
        });
    }

    /// In which form the answer will be.
    pub fn form(&self, form: AnswerForm) {
        self.job.change(|view| view.got.form = form);
    }

    /// A leg of the job is submitted. From here on the legs have the slots.
    pub fn leg_begun(&mut self, leg: &Job, got: Got) {
        self.wanted = None;
        let leg = LegView { job: leg.id, route: leg.route };
        self.job.change(|view| {
            view.got = got;
            view.legs.push(leg);
        });
    }

    /// A node was found for a leg. The session is told of the first leg only: for it there is one job.
    pub async fn leg_placed(&self, state: JobState, leg: Leg, node: NodeId) {
        let now_ms = self.dispatcher.shared.clock.now().as_millis();
        let number = leg.number();
        let new = self.job.change(|view| {
            view.state = state;
            view.dispatched_ms.get_or_insert(now_ms);
            if let Some(known) = view.attempts.iter_mut().find(|known| known.number == number) {
                known.node = node;
                return false;
            }
            view.attempts.push(AttemptSummary {
                number,
                node,
                source: "pivot",
                sent_ms: now_ms,
                acked_ms: None,
                ended_ms: None,
                outcome: None,
            });
            true
        });
        if new && leg == Leg::First {
            self.tell(JobNews::Assigned { attempt: number, hedge: false }).await;
        }
    }

    /// A node has a leg. The session is not told: until the end, the speech is lost if this instance dies.
    pub fn leg_accepted(&self, state: JobState, leg: Leg) {
        let now_ms = self.dispatcher.shared.clock.now().as_millis();
        self.job.change(|view| {
            view.state = state;
            view.acked_ms.get_or_insert(now_ms);
            if let Some(known) = view.attempts.iter_mut().find(|one| one.number == leg.number()) {
                known.acked_ms.get_or_insert(now_ms);
            }
        });
    }

    async fn tell(&self, news: JobNews) {
        if let Some(observer) = &self.observer {
            observer.notify(news).await;
        }
    }

    /// Publishes how the job ended; exactly once for every job.
    pub async fn end(&mut self, ended: Ended, summary: Summary<'_>) {
        let metrics = &self.dispatcher.shared.metrics;
        match &ended {
            Ended::Done(_) => {
                metrics.jobs.done.inc();
            }
            Ended::Empty { .. } => metrics.ended("empty"),
            Ended::Failed(refusal) if refusal.node_code.is_some() => metrics.ended("NODE_CODE"),
            Ended::Failed(refusal) => metrics.ended(refusal.code.as_str()),
            Ended::Cancelled(_) => metrics.ended(Code::JobCancelled.as_str()),
        }
        metrics.jobs.job_seconds.observe(self.began.elapsed().as_secs_f64());
        // Of one that was done by two others each of them has told its own.
        if let Ended::Done(body) | Ended::Empty { body: Some(body), .. } = &ended
            && self.sent.is_some()
        {
            metrics.steps_took(self.job.route, timings(body));
        }
        if let Ended::Failed(refusal) = &ended {
            tracing::info!(
                session.id = %summary.session.session(), job.id = %self.job.id,
                pair = %summary.direction, attempts = summary.dispatches,
                reason = refusal.code_text(), elapsed_ms = millis(self.began.elapsed()), "job failed"
            );
        }
        if !self.observer.as_ref().is_some_and(Observer::is_of_a_leg) {
            let key = (self.job.route, self.job.session.tenant());
            let shared = &self.dispatcher.shared;
            shared.usage.ended(shared.today(), key, self.job.speech_ms, &ended);
        }
        let size = ended.size();
        let told = self.observer.take().map(|observer| (observer, ended.clone()));
        self.announce(ended);
        if let Some((observer, ended)) = told
            && let Err(ended) = observer.notify_ended(ended).await
        {
            // Its session went to another instance.
            let (session, job) = (summary.session.clone(), self.job.id);
            let _ = self.dispatcher.shared.orphans.try_send(OrphanedOutcome::Ended {
                session,
                job,
                ended,
            });
        }
        self.dispatcher.registry.ended(&self.job, size, Instant::now());
    }

    fn announce(&mut self, ended: Ended) {
        let now_ms = self.dispatcher.shared.clock.now().as_millis();
        self.release_admission();
        self.job.close(|view| {
            view.state = match &ended {
                Ended::Done(_) | Ended::Empty { .. } => JobState::Done,
                Ended::Failed(_) => JobState::Failed,
                Ended::Cancelled(_) => JobState::Cancelled,
            };
            view.ended_ms = Some(now_ms);
            view.ended = Some(ended);
        });
        let job_log = &self.dispatcher.shared.job_log;
        job_log.ended(self.job.summary(), Instant::now());
    }

    fn release_admission(&mut self) {
        (self.is_open, self.wanted) = (false, None);
        self.dispatcher.shared.metrics.jobs.open_jobs.dec();
        self.dispatcher.admission.release(self.job.session.tenant());
    }

    /// Another instance has the job.
    pub fn detach(&mut self, record: JobRecord) {
        self.release_admission();
        self.job.close(|view| {
            view.state = record.state;
            view.remote = Some(record);
        });
        if let Some(observer) = self.observer.take() {
            let refusal = Refusal::new(Code::Conflict, "another instance has this job");
            observer.notify_later(JobNews::Ended(Ended::Failed(refusal)));
        }
        // The record changes from now on, so later callers read it from the store.
        self.dispatcher.registry.remove(&self.job.id);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if self.is_open {
            let detail = "the scheduler made a mistake with this job";
            let ended = Ended::Failed(Refusal::new(Code::InternalError, detail));
            if let Some(observer) = self.observer.take() {
                observer.notify_later(JobNews::Ended(ended.clone()));
            }
            self.announce(ended);
            self.dispatcher.registry.ended(&self.job, 0, Instant::now());
        }
    }
}
