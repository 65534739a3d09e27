//! Chance is fair whatever the size of the fleet and whoever came or went.

use std::collections::HashMap;
use std::sync::Arc;

use lingua_core::eligibility::{Need, Route, Standing};
use lingua_core::fleet::select::{SelectPolicy, Selector, Source, Wish};
use lingua_core::fleet::{Fleet, NodeEntry, ProfileVersion};
use lingua_core::inventory::Asks;
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, NodeProfile};
use lingua_core::{Lang, NodeId, TenantId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{free_slot, take_slot};

fn route() -> Route {
    Route::Directed(Lang::new("en").unwrap(), Lang::new("zh").unwrap())
}

fn need() -> Need {
    let tenant = TenantId::new("t").unwrap();
    Need { route: route(), speech: false, typed: false, asks: Asks::NONE, tenant, named: false }
}

fn entry() -> NodeEntry {
    let semantic = LangSet::new(["en", "zh"].map(|t| Lang::new(t).unwrap())).unwrap();
    let declared = Declaration { semantic, max_slots: 2, ..Declaration::default() };
    NodeEntry {
        profile: Arc::new(NodeProfile::from_declaration(declared).unwrap()),
        version: ProfileVersion::new(1),
        standing: Standing::READY,
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
        take_slot(&mut fleet, node);
    }
    let mut herd = 0;
    for _ in 0..1_000 {
        let mut selector =
            Selector::new(need(), Wish::default(), SelectPolicy::default(), rng.next_u64());
        herd += u32::from(selector.next(&mut fleet).unwrap().node == nodes[0]);
    }
    assert!(herd < 40, "{herd} of 1000 chose the one idle node, expected about 20");
}

/// Jobs begin and end all the time, and the load of every node changes with them: 20,000 jobs over 50
/// equal nodes are spread as evenly as chance allows or better, at a level of 1 %.
#[test]
fn jobs_that_come_and_go_are_spread_evenly_over_equal_nodes() {
    // Of a chi-square with 49 degrees of freedom.
    const ONE_PER_CENT: f64 = 74.9;
    for (seed, running) in [(4, 0), (5, 10), (6, 40), (7, 80)] {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut fleet = weathered(50, &mut rng);
        let (mut counts, mut jobs) = (HashMap::new(), Vec::new());
        for _ in 0..20_000 {
            let (wish, policy) = (Wish::default(), SelectPolicy::default());
            let mut selector = Selector::new(need(), wish, policy, rng.next_u64());
            let node = selector.next(&mut fleet).unwrap().node;
            take_slot(&mut fleet, &node);
            *counts.entry(node.clone()).or_insert(0u64) += 1;
            jobs.push(node);
            while jobs.len() > running {
                let ended = (rng.next_u64() % jobs.len() as u64) as usize;
                free_slot(&mut fleet, &jobs.swap_remove(ended));
            }
        }
        let chi: f64 = counts.values().map(|c| (*c as f64 - 400.0).powi(2) / 400.0).sum();
        assert!(counts.len() == 50 && chi < ONE_PER_CENT, "{running} running: {chi:.1}");
    }
}

/// Drawing rests when enough idle nodes were met, and goes on when those are refused.
#[test]
fn among_idle_nodes_the_quicker_is_likely_and_the_busy_ones_of_the_sample_follow() {
    let mut fleet = Fleet::default();
    let slow = |node: &NodeId| node.as_str()[1..].parse::<usize>().unwrap() % 4 < 2;
    let busy = |node: &NodeId| node.as_str()[1..].parse::<usize>().unwrap() % 2 == 0;
    for node in (0..100).map(name) {
        fleet.put(node.clone(), entry());
        fleet.record_latency(&node, if slow(&node) { 8_000 } else { 1_000 });
        if busy(&node) {
            take_slot(&mut fleet, &node);
        }
    }
    let mut rng = StdRng::seed_from_u64(8);
    let mut quick = 0;
    for _ in 0..400 {
        let (wish, policy) = (Wish::default(), SelectPolicy::default());
        let mut selector = Selector::new(need(), wish, policy, rng.next_u64());
        let order: Vec<NodeId> = std::iter::from_fn(|| selector.next(&mut fleet))
            .take_while(|candidate| candidate.source == Source::Sample)
            .map(|candidate| candidate.node)
            .collect();
        assert_eq!(order.len(), policy.sample_k);
        assert!(order.is_sorted_by_key(busy), "{order:?}");
        quick += u32::from(!slow(&order[0]));
    }
    assert!((350..400).contains(&quick), "{quick} of 400, all but those with four slow ones");
}
