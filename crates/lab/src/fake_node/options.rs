//! What one simulated node says of itself and how it keeps its connection.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde_json::Value;

use super::behaviour::Behaviour;
use super::existing::ExistingAgent;
use crate::{Journal, Persistence};

/// Everything a node can say that it supports, and `progress`, which only this one goes by itself.
pub const SUPPORTS: [&str; 7] =
    ["ack", "cancel", "binary_audio", "tokens", "progress", "result_ack", "text"];

/// One node. The default is a current agent that translates between English and Chinese with four
/// jobs at once, answers at once and never fails.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// `ws://127.0.0.1:PORT/ws/node`
    pub url: String,
    /// `None`: the scheduler names the node, and it keeps that name over reconnects.
    pub node_id: Option<String>,
    /// Languages it hears.
    pub asr_languages: Vec<String>,
    /// Languages it understands; a scheduler refuses a node without any.
    pub semantic_languages: Vec<String>,
    /// Languages it speaks.
    pub tts_languages: Vec<String>,
    /// Directions it translates.
    pub nmt_pairs: NmtPairs,
    /// `None`: the field is not sent, and the node takes whatever comes.
    pub max_concurrent_jobs: Option<u32>,
    /// Sent as it is. The node acks, obeys cancels, sends progress and keeps results until they are
    /// acked only if it says so here.
    pub supports: Vec<String>,
    /// `false`: only jobs that name this node.
    pub accept_public_jobs: bool,
    /// When it reports.
    pub heartbeats: Heartbeats,
    /// Whether its registration and its heartbeats list the jobs it works on.
    pub report_running: bool,
    /// Is an agent from before `supports`: no ack, no limit, no list of running jobs, services in
    /// the spellings found in the field, and the habits of [`ExistingAgent`]. It works on a job only
    /// if the job says that the turn has ended or the turn is long enough; else it keeps the audio
    /// for a later job of the turn, and says nothing. A job it knows already is refused as
    /// `DUPLICATE_JOB`, or `DUPLICATE_UTTERANCE` by session and index; what it recognised last in a
    /// session is not told twice. An `error` of the scheduler means nothing to it.
    pub old_agent: bool,
    /// Its habits; they count only with `old_agent`.
    pub existing: ExistingAgent,
    /// Instead of the services an agent of its kind would list.
    pub installed_services: Option<Value>,
    /// Instead of the models an agent of its kind would list.
    pub installed_models: Option<Value>,
    /// Instead of the capabilities an agent of its kind would list.
    pub capability_by_type: Option<Value>,
    /// Put over the register message: objects merge, anything else replaces, `null` is sent as
    /// `null`.
    pub register_overrides: Value,
    /// Put over every heartbeat in the same way.
    pub heartbeat_overrides: Value,
    /// The credential, sent in the register message.
    pub token: Option<String>,
    /// More headers of the upgrade request.
    pub headers: Vec<(String, String)>,
    /// Whom to believe, for a URL that begins with `wss://`.
    pub tls: Option<Arc<ClientConfig>>,
    /// Whether a lost connection is made again, with jitter, and its unacked results are repeated.
    /// After a close that says not to (1008, 4001) it is not.
    pub reconnect: bool,
    /// What it does with its jobs.
    pub behaviour: Behaviour,
    /// How many events [`super::FakeNode::log`] holds; the oldest go first. Zero keeps none.
    pub log_capacity: usize,
    /// How much is read from the socket at once. Small, because ten thousand nodes may share a
    /// process and the WebSocket library clears the whole buffer before every read.
    pub read_buffer_bytes: usize,
    /// How long a scripted node waits for the scheduler before it calls the wait a failure.
    pub patience: Duration,
    /// What it does about schedulers that come and go.
    pub persistence: Persistence,
    /// Where it writes down what becomes of its jobs and connections.
    pub journal: Option<Journal>,
}

/// Directions that a node says it translates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NmtPairs {
    /// The field is not sent.
    Unsaid,
    /// `"any"`
    #[default]
    Any,
    /// Source and target of each.
    List(Vec<(String, String)>),
}

/// When a node reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Heartbeats {
    /// As often as the scheduler said at registration, every 15 s if it said nothing; an existing
    /// agent by its own habit. A scripted node reports only when its test says so.
    #[default]
    AsTold,
    /// Always this often, a scripted node too.
    Every(Duration),
    /// Only when asked to.
    Never,
}

impl Default for NodeOptions {
    fn default() -> Self {
        let languages = || vec!["en".to_owned(), "zh".to_owned()];
        Self {
            url: "ws://127.0.0.1:5010/ws/node".to_owned(),
            node_id: None,
            asr_languages: languages(),
            semantic_languages: languages(),
            tts_languages: languages(),
            nmt_pairs: NmtPairs::Any,
            max_concurrent_jobs: Some(4),
            supports: SUPPORTS.map(str::to_owned).to_vec(),
            accept_public_jobs: true,
            heartbeats: Heartbeats::AsTold,
            report_running: true,
            old_agent: false,
            existing: ExistingAgent::default(),
            installed_services: None,
            installed_models: None,
            capability_by_type: None,
            register_overrides: Value::Null,
            heartbeat_overrides: Value::Null,
            token: None,
            headers: Vec::new(),
            tls: None,
            reconnect: false,
            behaviour: Behaviour::default(),
            log_capacity: 0,
            read_buffer_bytes: 4 * 1024,
            patience: Duration::from_secs(5),
            persistence: Persistence::default(),
            journal: None,
        }
    }
}

impl NodeOptions {
    /// The default node at that address.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// A name of its own.
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.node_id = Some(id.into());
        self
    }

    /// Shows this token in the request for the socket, before its first message.
    pub fn bearer(mut self, token: &str) -> Self {
        self.headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        self
    }

    /// The same languages for hearing, understanding and speaking.
    pub fn languages(mut self, languages: &[&str]) -> Self {
        let languages: Vec<_> = languages.iter().map(|&language| language.to_owned()).collect();
        self.asr_languages.clone_from(&languages);
        self.semantic_languages.clone_from(&languages);
        self.tts_languages = languages;
        self
    }

    /// Only these directions.
    pub fn pairs(mut self, pairs: &[(&str, &str)]) -> Self {
        let own = |&(source, target): &(&str, &str)| (source.to_owned(), target.to_owned());
        self.nmt_pairs = NmtPairs::List(pairs.iter().map(own).collect());
        self
    }

    /// How many jobs it takes at once.
    pub fn max_jobs(mut self, max: u32) -> Self {
        self.max_concurrent_jobs = Some(max);
        self
    }

    /// Supports these and nothing else.
    pub fn supports(mut self, supports: &[&str]) -> Self {
        self.supports = supports.iter().map(|&support| support.to_owned()).collect();
        self
    }

    /// Does not support that.
    pub fn without(mut self, support: &str) -> Self {
        self.supports.retain(|listed| listed != support);
        self
    }

    /// Is an agent from before `supports`.
    pub fn old_agent(mut self) -> Self {
        self.old_agent = true;
        self
    }

    /// The same with these habits.
    pub fn existing_agent(mut self, existing: ExistingAgent) -> Self {
        self.existing = existing;
        self.old_agent()
    }

    /// Shows this credential.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Does this with its jobs.
    pub fn behaviour(mut self, behaviour: Behaviour) -> Self {
        self.behaviour = behaviour;
        self
    }

    /// Reports this often.
    pub fn heartbeat_every(mut self, interval: Duration) -> Self {
        self.heartbeats = Heartbeats::Every(interval);
        self
    }

    /// Makes a lost connection again.
    pub fn reconnecting(mut self) -> Self {
        self.reconnect = true;
        self
    }

    /// Writes down the last `capacity` events of its jobs.
    pub fn logging(mut self, capacity: usize) -> Self {
        self.log_capacity = capacity;
        self
    }

    /// Puts these fields over the register message.
    pub fn register_with(mut self, fields: Value) -> Self {
        self.register_overrides = fields;
        self
    }

    /// Whether the node does that. An old agent supports nothing, whatever is listed.
    pub(super) fn does(&self, support: &str) -> bool {
        !self.old_agent && self.supports.iter().any(|listed| listed == support)
    }

    /// It registers before any of its services runs.
    pub(super) fn starts_before_services(&self) -> bool {
        self.old_agent && !self.existing.services_start_after.is_zero()
    }

    /// How many jobs it lets in. An old agent has told no limit and keeps none.
    pub(super) fn limit(&self) -> Option<u64> {
        if self.old_agent { None } else { self.max_concurrent_jobs.map(u64::from) }
    }
}
