//! What is told: the snapshot, the points of its history, and what is wrong.

use std::collections::BTreeMap;

use lingua_store::Instance;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::metrics::Quantiles;

use crate::job_log::JobSummary;

/// The state of the whole system, as far as the answering instance knows.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema, Debug)]
pub struct Stats {
    /// The time of this answer, in epoch milliseconds.
    pub now_ms: u64,
    /// The instance that answers.
    #[schema(example = "eu-1")]
    pub instance: String,
    /// Its store, without secrets.
    #[schema(example = "embedded (memory)")]
    pub store: String,
    /// The store answers.
    pub store_up: bool,
    /// The snapshot is overdue: the values are old.
    pub stale: bool,
    /// The worst of the findings.
    pub health: Severity,
    /// Findings, the most severe first.
    pub findings: Vec<Finding>,
    /// The last snapshot; absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
}

/// The overall state.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema, Debug, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No problem.
    #[default]
    Ok,
    /// Needs attention today.
    Warning,
    /// Needs attention now.
    Critical,
}

/// A finding.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug)]
pub struct Finding {
    /// A stable word; ERRORS and the operations manual say what to do.
    #[schema(example = "pair_starved")]
    pub code: String,
    /// `ok` is for information.
    pub severity: Severity,
    /// The pair, node, instance or code that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "en->zh")]
    pub subject: Option<String>,
    /// The nodes that it is about, at most three of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["gpu-7"]))]
    pub nodes: Vec<String>,
    /// A number, or a percentage.
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
    /// The interval of snapshots.
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
    /// The language directions, those in trouble first; at most 1,024.
    pub pairs: Vec<Pair>,
    /// Directions that were requested lately and that no node could take, the most requested first.
    pub unmet: Vec<Vain>,
    /// Jobs that failed lately, the newest first; at most 50.
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
    /// The id of its current process.
    #[schema(example = "00c0ffee00c0ffee")]
    pub boot: String,
    /// Where others reach it.
    #[schema(example = "http://127.0.0.1:5010")]
    pub address: String,
    /// Version of its software.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// Since when it runs, in epoch milliseconds.
    pub started_ms: u64,
    /// When it was last seen.
    pub last_seen_ms: u64,
    /// It is stopping.
    pub draining: bool,
    /// It is not seen any more, and did not shut down.
    pub missing: bool,
    /// Nodes whose connection it has.
    pub nodes: u64,
    /// Its sessions.
    pub sessions: u64,
    /// Its open jobs.
    pub open_jobs: u64,
    /// Its queued jobs.
    pub waiting: u64,
    /// Messages of other instances in its inbox.
    pub inbox: u64,
    /// Background tasks that it leads.
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
    /// Their circuit breaker is open, or they report so.
    pub degraded: u64,
    /// They finish their jobs and get no new ones.
    pub draining: u64,
    /// They are disconnected.
    pub offline: u64,
    /// Their circuit breaker is open, or they get one job as a probe.
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
    /// Jobs that are queued for a slot.
    pub waiting: u64,
    /// Sessions, including those whose client is disconnected.
    pub sessions: u64,
    /// Sessions whose client is connected.
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
    /// From the submission of a job to its dispatch.
    pub dispatch: Quantiles,
    /// From the submission of a job to its end.
    pub job: Quantiles,
    /// From the end of an utterance to its ending on the client connection.
    pub sentence: Quantiles,
}

/// A language direction.
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
    /// Queued jobs of all instances.
    pub waiting: u64,
    /// Its supply.
    pub supply: Supply,
}

/// The supply of a language direction.
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
    /// It was requested and no node serves it now.
    Unserved,
}

/// A requested direction that no node could take.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema, Debug)]
pub struct Vain {
    /// `src->tgt`, or `a<->b` if either may be spoken.
    #[schema(example = "en->zh")]
    pub direction: String,
    /// The translation had to be spoken.
    pub tts: bool,
    /// A node serves it now.
    #[serde(default)]
    pub served: bool,
}

/// A job that failed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, Debug)]
pub struct Failure {
    /// When, in epoch milliseconds.
    pub at_ms: u64,
    /// The job's id.
    #[schema(example = "7m2k9x4c0v8b3n5q1w6e2r7t4y")]
    pub job_id: String,
    /// The instance that owned it.
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
    /// Queued jobs.
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
