//! What the edge has open: connections, readers, and bytes that are not yet a message.

use prometheus_client::metrics::gauge::Gauge;

use super::registrar::metric;
use super::{Metrics, Registrar};

pub(super) struct Edge {
    connections: Gauge,
    readers: Gauge,
    unfinished: Gauge,
}

impl Edge {
    pub fn register(to: &mut Registrar<'_>) -> Self {
        Edge {
            connections: metric!(to, "connections", "Open connections", Gauge::default()),
            readers: metric!(
                to,
                "dashboard_readers",
                "Subscribers of /api/v1/events",
                Gauge::default()
            ),
            unfinished: metric!(
                to,
                "unfinished_bytes",
                "Memory reserved for messages and bodies that are not complete",
                Gauge::default()
            ),
        }
    }
}

/// Something that counts for as long as it is held.
#[must_use = "it counts until it is dropped"]
#[derive(Debug)]
pub struct CountGuard(Gauge);

impl CountGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        CountGuard(gauge.clone())
    }
}

impl Drop for CountGuard {
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
    pub fn connection(&self) -> CountGuard {
        CountGuard::new(&self.edge.connections)
    }

    /// Somebody who follows how everything stands.
    pub fn reader(&self) -> CountGuard {
        CountGuard::new(&self.edge.readers)
    }

    /// Where to say how many bytes are set aside for what is not whole yet.
    pub fn unfinished_bytes(&self) -> Bytes {
        Bytes(self.edge.unfinished.clone())
    }
}
