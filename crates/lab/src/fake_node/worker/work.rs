//! What the automatic node does with the messages about jobs.

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use super::{End, Worker};
use crate::clock::millis;
use crate::fake_node::behaviour::{Behaviour, Fate, Throw};
use crate::fake_node::existing::{Memory, Part};
use crate::fake_node::jobs::{Job, Step, Unacked};
use crate::fake_node::stats::{JobEvent, add, add_many, raise, set};
use crate::fake_node::wire::{Audio, Ids, Incoming, audio_frame};
use crate::link::Link;

impl Worker {
    pub(super) fn on_text(&mut self, text: &str, link: &mut Link) -> Option<End> {
        let incoming: Incoming<'_> = match serde_json::from_str(text) {
            Ok(incoming) => incoming,
            Err(error) => {
                self.shared.complain(format!("{error} in {text}"));
                return None;
            }
        };
        let kind = incoming.kind.0.as_ref();
        match (kind, incoming.job_id()) {
            ("job_assign", Some(job_id)) => return self.on_assign(job_id, &incoming, link),
            ("job_cancel", Some(job_id)) => self.on_cancel(job_id, incoming.attempt_id),
            ("result_ack", Some(job_id)) => {
                self.unacked.ack(job_id, incoming.attempt());
                set(&self.shared.counters.unacked, self.unacked.len());
            }
            ("node_control", _) => self.on_control(text),
            ("job_assign" | "job_cancel" | "result_ack" | "error", _) => {
                self.shared.complain(text.to_owned());
            }
            // A later scheduler may say more than this node knows.
            _ => {}
        }
        None
    }

    pub(super) fn on_audio(&mut self, frame: &Bytes, link: &mut Link) -> Option<End> {
        let counters = &self.shared.counters;
        let audio = match audio_frame(frame) {
            Some((job_id, audio)) if job_id == self.last_assigned => audio,
            _ => {
                add(&counters.stray_frames);
                return None;
            }
        };
        add(&counters.audio_frames);
        add_many(&counters.audio_bytes, audio.len());
        // Not there if it was cancelled meanwhile, or not worked on at all.
        let mut job = self.awaiting_audio.take().and_then(|place| self.running.take(place))?;
        job.ids.said.hear(&audio);
        job.ids.hear(Audio::of(&audio));
        job.awaits_audio = false;
        self.step(job, Instant::now(), link)
    }

    fn on_assign(&mut self, job_id: &str, assign: &Incoming<'_>, link: &mut Link) -> Option<End> {
        let mut ids = self.pen.ids(job_id, assign);
        self.last_assigned.clear();
        self.last_assigned.push_str(job_id);
        self.awaiting_audio = None;
        let audio = assign.audio().unwrap_or_else(|error| {
            self.shared.complain(format!("the audio of {job_id}: {error}"));
            None
        });
        if let Some(audio) = &audio {
            ids.said.hear(audio);
            ids.hear(Audio::of(audio));
        }
        add(&self.shared.counters.received);
        self.shared.note(JobEvent::Received, job_id, ids.attempt_id, assign.turn_id());

        if self.seen.again((job_id, ids.attempt_id)) {
            add(&self.shared.counters.duplicates);
            self.note(JobEvent::Duplicate, &ids);
            if !self.options.old_agent {
                self.on_duplicate(&ids, link);
                return None;
            }
        }
        if let Some(code) = self.old_agent_refuses(job_id, assign) {
            self.fail(&ids, code, 0, link);
            return None;
        }
        let mut throw = self.options.behaviour.throw(&mut self.dice);
        if self.options.old_agent {
            let Some(whole) = self.gather(job_id, assign, audio.as_deref()) else {
                add(&self.shared.counters.kept);
                self.note(JobEvent::Kept, &ids);
                return None;
            };
            ids.hear(whole);
            if throw.fate == Fate::Answer && self.says_again(assign) {
                throw.fate = Fate::Swallow;
            }
        }
        if self.options.limit().is_some_and(|limit| self.running.len() as u64 >= limit) {
            add(&self.shared.counters.breaches);
            self.note(JobEvent::Breach, &ids);
            self.reject(&ids, Fate::Reject, link);
            return None;
        }
        match throw.fate {
            Fate::Reject | Fate::ModelMissing => {
                self.reject(&ids, throw.fate, link);
                None
            }
            _ => {
                let elsewhere = assign.audio.is_some() || assign.text.is_some();
                let awaits_audio = !elsewhere && self.options.does("binary_audio");
                self.start(ids, throw, awaits_audio, link)
            }
        }
    }

    fn start(
        &mut self,
        ids: Ids,
        throw: Throw,
        awaits_audio: bool,
        link: &mut Link,
    ) -> Option<End> {
        if self.options.does("ack") {
            if throw.drop_ack {
                add(&self.shared.counters.dropped_acks);
                self.note(JobEvent::AckDropped, &ids);
            } else {
                self.ack(&ids, link);
            }
        }
        if self.options.behaviour.started {
            link.send_text(self.pen.plain("job_started", &ids));
        }
        raise(&self.shared.counters.highest_running, self.running.len() + 1);
        let Throw { fate, latency, .. } = throw;
        let (began, next) = (Instant::now(), self.first_step());
        let job = Job { ids, fate, latency, began, next, awaits_audio };
        if awaits_audio {
            self.awaiting_audio = Some(self.running.insert(job));
            return None;
        }
        self.step(job, began, link)
    }

    fn first_step(&self) -> Step {
        if self.options.behaviour.partials { Step::Partial } else { self.step_after_partial() }
    }

    fn step_after_partial(&self) -> Step {
        let progress = self.options.behaviour.progress && self.options.does("progress");
        if progress { Step::Progress } else { Step::End }
    }

    /// Takes all steps of a job that are due, and puts it away until the next.
    pub(super) fn step(&mut self, mut job: Job, now: Instant, link: &mut Link) -> Option<End> {
        while job.due() <= now {
            match job.next {
                Step::Partial => {
                    let readable = self.options.behaviour.readable;
                    link.send_text(self.pen.partial(&job.ids, readable));
                    job.next = self.step_after_partial();
                }
                Step::Progress => {
                    link.send_text(self.pen.progress(&job.ids));
                    job.next = Step::End;
                }
                Step::End => return self.finish(job, now, link),
            }
        }
        self.running.insert(job);
        None
    }

    fn finish(&mut self, job: Job, now: Instant, link: &mut Link) -> Option<End> {
        let took_ms = millis(now.duration_since(job.began));
        match job.fate {
            Fate::Crash => {
                // Lost like all the others that are running.
                self.running.insert(job);
                return Some(End::Crashed);
            }
            Fate::Fail => {
                let code = std::mem::take(&mut self.options.behaviour.fail_code);
                self.fail(&job.ids, &code, took_ms, link);
                self.options.behaviour.fail_code = code;
            }
            Fate::Swallow => {
                add(&self.shared.counters.swallowed);
                self.note(JobEvent::Swallowed, &job.ids);
            }
            _ => {
                let Behaviour { tts_audio_bytes, says, readable, .. } = &self.options.behaviour;
                let says = says.as_deref();
                let result = self.pen.result(&job.ids, took_ms, *tts_audio_bytes, says, *readable);
                self.send_result(&job.ids, result, link);
                add(&self.shared.counters.done);
                self.shared.write("answered", || job.ids.told_apart_by());
                self.note(JobEvent::Done, &job.ids);
            }
        }
        None
    }

    fn fail(&mut self, ids: &Ids, code: &str, took_ms: u64, link: &mut Link) {
        let result = self.pen.failure(ids, code, took_ms, None);
        self.send_result(ids, result, link);
        add(&self.shared.counters.failed);
        self.note(JobEvent::Failed, ids);
    }

    fn send_result(&mut self, ids: &Ids, message: Bytes, link: &mut Link) {
        if self.options.does("result_ack") {
            self.unacked.push(Unacked {
                job_id: ids.job_id.clone(),
                attempt_id: ids.attempt_id,
                message: message.clone(),
                heartbeat: self.heartbeats_sent,
            });
            set(&self.shared.counters.unacked, self.unacked.len());
        }
        link.send_text(message);
    }

    fn ack(&mut self, ids: &Ids, link: &mut Link) {
        link.send_text(self.pen.plain("job_ack", ids));
        add(&self.shared.counters.acked);
        self.note(JobEvent::Acked, ids);
    }

    /// Refuses a job; an old agent knows no refusal and fails it.
    fn reject(&mut self, ids: &Ids, fate: Fate, link: &mut Link) {
        let counters = &self.shared.counters;
        let reason = if fate == Fate::ModelMissing {
            add(&counters.model_missing);
            "MODEL_NOT_AVAILABLE"
        } else {
            add(&counters.rejected);
            "BUSY"
        };
        let refusal = if self.options.old_agent {
            let service = self.options.existing.missing_service.as_str();
            let service = Some(service).filter(|_| fate == Fate::ModelMissing);
            self.pen.failure(ids, reason, 0, service)
        } else {
            self.pen.reject(ids, reason)
        };
        link.send_text(refusal);
        self.note(JobEvent::Rejected, ids);
    }

    /// Answers an attempt that came again as it was answered before, without working twice.
    fn on_duplicate(&mut self, ids: &Ids, link: &mut Link) {
        if self.running.find(&ids.job_id, ids.attempt_id).is_some() && self.options.does("ack") {
            self.ack(ids, link);
        } else if let Some(result) = self.unacked.find(&ids.job_id, ids.attempt_id) {
            link.send_text(result.message.clone());
        }
    }

    /// Why an agent in the field would not take this job.
    fn old_agent_refuses(&mut self, job_id: &str, assign: &Incoming<'_>) -> Option<&'static str> {
        if !self.options.old_agent {
            return None;
        }
        if self.seen.again(("job", job_id)) {
            return Some("DUPLICATE_JOB");
        }
        let session = assign.session_id?.get();
        let utterance = ("utterance", session, assign.utterance_index?);
        self.seen.again(utterance).then_some("DUPLICATE_UTTERANCE")
    }

    /// All the audio of the turn, if an existing agent works on it now.
    fn gather(
        &mut self,
        job_id: &str,
        assign: &Incoming<'_>,
        audio: Option<&[u8]>,
    ) -> Option<Audio> {
        let part = Part {
            turn: (assign.turn_id().unwrap_or(job_id), Incoming::text(&assign.tgt_lang)),
            audio: audio.unwrap_or_default(),
            audio_format: Incoming::text(&assign.audio_format),
            ends: assign.ends_turn(),
        };
        self.memory.gather(&part, self.options.existing.works_from)
    }

    /// It recognises what it recognised last in this session.
    fn says_again(&mut self, assign: &Incoming<'_>) -> bool {
        let session = assign.session_id.map_or("", |session| session.get());
        match &self.options.behaviour.says {
            Some(text) => self.memory.says_again(session, text),
            None => {
                let text = format!("utterance {}", assign.utterance_index.unwrap_or(0));
                self.memory.says_again(session, &text)
            }
        }
    }

    fn on_cancel(&mut self, job_id: &str, attempt_id: Option<u64>) {
        if !self.options.does("cancel") {
            return;
        }
        if let Some(job) = self.running.cancel(job_id, attempt_id) {
            add(&self.shared.counters.cancelled);
            self.note(JobEvent::Cancelled, &job.ids);
        }
    }

    fn on_control(&mut self, text: &str) {
        let command = serde_json::from_str(text).unwrap_or(Value::Null);
        match command["command"].as_str() {
            Some("drain") => self.draining = true,
            Some("resume") => self.draining = false,
            _ => {}
        }
    }

    /// All that a process that ends takes with it.
    pub(super) fn forget_everything(&mut self) {
        for job in self.running.take_all() {
            self.lose(&job);
        }
        self.unacked.clear();
        self.memory = Memory::default();
        self.began = Instant::now();
        self.draining = false;
        set(&self.shared.counters.running, 0);
        set(&self.shared.counters.unacked, 0);
    }

    pub(super) fn lose(&mut self, job: &Job) {
        add(&self.shared.counters.lost);
        self.note(JobEvent::Lost, &job.ids);
    }

    fn note(&self, event: JobEvent, ids: &Ids) {
        self.shared.note(event, &ids.job_id, ids.attempt_id, None);
    }
}
