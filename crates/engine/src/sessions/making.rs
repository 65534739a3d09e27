//! From an utterance to its job, and from the job's end to the client.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use lingua_core::eligibility::{Need, Route};
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::session::{
    CutReason, Delivery, Effect, Ending, Event, Lane, Refusal as Dropped, ResultKey, Session,
    Utterance,
};
use lingua_core::time::millis;
use lingua_core::{JobId, Moment, TurnId};
use serde::Deserialize;
use std::borrow::Cow;
use tokio::time::Instant;

use super::actor::Actor;
use super::mail::Observer;
use super::saving::SavedJob;
use super::telling::{refused, word};
use super::words::{About, Action, Detail, Manner, Step, ToClient};
use crate::dispatch::Job;
use crate::job::{Ended, JobSpec, Refusal, Work};
use crate::trace::{Context, Kind, Live};

/// What a node answered, with what the client is told along with it. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    job: JobId,
    trace_id: Arc<str>,
    body: Bytes,
}

impl Answer {
    /// The ending that it was made of.
    pub fn ended(&self) -> (JobId, Ended) {
        (self.job, Ended::Done(self.body.clone()))
    }
}

/// A job whose ending is not told.
pub(super) struct OpenJob {
    pub key: ResultKey,
    /// The utterance's number, as the client counts.
    pub utterance_index: u64,
    pub id: JobId,
    /// `None` if it could not even be handed in.
    job: Option<Arc<Job>>,
    trace_id: Arc<str>,
    /// The span of its utterance, which ends with the last of its jobs.
    traced: Option<Arc<Live>>,
    pub cut_at: Instant,
    /// `None` of an earlier life's.
    route: Option<Route>,
    turn: Option<TurnId>,
    part_index: u32,
    /// Not handed in yet: the part before it has no node yet, and this one is to follow it.
    held: Option<Box<JobSpec>>,
    deadline: Moment,
    /// Some node was found for it.
    pub placed: bool,
    pub accepted: bool,
    pub over: bool,
    partial_told: bool,
    pub failure: Option<Refusal>,
}

impl OpenJob {
    pub fn answer(&self, body: Bytes) -> Answer {
        Answer { job: self.id, trace_id: Arc::clone(&self.trace_id), body }
    }

    pub fn about(&self) -> About<'_> {
        About {
            utterance_index: self.utterance_index,
            job: Some(self.id),
            trace_id: &self.trace_id,
        }
    }

    pub fn cancel(&self, reason: &'static str) {
        if let Some(job) = self.job.as_ref().filter(|_| !self.over) {
            job.cancel(reason);
        }
    }

    /// A job of an earlier life of the session, which nodes may still work on.
    pub fn inherited(saved: SavedJob, machine: &Session<Answer>) -> Self {
        let key = ResultKey { index: saved.index, lane: Lane(saved.lane) };
        OpenJob {
            key,
            utterance_index: machine.client_index_of(key.index).unwrap_or(key.index),
            id: saved.id,
            job: None,
            trace_id: saved.trace.into(),
            traced: None,
            cut_at: Instant::now(),
            route: None,
            turn: None,
            part_index: 0,
            held: None,
            deadline: Moment::ZERO,
            placed: true,
            accepted: true,
            over: false,
            partial_told: false,
            failure: None,
        }
    }

    pub fn saved(&self) -> SavedJob {
        let (index, lane) = (self.key.index, self.key.lane.0);
        SavedJob { index, lane, id: self.id, trace: self.trace_id.to_string() }
    }

    /// Whether this part of a turn has to wait for `earlier`.
    fn follows(&self, earlier: &OpenJob) -> bool {
        earlier.turn == self.turn
            && earlier.key.lane == self.key.lane
            && earlier.part_index < self.part_index
            && !(earlier.placed || earlier.over)
    }
}

/// The last sentences of a conversation, which go along with each job: whichever node gets it then
/// knows what the talk is about.
pub(super) struct Sentences {
    last: VecDeque<(Route, String)>,
    most: usize,
    chars: usize,
}

impl Sentences {
    pub fn new(most: usize, chars: usize) -> Self {
        Sentences { last: VecDeque::new(), most, chars }
    }

    fn note(&mut self, route: Route, text: &str) {
        let text = text.trim();
        if text.is_empty() || self.most == 0 {
            return;
        }
        if self.last.len() == self.most {
            self.last.pop_front();
        }
        // The end of a long one says more about what follows than its beginning.
        let skip = text.chars().count().saturating_sub(self.chars);
        self.last.push_back((route, text.chars().skip(skip).collect()));
    }

    /// What was said in the language that is spoken now; the newest that fit.
    fn before(&self, route: Route) -> Option<String> {
        let mut left = self.chars;
        let mut said: Vec<&str> = Vec::new();
        for (_, text) in self.last.iter().rev().filter(|(past, _)| same_source(*past, route)) {
            let chars = text.chars().count();
            if chars > left {
                break;
            }
            left -= chars;
            said.push(text);
        }
        said.reverse();
        (!said.is_empty()).then(|| said.join(" "))
    }
}

/// Whether two routes are spoken in the same language; of one that leaves it open nobody knows.
fn same_source(a: Route, b: Route) -> bool {
    match (a, b) {
        (Route::Directed(a, _), Route::Directed(b, _)) => a == b,
        (a, b) => a == b,
    }
}

/// What of a node's answer goes along with the next job.
#[derive(Deserialize)]
struct Texts<'a> {
    #[serde(borrow, default)]
    text_asr: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text_translated: Option<Cow<'a, str>>,
}

impl Actor {
    /// Does what the machine wants.
    pub(super) fn perform(&mut self, effect: Effect<Answer>) {
        let metrics = &self.service.shared.metrics;
        match effect {
            Effect::Dispatch(utterance) => self.dispatch(&utterance),
            Effect::Finalized { index } => {
                self.tell(ToClient::Finalized { utterance_index: index });
            }
            Effect::RepeatedUtterance { client_index, index } => {
                metrics.session_ignored("repeated_utterance");
                self.repeated(client_index, index);
            }
            Effect::UtteranceRefused { client_index, reason } => {
                let refusal = refused(reason);
                let details = [
                    ("utterance_index", Detail::Number(client_index)),
                    ("reason", Detail::Word(word(reason))),
                ];
                self.refuse(&refusal, &details);
            }
            Effect::AudioDropped { first_seq, last_seq, bytes, reason } => {
                metrics.audio_dropped(word(reason), bytes);
                let details = [
                    ("first_seq", Detail::Number(first_seq.into())),
                    ("last_seq", Detail::Number(last_seq.into())),
                    ("bytes", Detail::Number(bytes as u64)),
                    ("reason", Detail::Word(word(reason))),
                ];
                self.refuse(&refused(reason), &details);
            }
            Effect::AudioGap { from, to } => {
                metrics.audio_gaps.inc();
                tracing::debug!(session.id = %self.handle.key.session(), from, to, "pieces of speech never came");
            }
            Effect::AudioAck { seq } => self.acknowledge(seq),
            Effect::Backpressure { reason } => {
                self.tell(ToClient::Backpressure {
                    action: if reason == Dropped::Draining { Action::Busy } else { Action::Pause },
                    resume_after_ms: Some(500),
                    message: &refused(reason).detail,
                });
            }
            Effect::Deliver(delivery) => self.deliver(delivery),
            Effect::Partial { key, payload, .. } => self.partial(key, &payload),
            Effect::CancelJob { key, why } => {
                if let Some(open) = self.open_job(key) {
                    open.cancel(why.as_str());
                    open.held = None;
                    open.over = true;
                }
                self.hand_in_held();
            }
            Effect::SetTimer { timer, generation, at } => self.set_timer(timer, generation, at),
            Effect::Resumed { next_index, forgotten, .. } => self.resumed(next_index, forgotten),
            Effect::Ignored(ignored) => self.ignored(ignored),
            // The job holds the speech itself, and it is what the machine held.
            Effect::ReleaseAudio { .. } | Effect::Closed => {}
        }
    }

    /// Makes a job of each direction of an utterance.
    fn dispatch(&mut self, utterance: &Utterance) {
        self.service.shared.metrics.utterance(match utterance.reason {
            CutReason::Manual => "final",
            CutReason::Pause => "pause",
            CutReason::MaxDuration => "max_duration",
            CutReason::MaxBytes => "max_bytes",
            CutReason::LanguageChange => "language_change",
            CutReason::Close => "close",
        });
        self.handle.count_utterance();
        let (manner, trace_id, caller) = match &mut self.whole {
            Some(whole) if utterance.client_index == Some(whole.client_index) => {
                (Arc::clone(&whole.manner), whole.trace_id.take(), whole.traceparent)
            }
            _ => (Arc::clone(&self.manner), None, None),
        };
        // Another one for each utterance: a node must not see by it who spoke before.
        let trace_id: Arc<str> = trace_id
            .unwrap_or_else(|| format!("{:032x}", self.service.shared.chance.nonce()))
            .into();
        let traced = self.traced(utterance, caller, &trace_id);
        for (lane, route) in utterance.routes.iter() {
            let mut spec = self.job(utterance, lane, route, &manner, &trace_id);
            spec.trace = traced.as_ref().map(|live| live.context()).or(caller);
            let (key, id) = (ResultKey { index: utterance.index, lane }, spec.id);
            tracing::debug!(
                session.id = %self.handle.key.session(), trace_id = &*trace_id, job.id = %id,
                index = utterance.index, reason = ?utterance.reason, "an utterance was cut"
            );
            self.open.push_back(OpenJob {
                key,
                utterance_index: utterance.client_index.unwrap_or(utterance.index),
                id,
                job: None,
                trace_id: Arc::clone(&trace_id),
                traced: traced.clone(),
                cut_at: Instant::now(),
                route: Some(route),
                turn: Some(utterance.turn.clone()),
                part_index: utterance.part_index,
                held: Some(Box::new(spec)),
                deadline: utterance.deadline,
                placed: false,
                accepted: false,
                over: false,
                partial_told: false,
                failure: None,
            });
            self.step(key, Step::InputEnded);
        }
        self.hand_in_held();
    }

    /// The span of an utterance: of its caller's trace, or of one of its own that leads to the
    /// session's.
    fn traced(
        &self,
        utterance: &Utterance,
        caller: Option<Context>,
        trace_id: &str,
    ) -> Option<Arc<Live>> {
        let tracer = self.service.shared.tracer.get()?;
        let traced = caller.map_or(self.trace.is_some(), |caller| caller.sampled);
        traced.then(|| {
            let mut live = tracer.begin("utterance", Kind::Server, caller);
            live.note("session.id", self.handle.key.session().as_str());
            live.note("instance.id", self.service.shared.instance.id.as_str());
            live.note("utterance_index", utterance.index);
            live.note("trace_id", trace_id);
            if let Some(session) = &self.trace {
                live.link(session.context());
            }
            Arc::new(live)
        })
    }

    /// Hands in every job that waits for nobody: each at once, but for the parts of one turn, which
    /// go one after the other so that each finds the node of the one before.
    pub(super) fn hand_in_held(&mut self) {
        for at in 0..self.open.len() {
            let open = &self.open[at];
            if open.held.is_none() || self.open.iter().take(at).any(|earlier| open.follows(earlier))
            {
                continue;
            }
            let open = &mut self.open[at];
            let Some(mut spec) = open.held.take() else { continue };
            spec.deadline_in = self.service.now().until(open.deadline);
            match self.service.jobs.submit(*spec) {
                Ok(job) => open.job = Some(job),
                Err(refusal) => {
                    let ending = Ending::Missing(refusal.code.missing_reason());
                    open.failure = Some(refusal);
                    open.over = true;
                    self.next.push_back(Event::Ended { key: open.key, attempt: None, ending });
                }
            }
        }
    }

    fn job(
        &self,
        utterance: &Utterance,
        lane: Lane,
        route: Route,
        manner: &Manner,
        trace_id: &str,
    ) -> JobSpec {
        let session = &self.handle.key;
        let name = lane.0.to_string();
        let features: &[&str] = if manner.speech { &[&name, "tts"] } else { &[&name] };
        let key = JobKey {
            session,
            origin: Origin::Utterance { epoch: utterance.epoch, index: utterance.index },
            job_type: "speech",
            route,
            features,
        };
        let alone = utterance.part_index == 0 && utterance.reason.ends_turn();
        let work = Work {
            utterance_index: utterance.index,
            src_lang: manner.src_lang.clone(),
            tgt_lang: manner.tgt_lang.clone(),
            dialect: manner.dialect.clone(),
            features: manner.features.clone(),
            pipeline: Some(Arc::clone(&manner.pipeline)),
            audio: utterance.audio.clone(),
            audio_format: manner.audio_format.to_owned(),
            sample_rate: manner.sample_rate,
            mode: manner.mode.clone(),
            lang_a: manner.lang_a.clone(),
            lang_b: manner.lang_b.clone(),
            auto_langs: manner.auto_langs.clone(),
            enable_streaming_asr: manner.enable_streaming_asr,
            partial_update_interval_ms: manner.partial_update_interval_ms,
            trace_id: trace_id.to_owned(),
            group_id: Some(utterance.turn.to_string()),
            part_index: Some(utterance.part_index.into()),
            context_text: self.sentences.before(route),
            padding_ms: Some(utterance.padding_ms().into()),
            manual_cut: utterance.reason == CutReason::Manual,
            timeout_cut: utterance.reason.ends_turn_by_itself(),
            max_duration_cut: utterance.reason == CutReason::MaxDuration,
        };
        JobSpec {
            id: key.job_id(),
            session: session.clone(),
            epoch: Some(utterance.epoch),
            need: Need::of(route, manner.speech, session.tenant().clone()),
            text_will_do: !manner.insists_on_speech,
            preferred: None,
            strict: false,
            turn: (!alone).then(|| utterance.turn.clone()),
            past: None,
            work: Arc::new(work),
            deadline_in: self.service.now().until(utterance.deadline),
            trace: None,
            observer: Some(Observer {
                key: ResultKey { index: utterance.index, lane },
                letterbox: self.letterbox.clone(),
            }),
        }
    }

    /// The client sent an utterance again: it is told which job it has.
    fn repeated(&mut self, client_index: u64, index: u64) {
        let key = ResultKey { index, lane: Lane(0) };
        if self.open_job(key).is_some() {
            self.step(key, Step::InputEnded);
            return;
        }
        if !self.supports.events {
            return;
        }
        let about = About { utterance_index: client_index, job: None, trace_id: "" };
        self.tell(ToClient::Event { step: Step::InputEnded, about, elapsed_ms: None, error: None });
    }

    fn partial(&mut self, key: ResultKey, answer: &Answer) {
        let first =
            self.open_job(key).is_some_and(|open| !std::mem::replace(&mut open.partial_told, true));
        if first {
            self.step(key, Step::AsrPartial);
        }
        let (Some(line), Some(open)) = (&mut self.line, self.open.iter().find(|o| o.key == key))
        else {
            return;
        };
        line.tell(ToClient::Partial { about: open.about(), body: &answer.body });
    }

    fn deliver(&mut self, delivery: Delivery<Answer>) {
        let Delivery { key, client_index, turn, part_index, last_seq, ending, again } = delivery;
        let utterance_index = client_index.unwrap_or(key.index);
        let at = self.open.iter().position(|open| open.key == key);
        let mut open = at.and_then(|at| self.open.remove(at));
        let traced = open.as_mut().and_then(|open| open.traced.take());
        let metrics = &self.service.shared.metrics;
        match &ending {
            _ if again => metrics.told_again.inc(),
            Ending::Result(_) => metrics.ending("result"),
            Ending::Missing(reason) => metrics.ending(reason.as_str()),
        };
        if let Some(mut live) = traced.and_then(Arc::into_inner) {
            live.ends(match &ending {
                Ending::Result(_) => "ok",
                Ending::Missing(reason) => reason.as_str(),
            });
        }
        if let Some(open) = &open {
            metrics.ending_seconds.observe(open.cut_at.elapsed().as_secs_f64());
        }
        let audio_ack = self.acked_by_ending(key, last_seq);
        match ending {
            Ending::Result(answer) => {
                if let Some(open) = &open {
                    self.recognised(open, &answer.body);
                }
                let about =
                    About { utterance_index, job: Some(answer.job), trace_id: &answer.trace_id };
                let (turn, body) = (turn.as_str(), &answer.body);
                self.tell(ToClient::Result { about, turn, part_index, body, audio_ack });
                let bounds = self.service.shared.settings.sessions;
                self.machine.forget_endings_beyond(bounds.kept_bytes, |kept| kept.body.len());
            }
            Ending::Missing(reason) => {
                if let Some(open) = &open {
                    self.failed(open, reason);
                }
                let trace_id = open.as_ref().map(|open| &*open.trace_id);
                self.tell(ToClient::Missing { utterance_index, reason, trace_id, audio_ack });
            }
        }
    }

    /// What an ending acknowledges by itself, whether or not the store knows it yet. The two must not
    /// come apart: a client that saw the ending and sent the speech again would hear it twice.
    fn acked_by_ending(&mut self, key: ResultKey, last_seq: Option<u32>) -> Option<u32> {
        let others = self.open.iter().any(|other| other.key.index == key.index);
        let last = last_seq.filter(|_| self.supports.audio_ack && !others)?;
        self.acked_to(last);
        Some(last)
    }

    /// Remembers what was said, and tells of the last steps.
    fn recognised(&mut self, open: &OpenJob, body: &[u8]) {
        let texts: Option<Texts<'_>> = serde_json::from_slice(body).ok();
        let Some(Texts { text_asr, text_translated }) = texts else { return };
        let elapsed_ms = Some(millis(open.cut_at.elapsed()));
        let has = |text: &Option<Cow<'_, str>>| text.as_ref().is_some_and(|text| !text.is_empty());
        let steps = [(Step::AsrFinal, has(&text_asr)), (Step::NmtDone, has(&text_translated))];
        let events = self.supports.events;
        for (step, _) in steps.into_iter().filter(|(_, done)| *done && events) {
            self.tell(ToClient::Event { step, about: open.about(), elapsed_ms, error: None });
        }
        if let (Some(text), Some(route)) = (text_asr, open.route) {
            self.sentences.note(route, &text);
        }
    }
}
