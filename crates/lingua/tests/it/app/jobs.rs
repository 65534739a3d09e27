//! Jobs handed in through the engine, without a door in between.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lingua_core::eligibility::{Need, Route};
use lingua_core::fleet::Fallbacks;
use lingua_core::job::JobState;
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::{Lang, NodeId, SessionId, SessionKey, TenantId, TurnId};
use lingua_engine::job::{Ended, JobInput, JobOptions, JobSpec, Refusal};
use lingua_engine::jobs::{Job, View};
use serde_json::Value;

use super::TestApp;

/// How long a test waits for something that is bound to happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A job in the making: text from English into Chinese, of a session of its own.
pub struct JobBuilder {
    tenant: String,
    session: String,
    src: String,
    tgt: String,
    either: bool,
    speech: bool,
    or_text: bool,
    index: u64,
    preferred: Option<NodeId>,
    strict: bool,
    turn: Option<TurnId>,
    deadline: Option<Duration>,
    audio: Bytes,
    nonce: u128,
}

/// A job as plain as can be.
pub fn job() -> JobBuilder {
    let nonce = lingua_engine::chance::Chance::system().nonce();
    JobBuilder {
        tenant: "default".into(),
        session: format!("s-{:x}", nonce as u64),
        src: "en".into(),
        tgt: "zh".into(),
        either: false,
        speech: false,
        or_text: false,
        index: 0,
        preferred: None,
        strict: false,
        turn: None,
        deadline: None,
        audio: Bytes::from_static(b"speech"),
        nonce,
    }
}

impl JobBuilder {
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.tenant = tenant.into();
        self
    }

    pub fn session(mut self, session: &str) -> Self {
        self.session = session.into();
        self
    }

    pub fn pair(mut self, src: &str, tgt: &str) -> Self {
        (self.src, self.tgt) = (src.into(), tgt.into());
        self
    }

    /// Either of the two may be spoken.
    pub fn either(mut self, a: &str, b: &str) -> Self {
        self.either = true;
        self.pair(a, b)
    }

    pub fn spoken(mut self) -> Self {
        self.speech = true;
        self
    }

    pub fn or_text(mut self) -> Self {
        self.or_text = true;
        self
    }

    pub fn index(mut self, index: u64) -> Self {
        self.index = index;
        self
    }

    pub fn prefer(mut self, node: &str) -> Self {
        self.preferred = Some(NodeId::new(node).unwrap());
        self
    }

    pub fn only(mut self, node: &str) -> Self {
        self.strict = true;
        self.prefer(node)
    }

    pub fn turn(mut self, turn: &str) -> Self {
        self.turn = Some(TurnId::new(turn).unwrap());
        self
    }

    pub fn deadline_ms(mut self, ms: u64) -> Self {
        self.deadline = Some(Duration::from_millis(ms));
        self
    }

    pub fn audio(mut self, audio: impl Into<Bytes>) -> Self {
        self.audio = audio.into();
        self
    }

    /// What the engine is given.
    pub fn spec(self, app: &TestApp) -> JobSpec {
        let tenant = TenantId::new(&self.tenant).unwrap();
        let session = SessionKey::new(tenant.clone(), SessionId::new(&self.session).unwrap());
        let (src, tgt) = (Lang::new(&self.src).unwrap(), Lang::new(&self.tgt).unwrap());
        let route = if self.either { Route::Either(src, tgt) } else { Route::Directed(src, tgt) };
        let key = JobKey {
            session: &session,
            origin: Origin::Unnamed(self.nonce),
            job_type: "f2f",
            route,
            features: &[],
        };
        let id = key.job_id();
        let alone = self.turn.is_none();
        let deadline = Duration::from_millis(app.engine.settings().timing.deadline_ms);
        JobSpec {
            id,
            epoch: None,
            need: Need {
                route,
                speech: self.speech,
                typed: false,
                asks: lingua_core::inventory::Asks::NONE,
                tenant,
                named: false,
            },
            session,
            fallbacks: Fallbacks { captions: self.or_text, ..Fallbacks::NONE },
            profile: app.engine.settings().profile,
            preferred: self.preferred,
            region: None,
            strict: self.strict,
            turn: self.turn,
            past: None,
            observer: None,
            trace: None,
            work: Arc::new(JobInput {
                options: JobOptions {
                    src_lang: self.src,
                    tgt_lang: self.tgt,
                    ..JobOptions::default()
                },
                utterance_index: self.index,
                audio: self.audio,
                audio_format: "opus".into(),
                sample_rate: 16_000,
                trace_id: "trace".into(),
                // One alone is a whole turn.
                manual_cut: alone,
                ..JobInput::default()
            }),
            deadline_in: self.deadline.unwrap_or(deadline),
        }
    }

    /// Hands it in.
    pub fn submit(self, app: &TestApp) -> Arc<Job> {
        self.try_submit(app).unwrap_or_else(|refusal| panic!("{refusal:?}"))
    }

    pub fn try_submit(self, app: &TestApp) -> Result<Arc<Job>, Refusal> {
        app.engine.jobs.submit(self.spec(app))
    }
}

/// Waits for the end of a job.
pub async fn ended(job: &Job) -> View {
    let view = job.ended_within(PATIENCE).await;
    assert!(view.ended.is_some(), "still {:?} after {PATIENCE:?}", view.state);
    view
}

/// Waits until the job is in that state.
pub async fn is(job: &Job, state: JobState) {
    let reached = job.until(|view| view.state == state);
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    assert!(reached.is_ok() && job.view().state == state, "{:?}, not {state:?}", job.view().state);
}

/// Waits for a good end: the translation.
pub async fn done(job: &Job) -> String {
    match ended(job).await.ended.unwrap() {
        Ended::Done(body) => {
            let body: Value = serde_json::from_slice(&body).unwrap();
            body["text_translated"].as_str().unwrap_or_default().to_owned()
        }
        other => panic!("ended with {:?}", describe(&other)),
    }
}

/// Waits for a bad end: why.
pub async fn refused(job: &Job) -> Refusal {
    match ended(job).await.ended.unwrap() {
        Ended::Failed(refusal) => refusal,
        other => panic!("ended with {:?}", describe(&other)),
    }
}

/// Waits for a bad end: the code that callers see.
pub async fn code(job: &Job) -> String {
    refused(job).await.code_text().to_owned()
}

/// How every attempt of an ended job went: its node and outcome.
pub fn attempts(job: &Job) -> Vec<(String, String)> {
    let view = job.view();
    let of = |attempt: &lingua_engine::job_log::AttemptSummary| {
        (
            attempt.node.to_string(),
            attempt.outcome.as_ref().map_or("", |outcome| outcome.as_str()).to_owned(),
        )
    };
    view.attempts.iter().map(of).collect()
}

fn describe(ended: &Ended) -> String {
    match ended {
        Ended::Done(body) => format!("a result of {} bytes", body.len()),
        Ended::Empty { reason, .. } => format!("nothing: {reason}"),
        Ended::Failed(refusal) => format!("{}: {}", refusal.code_text(), refusal.detail),
        Ended::Cancelled(reason) => format!("cancelled: {reason}"),
    }
}
