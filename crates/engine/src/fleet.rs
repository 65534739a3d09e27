//! The fleet as this instance sees it: one lock around the core's view, held for a choice or a
//! change and never over an await.
//!
//! `placement`: the slots that jobs of this instance take in the view.

mod placement;

pub(crate) use placement::{FreedSlots, Placement};

use std::sync::{Arc, OnceLock};

use lingua_core::fleet::select::{Candidate, Selector, Source};
use lingua_core::fleet::{Fleet, NodeEntry};
use lingua_core::{NodeId, Region};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use placement::UsageTable;

/// The fleet view. Own placements count in it from the moment of the choice.
#[derive(Default)]
pub struct FleetView {
    state: Mutex<State>,
    freed: OnceLock<Box<dyn FreedSlots>>,
}

#[derive(Default)]
struct State {
    fleet: Fleet,
    usage: UsageTable,
}

impl FleetView {
    /// The empty view of an instance in this region.
    pub fn in_region(region: Option<Region>) -> Self {
        let state = State { fleet: Fleet::default().in_region(region), ..State::default() };
        FleetView { state: Mutex::new(state), ..FleetView::default() }
    }

    /// For questions of several steps.
    pub fn lock(&self) -> MappedMutexGuard<'_, Fleet> {
        MutexGuard::map(self.state.lock(), |state| &mut state.fleet)
    }

    /// The next node to ask for a slot, with a slot of it.
    pub(crate) fn choose(self: &Arc<Self>, selector: &mut Selector) -> Option<Placement> {
        let mut state = self.state.lock();
        let candidate = selector.next(&mut state.fleet)?;
        Some(self.place(&mut state, candidate))
    }

    /// The same, without nodes that look full: neither one that was named nor any other.
    pub(crate) fn choose_free(self: &Arc<Self>, selector: &mut Selector) -> Option<Placement> {
        let mut state = self.state.lock();
        loop {
            let candidate = selector.next(&mut state.fleet)?;
            if candidate.source == Source::Full {
                return None;
            }
            if state.fleet.get(&candidate.node).is_some_and(|node| !node.is_full()) {
                return Some(self.place(&mut state, candidate));
            }
        }
    }

    /// A slot of this node for a waiting job, if one looks free.
    pub(crate) fn place_if_free(self: &Arc<Self>, id: &NodeId) -> Option<Placement> {
        let mut state = self.state.lock();
        let node = state.fleet.get(id).filter(|node| !node.is_full())?;
        let (node, version) = (node.id().clone(), *node.version());
        Some(self.place(&mut state, Candidate { node, version, source: Source::Handed }))
    }

    /// Takes over what is known of a node, with the slots open on it.
    pub(crate) fn put(&self, id: &NodeId, entry: NodeEntry, open: u32) {
        let mut state = self.state.lock();
        let State { fleet, usage } = &mut *state;
        fleet.put(id.clone(), entry);
        fleet.set_usage(id, usage.used(id), open);
    }

    pub(crate) fn remove(&self, id: &NodeId) {
        let mut state = self.state.lock();
        state.fleet.remove(id);
        state.usage.remove(id);
    }

    /// Slots of a node that count as taken.
    pub(crate) fn used(&self, id: &NodeId) -> u32 {
        self.lock().get(id).map_or(0, |node| node.used())
    }

    /// An attempt on the node ended after so long.
    pub(crate) fn record_latency(&self, id: &NodeId, latency_ms: u32) {
        self.lock().record_latency(id, latency_ms);
    }

    /// The node has had nothing to do for a while: its past latencies count for half.
    pub(crate) fn decay_latency(&self, id: &NodeId) {
        self.lock().decay_latency(id);
    }
}
