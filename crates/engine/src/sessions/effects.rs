//! What the session machine wants done, done.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::session::{Delivery, DropReason, Effect, Ending, ResultKey};
use lingua_core::time::millis;
use lingua_protocol::node::message::text;

use super::actor::Actor;
use super::notices::{drop_refusal, drop_word};
use super::open_job::{Answer, OpenJob};
use super::outbound::{About, Action, Detail, Direction, Step, ToClient};
use crate::job::NodeMessage;
use crate::metrics::Level;
use lingua_core::eligibility::Route;
use lingua_core::outcome::MissingReason;

/// What the session itself reads of a node's message.
struct NodeTexts<'a> {
    text_asr: Option<Cow<'a, str>>,
    text_translated: Option<Cow<'a, str>>,
    /// The language spoken, where the node was to find it out.
    src_lang: Option<Cow<'a, str>>,
}

impl<'a> NodeTexts<'a> {
    fn read(message: &'a NodeMessage) -> Self {
        NodeTexts {
            text_asr: text(message, "text_asr"),
            text_translated: text(message, "text_translated"),
            src_lang: text(message, "src_lang"),
        }
    }
}

impl Actor {
    /// Does what the machine wants.
    pub(super) fn perform(&mut self, effect: Effect<Answer>) {
        let metrics = &self.service.shared.metrics;
        match effect {
            Effect::Dispatch(utterance) => self.dispatch(&utterance),
            Effect::Finalized { index } => {
                self.send(ToClient::Finalized { utterance_index: index });
            }
            Effect::RepeatedUtterance { client_index, index } => {
                metrics.session_ignored("repeated_utterance");
                self.repeated(client_index, index);
            }
            Effect::UtteranceRefused { client_index, reason } => {
                let refusal = drop_refusal(reason);
                let reason = ("reason", Detail::Word(drop_word(reason)));
                match client_index.map(Detail::Number) {
                    Some(index) => self.refuse(&refusal, &[("utterance_index", index), reason]),
                    None => self.refuse(&refusal, &[reason]),
                }
            }
            Effect::AudioDropped { first_seq, last_seq, bytes, reason } => {
                metrics.audio_dropped(drop_word(reason), bytes);
                let details = [
                    ("first_seq", Detail::Number(first_seq.into())),
                    ("last_seq", Detail::Number(last_seq.into())),
                    ("bytes", Detail::Number(bytes as u64)),
                    ("reason", Detail::Word(drop_word(reason))),
                ];
                self.refuse(&drop_refusal(reason), &details);
            }
            Effect::AudioGap { from, to } => {
                metrics.sessions.audio_gaps.inc();
                tracing::debug!(session.id = %self.handle.key.session(), from, to, "pieces of speech never came");
            }
            Effect::AudioAck { seq } => self.acknowledge(seq),
            Effect::Backpressure { reason } => {
                self.send(ToClient::Backpressure {
                    action: if reason == DropReason::Draining {
                        Action::Busy
                    } else {
                        Action::Pause
                    },
                    resume_after_ms: Some(500),
                    message: &drop_refusal(reason).detail,
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
                self.submit_held();
            }
            Effect::SetTimer { timer, generation, at } => self.set_timer(timer, generation, at),
            Effect::Resumed { next_index, forgotten, .. } => self.resumed(next_index, &forgotten),
            Effect::Ignored(ignored) => self.ignored(ignored),
            // The job holds the speech itself, and it is what the machine held.
            Effect::ReleaseAudio { .. } | Effect::Closed => {}
        }
    }

    /// The client sent an utterance again: it is told which jobs it has.
    fn repeated(&mut self, client_index: u64, index: u64) {
        let open: Vec<ResultKey> =
            self.open.iter().map(|open| open.key).filter(|key| key.index == index).collect();
        for key in &open {
            self.step(*key, Step::InputEnded);
        }
        if !open.is_empty() || !self.supports.events {
            return;
        }
        let direction = Direction::Unknown;
        let about = About { utterance_index: client_index, job: None, trace_id: "", direction };
        self.send(ToClient::Event { step: Step::InputEnded, about, elapsed_ms: None, error: None });
    }

    fn partial(&mut self, key: ResultKey, answer: &Answer) {
        let first =
            self.open_job(key).is_some_and(|open| !std::mem::replace(&mut open.partial_told, true));
        if first {
            self.step(key, Step::AsrPartial);
        }
        let open = self.open.iter().find(|open| open.key == key);
        let (Some(connection), Some(open)) = (&mut self.connection, open) else { return };
        let direction = match Direction::of(open.route) {
            Direction::Auto => {
                let said = NodeTexts::read(&answer.body);
                Direction::found(open.route, said.src_lang.as_deref())
            }
            known => known,
        };
        let about = open.about_in(direction);
        connection.send(ToClient::Partial { about, body: &answer.body });
    }

    fn deliver(&mut self, delivery: Delivery<Answer>) {
        let Delivery { key, route, client_index, turn, part_index, audio_ack, ending, again } =
            delivery;
        let utterance_index = client_index.unwrap_or(key.index);
        let at = self.open.iter().position(|open| open.key == key);
        let mut open = at.and_then(|at| self.open.remove(at));
        self.count_ending(open.as_ref(), route, &ending, again);
        let traced = open.as_mut().and_then(|open| open.traced.take());
        if let Some(mut live) = traced.and_then(Arc::into_inner) {
            live.ends(match &ending {
                Ending::Result(_) => "ok",
                Ending::Missing(reason) => reason.as_str(),
            });
        }
        let audio_ack = audio_ack.filter(|_| self.supports.audio_ack);
        if let Some(seq) = audio_ack {
            // Whether or not the store knows it yet: a client that saw the ending and sent the speech
            // again would hear it twice.
            self.acked_to(seq);
        }
        match ending {
            Ending::Result(answer) => {
                let texts = NodeTexts::read(&answer.body);
                let direction = Direction::found(route, texts.src_lang.as_deref());
                if let Some(open) = &open {
                    self.recognised(open, direction, &texts);
                }
                let (job, trace_id) = (Some(answer.job), &*answer.trace_id);
                let about = About { utterance_index, job, trace_id, direction };
                let (turn, body) = (turn.as_str(), &answer.body);
                let form = answer.got.map(|got| got.form).filter(|_| self.options.says_form);
                let via = answer.got.and_then(|got| got.via);
                let result =
                    ToClient::Result { about, turn, part_index, body, form, via, audio_ack };
                self.send(result);
                let bounds = self.service.shared.settings.sessions;
                self.machine.forget_endings_beyond(bounds.kept_bytes, |kept| kept.body.size());
            }
            Ending::Missing(reason) => {
                if let Some(open) = &open {
                    self.failed(open, reason);
                }
                let direction = Direction::of(route);
                let trace_id = open.as_ref().map(|open| &*open.trace_id);
                self.send(ToClient::Missing {
                    utterance_index,
                    direction,
                    reason,
                    trace_id,
                    audio_ack,
                });
            }
        }
    }

    fn count_ending(
        &self,
        open: Option<&OpenJob>,
        route: Option<Route>,
        ending: &Ending<Answer>,
        again: bool,
    ) {
        let metrics = &self.service.shared.metrics;
        match ending {
            _ if again => metrics.sessions.told_again.inc(),
            Ending::Result(_) => metrics.ending("result"),
            Ending::Missing(reason) => metrics.ending(reason.as_str()),
        };
        let took = open.map(|open| open.cut_at.elapsed());
        if let Some(took) = took {
            metrics.sessions.ending_seconds.observe(took.as_secs_f64());
        }
        let slo = Duration::from_millis(self.service.shared.settings.slo_ms);
        if let Some(level) = level(ending, took, slo).filter(|_| !again) {
            metrics.pairs.sentence(route, level);
        }
    }

    /// Remembers what was said, and tells of the last steps.
    fn recognised(&mut self, open: &OpenJob, direction: Direction, texts: &NodeTexts<'_>) {
        let elapsed_ms = Some(millis(open.cut_at.elapsed()));
        let has = |text: &Option<Cow<'_, str>>| text.as_ref().is_some_and(|text| !text.is_empty());
        let steps =
            [(Step::AsrFinal, has(&texts.text_asr)), (Step::NmtDone, has(&texts.text_translated))];
        let events = self.supports.events;
        for (step, _) in steps.into_iter().filter(|(_, done)| *done && events) {
            let about = open.about_in(direction);
            self.send(ToClient::Event { step, about, elapsed_ms, error: None });
        }
        if let (Some(text), Some(route)) = (&texts.text_asr, open.route) {
            self.context.add(open.key.index, route, text);
        }
    }
}

/// How a sentence counts for the service level; `None` for one that nobody wanted a result of. What is not known of
/// one that another owner of the session cut is told in its favour.
fn level(ending: &Ending<Answer>, took: Option<Duration>, slo: Duration) -> Option<Level> {
    match ending {
        Ending::Result(_) if took.is_some_and(|took| took > slo) => Some(Level::Late),
        Ending::Result(_) => Some(Level::Met),
        Ending::Missing(MissingReason::SilenceDetected | MissingReason::Cancelled) => None,
        Ending::Missing(_) => Some(Level::Missing),
    }
}
