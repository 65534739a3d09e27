//! What a node does with its jobs.

use std::time::Duration;

use bytes::Bytes;
use lingua_core::JobId;
use lingua_engine::job::{JobReport, NodeResult, Reject};
use lingua_lab::speech::{Digest, Mark};
use lingua_protocol::node::message::read_message;
use serde_json::json;
use tokio::time::Instant;

use super::super::door::Work;
use super::{Agent, Answer, Wire};
use crate::canary::{NODE_ERROR, TEXT};
use crate::plan::NodeKind;

/// A job that a node works on.
pub(super) struct Running {
    pub job: JobId,
    pub attempt: u32,
    pub token: Option<String>,
    /// `None` for one that it never answers.
    pub done_at: Option<Instant>,
    pub fails: bool,
    pub result: Bytes,
    pub mark: Option<Mark>,
    pub assigned_us: u64,
}

impl Agent {
    pub(super) fn on_assign(&mut self, work: Work, wire: &Wire) {
        let ids = json!({ "job": work.job.to_string(), "attempt": work.attempt });
        self.write("received", ids.clone());
        let token = self.is_modern().then(|| work.token.clone());
        if self.plan.kind == NodeKind::Existing {
            let names = [
                format!("{}", work.job),
                format!("{}/{}/{}", work.session, work.index, work.target),
            ];
            if names.iter().any(|name| self.seen.contains(name)) {
                self.write("duplicate", ids);
                return self.fail(wire, &work, token, "DUPLICATE_JOB");
            }
            self.seen.extend(names);
        } else if self.running.iter().any(|one| (one.job, one.attempt) == (work.job, work.attempt))
        {
            self.write("duplicate", ids);
            return self.say(wire, work.job, work.attempt, token, JobReport::Ack);
        }
        if self.running.len() >= self.plan.slots as usize && self.plan.kind != NodeKind::Liar {
            self.write("breach", ids);
            return self.refuse(wire, &work, token);
        }
        let troubled = self.world.is_troubled();
        if troubled && self.dice.happens(self.plan.refuses) {
            self.write("rejected", ids);
            return self.refuse(wire, &work, token);
        }
        let acks = self.supports().ack && !(troubled && self.dice.happens(self.plan.silent));
        if acks {
            self.say(wire, work.job, work.attempt, token.clone(), JobReport::Ack);
        }
        if self.plan.kind != NodeKind::Liar {
            self.write(if acks { "acked" } else { "ack_dropped" }, ids);
        }
        if self.dice.happens(200) {
            let body = read_message(Bytes::from(json!({ "text": TEXT }).to_string()));
            self.say(wire, work.job, work.attempt, token.clone(), JobReport::Partial(body));
        }
        let seldom_late = !troubled || self.world.plan.is_gentle();
        let spread = self.dice.spread_ms(self.plan.work_ms);
        let takes = Duration::from_millis(if seldom_late { spread.min(1_500) } else { spread });
        // One that cannot be told to stop comes to an end by itself.
        let hangs = troubled && self.supports().cancel && self.dice.happens(self.plan.hangs);
        let fails = troubled && self.dice.happens(self.plan.fails);
        let assigned_us = self.world.unique_us();
        let mark = Mark::find(&work.audio);
        let result = answer(&work, mark, assigned_us);
        let done_at = (!hangs).then(|| Instant::now() + takes);
        let (job, attempt) = (work.job, work.attempt);
        self.running.push(Running {
            job,
            attempt,
            token,
            done_at,
            fails,
            result,
            mark,
            assigned_us,
        });
    }

    fn refuse(&self, wire: &Wire, work: &Work, token: Option<String>) {
        if !self.supports().ack {
            return self.fail(wire, work, token, "BUSY");
        }
        self.say(wire, work.job, work.attempt, token, JobReport::Reject(Reject::Busy));
    }

    fn fail(&self, wire: &Wire, work: &Work, token: Option<String>, code: &str) {
        self.say(wire, work.job, work.attempt, token, failure(code));
    }

    pub(super) fn on_cancel(&mut self, job: JobId, attempt: u32) {
        if !self.supports().cancel {
            return;
        }
        let before = self.running.len();
        self.running.retain(|one| (one.job, one.attempt) != (job, attempt));
        if self.running.len() < before {
            self.write("cancelled", json!({ "job": job.to_string(), "attempt": attempt }));
        }
    }

    /// Ends what is done by now.
    pub(super) fn finish_due(&mut self, wire: Option<&Wire>) {
        let now = Instant::now();
        while let Some(at) =
            self.running.iter().position(|job| job.done_at.is_some_and(|at| at <= now))
        {
            let done = self.running.remove(at);
            let ids = json!({ "job": done.job.to_string(), "attempt": done.attempt });
            if done.fails {
                self.write("failed", ids);
                if let Some(wire) = wire {
                    self.say(wire, done.job, done.attempt, done.token, failure("PROCESSING_ERROR"));
                }
                continue;
            }
            let mut answered = ids.clone();
            answered["mark"] = done.mark.map(|mark| mark.to_string()).into();
            answered["assigned_us"] = done.assigned_us.into();
            self.write("answered", answered);
            self.write("done", ids);
            let word = Answer { token: done.token, body: done.result };
            self.say_result(done.job, done.attempt, word, wire);
        }
    }

    /// Says a result, and keeps it if it will be said again.
    pub(super) fn say_result(
        &mut self,
        job: JobId,
        attempt: u32,
        word: Answer,
        wire: Option<&Wire>,
    ) {
        if let Some(wire) = wire {
            let report = JobReport::Result(NodeResult::Success(read_message(word.body.clone())));
            self.say(wire, job, attempt, word.token.clone(), report);
        }
        // Of the others every second one forgets what it could not say.
        if self.is_modern() || (wire.is_none() && self.number.is_multiple_of(2)) {
            self.unsent.push((job, attempt, word));
        }
    }
}

fn failure(code: &str) -> JobReport {
    let (code, message) = (code.to_owned(), NODE_ERROR.to_owned());
    JobReport::Result(NodeResult::Failure { code, message, missing_model: None })
}

/// What it recognised, with the texts that must not be in the store.
fn answer(work: &Work, mark: Option<Mark>, assigned_us: u64) -> Bytes {
    let digest = Digest::of(&work.audio);
    let lab = json!({
        "mark": mark.map(|mark| mark.to_string()), "bytes": digest.bytes,
        "hash": format!("{:016x}", digest.hash()), "assigned_us": assigned_us,
    });
    let said = json!({
        "text_asr": format!("{TEXT} {}", work.index), "text_translated": TEXT, "extra": { "lab": lab },
    });
    Bytes::from(said.to_string())
}
