//! The instance itself: its store, its peers, its tasks and its logs.

use std::sync::atomic::AtomicU64;

use lingua_store::Pulse;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::known::{By, Labels};
use super::registrar::{gauge, metric};
use super::{Metrics, Registrar, known};

/// The instance itself: its store, its peers, its tasks and its logs.
pub(crate) struct InstanceMetrics {
    pub(super) bus: By,
    pub(crate) peers: Gauge,
    pub(crate) peers_apart: Gauge,
    pub(super) leader: Family<Labels, Gauge>,
    pub(super) inbox: Gauge,
    pub(super) store_up: Gauge,
    pub(super) store_ping: Gauge<f64, AtomicU64>,
    pub(super) store_errors: By,
    pub(super) draining: Gauge,
    pub(super) spans: By,
    pub(super) audit_lines: By,
}

impl InstanceMetrics {
    pub(super) fn register(to: &mut Registrar<'_>) -> Self {
        let build: Family<Labels, Gauge> =
            metric!(to, "build_info", "Always 1; which version runs", Family::default());
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        InstanceMetrics {
            bus: metric!(
                to,
                "bus_words",
                "Messages between instances: sent, received, or undeliverable (bounced)",
                known::by("what", known::BUS)
            ),
            peers: gauge!(to, "peers", "Other instances that are alive"),
            peers_apart: gauge!(
                to,
                "peers_apart",
                "Live instances with an incompatible version or another cluster key"
            ),
            leader: metric!(
                to,
                "leader",
                "Whether this instance is the leader of the task",
                Family::default()
            ),
            inbox: gauge!(
                to,
                "inbox_envelopes",
                "Messages of other instances in the inbox of this one"
            ),
            store_up: gauge!(to, "store_up", "Whether the store answers"),
            store_ping: metric!(
                to,
                "store_ping",
                "Round-trip time of the last store ping",
                Gauge::default(),
                Seconds
            ),
            store_errors: metric!(
                to,
                "store_errors",
                "Failed store calls by kind",
                known::by("kind", Pulse::KINDS)
            ),
            draining: gauge!(to, "draining", "Whether this instance is draining"),
            spans: metric!(
                to,
                "spans",
                "Trace spans: exported, dropped, or refused by the collector",
                known::by("outcome", known::SPANS)
            ),
            audit_lines: metric!(
                to,
                "audit_lines",
                "Audit log lines: written, or lost because the disk or the queue was full",
                known::by("outcome", known::AUDIT)
            ),
        }
    }
}

impl Metrics {
    pub(crate) fn bus_sent(&self, words: u64) {
        self.instance.bus.get_or_create(&[("what", "sent")]).inc_by(words);
    }

    pub(crate) fn bus_received(&self, words: u64) {
        self.instance.bus.get_or_create(&[("what", "received")]).inc_by(words);
    }

    pub(crate) fn bus_bounced(&self) {
        self.instance.bus.get_or_create(&[("what", "bounced")]).inc();
    }

    /// What became of so many lines of the audit log: `written` or `lost`.
    pub fn audit_lines(&self, outcome: &'static str, count: u64) {
        self.instance.audit_lines.get_or_create(&[("outcome", outcome)]).inc_by(count);
    }

    /// What became of so many spans: `exported`, `dropped` or `refused`.
    pub fn spans(&self, outcome: &'static str, count: u64) {
        self.instance.spans.get_or_create(&[("outcome", outcome)]).inc_by(count);
    }

    pub(crate) fn leads(&self, task: &'static str, leads: bool) {
        self.instance.leader.get_or_create(&[("task", task)]).set(i64::from(leads));
    }

    pub(crate) fn set_inbox(&self, envelopes: usize) {
        self.instance.inbox.set(envelopes as i64);
    }
}
