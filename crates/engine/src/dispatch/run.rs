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
use lingua_core::outcome::Code;
use lingua_core::slots::Commit;
use lingua_core::time::millis;
use lingua_core::{Moment, NodeId};
use lingua_store::jobs::Assignment;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::failing::{Failed, dropped, gone};
use super::registry::Job;
use super::slot::Slot;
use super::traced::{Traced, TracedTry};
use super::{Dispatcher, JobEvent};
use crate::job::{Ended, JobSpec, NodeResult, Refusal};
use crate::nodes::{Fault, SentOver};
use crate::sessions::mail::JobNews;

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
    pub watched: bool,
    pub over: bool,
}

/// One attempt.
pub(super) struct Try {
    pub slot: Slot,
    pub over: SentOver,
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
    pub fn attempt(&self) -> u32 {
        self.slot.token.attempt
    }

    /// Its spans end.
    pub fn traced_to(&mut self, reason: &str) {
        if let Some(traced) = self.traced.take() {
            traced.ended(reason);
        }
    }

    pub fn assignment(&self) -> Assignment {
        Assignment { node: self.slot.node.id.clone(), token: self.slot.token }
    }
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
                self.failed(i, gone(self.tries[i].over)).await
            }
            JobEvent::Dropped { .. } => self.failed(i, dropped(&self.tries[i])).await,
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
                self.failed(i, Failed { refusal, blame: None, freed: false }).await
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
            gone(live.over)
        } else if live.acked {
            if self.was_kept(live) {
                return Some(self.answered(i, no_text()).await);
            }
            let refusal = Refusal::new(Code::JobTimeout, "the node took too long");
            Failed { refusal, blame: Some(Fault::Job), freed: false }
        } else {
            self.d.shared.metrics.ack_timeouts.inc();
            let refusal = Refusal::new(Code::AckTimeout, "the node did not accept the job in time");
            Failed { refusal, blame: Some(Fault::Job), freed: false }
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
        live.acked && !live.over.supports.any() && self.spec.turn.is_some()
    }

    /// How long a step may take that wants `own_ms`; `None` when the deadline is there.
    pub fn step(&self, own_ms: u64) -> Option<Duration> {
        let now = Moment::from_millis(millis(self.began.elapsed()));
        let deadline = Moment::from_millis(millis(self.deadline - self.began));
        step_timeout(now, deadline, Duration::from_millis(own_ms))
    }
}

fn no_text() -> Ended {
    Ended::Empty { body: None, reason: NO_TEXT.into() }
}
