//! What is told: the snapshot, the points of its history, and what is wrong.

use std::collections::BTreeMap;

use lingua_store::Instance;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::metrics::Quantiles;

use crate::job_log::JobSummary;

/// How everything stands, as the instance that answers knows it.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema, Debug)]
pub struct Stats {
    /// When this was told, in epoch milliseconds.
    pub now_ms: u64,
    /// The instance that answers.
    #[schema(example = "eu-1")]
    pub instance: String,
    /// Which store it works on, without secrets.
    #[schema(example = "embedded (memory)")]
    pub store: String,
    /// The store answers.
    pub store_up: bool,
    /// No new snapshot came for longer than it should: what follows is old.
    pub stale: bool,
    /// The worst of the findings.
    pub health: Severity,
    /// What is wrong or worth knowing, the gravest first.
    pub findings: Vec<Finding>,
    /// The last snapshot; absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
}

/// How things stand in one word.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema, Debug, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// All well.
    #[default]
    Ok,
    /// Somebody should look at it today.
    Warning,
    /// Somebody should look at it now.
    Critical,
}

/// One thing that is wrong or worth knowing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug)]
pub struct Finding {
    /// A stable word; ERRORS and the operations manual say what to do.
    #[schema(example = "pair_starved")]
    pub code: String,
    /// `ok` is only worth knowing.
    pub severity: Severity,
    /// The pair, node, instance or code that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "en->zh")]
    pub subject: Option<String>,
    /// The nodes that it is about, at most three of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["gpu-7"]))]
    pub nodes: Vec<String>,
    /// How many, or how many per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// A sentence for people.
    #[schema(example = "12 jobs for en->zh wait and no slot is free.")]
    pub text: String,
}

/// All instances together.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema, Debug, Default)]
pub struct Snapshot {
    /// When it was made, in epoch milliseconds of the instance that made it.
    pub at_ms: u64,
    /// Grows with every change of the instance that makes it.
    pub fence: u64,
    /// The instance that made it.
    #[schema(example = "eu-1")]
    pub leader: String,
    /// How far apart snapshots are.
    #[schema(example = 5000)]
    pub interval_ms: u64,
    /// The instances by name, those that are missing included.
    pub instances: Vec<InstanceView>,
    /// Nodes of all instances, counted.
    pub nodes: NodeCounts,
    /// Jobs and sessions of all instances.
    pub work: Work,
    /// How long things took within the last interval.
    pub latency: Latency,
    /// The directed pairs, those in trouble first; at most 1,024.
    pub pairs: Vec<Pair>,
    /// Directions that were asked for in vain lately, the most wanted first.
    pub unmet: Vec<Vain>,
    /// Jobs that ended badly lately, the newest first; at most 50.
    pub failures: Vec<Failure>,
    /// What is wrong, as far as all instances can tell.
    pub findings: Vec<Finding>,
}

/// One instance.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug, Default)]
pub struct InstanceView {
    /// Its name.
    #[schema(example = "eu-1")]
    pub id: String,
    /// This life of it.
    #[schema(example = "00c0ffee00c0ffee")]
    pub boot: String,
    /// Where others reach it.
    #[schema(example = "http://127.0.0.1:5010")]
    pub address: String,
    /// Of its software.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// Since when it runs, in epoch milliseconds.
    pub started_ms: u64,
    /// When it was last heard of.
    pub last_seen_ms: u64,
    /// It is on its way out.
    pub draining: bool,
    /// It has not been heard of, and did not say that it would go.
    pub missing: bool,
    /// Nodes whose connection it has.
    pub nodes: u64,
    /// Sessions it looks after.
    pub sessions: u64,
    /// Jobs of it that are open.
    pub open_jobs: u64,
    /// Jobs of it that are in line.
    pub waiting: u64,
    /// Words of other instances that it has not dealt with.
    pub inbox: u64,
    /// What it does for all.
    #[schema(example = json!(["deadlines", "snapshot"]))]
    pub leads: Vec<String>,
}

impl InstanceView {
    /// How a life of an instance is told.
    pub(super) fn boot_of(instance: &Instance) -> String {
        format!("{:016x}", instance.boot)
    }

    /// Whether this is of that instance, in that life of it.
    pub(super) fn is(&self, instance: &Instance) -> bool {
        self.id == instance.id.as_str() && self.boot == Self::boot_of(instance)
    }
}

/// Nodes, counted.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug, Default)]
pub struct NodeCounts {
    /// All that are known.
    pub total: u64,
    /// They take jobs.
    pub ready: u64,
    /// They are not ready yet.
    pub registering: u64,
    /// They are left alone after failures, or say that they are not well.
    pub degraded: u64,
    /// They finish what they have.
    pub draining: u64,
    /// They are gone.
    pub offline: u64,
    /// They failed too often and are left alone, or get one job to show that they work.
    pub breaker_open: u64,
    /// Their heartbeat is overdue.
    pub overdue: u64,
    /// They report a resource above the threshold.
    pub overloaded: u64,
    /// An administrator drains or blocks them.
    pub ordered: u64,
    /// Slots of those that take jobs.
    pub slots: u64,
    /// Slots that are taken.
    pub used: u64,
}

/// Jobs and sessions.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema, Debug, Default)]
pub struct Work {
    /// Jobs that are open.
    pub open_jobs: u64,
    /// Jobs that are in line for a slot.
    pub waiting: u64,
    /// Sessions, those whose client is away for a moment counted.
    pub sessions: u64,
    /// Sessions whose client is there.
    pub connected: u64,
    /// Jobs that ended in a second.
    #[schema(example = 12.5)]
    pub ended_per_s: f64,
    /// Jobs that ended within the last interval, by code; `ok` for a result.
    #[schema(example = json!({"ok": 62}))]
    pub ended: BTreeMap<String, u64>,
    /// Endings told to speakers within the last interval: `result`, or why it is missing.
    #[schema(example = json!({"result": 40}))]
    pub endings: BTreeMap<String, u64>,
    /// Jobs that ended since the instances started, by code.
    #[schema(example = json!({"ok": 10400}))]
    pub ended_total: BTreeMap<String, u64>,
    /// Attempts after a failed one within the last interval.
    pub retries: u64,
}

/// How long things took.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema, Debug, Default)]
pub struct Latency {
    /// From the hand-in of a job to its way to a node.
    pub dispatch: Quantiles,
    /// From the hand-in of a job to its end.
    pub job: Quantiles,
    /// From the cut of an utterance to its ending on the speaker's line.
    pub sentence: Quantiles,
}

/// One directed pair.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug, Default)]
pub struct Pair {
    /// Source language.
    #[schema(example = "en")]
    pub src: String,
    /// Target language.
    #[schema(example = "zh")]
    pub tgt: String,
    /// Nodes that can serve it.
    pub nodes: u64,
    /// Those of them that take jobs now.
    pub ready: u64,
    /// Those of the ready ones that speak the target.
    pub speaking: u64,
    /// Slots of the ready ones that are open to jobs.
    pub slots: u64,
    /// Those that are free.
    pub free: u64,
    /// Slots of the ready ones that are not open yet: they open as jobs succeed.
    #[serde(default)]
    pub not_open: u64,
    /// Jobs in line, of all instances.
    pub waiting: u64,
    /// How well it is served.
    pub supply: Supply,
}

/// How well a pair is served.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub enum Supply {
    /// Slots are free.
    #[default]
    Good,
    /// Less than a fifth of its slots is free, or none and not all are open yet.
    Tight,
    /// No slot is free, and all are open.
    Full,
    /// Jobs wait and no slot is free.
    Starved,
    /// It was asked for and nobody serves it now.
    Unserved,
}

/// A direction that was asked for in vain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema, Debug)]
pub struct Vain {
    /// `src->tgt`, or `a<->b` if either may be spoken.
    #[schema(example = "en->zh")]
    pub direction: String,
    /// The translation was to be spoken.
    pub tts: bool,
    /// A node serves it now.
    #[serde(default)]
    pub served: bool,
}

/// A job that ended badly.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug)]
pub struct Failure {
    /// When, in epoch milliseconds.
    pub at_ms: u64,
    /// The job's id.
    #[schema(example = "7m2k9x4c0v8b3n5q1w6e2r7t4y")]
    pub job_id: String,
    /// The instance that looked after it.
    #[schema(example = "eu-1")]
    pub instance: String,
    /// How it ended.
    #[schema(example = "JOB_TIMEOUT")]
    pub code: String,
    /// `src->tgt`, or `a<->b` if either may be spoken.
    #[schema(example = "en->zh")]
    pub direction: String,
    /// The node of its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// How often it was sent.
    pub attempts: u32,
}

impl Failure {
    pub(super) fn of(job: &JobSummary, instance: String) -> Self {
        Failure {
            at_ms: job.ended_ms.unwrap_or(job.created_ms),
            job_id: job.id.to_string(),
            instance,
            code: job.code.iter().flat_map(|code| code.chars()).take(64).collect(),
            direction: job.route.to_string(),
            node_id: job.attempts.last().map(|attempt| attempt.node.to_string()),
            attempts: u32::try_from(job.attempts.len()).unwrap_or(u32::MAX),
        }
    }
}

/// One point of the history.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema, Debug)]
pub struct Point {
    /// When, in epoch milliseconds.
    pub at_ms: u64,
    /// Jobs that ended in a second.
    pub ended_per_s: f64,
    /// Jobs that ended within the interval, by code.
    #[schema(example = json!({"ok": 62}))]
    pub ended: BTreeMap<String, u64>,
    /// How long things took within it.
    pub latency: Latency,
    /// Jobs that were in line.
    pub waiting: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Slots of the nodes that took jobs.
    pub slots: u64,
    /// Those that were taken.
    pub used: u64,
}

impl Point {
    /// The point of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let work = &snapshot.work;
        Point {
            at_ms: snapshot.at_ms,
            ended_per_s: work.ended_per_s,
            ended: work.ended.clone(),
            latency: snapshot.latency,
            waiting: work.waiting,
            sessions: work.sessions,
            slots: snapshot.nodes.slots,
            used: snapshot.nodes.used,
        }
    }
}
