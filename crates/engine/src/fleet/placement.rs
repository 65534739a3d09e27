//! Slots that count as taken in the fleet view.
//!
//! A slot taken by a job of this instance is a [`Placement`]: making it counts one up, dropping it
//! counts one down, and nothing else does. What other instances hold is known from the store's answers
//! (`granted` and `full` carry the node's usage) and from peers that say that they freed a slot, which
//! they do while jobs wait here. So nobody asks a full node again and again. Only what nobody tells,
//! the slots of an instance that died or of one of an older version, is found by a net: figures of
//! which nothing was heard for [`OTHERS_KEPT`] are forgotten, so many at a time however many nodes
//! there are, and the next job that is placed there learns the truth.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lingua_core::NodeId;
use lingua_core::fleet::Fleet;
use lingua_core::fleet::select::{Candidate, Source};
use lingua_core::node::Health;
use tokio::time::Instant;

use super::{FleetView, State};

/// How long a figure of slots held by other instances is believed, at least. It is shorter than the 2 s
/// in which a waiting job gets a free slot.
const OTHERS_KEPT: Duration = Duration::from_millis(1_500);

/// Figures that are forgotten by one look: what is asked because of them must not grow with the fleet.
const FORGOTTEN_AT_ONCE: usize = 64;

/// Who gets slots that come free: the queue of waiting jobs.
pub(crate) trait FreedSlots: Send + Sync {
    /// Whether any job waits.
    fn is_wanted(&self) -> bool;

    /// Gives the slot to a waiting job that can use it, or back to the caller.
    fn offer(&self, slot: Placement) -> Option<Placement>;

    /// A slot came free that no job here waits for: other instances may have some that do.
    fn announce(&self, node: &NodeId, was_full: bool);
}

/// One slot of a node, counted as taken in the fleet view while this value lives. Dropping it gives
/// the slot to a waiting job or back to the view.
#[must_use = "dropping it gives the slot back"]
pub(crate) struct Placement {
    view: Arc<FleetView>,
    candidate: Candidate,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The store has not granted it.
    Chosen,
    /// The store granted it.
    Granted,
    /// It no longer counts.
    Over,
}

impl Placement {
    /// The node, and how it was chosen.
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The store granted the slot and says how many of the node's slots are taken, if it does.
    pub fn granted(&mut self, used: Option<u32>) {
        let mut state = self.view.state.lock();
        self.stage = Stage::Granted;
        let State { fleet, usage } = &mut *state;
        let node = usage.of(&self.candidate.node);
        node.chosen -= 1;
        node.granted += 1;
        if let Some(used) = used {
            // Placements that are being asked for may be granted already.
            let own = node.granted + node.chosen;
            usage.set_others(&self.candidate.node, used.saturating_sub(own));
            usage.show(&self.candidate.node, fleet, None);
        }
    }

    /// The store says that all slots of the node are taken.
    pub fn refused_full(mut self, used: u32, max: u32) {
        let mut state = self.view.state.lock();
        self.stage = Stage::Over;
        let State { fleet, usage } = &mut *state;
        let node = usage.of(&self.candidate.node);
        node.chosen -= 1;
        let own = node.granted;
        usage.set_others(&self.candidate.node, used.saturating_sub(own));
        usage.show(&self.candidate.node, fleet, Some(max));
    }

    /// Another instance looks after the slot from now on: it stays taken until that one says that it
    /// is free, or until nobody has said anything of it for a while.
    pub fn leave_to_peer(mut self) {
        let mut state = self.view.state.lock();
        let State { fleet, usage } = &mut *state;
        let others = usage.of(&self.candidate.node).others;
        usage.count_down(&self.candidate.node, self.stage);
        self.stage = Stage::Over;
        usage.set_others(&self.candidate.node, others + 1);
        usage.show(&self.candidate.node, fleet, None);
    }

    /// Counts the slot as free, without offering it to waiting jobs.
    pub fn give_back(mut self) {
        let view = Arc::clone(&self.view);
        self.end(&mut view.state.lock());
    }

    fn end(&mut self, state: &mut State) {
        state.usage.count_down(&self.candidate.node, self.stage);
        self.stage = Stage::Over;
        state.usage.show(&self.candidate.node, &mut state.fleet, None);
    }

    /// The same slot for the next job.
    fn successor(&mut self, state: &mut State) -> Option<Placement> {
        // A node that left the fleet has no slot for anybody.
        let version = *state.fleet.get(&self.candidate.node)?.version();
        let usage = state.usage.of(&self.candidate.node);
        if self.stage == Stage::Granted {
            usage.granted -= 1;
            usage.chosen += 1;
        }
        self.stage = Stage::Over;
        let node = self.candidate.node.clone();
        let candidate = Candidate { node, version, source: Source::Handed };
        Some(Placement { view: Arc::clone(&self.view), candidate, stage: Stage::Chosen })
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        if self.stage == Stage::Over {
            return;
        }
        let view = Arc::clone(&self.view);
        let mut state = view.state.lock();
        let full = state.fleet.get(&self.candidate.node).is_some_and(|node| node.is_full());
        let freed = view.freed.get();
        let wanted = freed.is_some_and(|freed| freed.is_wanted());
        let next = if wanted { self.successor(&mut state) } else { None };
        if next.is_none() {
            self.end(&mut state);
        }
        drop(state);
        let Some(freed) = freed else { return };
        if let Some(next) = next {
            match freed.offer(next) {
                Some(unwanted) => unwanted.give_back(),
                // Whoever has it now frees it.
                None => return,
            }
        }
        freed.announce(&self.candidate.node, full);
    }
}

impl FleetView {
    /// Says who gets slots that come free; once.
    pub(crate) fn set_freed(&self, freed: Box<dyn FreedSlots>) {
        let _ = self.freed.set(freed);
    }

    /// Offers up to `slots` free slots of a node that joined, opened or came back to waiting jobs.
    pub(crate) fn offer(self: &Arc<Self>, id: &NodeId, slots: u32) {
        let Some(freed) = self.freed.get() else { return };
        for _ in 0..slots {
            if !freed.is_wanted() {
                return;
            }
            let Some(slot) = self.place_if_free(id) else { return };
            if let Some(unwanted) = freed.offer(slot) {
                return unwanted.give_back();
            }
        }
    }

    /// Offers up to `slots` free slots of a node to waiting jobs, if it takes jobs.
    pub(crate) fn offer_if_ready(self: &Arc<Self>, id: &NodeId, slots: u32) {
        if !self.freed.get().is_some_and(|freed| freed.is_wanted()) {
            return;
        }
        let open = match self.lock().get(id) {
            Some(node) if node.standing().health == Health::Ready && node.standing().fresh => {
                node.max()
            }
            _ => return,
        };
        self.offer(id, open.min(slots));
    }

    /// Another instance freed a slot of this node.
    pub(crate) fn freed_by_peer(&self, id: &NodeId) {
        let mut state = self.state.lock();
        let State { fleet, usage } = &mut *state;
        let Some(others) = usage.others(id) else { return };
        usage.set_others(id, others - 1);
        usage.show(id, fleet, None);
    }

    /// A slot came free in the store that no job of this instance held: those who wait are offered it,
    /// here and elsewhere.
    pub(crate) fn freed_in_store(self: &Arc<Self>, id: &NodeId) {
        let was_full = self.lock().get(id).is_some_and(|node| node.is_full());
        self.freed_by_peer(id);
        self.offer_if_ready(id, 1);
        if let Some(freed) = self.freed.get() {
            freed.announce(id, was_full);
        }
    }

    /// Forgets the oldest figures of other instances' slots that are too old: those nodes.
    pub(crate) fn expire_others(&self, now: Instant) -> Vec<NodeId> {
        let mut state = self.state.lock();
        let State { fleet, usage } = &mut *state;
        let expired = usage.expire(now, FORGOTTEN_AT_ONCE);
        for id in &expired {
            usage.show(id, fleet, None);
        }
        expired
    }

    /// Forgets all figures of other instances' slots, a few at a time: who held them is gone.
    pub(crate) fn forget_others(&self) {
        self.state.lock().usage.expire_soon();
    }

    pub(super) fn place(self: &Arc<Self>, state: &mut State, candidate: Candidate) -> Placement {
        state.usage.of(&candidate.node).chosen += 1;
        state.usage.show(&candidate.node, &mut state.fleet, None);
        Placement { view: Arc::clone(self), candidate, stage: Stage::Chosen }
    }
}

/// The slots that count as taken, by node, for the nodes of the fleet and those with a placement out.
#[derive(Default)]
pub(super) struct UsageTable {
    nodes: HashMap<NodeId, Usage, lingua_core::hash::Quality>,
    /// When figures of other instances' slots expire, each node at most once, in order.
    expiries: VecDeque<(Instant, NodeId)>,
}

#[derive(Default)]
struct Usage {
    chosen: u32,
    granted: u32,
    others: u32,
    /// When `others` was last set, while the node is among the expiries.
    heard: Option<Instant>,
}

impl UsageTable {
    /// Slots of the node that count as taken.
    pub fn used(&self, id: &NodeId) -> u32 {
        self.nodes.get(id).map_or(0, |usage| usage.chosen + usage.granted + usage.others)
    }

    fn of(&mut self, id: &NodeId) -> &mut Usage {
        if !self.nodes.contains_key(id) {
            self.nodes.insert(id.clone(), Usage::default());
        }
        self.nodes.get_mut(id).expect("it was put there if it was missing")
    }

    fn others(&self, id: &NodeId) -> Option<u32> {
        self.nodes.get(id).map(|usage| usage.others).filter(|others| *others > 0)
    }

    fn set_others(&mut self, id: &NodeId, others: u32) {
        let usage = self.of(id);
        usage.others = others;
        if others == 0 {
            return;
        }
        let now = Instant::now();
        if usage.heard.replace(now).is_none() {
            self.expiries.push_back((now + OTHERS_KEPT, id.clone()));
        }
    }

    fn count_down(&mut self, id: &NodeId, stage: Stage) {
        let usage = self.of(id);
        match stage {
            Stage::Chosen => usage.chosen -= 1,
            Stage::Granted => usage.granted -= 1,
            Stage::Over => {}
        }
    }

    /// At most so many nodes whose figure of other instances' slots was not heard again in time.
    fn expire(&mut self, now: Instant, most: usize) -> Vec<NodeId> {
        let mut expired = Vec::new();
        while expired.len() < most
            && let Some((_, id)) = self.expiries.pop_front_if(|(at, _)| *at <= now)
        {
            let Some(usage) = self.nodes.get_mut(&id) else { continue };
            let until = usage.heard.map_or(now, |heard| heard + OTHERS_KEPT);
            if until > now && usage.others > 0 {
                self.expiries.push_back((until, id));
                continue;
            }
            let known = std::mem::take(&mut usage.others) > 0;
            usage.heard = None;
            if known {
                expired.push(id);
            }
        }
        expired
    }

    /// No figure is believed any more.
    fn expire_soon(&mut self) {
        let now = Instant::now();
        let long_ago = now.checked_sub(OTHERS_KEPT).unwrap_or(now);
        for usage in self.nodes.values_mut() {
            usage.heard = usage.heard.map(|_| long_ago);
        }
        for (at, _) in &mut self.expiries {
            *at = now;
        }
    }

    /// Brings the fleet in line with what counts as taken on the node.
    fn show(&mut self, id: &NodeId, fleet: &mut Fleet, max: Option<u32>) {
        match fleet.get(id).map(|node| node.max()) {
            Some(known) => fleet.set_usage(id, self.used(id), max.unwrap_or(known)),
            None => self.remove(id),
        }
    }

    /// The node left the fleet: removes it, unless placements of it are still out.
    pub fn remove(&mut self, id: &NodeId) {
        if self.nodes.get(id).is_some_and(Usage::is_unused) {
            self.nodes.remove(id);
        }
    }
}

impl Usage {
    fn is_unused(&self) -> bool {
        self.chosen + self.granted + self.others == 0 && self.heard.is_none()
    }
}

#[cfg(test)]
mod tests;
