//! One node as its owner sees it.

use lingua_engine::explain::NodeView;
use lingua_engine::nodes::{BreakerView, NodeFailure};
use serde::Serialize;
use utoipa::ToSchema;

use super::fleet::{AbilitiesBody, Slots, Wanted};

/// A node as its owner sees it. Nothing of other nodes, tenants or instances is in it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OwnNodeBody {
    /// Its name.
    #[schema(example = "gpu-7")]
    node_id: String,
    /// `registering`, `ready`, `degraded`, `draining` or `offline`.
    #[schema(example = "ready")]
    state: &'static str,
    /// It has a connection to the scheduler.
    connected: bool,
    /// Its heartbeat is not overdue.
    fresh: bool,
    /// A reported resource is above the threshold.
    overloaded: bool,
    /// The order of an administrator: `serve`, `drain` or `block`.
    #[schema(example = "serve")]
    order: &'static str,
    /// The circuit breaker: `closed` (jobs as usual), `open` (no jobs for a while), `probing` (one job
    /// at a time).
    #[schema(example = "closed")]
    breaker: &'static str,
    /// With an open breaker: how long it stays open.
    #[serde(skip_serializing_if = "Option::is_none")]
    breaker_open_ms: Option<u64>,
    /// It keeps failing and was put aside; `why_idle` says why, and when it is tried again. Its owner may
    /// have that at once: `POST /v1/node/{id}/resume`.
    put_aside: bool,
    /// Its slots.
    slots: Slots,
    /// Running attempts.
    running: usize,
    /// How long its recent jobs took for each second of speech.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<u32>,
    /// When it was first seen, in epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<u64>,
    /// Jobs that it did.
    done: u64,
    /// Jobs that it failed.
    failed: u64,
    /// Attempts that failed on it, by code.
    #[schema(example = json!({"NMT_TIMEOUT": 3}))]
    failed_by_code: std::collections::BTreeMap<String, u64>,
    /// The last attempts that failed on it, the newest first, at most eight.
    failures: Vec<FailureBody>,
    /// What it can do.
    abilities: AbilitiesBody,
    /// Models that it reported missing.
    missing_models: Vec<String>,
    /// The last `node_error` that it sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Why it gets no jobs, in sentences; empty if it can get jobs.
    #[schema(example = json!(["an administrator drains it"]))]
    why_idle: Vec<String>,
    /// Directions that are asked for and not served, each with what the node lacks for it.
    useful_if: Vec<Wanted>,
}

/// An attempt that failed on a node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailureBody {
    /// When, in epoch milliseconds.
    at_ms: u64,
    /// As in the `job_assign` that the node got.
    job_id: String,
    /// A code of the scheduler, or the node's own.
    #[schema(example = "NMT_TIMEOUT")]
    code: String,
}

impl OwnNodeBody {
    pub(crate) fn of(view: &NodeView, useful_if: Vec<Wanted>) -> Self {
        let (breaker, breaker_open_ms) = match view.breaker {
            BreakerView::Closed => ("closed", None),
            BreakerView::Open { left_ms } => ("open", Some(left_ms)),
            BreakerView::Probing => ("probing", None),
        };
        OwnNodeBody {
            node_id: view.id.to_string(),
            state: view.health.as_str(),
            connected: view.connected,
            fresh: view.fresh,
            overloaded: view.overloaded,
            order: view.order.as_str(),
            breaker,
            breaker_open_ms,
            put_aside: view.aside.is_some(),
            slots: Slots::of(view),
            running: view.running,
            latency_ms: view.latency_ms,
            since_ms: Some(view.past.since_ms).filter(|since| *since > 0),
            done: view.past.done,
            failed: view.past.failed,
            failed_by_code: view.past.failed_by_code.clone(),
            failures: view.past.latest_failures().iter().map(FailureBody::of).collect(),
            abilities: AbilitiesBody::of(&view.profile),
            missing_models: view.missing_models.clone(),
            last_error: view.detail.last_error.clone(),
            why_idle: view.why_idle.clone(),
            useful_if,
        }
    }
}

impl FailureBody {
    fn of(failure: &NodeFailure) -> Self {
        let NodeFailure { at_ms, job, code } = failure;
        FailureBody { at_ms: *at_ms, job_id: job.to_string(), code: code.clone() }
    }
}
