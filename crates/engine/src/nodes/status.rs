//! A node as people see it.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::InstanceId;
use lingua_core::link::{Aside, Audience, BreakerView, Reputation, Supports};
use lingua_core::node::{Health, NodeProfile};
use lingua_store::nodes::Order;

use super::{NodeDetail, NodeHandle};

/// A node at one moment, whoever has its connection.
pub(crate) struct NodeStatus {
    pub instance: InstanceId,
    pub health: Health,
    pub connected: bool,
    pub fresh: bool,
    pub overloaded: bool,
    pub order: Order,
    pub breaker: BreakerView,
    pub epoch: u64,
    /// Why it is put aside, if it is.
    pub aside: Option<Aside>,
    /// It gets no jobs for so long, unless it reports what it runs: this process started a moment ago.
    pub held_for: Option<Duration>,
    pub open_slots: u32,
    /// Slots that are chosen like those of any other node; more of them are a last resort.
    pub trusted_slots: u32,
    /// Attempts that a job waits for.
    pub running: usize,
    /// Jobs that it did and failed while this instance had it.
    pub here: (u64, u64),
    /// What it did and failed; `None` if another instance has that.
    pub past: Option<Reputation>,
    pub profile: Arc<NodeProfile>,
    pub supports: Supports,
    pub missing_models: Vec<String>,
    pub detail: Arc<NodeDetail>,
}

impl NodeHandle {
    pub fn status(&self) -> NodeStatus {
        let now = self.host.now();
        let state = self.lock();
        let machine = &state.machine;
        let standing = machine.standing();
        NodeStatus {
            instance: self.host.shared.instance.id.clone(),
            health: machine.health(Audience::People),
            connected: machine.is_connected(),
            fresh: machine.is_fresh(now),
            overloaded: standing.overloaded,
            order: machine.order(),
            breaker: BreakerView::of(machine.breaker(), now),
            epoch: machine.epoch(),
            aside: machine.aside(),
            held_for: machine.held_for(),
            open_slots: machine.open_slots(),
            trusted_slots: machine.trusted_slots(),
            running: machine.wanted(),
            here: machine.totals_here(),
            past: Some(machine.reputation()),
            profile: Arc::clone(machine.profile().0),
            supports: machine.supports().unwrap_or_default(),
            missing_models: standing.missing_models.iter().map(ToString::to_string).collect(),
            detail: Arc::clone(&state.detail),
        }
    }
}
