//! Nodes of this instance, and what they report.

use std::sync::atomic::{AtomicU64, Ordering};

use lingua_core::node::Health;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::known::{By, Labels};
use super::registrar::{counter, gauge, metric};
use super::{Metrics, Registrar, Timed, known, spans};

/// Nodes of this instance, and what they report.
pub(crate) struct NodeMetrics {
    /// Read by the dashboard of the process itself.
    pub(crate) stale_total: AtomicU64,
    pub(super) registrations: By,
    pub(crate) heartbeats: Timed,
    pub(crate) node_errors: Counter,
    pub(crate) put_aside: Counter,
    pub(crate) ack_timeouts: Counter,
    pub(super) stale: By,
    pub(super) gaps: By,
    pub(super) nodes: Family<Labels, Gauge>,
    pub(super) slots: Family<Labels, Gauge>,
    pub(super) breakers_open: Gauge,
}

impl NodeMetrics {
    pub(super) fn register(to: &mut Registrar<'_>) -> Self {
        NodeMetrics {
            stale_total: AtomicU64::new(0),
            registrations: metric!(
                to,
                "node_registrations",
                "Node registrations by status",
                known::by("status", known::REGISTRATIONS)
            ),
            heartbeats: Timed::of(metric!(
                to,
                "heartbeat",
                "Time that the store takes for a heartbeat of a node",
                spans(),
                Seconds
            )),
            node_errors: counter!(to, "node_errors", "Errors reported by nodes"),
            put_aside: counter!(to, "nodes_put_aside", "Nodes put aside because they kept failing"),
            ack_timeouts: counter!(
                to,
                "ack_timeouts",
                "Attempts without an ack before the ack timeout"
            ),
            stale: metric!(
                to,
                "stale_fence",
                "Fenced node messages about attempts that are not current, by kind",
                known::by("kind", known::STALE)
            ),
            gaps: metric!(
                to,
                "model_gaps",
                "Missing-model reports by reaction",
                known::by("followed", known::GAPS)
            ),
            nodes: metric!(to, "nodes", "Nodes of this instance by state", Family::default()),
            slots: metric!(
                to,
                "slots",
                "Open slots of the ready nodes of this instance, by use",
                Family::default()
            ),
            breakers_open: gauge!(
                to,
                "breakers_open",
                "Nodes of this instance whose circuit breaker is open or half-open"
            ),
        }
    }
}

impl Metrics {
    pub(crate) fn stale(&self, kind: &'static str) {
        self.nodes.stale_total.fetch_add(1, Ordering::Relaxed);
        self.nodes.stale.get_or_create(&[("kind", kind)]).inc();
    }

    /// A node asked to be registered: `new`, `back`, or why it was refused.
    pub(crate) fn registration(&self, status: &'static str) {
        self.nodes.registrations.get_or_create(&[("status", status)]).inc();
    }

    pub(crate) fn gap(&self, followed: &'static str) {
        self.nodes.gaps.get_or_create(&[("followed", followed)]).inc();
    }

    pub(crate) fn set_nodes(&self, counts: [i64; Health::ALL.len()]) {
        for (health, count) in Health::ALL.into_iter().zip(counts) {
            self.nodes.nodes.get_or_create(&[("state", health.as_str())]).set(count);
        }
    }

    pub(crate) fn set_slots(&self, slots: u64, used: u64) {
        let counts = [used, slots.saturating_sub(used)];
        for (state, count) in known::SLOTS.into_iter().zip(counts) {
            self.nodes.slots.get_or_create(&[("use", state)]).set(count as i64);
        }
    }

    pub(crate) fn set_open_breakers(&self, count: u64) {
        self.nodes.breakers_open.set(count as i64);
    }
}
