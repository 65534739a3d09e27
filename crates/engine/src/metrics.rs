//! Every metric, with unit and help. Ids are never labels.

mod edge;
mod known;
mod process;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use lingua_core::node::Health;
use lingua_store::Pulse;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

use crate::snapshot::part::Counters;
use crate::snapshot::spans::Timed;
use crate::snapshot::view::NodeCounts;
use edge::Edge;
pub use edge::{Bytes, Held};
use known::{By, Labels};
use process::Process;

/// What a metric is called, whether it has been counted yet or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// With prefix and unit, without what its samples add (`_total`, `_bucket`, …).
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
}

fn kind<M: TypedMetric>(_: &M) -> &'static str {
    match M::TYPE {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
        _ => "unknown",
    }
}

/// The metrics of one engine.
pub struct Metrics {
    registry: Registry,
    list: Vec<Listed>,
    pub(crate) registrations: Counter,
    pub(crate) node_errors: Counter,
    pub(crate) ack_timeouts: Counter,
    pub(crate) hedges: Counter,
    pub(crate) pool_empty: Counter,
    pub(crate) retries_refused: Counter,
    pub(crate) slots_left: Counter,
    pub(crate) swept: Counter,
    pub(crate) waiting: Gauge,
    pub(crate) open_jobs: Gauge,
    pub(crate) place_seconds: Timed,
    pub(crate) wait_seconds: Timed,
    pub(crate) job_seconds: Timed,
    pub(crate) done: Counter,
    reserve: By,
    ended: By,
    retries: By,
    stale: By,
    gaps: By,
    limited: By,
    nodes: Family<Labels, Gauge>,
    pub(crate) sessions: Gauge,
    pub(crate) session_panics: Counter,
    pub(crate) audio_gaps: Counter,
    backpressure: Counter,
    pub(crate) told_again: Counter,
    pub(crate) ending_seconds: Timed,
    utterances: By,
    endings: By,
    dropped: By,
    session_ignored: By,
    resumed: By,
    opened: By,
    bus: By,
    spans: By,
    audit_lines: By,
    pub(crate) peers: Gauge,
    pub(crate) peers_apart: Gauge,
    leader: Family<Labels, Gauge>,
    slots: Family<Labels, Gauge>,
    breakers_open: Gauge,
    inbox: Gauge,
    store_up: Gauge,
    store_ping: Gauge<f64, AtomicU64>,
    store_errors: By,
    draining: Gauge,
    edge: Edge,
    process: Process,
    /// Handles that are used for every job, found once.
    pub(crate) granted: Counter,
    /// Read by the dashboard of the process itself.
    pub(crate) stale_total: AtomicU64,
}

/// From half a millisecond to two minutes.
fn spans() -> Histogram {
    Histogram::new([
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0,
        40.0, 80.0, 120.0,
    ])
}

impl Default for Metrics {
    fn default() -> Self {
        let mut root = Registry::default();
        let mut list = Vec::new();
        let process = Process::register(&mut root, &mut list);
        let registry = root.sub_registry_with_prefix("lingua");
        let edge = Edge::register(registry, &mut list);
        macro_rules! metric {
            ($name:literal, $help:literal, $metric:expr) => {{
                let metric = $metric;
                registry.register($name, $help, metric.clone());
                list.push(Listed { name: concat!("lingua_", $name), kind: kind(&metric) });
                metric
            }};
            ($name:literal, $help:literal, $metric:expr, Seconds) => {{
                let metric = $metric;
                registry.register_with_unit($name, $help, Unit::Seconds, metric.clone());
                let name = concat!("lingua_", $name, "_seconds");
                list.push(Listed { name, kind: kind(&metric) });
                metric
            }};
        }
        let reserve: By = metric!(
            "reserve",
            "Slot reservation attempts by outcome",
            known::by("outcome", known::RESERVE)
        );
        let ended: By = metric!(
            "jobs_ended",
            "Ended jobs by code; ok for a result",
            known::by("code", known::ended())
        );
        let granted = reserve.get_or_create(&[("outcome", "granted")]).clone();
        let done = ended.get_or_create(&[("code", "ok")]).clone();
        let metrics = Metrics {
            registrations: metric!("node_registrations", "Node registrations", Counter::default()),
            node_errors: metric!("node_errors", "Errors reported by nodes", Counter::default()),
            ack_timeouts: metric!(
                "ack_timeouts",
                "Attempts without an ack before the ack timeout",
                Counter::default()
            ),
            hedges: metric!(
                "hedges",
                "Hedged attempts: second copies of slow jobs",
                Counter::default()
            ),
            pool_empty: metric!(
                "pool_empty",
                "Jobs for which no eligible node existed",
                Counter::default()
            ),
            retries_refused: metric!(
                "retries_refused",
                "Retries refused by the retry budget",
                Counter::default()
            ),
            slots_left: metric!(
                "slots_left_to_lapse",
                "Slot leases left to expire because the node may still work on the job",
                Counter::default()
            ),
            swept: metric!(
                "jobs_swept",
                "Orphaned jobs of other instances ended at their deadline",
                Counter::default()
            ),
            waiting: metric!("waiting_jobs", "Jobs queued for a slot", Gauge::default()),
            open_jobs: metric!("open_jobs", "Open jobs of this instance", Gauge::default()),
            place_seconds: Timed::of(metric!(
                "dispatch",
                "Time from job submission to dispatch",
                spans(),
                Seconds
            )),
            wait_seconds: Timed::of(metric!(
                "wait",
                "Queueing time of jobs that were queued",
                spans(),
                Seconds
            )),
            job_seconds: Timed::of(metric!(
                "job",
                "Time from job submission to its end",
                spans(),
                Seconds
            )),
            retries: metric!(
                "retries",
                "Retry attempts by the code of the failed attempt",
                known::by("code", known::codes())
            ),
            stale: metric!(
                "stale_fence",
                "Fenced node messages about attempts that are not current, by kind",
                known::by("kind", known::STALE)
            ),
            gaps: metric!(
                "model_gaps",
                "Missing-model reports by reaction",
                known::by("followed", known::GAPS)
            ),
            limited: metric!(
                "limited",
                "Requests that hit a limit, by its name in the configuration",
                known::by("limit", known::LIMITS.iter().copied())
            ),
            nodes: metric!("nodes", "Nodes of this instance by state", Family::default()),
            sessions: metric!(
                "sessions",
                "Sessions of this instance, including those whose client may still resume",
                Gauge::default()
            ),
            session_panics: metric!(
                "session_panics",
                "Sessions ended by a panic",
                Counter::default()
            ),
            audio_gaps: metric!(
                "audio_gaps",
                "Gaps in the sequence numbers of audio chunks",
                Counter::default()
            ),
            backpressure: metric!(
                "backpressure",
                "Backpressure messages sent to clients",
                Counter::default()
            ),
            told_again: metric!(
                "endings_told_again",
                "Endings repeated after a resume",
                Counter::default()
            ),
            ending_seconds: Timed::of(metric!(
                "ending",
                "Time from the end of an utterance to its ending on the client connection",
                spans(),
                Seconds
            )),
            utterances: metric!(
                "utterances",
                "Utterances by what ended them",
                known::by("cut", known::CUTS)
            ),
            endings: metric!(
                "endings",
                "Endings sent to clients: result, or the reason why it is missing",
                known::by("ending", known::endings())
            ),
            dropped: metric!(
                "audio_dropped_bytes",
                "Audio bytes dropped before they became part of an utterance, by reason",
                known::by("reason", known::DROPPED)
            ),
            session_ignored: metric!(
                "session_ignored",
                "Events ignored by their session, by reason",
                known::by("reason", known::IGNORED)
            ),
            resumed: metric!(
                "resumed",
                "Session resume attempts by result",
                known::by("how", known::RESUMED)
            ),
            opened: metric!(
                "sessions_opened",
                "Session open requests by outcome",
                known::by("outcome", known::OPENED)
            ),
            bus: metric!(
                "bus_words",
                "Messages between instances: sent, received, or undeliverable (bounced)",
                known::by("what", known::BUS)
            ),
            spans: metric!(
                "spans",
                "Trace spans: exported, dropped, or refused by the collector",
                known::by("outcome", known::SPANS)
            ),
            audit_lines: metric!(
                "audit_lines",
                "Audit log lines: written, or lost because the disk or the queue was full",
                known::by("outcome", known::AUDIT)
            ),
            peers: metric!("peers", "Other instances that are alive", Gauge::default()),
            peers_apart: metric!(
                "peers_apart",
                "Live instances with an incompatible version or another cluster key",
                Gauge::default()
            ),
            leader: metric!(
                "leader",
                "Whether this instance is the leader of the task",
                Family::default()
            ),
            slots: metric!(
                "slots",
                "Open slots of the ready nodes of this instance, by use",
                Family::default()
            ),
            breakers_open: metric!(
                "breakers_open",
                "Nodes of this instance whose circuit breaker is open or half-open",
                Gauge::default()
            ),
            inbox: metric!(
                "inbox_envelopes",
                "Messages of other instances in the inbox of this one",
                Gauge::default()
            ),
            store_up: metric!("store_up", "Whether the store answers", Gauge::default()),
            store_ping: metric!(
                "store_ping",
                "Round-trip time of the last store ping",
                Gauge::default(),
                Seconds
            ),
            store_errors: metric!(
                "store_errors",
                "Failed store calls by kind",
                known::by("kind", Pulse::KINDS)
            ),
            draining: metric!("draining", "Whether this instance is draining", Gauge::default()),
            stale_total: AtomicU64::new(0),
            list: {
                let build: Family<Labels, Gauge> =
                    metric!("build_info", "Always 1; which version runs", Family::default());
                build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
                list
            },
            edge,
            process,
            reserve,
            ended,
            granted,
            done,
            registry: root,
        };
        metrics.set_nodes([0; Health::ALL.len()]);
        metrics.set_counts(&NodeCounts::default());
        metrics
    }
}

impl Metrics {
    pub(crate) fn reserve(&self, outcome: &'static str) {
        self.reserve.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// A job ended badly. A node's own codes are one label value: a node must not fill the memory.
    pub(crate) fn ended(&self, code: &'static str) {
        self.ended.get_or_create(&[("code", code)]).inc();
    }

    pub(crate) fn retry(&self, code: &'static str) {
        self.retries.get_or_create(&[("code", code)]).inc();
    }

    pub(crate) fn stale(&self, kind: &'static str) {
        self.stale_total.fetch_add(1, Ordering::Relaxed);
        self.stale.get_or_create(&[("kind", kind)]).inc();
    }

    /// A wish met this limit.
    pub fn limited(&self, limit: &'static str) {
        self.limited.get_or_create(&[("limit", limit)]).inc();
    }

    pub(crate) fn gap(&self, followed: &'static str) {
        self.gaps.get_or_create(&[("followed", followed)]).inc();
    }

    /// A client was asked to hold on.
    pub fn pressed(&self) {
        self.backpressure.inc();
    }

    /// Bytes of speech that never became a packet or a sample.
    pub fn audio_unframed(&self, bytes: usize) {
        self.audio_dropped("unframed", bytes);
    }

    pub(crate) fn utterance(&self, cut_by: &'static str) {
        self.utterances.get_or_create(&[("cut", cut_by)]).inc();
    }

    pub(crate) fn ending(&self, how: &'static str) -> u64 {
        self.endings.get_or_create(&[("ending", how)]).inc()
    }

    pub(crate) fn audio_dropped(&self, reason: &'static str, bytes: usize) {
        self.dropped.get_or_create(&[("reason", reason)]).inc_by(bytes as u64);
    }

    pub(crate) fn session_ignored(&self, reason: &'static str) {
        self.session_ignored.get_or_create(&[("reason", reason)]).inc();
    }

    pub(crate) fn resumed(&self, how: &'static str) {
        self.resumed.get_or_create(&[("how", how)]).inc();
    }

    pub(crate) fn opened(&self, outcome: &'static str) {
        self.opened.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(crate) fn bus_sent(&self, words: u64) {
        self.bus.get_or_create(&[("what", "sent")]).inc_by(words);
    }

    pub(crate) fn bus_received(&self, words: u64) {
        self.bus.get_or_create(&[("what", "received")]).inc_by(words);
    }

    pub(crate) fn bus_bounced(&self) {
        self.bus.get_or_create(&[("what", "bounced")]).inc();
    }

    /// What became of so many lines of the audit log: `written` or `lost`.
    pub fn audit_lines(&self, outcome: &'static str, count: u64) {
        self.audit_lines.get_or_create(&[("outcome", outcome)]).inc_by(count);
    }

    /// What became of so many spans: `exported`, `dropped` or `refused`.
    pub fn spans(&self, outcome: &'static str, count: u64) {
        self.spans.get_or_create(&[("outcome", outcome)]).inc_by(count);
    }

    pub(crate) fn leads(&self, task: &'static str, leads: bool) {
        self.leader.get_or_create(&[("task", task)]).set(i64::from(leads));
    }

    pub(crate) fn set_nodes(&self, counts: [i64; Health::ALL.len()]) {
        for (health, count) in Health::ALL.into_iter().zip(counts) {
            self.nodes.get_or_create(&[("state", health.as_str())]).set(count);
        }
    }

    pub(crate) fn set_counts(&self, nodes: &NodeCounts) {
        let counts = [nodes.used, nodes.slots.saturating_sub(nodes.used)];
        for (state, count) in known::SLOTS.into_iter().zip(counts) {
            self.slots.get_or_create(&[("use", state)]).set(count as i64);
        }
        self.breakers_open.set(nodes.breaker_open as i64);
    }

    pub(crate) fn set_inbox(&self, envelopes: usize) {
        self.inbox.set(envelopes as i64);
    }

    /// The process began then, in epoch milliseconds.
    pub(crate) fn started_ms(&self, ms: u64) {
        self.process.started_ms(ms);
    }

    /// Brings up to date what nobody counts as it happens.
    pub(crate) fn look(&self, store_up: bool, pulse: &Pulse, draining: bool) {
        self.store_up.set(i64::from(store_up));
        self.store_ping.set(pulse.ping().as_secs_f64());
        for (kind, count) in Pulse::KINDS.into_iter().zip(pulse.errors()) {
            let errors = self.store_errors.get_or_create(&[("kind", kind)]);
            errors.inner().store(count, Ordering::Relaxed);
        }
        self.draining.set(i64::from(draining));
        self.process.look();
    }

    /// Everything that only grows and that is told in snapshots.
    pub(crate) fn counters(&self) -> Counters {
        let count = |family: &By, label: &'static str, value: &'static str| {
            family.get(&[(label, value)]).map_or(0, |counter| counter.get())
        };
        let counted = |family: &By, label: &'static str, value: &'static str| {
            let count = count(family, label, value);
            (count > 0).then(|| (value.to_owned(), count))
        };
        Counters {
            retries: known::codes().map(|code| count(&self.retries, "code", code)).sum(),
            ended: known::ended().filter_map(|code| counted(&self.ended, "code", code)).collect(),
            endings: known::endings()
                .filter_map(|how| counted(&self.endings, "ending", how))
                .collect(),
            dispatch: self.place_seconds.counted(),
            job: self.job_seconds.counted(),
            sentence: self.ending_seconds.counted(),
        }
    }

    /// All there are.
    pub fn list(&self) -> &[Listed] {
        &self.list
    }

    /// All of them as Prometheus reads them.
    pub fn render(&self) -> String {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            let _ = write!(text, "# metrics could not be written\n# EOF\n");
        }
        text
    }
}
