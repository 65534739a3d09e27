//! The properties of the machines and of choosing, over any order of events.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]
#![allow(clippy::print_stdout, reason = "figures for who runs it with --nocapture")]

mod fleet_model;
mod job_properties;
mod job_scenarios;
mod link_properties;
mod link_scenarios;
mod planted_flaws;
mod select_fairness;
mod select_load;
mod session_properties;
mod session_scenarios;

use lingua_core::NodeId;
use lingua_core::fleet::Fleet;

/// A job took a slot of the node.
fn take_slot(fleet: &mut Fleet, node: &NodeId) {
    let (used, max) = usage(fleet, node);
    fleet.set_usage(node, used + 1, max);
}

/// A job gave a slot of the node back.
fn free_slot(fleet: &mut Fleet, node: &NodeId) {
    let (used, max) = usage(fleet, node);
    fleet.set_usage(node, used.saturating_sub(1), max);
}

fn usage(fleet: &Fleet, node: &NodeId) -> (u32, u32) {
    fleet.get(node).map_or((0, 0), |node| (node.used(), node.max()))
}
