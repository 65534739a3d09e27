//! From an utterance to its jobs, one for each target.

use std::sync::Arc;

use lingua_core::TurnId;
use lingua_core::eligibility::{Need, Route};
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::session::{CutReason, Ending, Event, Lane, ResultKey, Utterance};
use lingua_core::time::millis;
use tokio::time::Instant;

use super::actor::Actor;
use super::commands::SessionObserver;
use super::open_job::OpenJob;
use super::options::SpeechOptions;
use super::outbound::Step;
use crate::job::{JobInput, JobSpec, Observer};
use crate::trace::{Context, Kind, Live};

impl Actor {
    /// Makes a job of each direction of an utterance.
    pub(super) fn dispatch(&mut self, utterance: &Utterance) {
        self.service.shared.metrics.utterance(match utterance.cut_reason() {
            CutReason::Manual => "final",
            CutReason::Pause => "pause",
            CutReason::MaxDuration => "max_duration",
            CutReason::MaxBytes => "max_bytes",
            CutReason::LanguageChange => "language_change",
            CutReason::Close => "close",
        });
        self.handle.count_utterance();
        let (options, trace_id, caller) = match &mut self.whole {
            Some(whole) if utterance.is_whole() && utterance.client_index == whole.client_index => {
                (Arc::clone(&whole.options), whole.trace_id.take(), whole.traceparent)
            }
            _ => (Arc::clone(&self.options), None, None),
        };
        // Another one for each utterance: a node must not see by it who spoke before.
        let trace_id: Arc<str> = trace_id
            .unwrap_or_else(|| format!("{:032x}", self.service.shared.chance.nonce()))
            .into();
        let traced = self.traced(utterance, caller, &trace_id);
        for (lane, route) in utterance.routes.iter() {
            let mut spec = self.job_spec(utterance, lane, route, &options, &trace_id);
            spec.trace = traced.as_ref().map(|live| live.context()).or(caller);
            let (key, id) = (ResultKey { index: utterance.index, lane }, spec.id);
            tracing::debug!(
                session.id = %self.handle.key.session(), trace_id = &*trace_id, job.id = %id,
                index = utterance.index, reason = ?utterance.cut_reason(), "an utterance was cut"
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
                partials: options.job.enable_streaming_asr.is_on(),
                placed: false,
                accepted: false,
                over: false,
                partial_told: false,
                failure: None,
            });
            self.step(key, Step::InputEnded);
        }
        self.submit_held();
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

    /// Submits every job that waits for no other: each at once, but for the parts of one turn, which
    /// go one after the other so that each finds the node of the one before.
    pub(super) fn submit_held(&mut self) {
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

    fn job_spec(
        &self,
        utterance: &Utterance,
        lane: Lane,
        route: Route,
        options: &SpeechOptions,
        trace_id: &str,
    ) -> JobSpec {
        let session = &self.handle.key;
        let key = JobKey {
            session,
            origin: Origin::Utterance { epoch: utterance.epoch, index: utterance.index },
            job_type: "speech",
            route,
            features: match (options.speech, options.typed) {
                (true, false) => &["tts"],
                (false, false) => &[],
                (true, true) => &["tts", "text"],
                (false, true) => &["text"],
            },
        };
        let reason = utterance.cut_reason();
        let alone = utterance.part_index == 0 && reason.ends_turn();
        let work = JobInput {
            options: options.of(&route),
            utterance_index: utterance.index,
            audio: utterance.speech.audio(),
            speech_ms: millis(utterance.speech.duration()),
            typed: options.typed,
            audio_format: options.audio_format.to_owned(),
            sample_rate: options.sample_rate,
            trace_id: trace_id.to_owned(),
            group_id: Some(utterance.turn.to_string()),
            part_index: Some(utterance.part_index.into()),
            context_text: self.context.before(route),
            padding_ms: Some(reason.padding_ms().into()),
            manual_cut: reason == CutReason::Manual,
            timeout_cut: reason.ends_turn_by_itself(),
            max_duration_cut: reason == CutReason::MaxDuration,
        };
        JobSpec {
            id: key.job_id(),
            session: session.clone(),
            epoch: Some(utterance.epoch),
            need: Need {
                typed: options.typed,
                asks: self.service.shared.settings.asks_of(options.asks.clone(), session.tenant()),
                ..Need::of(route, options.speech, session.tenant().clone())
            },
            fallbacks: options.fallbacks,
            profile: self.service.shared.settings.profile_of(options.profile, session.tenant()),
            preferred: options.asked.preferred.clone(),
            region: options.asked.region.clone(),
            strict: options.asked.strict,
            turn: (!alone).then(|| lane_turn(&utterance.turn, lane)),
            past: None,
            work: Arc::new(work),
            deadline_in: self.service.now().until(utterance.deadline),
            trace: None,
            observer: Some(Observer::new(SessionObserver {
                key: ResultKey { index: utterance.index, lane },
                commands: self.commands.clone(),
            })),
        }
    }
}

/// The turn of one target. Each has its own: the parts of a turn go to one node, and an existing agent
/// refuses a second job of the same turn and utterance.
fn lane_turn(turn: &TurnId, lane: Lane) -> TurnId {
    match lane {
        Lane(0) => turn.clone(),
        Lane(at) => TurnId::new(format!("{turn}.{at}")).expect("26 letters, a dot and a number"),
    }
}
