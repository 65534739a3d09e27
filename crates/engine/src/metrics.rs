//! Every metric, with unit and help. Ids are never labels.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;

use lingua_core::node::Health;
use lingua_core::outcome::{Code, MissingReason};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

use crate::snapshot::part::Counters;
use crate::snapshot::spans::Timed;

type Labels = [(&'static str, &'static str); 1];
type By = Family<Labels, Counter>;

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
    pub(crate) peers: Gauge,
    pub(crate) peers_apart: Gauge,
    leader: Family<Labels, Gauge>,
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
        let mut registry = Registry::with_prefix("lingua");
        let mut list = Vec::new();
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
        let reserve: By =
            metric!("reserve", "Wishes for a slot by what the store answered", By::default());
        let ended: By =
            metric!("jobs_ended", "Jobs that ended, by code; ok for a result", By::default());
        let granted = reserve.get_or_create(&[("outcome", "granted")]).clone();
        let done = ended.get_or_create(&[("code", "ok")]).clone();
        Metrics {
            registrations: metric!(
                "node_registrations",
                "Nodes that registered",
                Counter::default()
            ),
            node_errors: metric!("node_errors", "Errors that nodes reported", Counter::default()),
            ack_timeouts: metric!(
                "ack_timeouts",
                "Attempts that no node acked in time",
                Counter::default()
            ),
            hedges: metric!("hedges", "Second copies of slow jobs", Counter::default()),
            pool_empty: metric!(
                "pool_empty",
                "Jobs that no node was able to take",
                Counter::default()
            ),
            retries_refused: metric!(
                "retries_refused",
                "Retries that the retry budget did not allow",
                Counter::default()
            ),
            slots_left: metric!(
                "slots_left_to_lapse",
                "Slots not given back because the node may still work",
                Counter::default()
            ),
            swept: metric!(
                "jobs_swept",
                "Jobs of other instances that were ended at their deadline",
                Counter::default()
            ),
            waiting: metric!("waiting_jobs", "Jobs in line for a slot", Gauge::default()),
            open_jobs: metric!(
                "open_jobs",
                "Jobs of this instance that are open",
                Gauge::default()
            ),
            place_seconds: Timed::of(metric!(
                "dispatch",
                "From the hand-in of a job to its way to a node",
                spans(),
                Seconds
            )),
            wait_seconds: Timed::of(metric!(
                "wait",
                "Time in line of jobs that waited",
                spans(),
                Seconds
            )),
            job_seconds: Timed::of(metric!(
                "job",
                "From the hand-in of a job to its end",
                spans(),
                Seconds
            )),
            retries: metric!("retries", "Attempts after a failed one, by its code", By::default()),
            stale: metric!(
                "stale_fence",
                "Words of nodes about attempts that they do not have, by kind",
                By::default()
            ),
            gaps: metric!(
                "model_gaps",
                "Reports of missing models, by what followed",
                By::default()
            ),
            nodes: metric!("nodes", "Nodes of this instance by state", Family::default()),
            sessions: metric!(
                "sessions",
                "Sessions of this instance, those whose client is away for a moment counted",
                Gauge::default()
            ),
            session_panics: metric!(
                "session_panics",
                "Sessions that a mistake of ours ended",
                Counter::default()
            ),
            audio_gaps: metric!(
                "audio_gaps",
                "Times that pieces of speech never came",
                Counter::default()
            ),
            backpressure: metric!(
                "backpressure",
                "Times that a client was asked to hold on",
                Counter::default()
            ),
            told_again: metric!(
                "endings_told_again",
                "Endings told once more after a resume",
                Counter::default()
            ),
            ending_seconds: Timed::of(metric!(
                "ending",
                "From the cut of an utterance to its ending on the client's line",
                spans(),
                Seconds
            )),
            utterances: metric!("utterances", "Utterances by what cut them", By::default()),
            endings: metric!(
                "endings",
                "Endings told to clients: result, or why it is missing",
                By::default()
            ),
            dropped: metric!(
                "audio_dropped_bytes",
                "Bytes of speech that are in no utterance, by reason",
                By::default()
            ),
            session_ignored: metric!(
                "session_ignored",
                "Events without effect on their session, by reason",
                By::default()
            ),
            resumed: metric!("resumed", "Sessions resumed, by how", By::default()),
            opened: metric!(
                "sessions_opened",
                "Wishes to open a session, by what became of them",
                By::default()
            ),
            bus: metric!(
                "bus_words",
                "Words between instances: sent, received, or bounced for want of a receiver",
                By::default()
            ),
            spans: metric!(
                "spans",
                "Spans of traces: exported, dropped on the way, or refused by the collector",
                By::default()
            ),
            peers: metric!("peers", "Other instances that are alive", Gauge::default()),
            peers_apart: metric!(
                "peers_apart",
                "Living instances whose version is too far from this one's",
                Gauge::default()
            ),
            leader: metric!(
                "leader",
                "Whether this instance does the task for all, by task",
                Family::default()
            ),
            stale_total: AtomicU64::new(0),
            reserve,
            ended,
            granted,
            done,
            registry,
            list,
        }
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
        self.stale_total.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.stale.get_or_create(&[("kind", kind)]).inc();
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

    /// Everything that only grows and that is told in snapshots.
    pub(crate) fn counters(&self) -> Counters {
        let codes = Code::ALL.iter().map(|code| code.as_str());
        let codes = codes.chain(["ok", "empty", "NODE_CODE"]);
        let reasons = MissingReason::ALL.iter().map(|reason| reason.as_str()).chain(["result"]);
        let known = |family: &By, label: &'static str, value: &'static str| {
            // Asking must not make it: a counter is there from the first time it is counted.
            let count = family.get(&[(label, value)]).map_or(0, |counter| counter.get());
            (count > 0).then(|| (value.to_owned(), count))
        };
        let codes: Vec<&'static str> = codes.collect();
        let retried = |code: &&'static str| known(&self.retries, "code", code);
        Counters {
            retries: codes.iter().filter_map(retried).map(|(_, count)| count).sum(),
            ended: codes.iter().filter_map(|code| known(&self.ended, "code", code)).collect(),
            endings: reasons.filter_map(|how| known(&self.endings, "ending", how)).collect(),
            dispatch: self.place_seconds.counted(),
            job: self.job_seconds.counted(),
            sentence: self.ending_seconds.counted(),
        }
    }

    /// All there are. A family is rendered from the first time that one of it is counted.
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
