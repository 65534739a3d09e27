//! The life of one job, from its hand-in to its one ending.
//!
//! The actor owns the job: it alone decides about attempts, and whatever it is told about an attempt
//! that it no longer has is dropped. It waits for three things only: the store, its mailbox, and the
//! next moment at which something is due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::budget::step_timeout;
use lingua_core::job::{JobState, JobStep};
use lingua_core::outcome::{Code, Retry};
use lingua_core::slots::Commit;
use lingua_core::time::millis;
use lingua_core::{Moment, NodeId};
use lingua_store::jobs::{Assignment, EndedBy, Ending, Finish};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::registry::{Job, View};
use super::slot::Slot;
use super::traced::{Traced, TracedTry};
use super::{Dispatcher, JobEvent};
use crate::cluster::Stray;
use crate::job::{Ended, JobSpec, NodeResult, Refusal, Reject, ToNode, is_code, is_fault};
use crate::nodes::Supports;
use crate::sessions::mail::JobNews;
use crate::snapshot::view::Failure;
use crate::tasks;

/// The word of an older agent for a part whose speech went into a later part of its turn.
const NO_TEXT: &str = "NO_TEXT_ASSIGNED";

/// Dispatches that nodes refuse do not count as attempts, but they end somewhere.
pub(super) const MAX_REJECTED: u32 = 8;

/// A job without a session that is open for so long is watched by all instances: one that ends sooner
/// needs nobody.
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// The actor of one job.
pub(super) struct Run {
    pub d: Arc<Dispatcher>,
    pub job: Arc<Job>,
    pub spec: JobSpec,
    pub events: mpsc::Receiver<JobEvent>,
    /// Where nodes are to say what becomes of it.
    pub ears: mpsc::Sender<JobEvent>,
    /// The attempts that count; two while hedging, else one or none.
    pub tries: Vec<Try>,
    /// Dispatches that were not refused by their node.
    pub dispatches: u32,
    pub rejected: u32,
    /// The highest attempt number in use.
    pub attempt: u32,
    /// Nodes that failed or refused this job.
    pub excluded: Vec<NodeId>,
    /// Nodes that said a moment ago that they have no slot free.
    pub busy: Vec<NodeId>,
    /// How long it has been in line.
    pub waited: Duration,
    /// What was told while a second copy was being placed.
    pub later: VecDeque<JobEvent>,
    /// The store has its record.
    pub created: bool,
    pub hedged: bool,
    pub began: Instant,
    pub deadline: Instant,
    /// Why the last attempt failed.
    pub failure: Option<Refusal>,
    pub traced: Traced,
    /// When any instance is asked to look after the job's deadline; `None` once it was.
    watch_at: Option<Instant>,
    watched: bool,
    over: bool,
}

/// One attempt.
pub(super) struct Try {
    pub slot: Slot,
    pub supports: Supports,
    pub sent_at: Instant,
    pub acked: bool,
    /// The store is to be told of the ack.
    pub commit: bool,
    /// The attempt is given up then: no ack, no answer, or a node that did not come back.
    pub due: Instant,
    pub gone: bool,
    pub traced: Option<Box<TracedTry>>,
}

impl Try {
    fn attempt(&self) -> u32 {
        self.slot.token.attempt
    }

    /// Its spans end.
    fn traced_to(&mut self, reason: &str) {
        if let Some(traced) = self.traced.take() {
            traced.ended(reason);
        }
    }

    fn assignment(&self) -> Assignment {
        Assignment { node: self.slot.node.id.clone(), token: self.slot.token }
    }
}

/// How an attempt ends without an answer.
struct Failed {
    refusal: Refusal,
    /// It counts against the node.
    blame: bool,
    /// The node has nothing of it any more.
    freed: bool,
}

impl Run {
    pub fn new(
        d: Arc<Dispatcher>,
        job: Arc<Job>,
        spec: JobSpec,
        (ears, events): (mpsc::Sender<JobEvent>, mpsc::Receiver<JobEvent>),
    ) -> Self {
        let began = Instant::now();
        Run {
            watch_at: spec.epoch.is_none().then(|| began + WATCH_AFTER),
            watched: false,
            traced: Traced::begin(&d.shared, &spec),
            deadline: began + spec.deadline_in,
            d,
            job,
            spec,
            events,
            ears,
            tries: Vec::new(),
            dispatches: 0,
            rejected: 0,
            attempt: 0,
            excluded: Vec::new(),
            busy: Vec::new(),
            waited: Duration::ZERO,
            later: VecDeque::new(),
            created: false,
            hedged: false,
            began,
            failure: None,
            over: false,
        }
    }

    /// From here to the ending.
    pub async fn drive(mut self) {
        let ended = match self.place(true).await {
            Ok(()) => self.attend().await,
            Err(ended) => ended,
        };
        if let Some(ended) = ended {
            self.end(ended).await;
        }
        self.over = true;
    }

    /// Looks after the attempts until the job is over; `None` if it ended by an answer, and all is
    /// done.
    async fn attend(&mut self) -> Option<Ended> {
        loop {
            while let Some(event) = self.told_already() {
                if let Some(ended) = self.on_event(event).await {
                    return ended;
                }
            }
            if let Some(i) = self.tries.iter().position(|attempt| attempt.commit) {
                if let Some(ended) = self.commit(i).await {
                    return ended;
                }
                continue;
            }
            let due = self.next_due();
            match timeout_at(due, self.events.recv()).await {
                Ok(Some(event)) => {
                    if let Some(ended) = self.on_event(event).await {
                        return ended;
                    }
                }
                Ok(None) => unreachable!("the actor itself holds a sender"),
                Err(_) => {
                    if let Some(ended) = self.on_time(Instant::now()).await {
                        return ended;
                    }
                }
            }
        }
    }

    fn told_already(&mut self) -> Option<JobEvent> {
        self.later.pop_front().or_else(|| self.events.try_recv().ok())
    }

    fn next_due(&self) -> Instant {
        let soonest = self.tries.iter().map(|attempt| attempt.due).min();
        let hedge = self.hedge_at();
        [soonest, hedge, self.watch_at].into_iter().flatten().fold(self.deadline, Instant::min)
    }

    /// When a second copy may begin: once, for an acked attempt without an answer.
    fn hedge_at(&self) -> Option<Instant> {
        let after = Duration::from_millis(self.d.shared.settings.hedge_after_ms?);
        let [only] = self.tries.as_slice() else { return None };
        let may = only.acked && !self.hedged && self.may_dispatch_again();
        may.then(|| only.sent_at + after)
    }

    pub fn may_dispatch_again(&self) -> bool {
        let timing = &self.d.shared.settings.timing;
        // One clock: both moments are counted from the job's beginning.
        let now = Moment::from_millis(millis(self.began.elapsed()));
        let deadline = Moment::from_millis(millis(self.deadline - self.began));
        timing.may_dispatch_again(self.dispatches, now, deadline)
    }

    async fn on_event(&mut self, event: JobEvent) -> Option<Option<Ended>> {
        let now = Instant::now();
        let attempt = match event {
            JobEvent::Cancel { reason } => return Some(Some(Ended::Cancelled(reason.into()))),
            JobEvent::Sent { attempt }
            | JobEvent::NotSent { attempt }
            | JobEvent::Ack { attempt }
            | JobEvent::Reject { attempt, .. }
            | JobEvent::Partial { attempt, .. }
            | JobEvent::Result { attempt, .. }
            | JobEvent::NodeGone { attempt }
            | JobEvent::NodeBack { attempt }
            | JobEvent::Dropped { attempt }
            | JobEvent::TurnClosed { attempt } => attempt,
        };
        let Some(i) = self.tries.iter().position(|live| live.attempt() == attempt) else {
            self.d.shared.metrics.stale("late");
            return None;
        };
        match event {
            JobEvent::Sent { .. } | JobEvent::Ack { .. } => {
                self.acked(i, now).await;
                None
            }
            JobEvent::Partial { body, .. } => {
                self.acked(i, now).await;
                if let Some(observer) = &self.spec.observer {
                    observer.mention(JobNews::Partial { attempt, body: (*body).clone() });
                }
                self.job.change(|view| view.partial = Some(*body));
                None
            }
            JobEvent::NodeBack { .. } if self.tries[i].gone => {
                let exec = self.exec_due(self.tries[i].sent_at);
                (self.tries[i].gone, self.tries[i].due) = (false, exec);
                None
            }
            JobEvent::NodeBack { .. } => None,
            JobEvent::NodeGone { .. } if self.tries[i].acked => {
                let grace = self.d.shared.settings.reconnect_grace_ms;
                self.tries[i].gone = true;
                self.tries[i].due = (now + Duration::from_millis(grace)).min(self.deadline);
                None
            }
            // It has it all the same: only the word that it took it was lost.
            JobEvent::NotSent { .. } if self.tries[i].acked => None,
            JobEvent::NodeGone { .. } | JobEvent::NotSent { .. } => {
                if matches!(event, JobEvent::NotSent { .. }) {
                    // Nobody began it: the dispatch does not count.
                    self.dispatches = self.dispatches.saturating_sub(1);
                    self.rejected += 1;
                }
                // Whether a node elsewhere or its instance is at fault, nobody here knows.
                let blame = self.tries[i].slot.node.lock().elsewhere.is_none();
                self.failed(i, Failed { blame, ..gone() }).await
            }
            JobEvent::Dropped { .. } => {
                let refusal = Refusal::new(Code::NodeUnavailable, "the node no longer has the job");
                self.failed(i, Failed { refusal, blame: true, freed: true }).await
            }
            JobEvent::TurnClosed { .. } => Some(self.answered(i, no_text()).await),
            JobEvent::Reject { reason, .. } => self.rejected(i, *reason).await,
            JobEvent::Result { result, .. } => match *result {
                NodeResult::Success(body) => Some(self.answered(i, Ended::Done(body)).await),
                NodeResult::Empty { body, reason } => {
                    Some(self.answered(i, Ended::Empty { body: Some(body), reason }).await)
                }
                NodeResult::Failure { code, message, missing_model } => {
                    self.node_failed(i, code, message, missing_model).await
                }
            },
            JobEvent::Cancel { .. } => unreachable!("answered above"),
        }
    }

    fn exec_due(&self, from: Instant) -> Instant {
        let exec = Duration::from_millis(self.d.shared.settings.timing.exec_max_ms);
        (from + exec).min(self.deadline)
    }

    /// The node has the job. Said again it changes nothing.
    async fn acked(&mut self, i: usize, now: Instant) {
        if self.tries[i].acked {
            return;
        }
        let due = self.exec_due(now);
        let live = &mut self.tries[i];
        (live.acked, live.commit, live.due) = (true, true, due);
        if let Some(traced) = &mut live.traced {
            traced.acked();
        }
        let number = live.attempt();
        let now_ms = self.d.shared.clock.now().as_millis();
        self.job.change(|view| {
            if view.state == JobState::Dispatched {
                Job::step(view, JobStep::Ack);
            }
            view.acked_ms.get_or_insert(now_ms);
            if let Some(attempt) = view.attempts.iter_mut().find(|a| a.number == number) {
                attempt.acked_ms = Some(now_ms);
            }
        });
        self.tell(JobNews::Accepted { attempt: number }).await;
    }

    /// Tells the session that the job belongs to.
    pub async fn tell(&self, news: JobNews) {
        if let Some(observer) = &self.spec.observer {
            observer.tell(news).await;
        }
    }

    /// The reserved slot becomes a running one.
    async fn commit(&mut self, i: usize) -> Option<Option<Ended>> {
        self.tries[i].commit = false;
        let live = &self.tries[i];
        let lease = live.slot.node.lock().lease;
        let store = &self.d.shared.store;
        match store.slots.commit(&live.slot.node.id, live.slot.token, lease).await {
            Ok(Commit::Committed(_) | Commit::Already(_) | Commit::Regained(_)) => {
                live.slot.node.renewed(live.slot.token, lease);
                None
            }
            Ok(Commit::Lost) => {
                let refusal =
                    Refusal::new(Code::AckTimeout, "the ack came after the slot was gone");
                self.failed(i, Failed { refusal, blame: false, freed: false }).await
            }
            // The node works; what the store missed, the node's next report puts right.
            Err(error) => {
                tracing::debug!(job.id = %self.job.id, %error, "an ack was not written down");
                None
            }
        }
    }

    async fn on_time(&mut self, now: Instant) -> Option<Option<Ended>> {
        if now >= self.deadline {
            return Some(self.overdue().await);
        }
        if self.watch_at.is_some_and(|at| at <= now) {
            self.watch(now).await;
            return None;
        }
        if self.hedge_at().is_some_and(|at| at <= now) {
            self.hedged = true;
            let allowed = self.d.budget.lock().try_retry(self.d.shared.clock.now());
            if allowed && self.place(false).await.is_ok() && self.tries.len() > 1 {
                self.d.shared.metrics.hedges.inc();
            }
            return None;
        }
        let i = self.tries.iter().position(|live| live.due <= now)?;
        let live = &self.tries[i];
        let failed = if live.gone {
            gone()
        } else if live.acked {
            if self.was_kept(live) {
                return Some(self.answered(i, no_text()).await);
            }
            let refusal = Refusal::new(Code::JobTimeout, "the node took too long");
            Failed { refusal, blame: true, freed: false }
        } else {
            self.d.shared.metrics.ack_timeouts.inc();
            let refusal = Refusal::new(Code::AckTimeout, "the node did not accept the job in time");
            Failed { refusal, blame: true, freed: false }
        };
        self.failed(i, failed).await
    }

    /// Has any instance end the job at its deadline, should this one die.
    async fn watch(&mut self, now: Instant) {
        self.watch_at = None;
        let left = self.deadline.saturating_duration_since(now);
        match self.d.shared.store.jobs.watch(&self.job.id, left).await {
            Ok(()) => self.watched = true,
            Err(error) => {
                tracing::debug!(job.id = %self.job.id, %error, "a deadline is watched later");
                self.watch_at = Some(now + WATCH_AFTER * 10);
            }
        }
    }

    async fn overdue(&mut self) -> Option<Ended> {
        if let Some(i) = self.tries.iter().position(|live| self.was_kept(live)) {
            return self.answered(i, no_text()).await;
        }
        Some(Ended::Failed(Refusal::new(Code::JobTimeout, "the job's deadline passed")))
    }

    /// An older agent that keeps the speech for a later part of the turn says nothing about it.
    fn was_kept(&self, live: &Try) -> bool {
        live.acked && !live.supports.any() && self.spec.turn.is_some()
    }

    async fn rejected(&mut self, i: usize, reason: Reject) -> Option<Option<Ended>> {
        let node = Arc::clone(&self.tries[i].slot.node);
        // It was not begun: the dispatch does not count, and the next node is tried at once.
        self.dispatches = self.dispatches.saturating_sub(1);
        self.rejected += 1;
        let refusal = match &reason {
            Reject::Busy => {
                self.busy.push(node.id.clone());
                Refusal::new(Code::AllNodesBusy, "the node has no slot free by its own count")
            }
            Reject::MissingModel(model) => {
                self.d.note_gap(&node, self.spec.need.route, model.as_deref());
                Refusal::new(Code::ModelNotAvailable, "the node misses a model")
            }
            Reject::Other(text) => {
                let text: String = text.chars().take(200).collect();
                Refusal::new(Code::NodeUnavailable, format!("the node refused the job: {text}"))
            }
        };
        self.failed(i, Failed { refusal, blame: false, freed: true }).await
    }

    async fn node_failed(
        &mut self,
        i: usize,
        code: String,
        message: String,
        missing_model: Option<String>,
    ) -> Option<Option<Ended>> {
        let node = Arc::clone(&self.tries[i].slot.node);
        if self.tries[i].supports.result_ack {
            // What became of the job is not the node's concern: it need not say this again.
            let job = self.d.shared.secret.masked(self.job.id);
            node.tell(ToNode::ResultAck { job, attempt: self.tries[i].attempt() });
        }
        let message: String = message.chars().take(512).collect();
        let known = Code::parse(&code).filter(|code| code.retry() == Retry::OtherNode);
        if known == Some(Code::ModelNotAvailable) {
            self.d.note_gap(&node, self.spec.need.route, missing_model.as_deref());
        }
        let blame = is_fault(&code);
        let mut refusal = Refusal::new(known.unwrap_or(Code::ProcessingError), message);
        if known.is_none() && is_code(&code) {
            refusal.node_code = Some(code);
        }
        self.failed(i, Failed { refusal, blame, freed: true }).await
    }

    /// An attempt is over without an answer: try elsewhere, wait for the other copy, or end.
    async fn failed(&mut self, i: usize, failed: Failed) -> Option<Option<Ended>> {
        let mut live = self.tries.swap_remove(i);
        let Failed { refusal, blame, freed } = failed;
        live.traced_to(refusal.code_text());
        let node = Arc::clone(&live.slot.node);
        tracing::debug!(
            job.id = %self.job.id, node.id = %node.id, attempt = live.attempt(),
            reason = refusal.code_text(), "an attempt failed"
        );
        let number = live.attempt();
        let now_ms = self.d.shared.clock.now().as_millis();
        self.job.change(|view| ended_attempt(view, number, now_ms, refusal.code_text()));
        if blame {
            let wasted = u32::try_from(millis(live.sent_at.elapsed())).unwrap_or(u32::MAX);
            self.d.shared.fleet.took(&node.id, wasted);
            let mut inner = node.lock();
            if inner.failure(Instant::now()) {
                inner.todo.beat = true;
                tracing::warn!(node.id = %node.id, "the node failed too often and is left alone");
            }
            drop(inner);
            self.d.nodes.refresh(&node);
            self.d.nodes.sync(&node);
        }
        if self.busy.contains(&node.id) {
            live.slot.release_to_rest().await;
        } else {
            if !self.excluded.contains(&node.id) {
                self.excluded.push(node.id.clone());
            }
            self.let_go(live, freed, "given_up").await;
        }
        if !self.tries.is_empty() {
            return None;
        }
        let code = refusal.code;
        self.failure = Some(refusal);
        self.again(code).await.err()
    }

    /// Whether and how the job goes on after a failed attempt.
    async fn again(&mut self, code: Code) -> Result<(), Option<Ended>> {
        let last = || Some(Ended::Failed(self.failure.clone().expect("an attempt failed")));
        let refused = self.rejected > 0 && self.dispatches == 0;
        if !self.may_dispatch_again() || self.rejected > MAX_REJECTED {
            return Err(last());
        }
        // A job that no node began costs nothing to try again.
        let free = refused || matches!(code, Code::AllNodesBusy | Code::ModelNotAvailable);
        if !free && !self.d.budget.lock().try_retry(self.d.shared.clock.now()) {
            self.d.shared.metrics.retries_refused.inc();
            return Err(last());
        }
        self.d.shared.metrics.retry(code.as_str());
        self.job.change(|view| Job::step(view, JobStep::Retry));
        self.place(true).await
    }

    /// Lets an attempt go. A node that may still work on it and cannot be told to stop keeps its
    /// slot until the lease lapses, so that it never gets more than it can do.
    async fn let_go(&self, live: Try, freed: bool, reason: &'static str) {
        if freed {
            live.slot.release().await;
            return;
        }
        let job = self.d.shared.secret.masked(self.job.id);
        let cancel = ToNode::Cancel { job, attempt: live.attempt(), reason };
        let told = live.slot.node.tell(cancel);
        // The instance of a node elsewhere gives the slot back once it has told the node.
        let here = live.slot.node.lock().elsewhere.is_none();
        if told && here && live.supports.cancel {
            live.slot.release().await;
        } else {
            live.slot.leave();
        }
    }

    /// An attempt brought the ending. `None`: all is done.
    async fn answered(&mut self, i: usize, ended: Ended) -> Option<Ended> {
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
        let result_ack = live.supports.result_ack;
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
    async fn end(&mut self, ended: Ended) {
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
        self.d.registry.ended(self.job.id, size, Instant::now());
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
    pub fn let_be(&mut self) {
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

    /// How long a step may take that wants `own_ms`; `None` when the deadline is there.
    pub fn step(&self, own_ms: u64) -> Option<Duration> {
        let now = Moment::from_millis(millis(self.began.elapsed()));
        let deadline = Moment::from_millis(millis(self.deadline - self.began));
        step_timeout(now, deadline, Duration::from_millis(own_ms))
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
            self.d.registry.ended(self.job.id, 0, Instant::now());
        }
    }
}

/// Whether the store let this actor end the job.
enum Accepted {
    Yes,
    No,
}

fn no_text() -> Ended {
    Ended::Empty { body: None, reason: NO_TEXT.into() }
}

fn gone() -> Failed {
    let refusal = Refusal::new(Code::NodeUnavailable, "the node's connection was lost");
    Failed { refusal, blame: true, freed: false }
}

fn ended_attempt(view: &mut View, number: u32, now_ms: u64, outcome: &str) {
    if let Some(attempt) = view.attempts.iter_mut().find(|attempt| attempt.number == number) {
        attempt.ended_ms = Some(now_ms);
        attempt.outcome = Some(outcome.to_owned());
    }
}
