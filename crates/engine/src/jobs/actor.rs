//! The task of one job: it performs the effects of the job's machine and feeds it events.
//!
//! Effects are performed one after the other. Answers are fed first; then the task waits for messages, for a
//! wakeup from the queue, and for the machine's timer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::fleet::{AnswerForm, Fallbacks, Way, original, per_second_of_speech};
use lingua_core::job::event::{self, Among, BudgetAnswer, ChooseFrom, Fault, Pace, QueueAnswer};
use lingua_core::job::{Effect, Effects, Event, Leg, Machine, Request};
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use lingua_core::{Lang, Moment};
use lingua_store::jobs::Ending;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use super::attempts::Attempts;
use super::choosing::{Choosing, oldest_mark};
use super::queue::{Ticket, Wakeup};
use super::registry::{Got, Job};
use super::relay::{Relay, Wanted};
use super::reporting::{Reporter, Summary};
use super::slot::{AttemptFailure, Terms};
use super::spans::JobSpans;
use super::{Dispatcher, lack};
use crate::fleet::Placement;
use crate::job::{Ended, JobEvent, JobSpec};
use crate::job_log::AttemptOutcome;
use crate::nodes::LinkCommand;

/// The timer of a job that waits only for answers.
const FAR: Duration = Duration::from_secs(86_400);

/// The task of one job.
pub(super) struct JobActor {
    dispatcher: Arc<Dispatcher>,
    spec: JobSpec,
    machine: Machine,
    reporter: Reporter,
    receiver: mpsc::Receiver<JobEvent>,
    /// The sender of `receiver`, for the listeners of its attempts.
    events: mpsc::Sender<JobEvent>,
    /// Answers for the machine.
    answers: VecDeque<Event>,
    /// The zero of the machine's time.
    began: Instant,
    choosing: Choosing,
    /// The slot that is to be reserved next.
    chosen: Option<Placement>,
    attempts: Attempts,
    /// Its place in the queue, while it waits.
    ticket: Option<Ticket>,
    spans: JobSpans,
    /// The legs, of a job by way of another language.
    relay: Option<Box<Relay>>,
}

impl JobActor {
    pub fn new(
        dispatcher: Arc<Dispatcher>,
        job: Arc<Job>,
        mut spec: JobSpec,
        (events, receiver): (mpsc::Sender<JobEvent>, mpsc::Receiver<JobEvent>),
    ) -> Self {
        let request = Request {
            deadline: Moment::ZERO + spec.deadline_in,
            preferred: spec.preferred.clone(),
            strict: spec.strict,
            in_turn: spec.turn.is_some(),
            in_session: spec.epoch.is_some(),
            speech: spec.need.speech,
            fallbacks: fallbacks(&dispatcher, &spec),
        };
        let spans = JobSpans::begin(&dispatcher.shared, &spec);
        let policy = Arc::clone(dispatcher.policy(spec.profile));
        let attempts = Attempts::new(Arc::clone(&dispatcher), spec.id);
        JobActor {
            reporter: Reporter::new(Arc::clone(&dispatcher), job, spec.observer.take()),
            machine: Machine::new(policy, request, Moment::ZERO),
            dispatcher,
            spec,
            receiver,
            events,
            answers: VecDeque::new(),
            began: Instant::now(),
            choosing: Choosing::default(),
            chosen: None,
            attempts,
            ticket: None,
            spans,
            relay: None,
        }
    }

    /// Runs from the submission to the ending.
    pub async fn run(mut self) {
        let timer = tokio::time::sleep_until(self.deadline());
        tokio::pin!(timer);
        let mut effects = Effects::new();
        let mut event = Event::Submitted;
        loop {
            self.machine.on_event(self.now(), event, &mut effects);
            for effect in effects.drain(..) {
                if let Some(answer) = self.perform(effect).await {
                    self.answers.push_back(answer);
                }
            }
            if self.machine.is_over() {
                break;
            }
            event = self.next_event(timer.as_mut()).await;
        }
        if self.machine.is_watched() {
            // After the answer: the caller need not wait for it.
            let _ = self.dispatcher.shared.store.deadlines.unwatch(&self.spec.id).await;
        }
    }

    fn now(&self) -> Moment {
        Moment::from_millis(millis(self.began.elapsed()))
    }

    fn deadline(&self) -> Instant {
        self.began + self.spec.deadline_in
    }

    fn deadline_in(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    async fn next_event(&mut self, mut timer: Pin<&mut Sleep>) -> Event {
        if let Some(answer) = self.answers.pop_front() {
            return answer;
        }
        if let Ok(message) = self.receiver.try_recv() {
            return Event::Message(message);
        }
        if let Some(news) = self.relay.as_mut().and_then(|relay| relay.try_next()) {
            return news;
        }
        if self.machine.awaits_idle() {
            return Event::Idle;
        }
        let due = self.machine.timer().map_or(FAR, |at| at.since(Moment::ZERO));
        let due = self.began + due;
        // A timer that fires early is set again, so it need not be moved to a later time.
        if due < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(due);
        }
        let wakeup = async {
            match &mut self.ticket {
                Some(ticket) => (&mut ticket.wakeup).await,
                None => std::future::pending().await,
            }
        };
        let leg = async {
            match &mut self.relay {
                Some(relay) => relay.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            wakeup = wakeup => {
                self.ticket = None;
                self.spans.waited();
                Event::Called(match wakeup {
                    Ok(Wakeup::Slot(slot)) => {
                        let node = slot.candidate().node.clone();
                        self.chosen = Some(slot);
                        event::Wakeup::Slot(node)
                    }
                    Ok(Wakeup::Leave) => event::Wakeup::Leave,
                    Ok(Wakeup::Look) | Err(_) => event::Wakeup::Look,
                })
            }
            message = self.receiver.recv() => match message {
                Some(message) => Event::Message(message),
                None => unreachable!("the actor itself holds a sender"),
            },
            news = leg => news,
            () = timer.as_mut() => Event::Timer,
        }
    }

    /// Performs an effect. Returns the answer of one that asks a question.
    async fn perform(&mut self, effect: Effect) -> Option<Event> {
        let answer = match effect {
            Effect::Choose { from, among } => self.choose(from, among).await,
            Effect::FindOldestMark => {
                Event::OldestMark(oldest_mark(&self.dispatcher, &self.spec, &self.machine))
            }
            Effect::FindAnotherWay(ways) => Event::AnotherWay(self.another_way(ways)),
            Effect::BeginLeg { leg, via, speech } => self.begin_leg(leg, via, speech),
            Effect::DescribeLack(lack) => {
                Event::LackDescribed(lack::describe(&self.dispatcher, &self.spec, lack))
            }
            Effect::Reserve { attempt, with_record } => {
                let placement = self.chosen.take().expect("a node was chosen");
                let span = self.spans.asks(&placement.candidate().node);
                let left = with_record.then(|| self.deadline_in());
                self.attempts.reserve(&self.spec, attempt, placement, left, span).await
            }
            Effect::WriteAssignment { attempt } => self.attempts.write_assignment(attempt).await,
            Effect::WriteRecord { attempt } => {
                let left = self.deadline_in();
                self.attempts.write_record(&self.spec, attempt, left).await
            }
            Effect::Send { attempt } => self.send(attempt),
            Effect::Commit { attempt } => self.attempts.commit(attempt).await,
            Effect::FinishByAnswer { attempt, by_owner } => {
                let watched = self.machine.is_watched();
                self.attempts.finish_by_answer(attempt, by_owner, watched).await
            }
            Effect::Finish { state, code } => {
                let watched = self.machine.is_watched();
                self.attempts.finish(Ending { state, code }, watched).await
            }
            Effect::JoinQueue => self.join_queue(),
            Effect::AskRetryBudget => {
                let now = self.dispatcher.shared.clock.now();
                let allowed = self.dispatcher.budget.lock().try_retry(now);
                Event::RetryBudget(if allowed {
                    BudgetAnswer::Allowed
                } else {
                    BudgetAnswer::Spent
                })
            }
            Effect::Watch => {
                let (store, left) = (&self.dispatcher.shared.store, self.deadline_in());
                Event::Watched(store.deadlines.watch(&self.spec.id, left).await.is_ok())
            }
            other => {
                self.act(other).await;
                return None;
            }
        };
        Some(answer)
    }

    async fn choose(&mut self, from: ChooseFrom, among: Among) -> Event {
        if from == ChooseFrom::Start {
            self.spans.searches();
        }
        // A cancel need not wait until a node was found.
        while let Ok(message) = self.receiver.try_recv() {
            self.answers.push_back(Event::Message(message));
        }
        let (dispatcher, spec, machine) = (&self.dispatcher, &self.spec, &self.machine);
        let (event, placement) = self.choosing.next(dispatcher, spec, machine, (from, among)).await;
        self.chosen = placement;
        event
    }

    fn another_way(&self, ways: Fallbacks) -> Option<Way> {
        let (shared, need) = (&self.dispatcher.shared, &self.spec.need);
        let way =
            shared.fleet.lock().another_way(need, ways, shared.settings.pivot.of(&need.tenant));
        if way.is_some() {
            // The demand for what was asked for is noted, for owners of nodes.
            lack::note_demand(&self.dispatcher, need);
        }
        way
    }

    fn begin_leg(&mut self, leg: Leg, via: Lang, speech: bool) -> Event {
        let wanted = Wanted { leg, via, speech, left: self.deadline_in() };
        let relay = self.relay.get_or_insert_with(|| Box::new(Relay::new()));
        let refused = match relay.begin(&self.dispatcher, &self.spec, &wanted) {
            Ok(job) => {
                if leg == Leg::First {
                    self.dispatcher.shared.metrics.jobs.pivots.inc();
                }
                let form = AnswerForm::of(speech);
                self.reporter.leg_begun(&job, Got { form, via: Some(via) });
                None
            }
            Err(refusal) => Some(refusal),
        };
        Event::LegBegun { leg, refused }
    }

    fn send(&mut self, attempt: u32) -> Event {
        let left = self.deadline_in();
        let slot = self.attempts.get(attempt);
        let placing = self.machine.placing(slot.port.supports().calls);
        let terms = Terms { left, placing, traceparent: self.spans.traceparent() };
        slot.send(&self.spec, terms, self.events.clone())
    }

    fn join_queue(&mut self) -> Event {
        let only = self.spec.preferred.clone().filter(|_| self.spec.strict);
        let excluded = self.machine.excluded().to_vec();
        let (need, deadline) = (&self.spec.need, self.deadline());
        self.ticket = self.dispatcher.queue.join(need, only, excluded, deadline);
        if self.ticket.is_none() {
            return Event::Queued(QueueAnswer::Full);
        }
        self.spans.waits();
        Event::Queued(QueueAnswer::Joined)
    }

    /// Performs an effect that asks nothing.
    async fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Release { attempt, pace: Pace::Now } => {
                self.attempts.take(attempt).release().await;
            }
            Effect::Release { attempt, pace: Pace::AfterRest } => {
                self.attempts.take(attempt).release_with_cooldown().await;
            }
            Effect::Abandon { attempt, reason } => self.attempts.take(attempt).abandon(reason),
            Effect::AcknowledgeResult { attempt } => {
                let command = LinkCommand::AcknowledgeResult { job: self.spec.id, attempt };
                self.attempts.get(attempt).port.post(command);
            }
            Effect::BindTurn { attempt } => self.attempts.bind_turn(&self.spec, attempt).await,
            Effect::LeaveQueue => self.ticket = None,
            Effect::ChargeShare => {
                self.dispatcher.queue.charge(&self.spec.need.tenant);
                // Where one job found a slot by choosing again there may be more.
                self.dispatcher.queue.look_again();
            }
            Effect::RefundShare => self.dispatcher.queue.refund(&self.spec.need.tenant),
            Effect::SwitchToText => {
                self.spec.need.speech = false;
                self.spec.work = Arc::new(self.spec.work.without_voice());
                self.reporter.form(AnswerForm::Captions);
            }
            Effect::SwitchToOriginal => {
                if let Some(need) = original(&self.spec.need) {
                    self.spec.need = need;
                }
                self.spec.work = Arc::new(self.spec.work.untranslated());
                self.reporter.form(AnswerForm::Original);
            }
            Effect::CancelLeg { reason, .. } => {
                if let Some(relay) = &self.relay {
                    relay.cancel(reason);
                }
            }
            Effect::NoteGap { attempt, model } => {
                let (port, route) = (&self.attempts.get(attempt).port, self.spec.need.route);
                self.dispatcher.note_gap(port, route, model.as_deref());
            }
            Effect::SearchEnded => self.spans.found_nobody(None),
            Effect::End(ended) => self.end(ended).await,
            Effect::Detach => {
                self.spans.is_remote();
                self.reporter.detach(self.attempts.known_record());
            }
            other => self.report(other).await,
        }
    }

    async fn end(&mut self, ended: Ended) {
        self.spans.found_nobody(Some(&ended));
        self.spans.ended(&ended);
        let (session, dispatches) = (&self.spec.session, self.machine.dispatches());
        let summary = Summary { session, direction: self.spec.need.route, dispatches };
        self.reporter.end(ended, summary).await;
    }

    /// Performs an effect that publishes or counts something.
    async fn report(&mut self, effect: Effect) {
        let (shared, state) = (&self.dispatcher.shared, self.machine.state());
        match effect {
            Effect::Selecting | Effect::Waiting => self.reporter.show(state),
            Effect::Waited(waited) => self.reporter.waited(state, waited),
            Effect::Note(note) => self.reporter.note(lack::note_text(note)),
            Effect::RetryRefused => drop(shared.metrics.jobs.retries_refused.inc()),
            Effect::Retrying(code) => {
                shared.metrics.retry(code.as_str());
                self.reporter.show(state);
            }
            Effect::Ignored => shared.metrics.stale("late"),
            Effect::Dispatched { attempt, source, hedge, first } => {
                let slot = self.attempts.get(attempt);
                slot.spans = self.spans.sent(slot, shared);
                let node = slot.port.id().clone();
                if self.spec.past.is_none() {
                    self.dispatcher.conversations.note(&self.spec.session, &node);
                }
                self.reporter.dispatched(state, attempt, node, (source, hedge, first)).await;
            }
            Effect::Accepted { attempt } => {
                if let Some(spans) = &mut self.attempts.get(attempt).spans {
                    spans.acked();
                }
                self.reporter.accepted(state, attempt).await;
            }
            Effect::LegPlaced { leg } => {
                if let Some(node) = self.relay.as_ref().and_then(|relay| relay.node()) {
                    self.reporter.leg_placed(state, leg, node).await;
                }
            }
            Effect::LegAccepted { leg } => self.reporter.leg_accepted(state, leg),
            Effect::LegOver { leg, outcome } => {
                let outcome = match outcome.as_str() {
                    "" => AttemptOutcome::Ok,
                    code => AttemptOutcome::Failed(code.into()),
                };
                self.reporter.attempt_over(leg.number(), outcome);
            }
            Effect::Partial { attempt, body } => self.reporter.partial(attempt, body),
            Effect::AttemptFailed { attempt, code, text, fault, wasted } => {
                if (code, fault) == (Code::AckTimeout, Fault::Attempt) {
                    shared.metrics.nodes.ack_timeouts.inc();
                }
                self.reporter.attempt_over(attempt, AttemptOutcome::Failed(text.as_str().into()));
                let slot = self.attempts.get(attempt);
                shared.count_failure(&self.spec, slot.port.id(), code);
                slot.end_spans(&text);
                let wasted = per_second_of_speech(wasted, self.spec.work.speech_ms);
                slot.failed(&AttemptFailure { code, text: &text, fault, wasted });
            }
            Effect::AttemptStopped { attempt, reason } => {
                self.attempts.get(attempt).end_spans(reason);
                self.reporter.attempt_over(attempt, AttemptOutcome::Failed(reason.into()));
            }
            Effect::AttemptAnswered { attempt, took } => {
                // Its lease and placement are released already.
                let slot = self.attempts.take(attempt);
                shared.count_answer(&self.spec, slot.port.id());
                if let Some(took) = took {
                    slot.record_latency(per_second_of_speech(took, self.spec.work.speech_ms));
                }
                self.reporter.attempt_over(attempt, AttemptOutcome::Ok);
            }
            _ => unreachable!("performed before"),
        }
    }
}

/// The other ways that are allowed for this job. A job with a preferred node does not pivot.
fn fallbacks(dispatcher: &Dispatcher, spec: &JobSpec) -> Fallbacks {
    let langs = dispatcher.shared.settings.pivot.of(&spec.need.tenant);
    let pivot = spec.fallbacks.pivot && spec.preferred.is_none() && !langs.is_empty();
    Fallbacks { pivot, ..spec.fallbacks }
}
