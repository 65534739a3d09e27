//! How a job ends: exactly once, whoever ends it.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::job::JobState;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use lingua_store::jobs::{EndedBy, Ending, Finish};
use tokio::time::Instant;

use super::registry::View;
use super::run::Run;
use crate::cluster::Stray;
use crate::job::{Ended, Refusal, ToNode};
use crate::sessions::mail::JobNews;
use crate::snapshot::view::Failure;
use crate::tasks;

/// Whether the store let this actor end the job.
enum Accepted {
    Yes,
    No,
}

impl Run {
    /// An attempt brought the ending. `None`: all is done.
    pub(super) async fn answered(&mut self, i: usize, ended: Ended) -> Option<Ended> {
        let mut live = self.tries.swap_remove(i);
        live.traced_to("ok");
        let node = Arc::clone(&live.slot.node);
        let number = live.attempt();
        let took = u32::try_from(millis(live.sent_at.elapsed())).unwrap_or(u32::MAX);
        let by = match self.hedged {
            // Both copies count, and the store knows only the later one.
            true => EndedBy::Owner,
            false => EndedBy::Assignment(live.assignment()),
        };
        let result_ack = live.over.supports.result_ack;
        // The node's own table no longer has it from here on: a repeated result finds nothing.
        let ending = Ending { state: JobState::Done, code: String::new() };
        let finished = live.slot.release_ending(&by, &ending).await;
        let accepted = self.accepted(finished, &by, ending);
        if result_ack {
            let job = self.d.shared.secret.masked(self.job.id);
            node.tell(ToNode::ResultAck { job, attempt: number });
        }
        let ended = match accepted {
            Accepted::Yes => ended,
            Accepted::No => {
                self.d.shared.metrics.stale("ended");
                Ended::Failed(Refusal::new(Code::JobTimeout, "the job had been ended before"))
            }
        };
        if matches!(ended, Ended::Done(_)) {
            self.d.shared.fleet.took(&node.id, took);
            let more = node.lock().success(&self.d.shared.settings);
            if more {
                node.lock().todo.beat = true;
                self.d.nodes.refresh(&node);
                self.d.nodes.sync(&node);
            }
        }
        let now_ms = self.d.shared.clock.now().as_millis();
        self.job.change(|view| ended_attempt(view, number, now_ms, "ok"));
        self.give_up_all("other_copy_won").await;
        self.close(ended).await;
        None
    }

    async fn give_up_all(&mut self, reason: &'static str) {
        for mut live in std::mem::take(&mut self.tries) {
            live.traced_to(reason);
            let number = live.attempt();
            let now_ms = self.d.shared.clock.now().as_millis();
            self.job.change(|view| ended_attempt(view, number, now_ms, reason));
            self.let_go(live, false, reason).await;
        }
    }

    /// The job ends without an answer.
    pub(super) async fn end(&mut self, ended: Ended) {
        let reason = match &ended {
            Ended::Cancelled(_) => "cancelled",
            Ended::Failed(refusal) if refusal.code == Code::JobTimeout => "deadline",
            _ => "given_up",
        };
        self.give_up_all(reason).await;
        let state = match &ended {
            Ended::Done(_) | Ended::Empty { .. } => JobState::Done,
            Ended::Failed(_) => JobState::Failed,
            Ended::Cancelled(_) => JobState::Cancelled,
        };
        if self.created {
            self.finish(&EndedBy::Owner, state, ended.code()).await;
        }
        self.close(ended).await;
    }

    /// Ends the job in the store. Exactly one caller anywhere is told that it did. A store that is
    /// down is told later: results of running jobs arrive all the same.
    async fn finish(&self, by: &EndedBy, state: JobState, code: &str) -> Accepted {
        let ending = Ending { state, code: code.to_owned() };
        let finished = self.d.shared.store.jobs.finish(&self.job.id, by, &ending).await;
        self.accepted(finished, by, ending)
    }

    fn accepted(
        &self,
        finished: lingua_store::Result<Finish>,
        by: &EndedBy,
        ending: Ending,
    ) -> Accepted {
        match finished {
            Ok(Finish::Finished | Finish::Repeated) => Accepted::Yes,
            // The store lost the record; this actor has been the job's only owner all along.
            Ok(Finish::Unknown) => Accepted::Yes,
            Ok(Finish::Ended(_) | Finish::Stale { .. }) => Accepted::No,
            Err(error) => {
                tracing::debug!(job.id = %self.job.id, %error, "an ending is written down later");
                self.finish_later(by.clone(), ending);
                Accepted::Yes
            }
        }
    }

    fn finish_later(&self, by: EndedBy, ending: Ending) {
        let (shared, id) = (Arc::clone(&self.d.shared), self.job.id);
        let watched = self.watched;
        tasks::spawn("write an ending down", async move {
            for _ in 0..5 {
                if shared.store_up_within(Duration::from_secs(10)).await
                    && shared.store.jobs.finish(&id, &by, &ending).await.is_ok()
                {
                    if watched {
                        let _ = shared.store.jobs.unwatch(&id).await;
                    }
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
    }

    /// Tells everybody how it ended; exactly once for every job.
    async fn close(&mut self, ended: Ended) {
        self.traced.ended(&ended);
        let metrics = &self.d.shared.metrics;
        match &ended {
            Ended::Done(_) => {
                metrics.done.inc();
            }
            Ended::Empty { .. } => metrics.ended("empty"),
            Ended::Failed(refusal) if refusal.node_code.is_some() => metrics.ended("NODE_CODE"),
            Ended::Failed(refusal) => metrics.ended(refusal.code.as_str()),
            Ended::Cancelled(_) => metrics.ended(Code::JobCancelled.as_str()),
        }
        metrics.job_seconds.observe(self.began.elapsed().as_secs_f64());
        if let Ended::Failed(refusal) = &ended {
            tracing::info!(
                session.id = %self.spec.session.session(), job.id = %self.job.id,
                pair = %self.spec.need.route, attempts = self.dispatches,
                reason = refusal.code_text(), elapsed_ms = millis(self.began.elapsed()), "job failed"
            );
            self.note_failure(refusal.code_text());
        }
        let size = ended.size();
        let told = self.spec.observer.take().map(|observer| (observer, ended.clone()));
        self.announce(ended);
        if let Some((observer, ended)) = told
            && let Err(ended) = observer.end(ended).await
        {
            // Its session went to another instance.
            let (session, job) = (self.spec.session.clone(), self.job.id);
            let _ = self.d.shared.strays.try_send(Stray::Ended { session, job, ended });
        }
        self.d.registry.ended(&self.job, size, Instant::now());
        if self.watched {
            // After the answer: the caller need not wait for it.
            let _ = self.d.shared.store.jobs.unwatch(&self.job.id).await;
        }
    }

    fn note_failure(&self, code: &str) {
        let shared = &self.d.shared;
        let view = self.job.view();
        shared.failures.note(Failure {
            at_ms: shared.clock.now().as_millis(),
            job_id: self.job.id.to_string(),
            instance: shared.instance.id.to_string(),
            code: code.chars().take(64).collect(),
            direction: self.spec.need.route.to_string(),
            node_id: view.attempts.last().map(|attempt| attempt.node.to_string()),
            attempts: self.dispatches,
        });
    }

    fn announce(&mut self, ended: Ended) {
        let now_ms = self.d.shared.clock.now().as_millis();
        self.over = true;
        self.d.shared.metrics.open_jobs.dec();
        self.d.admission.leave(self.job.session.tenant());
        self.job.close_ears();
        self.job.change(|view| {
            view.state = match &ended {
                Ended::Done(_) | Ended::Empty { .. } => JobState::Done,
                Ended::Failed(_) => JobState::Failed,
                Ended::Cancelled(_) => JobState::Cancelled,
            };
            view.ended_ms = Some(now_ms);
            view.ended = Some(ended);
        });
    }

    /// Another instance has the job: this one has nothing to do with it.
    pub(super) fn let_be(&mut self) {
        self.over = true;
        self.traced.is_elsewhere();
        if let Some(observer) = self.spec.observer.take() {
            let refusal = Refusal::new(Code::Conflict, "another instance has this job");
            observer.tell_later(JobNews::Ended(Ended::Failed(refusal)));
        }
        self.d.shared.metrics.open_jobs.dec();
        self.d.admission.leave(self.job.session.tenant());
        // What the store says of it changes from now on; whoever asks again asks the store.
        self.d.registry.forget(&self.job.id);
    }
}

/// A panic must not leave callers waiting: its job ends too.
impl Drop for Run {
    fn drop(&mut self) {
        if !self.over {
            let detail = "the scheduler made a mistake with this job";
            let ended = Ended::Failed(Refusal::new(Code::InternalError, detail));
            if let Some(observer) = self.spec.observer.take() {
                observer.tell_later(JobNews::Ended(ended.clone()));
            }
            self.announce(ended);
            self.d.registry.ended(&self.job, 0, Instant::now());
        }
    }
}

pub(super) fn ended_attempt(view: &mut View, number: u32, now_ms: u64, outcome: &str) {
    if let Some(attempt) = view.attempts.iter_mut().find(|attempt| attempt.number == number) {
        attempt.ended_ms = Some(now_ms);
        attempt.outcome = Some(outcome.to_owned());
    }
}
