//! How a metric gets its name, its help and its place in the list of all.

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry, Unit};

/// What a metric is called, whether it has been counted yet or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// With prefix and unit, without what its samples add (`_total`, `_bucket`, …).
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
}

pub(super) fn kind<M: TypedMetric>(_: &M) -> &'static str {
    match M::TYPE {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
        _ => "unknown",
    }
}

/// Registers metrics whose names begin with `lingua_`.
pub(super) struct Registrar<'a> {
    registry: &'a mut Registry,
    list: &'a mut Vec<Listed>,
}

impl<'a> Registrar<'a> {
    pub fn new(root: &'a mut Registry, list: &'a mut Vec<Listed>) -> Self {
        Registrar { registry: root.sub_registry_with_prefix("lingua"), list }
    }

    /// `full` is the name with prefix and unit.
    pub fn add<M>(
        &mut self,
        (name, full): (&'static str, &'static str),
        help: &'static str,
        unit: Option<Unit>,
        metric: M,
    ) -> M
    where
        M: Metric + EncodeMetric + TypedMetric + Clone,
    {
        self.list.push(Listed { name: full, kind: kind(&metric) });
        match unit {
            None => self.registry.register(name, help, metric.clone()),
            Some(unit) => self.registry.register_with_unit(name, help, unit, metric.clone()),
        }
        metric
    }
}

/// Registers a metric and gives it back: `metric!(to, "name", "help", metric)`, with `Seconds` behind it for times.
macro_rules! metric {
    ($to:expr, $name:literal, $help:literal, $metric:expr) => {
        $to.add(($name, concat!("lingua_", $name)), $help, None, $metric)
    };
    ($to:expr, $name:literal, $help:literal, $metric:expr, Seconds) => {{
        let unit = Some(prometheus_client::registry::Unit::Seconds);
        $to.add(($name, concat!("lingua_", $name, "_seconds")), $help, unit, $metric)
    }};
}
/// The same for a counter.
macro_rules! counter {
    ($to:expr, $name:literal, $help:literal) => {
        metric!($to, $name, $help, prometheus_client::metrics::counter::Counter::default())
    };
}

/// The same for a gauge.
macro_rules! gauge {
    ($to:expr, $name:literal, $help:literal) => {
        metric!($to, $name, $help, prometheus_client::metrics::gauge::Gauge::default())
    };
}

pub(super) use {counter, gauge, metric};
