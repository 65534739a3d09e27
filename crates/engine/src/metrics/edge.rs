//! What the edge has open: connections, readers, and bytes that are not yet a message.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Listed, Metrics, kind};

#[derive(Default)]
pub(super) struct Edge {
    connections: Gauge,
    readers: Gauge,
    unfinished: Gauge,
}

impl Edge {
    pub fn register(registry: &mut Registry, list: &mut Vec<Listed>) -> Self {
        let edge = Edge::default();
        macro_rules! metric {
            ($name:literal, $help:literal, $metric:expr) => {
                registry.register($name, $help, $metric.clone());
                list.push(Listed { name: concat!("lingua_", $name), kind: kind(&$metric) });
            };
        }
        metric!("connections", "Open connections", edge.connections);
        metric!("dashboard_readers", "Subscribers of /api/v1/events", edge.readers);
        metric!(
            "unfinished_bytes",
            "Memory reserved for messages and bodies that are not complete",
            edge.unfinished
        );
        edge
    }
}

/// Something that counts for as long as it is held.
#[must_use = "it counts until it is dropped"]
#[derive(Debug)]
pub struct Held(Gauge);

impl Held {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Held(gauge.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// An amount of memory.
#[derive(Clone, Debug)]
pub struct Bytes(Gauge);

impl Bytes {
    /// So much it is now.
    pub fn set(&self, bytes: usize) {
        self.0.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// What it was last.
    pub fn get(&self) -> i64 {
        self.0.get()
    }
}

impl Metrics {
    /// A connection that is open.
    pub fn connection(&self) -> Held {
        Held::new(&self.edge.connections)
    }

    /// Somebody who follows how everything stands.
    pub fn reader(&self) -> Held {
        Held::new(&self.edge.readers)
    }

    /// Where to say how many bytes are set aside for what is not whole yet.
    pub fn unfinished_bytes(&self) -> Bytes {
        Bytes(self.edge.unfinished.clone())
    }
}
