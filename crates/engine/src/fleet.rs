//! The fleet as this instance sees it: one lock around the core's view, held for a choice or a
//! change and never over an await.

use lingua_core::NodeId;
use lingua_core::pool::{Fleet, NodeEntry};
use lingua_core::select::{Candidate, Selector, Source};
use parking_lot::{Mutex, MutexGuard};

/// The fleet view. Own placements count in it from the moment of the choice.
#[derive(Debug, Default)]
pub struct FleetView(Mutex<Fleet>);

impl FleetView {
    /// For questions of several steps.
    pub fn lock(&self) -> MutexGuard<'_, Fleet> {
        self.0.lock()
    }

    /// The next node to ask for a slot; it counts as taken until [`FleetView::ended`] or a truer
    /// figure.
    pub(crate) fn choose(&self, selector: &mut Selector) -> Option<Candidate> {
        let mut fleet = self.0.lock();
        let candidate = selector.next(&mut fleet)?;
        fleet.placed(&candidate.node);
        Some(candidate)
    }

    /// The same, without nodes that look full: neither one that was named nor any other.
    pub(crate) fn choose_free(&self, selector: &mut Selector) -> Option<Candidate> {
        let mut fleet = self.0.lock();
        loop {
            let candidate = selector.next(&mut fleet)?;
            if candidate.source == Source::Full {
                return None;
            }
            if fleet.get(&candidate.node).is_some_and(|node| !node.is_full()) {
                fleet.placed(&candidate.node);
                return Some(candidate);
            }
        }
    }

    /// Takes over what is known of a node, with the slots open on it.
    pub(crate) fn put(&self, id: &NodeId, entry: NodeEntry, open: u32) {
        let mut fleet = self.0.lock();
        fleet.put(id.clone(), entry);
        let used = fleet.get(id).map_or(0, |node| node.used());
        fleet.true_load(id, used, open);
    }

    pub(crate) fn remove(&self, id: &NodeId) {
        self.0.lock().remove(id);
    }

    pub(crate) fn ended(&self, id: &NodeId) {
        self.0.lock().ended(id);
    }

    /// Slots of a node that count as taken.
    pub(crate) fn used(&self, id: &NodeId) -> u32 {
        self.0.lock().get(id).map_or(0, |node| node.used())
    }

    pub(crate) fn true_load(&self, id: &NodeId, used: u32, max: u32) {
        self.0.lock().true_load(id, used, max);
    }

    pub(crate) fn took(&self, id: &NodeId, latency_ms: u32) {
        self.0.lock().took(id, latency_ms);
    }

    /// The node has had nothing to do for a while.
    pub(crate) fn fade(&self, id: &NodeId) {
        self.0.lock().fade(id);
    }
}
