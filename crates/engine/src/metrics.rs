//! Every metric, with unit and help. Ids are never labels.

mod registrar;
mod edge;
mod instance;
mod jobs;
mod known;
mod nodes;
mod pairs;
mod process;
mod sessions;
mod timed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use lingua_core::node::Health;
use lingua_store::Pulse;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use edge::Edge;
pub use edge::{Bytes, CountGuard};
use instance::InstanceMetrics;
use jobs::JobMetrics;
use known::By;
use nodes::NodeMetrics;
use pairs::PairMetrics;
pub(crate) use pairs::{Level, Stage, WantedSlot};
use process::Process;
pub use registrar::Listed;
use registrar::{Registrar, kind};
use sessions::SessionMetrics;
pub use timed::Quantiles;
pub(crate) use timed::{Counts, Timed};

/// The metrics of one engine. Each part of the engine has its own.
pub struct Metrics {
    registry: Registry,
    list: Vec<Listed>,
    pub(crate) jobs: JobMetrics,
    pub(crate) nodes: NodeMetrics,
    pub(crate) sessions: SessionMetrics,
    pub(crate) pairs: PairMetrics,
    pub(crate) instance: InstanceMetrics,
    edge: Edge,
    process: Process,
}

/// Everything that only grows, as it was at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub ended: BTreeMap<String, u64>,
    pub endings: BTreeMap<String, u64>,
    pub retries: u64,
    pub dispatch: Counts,
    pub job: Counts,
    pub sentence: Counts,
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
        let (mut root, mut list) = (Registry::default(), Vec::new());
        let process = Process::register(&mut root, &mut list);
        let mut to = Registrar::new(&mut root, &mut list);
        let metrics = Metrics {
            jobs: JobMetrics::register(&mut to),
            nodes: NodeMetrics::register(&mut to),
            sessions: SessionMetrics::register(&mut to),
            pairs: PairMetrics::register(&mut to),
            instance: InstanceMetrics::register(&mut to),
            edge: Edge::register(&mut to),
            process,
            registry: root,
            list,
        };
        metrics.set_nodes([0; Health::ALL.len()]);
        metrics.set_slots(0, 0);
        metrics
    }
}

impl Metrics {
    /// The process began then, in epoch milliseconds.
    pub(crate) fn started_ms(&self, ms: u64) {
        self.process.started_ms(ms);
    }

    /// Brings up to date what nobody counts as it happens.
    pub(crate) fn look(&self, store_up: bool, pulse: &Pulse, draining: bool) {
        self.instance.store_up.set(i64::from(store_up));
        self.instance.store_ping.set(pulse.ping().as_secs_f64());
        for (kind, count) in Pulse::KINDS.into_iter().zip(pulse.errors()) {
            let errors = self.instance.store_errors.get_or_create(&[("kind", kind)]);
            errors.inner().store(count, Ordering::Relaxed);
        }
        self.instance.draining.set(i64::from(draining));
        self.pairs.look();
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
            retries: known::codes().map(|code| count(&self.jobs.retries, "code", code)).sum(),
            ended: known::ended()
                .filter_map(|code| counted(&self.jobs.ended, "code", code))
                .collect(),
            endings: known::endings()
                .filter_map(|how| counted(&self.sessions.endings, "ending", how))
                .collect(),
            dispatch: self.jobs.place_seconds.counted(),
            job: self.jobs.job_seconds.counted(),
            sentence: self.sessions.ending_seconds.counted(),
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
