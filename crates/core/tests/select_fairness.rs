//! Chance is fair whatever the size of the fleet and whoever came or went.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::collections::HashMap;
use std::sync::Arc;

use lingua_core::eligibility::{Need, Route, Standing};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, NodeProfile};
use lingua_core::pool::{Fleet, NodeEntry, ProfileVersion};
use lingua_core::select::{SelectPolicy, Selector, Wish};
use lingua_core::{Lang, NodeId, TenantId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn route() -> Route {
    Route::Directed(Lang::new("en").unwrap(), Lang::new("zh").unwrap())
}

fn need() -> Need {
    let tenant = TenantId::new("t").unwrap();
    let (services, models) = (Vec::new(), Vec::new());
    Need { route: route(), speech: false, services, models, tenant, named: false }
}

fn entry() -> NodeEntry {
    let semantic = LangSet::new(["en", "zh"].map(|t| Lang::new(t).unwrap())).unwrap();
    let declared = Declaration { semantic, max_slots: 2, ..Declaration::default() };
    NodeEntry {
        profile: Arc::new(NodeProfile::from_declaration(declared).unwrap()),
        version: ProfileVersion::new("1"),
        standing: Standing::READY,
        usage: None,
    }
}

fn name(n: usize) -> NodeId {
    NodeId::new(format!("n{n}")).unwrap()
}

/// A fleet of `nodes` that has seen twice as many come and half of those go, in no order.
fn weathered(nodes: usize, rng: &mut StdRng) -> Fleet {
    let (mut fleet, entry) = (Fleet::default(), entry());
    for n in 0..nodes * 2 {
        fleet.put(name(n), entry.clone());
        if n == nodes / 2 {
            // From here on the pool is there and every change goes through it.
            assert_eq!(fleet.members(route(), false).count(), n + 1);
        }
    }
    let mut left: Vec<usize> = (0..nodes * 2).collect();
    while left.len() > nodes {
        let gone = left.swap_remove((rng.next_u64() % left.len() as u64) as usize);
        fleet.remove(&name(gone));
    }
    for n in left.iter().step_by(3) {
        fleet.set_standing(&name(*n), Standing { fresh: false, ..Standing::READY });
        fleet.set_standing(&name(*n), Standing::READY);
    }
    fleet
}

/// Fails if the counts are too uneven, or too even, to be chance: beyond five standard deviations.
fn assert_fair(counts: &HashMap<NodeId, u64>, nodes: usize, draws: u64) {
    let expected = draws as f64 / nodes as f64;
    let met: f64 = counts.values().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
    let chi = met + (nodes - counts.len()) as f64 * expected;
    let freedom = (nodes - 1) as f64;
    let off = (chi - freedom) / (2.0 * freedom).sqrt();
    assert!(off.abs() < 5.0, "{nodes} nodes: chi-square {chi:.1}, {off:.1} deviations off");
}

/// Flaws 43, 44 and 54: the papers' 101st node got 46 % of all jobs.
#[test]
fn every_member_is_picked_with_the_same_chance_also_after_joins_and_leaves() {
    let mut rng = StdRng::seed_from_u64(1);
    for nodes in [10, 101, 1_000] {
        let mut fleet = weathered(nodes, &mut rng);
        let (mut counts, draws) = (HashMap::new(), nodes as u64 * 200);
        for _ in 0..draws {
            let node = fleet.pick(route(), false, rng.next_u64()).unwrap();
            *counts.entry(node.id().clone()).or_default() += 1;
        }
        assert_fair(&counts, nodes, draws);
    }
}

/// Flaws 44, 56 and 60: among equals the first choice is fair, and so is each of the later ones.
#[test]
fn among_equals_every_node_is_chosen_with_the_same_chance() {
    let mut rng = StdRng::seed_from_u64(2);
    // First, second, last of the sample, and two of the walk behind it.
    const PLACES: [usize; 5] = [0, 1, 9, 20, 25];
    for nodes in [10, 21, 101, 1_000] {
        let mut fleet = weathered(nodes, &mut rng);
        let mut counts: [HashMap<NodeId, u64>; PLACES.len()] = Default::default();
        for _ in 0..nodes * 50 {
            let (wish, policy) = (Wish::default(), SelectPolicy::default());
            let mut selector = Selector::new(need(), wish, policy, rng.next_u64());
            let order: Vec<NodeId> =
                std::iter::from_fn(|| selector.next(&mut fleet)).take(26).map(|c| c.node).collect();
            for (place, counts) in PLACES.iter().zip(&mut counts) {
                if let Some(node) = order.get(*place) {
                    *counts.entry(node.clone()).or_default() += 1;
                }
            }
        }
        for (place, counts) in PLACES.iter().zip(&counts) {
            assert_eq!(counts.is_empty(), *place >= nodes);
            if !counts.is_empty() {
                assert_fair(counts, nodes, counts.values().sum());
            }
        }
    }
}

/// Flaw 60: instances with the same stale view do not all run to the same node.
#[test]
fn the_least_loaded_node_of_a_stale_view_is_not_everybodys_choice() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut fleet = weathered(1_000, &mut rng);
    let nodes: Vec<NodeId> = fleet.nodes().map(|node| node.id().clone()).collect();
    for node in &nodes[1..] {
        fleet.placed(node);
    }
    let mut herd = 0;
    for _ in 0..1_000 {
        let mut selector =
            Selector::new(need(), Wish::default(), SelectPolicy::default(), rng.next_u64());
        herd += u32::from(selector.next(&mut fleet).unwrap().node == nodes[0]);
    }
    assert!(herd < 40, "{herd} of 1000 chose the one idle node, expected about 20");
}
