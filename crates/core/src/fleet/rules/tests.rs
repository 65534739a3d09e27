use std::collections::HashMap;

use super::super::select::{SelectPolicy, Selector, Wish};
use super::*;
use crate::fleet::tests::{entry, id, need, take_slot, writes};
use crate::fleet::{NodeEntry, assert_sound};
use crate::ids::Region;
use crate::node::Declaration;

fn region(name: &str) -> Region {
    Region::new(name).unwrap()
}

/// A node with ten slots.
fn node(region_name: Option<&str>, cost_micros: u32) -> NodeEntry {
    let region = region_name.map(region);
    entry(Declaration { region, cost_micros, ..writes(&["en", "zh"], 10) })
}

fn fleet(nodes: &[(&str, NodeEntry, u32)]) -> Fleet {
    let mut fleet = Fleet::default().in_region(Some(region("here")));
    for (name, entry, used) in nodes {
        fleet.put(id(name), entry.clone());
        fleet.set_usage(&id(name), *used, 10);
    }
    assert_sound(&fleet);
    fleet
}

fn selector(rank: RankRule, chance: u64) -> Selector {
    let policy = SelectPolicy { rank, ..SelectPolicy::default() };
    Selector::new(need("en", "zh"), Wish::default(), policy, chance)
}

/// The order in which a job tries the nodes, the same for every chance.
fn order(fleet: &mut Fleet, rank: RankRule) -> Vec<String> {
    let mut orders = (0..50).map(|chance| {
        let mut selector = selector(rank, chance);
        std::iter::from_fn(|| selector.next(fleet)).map(|c| c.node.to_string()).collect::<Vec<_>>()
    });
    let first = orders.next().unwrap();
    assert!(orders.all(|other| other == first));
    first
}

/// How often each node is the first choice.
fn firsts(fleet: &mut Fleet, rank: RankRule, draws: u64) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    for chance in 0..draws {
        let node = selector(rank, chance).next(fleet).unwrap().node;
        *counts.entry(node.to_string()).or_default() += 1;
    }
    counts
}

#[test]
fn a_session_that_says_where_it_is_is_near_there_and_not_near_the_instance() {
    let nodes = [("here", node(Some("here"), 0), 0), ("there", node(Some("there"), 0), 0)];
    let mut fleet = fleet(&nodes);
    let policy = SelectPolicy { rank: RankRule::Region, ..SelectPolicy::default() };
    for (said, first) in [(None, "here"), (Some("there"), "there"), (Some("here"), "here")] {
        for chance in 0..50 {
            let wish = Wish { region: said.map(region), ..Wish::default() };
            let mut selector = Selector::new(need("en", "zh"), wish, policy, chance);
            assert_eq!(selector.next(&mut fleet).unwrap().node.as_str(), first, "{said:?}");
        }
    }
}

#[test]
fn of_equally_loaded_nodes_those_in_the_same_region_go_first() {
    let mut fleet = fleet(&[
        ("near-busy", node(Some("here"), 0), 5),
        ("far-idle", node(Some("there"), 0), 0),
        ("near-slow", node(Some("here"), 0), 2),
        ("far-quick", node(None, 0), 2),
    ]);
    fleet.record_latency(&id("near-slow"), 5_000);
    let expected = ["far-idle", "near-slow", "far-quick", "near-busy"];
    assert_eq!(order(&mut fleet, RankRule::Region), expected);
    let by_load = ["far-idle", "far-quick", "near-slow", "near-busy"];
    assert_eq!(
        order(&mut fleet, RankRule::Load),
        by_load,
        "without the rule the quicker goes first"
    );

    fleet.put(id("far-quick"), node(Some("here"), 0));
    fleet.put(id("near-slow"), node(Some("there"), 0));
    let moved = ["far-idle", "far-quick", "near-slow", "near-busy"];
    assert_eq!(
        order(&mut fleet, RankRule::Region),
        moved,
        "a node that layout_version counts by its new region"
    );
}

#[test]
fn without_a_region_of_its_own_an_instance_prefers_no_node() {
    let mut fleet = fleet(&[("a", node(Some("here"), 0), 0), ("b", node(None, 0), 0)]);
    assert_eq!(firsts(&mut fleet, RankRule::Region, 50).len(), 1);
    let mut fleet = fleet.in_region(None);
    assert_eq!(firsts(&mut fleet, RankRule::Region, 50).len(), 2);
    assert_sound(&fleet);
}

#[test]
fn the_cheapest_node_goes_first_until_it_is_full() {
    let mut fleet = fleet(&[
        ("dear", node(None, 2_000_000), 0),
        ("cheap-busy", node(None, 1), 9),
        ("cheap", node(None, 1), 8),
        ("dearest", node(None, crate::limits::MAX_COST_MICROS), 0),
        ("free-of-charge", node(None, 0), 9),
    ]);
    let expected = ["free-of-charge", "cheap", "cheap-busy", "dear", "dearest"];
    assert_eq!(order(&mut fleet, RankRule::Cheapest), expected);
    take_slot(&mut fleet, &id("free-of-charge"));
    assert_eq!(order(&mut fleet, RankRule::Cheapest)[0], "cheap", "a full node is asked last");
    fleet.put(id("cheap"), node(None, 3_000_000));
    assert_eq!(order(&mut fleet, RankRule::Cheapest)[0], "cheap-busy", "its price rose");
}

/// A tenth of a large fleet is in the region: a sample of 20 misses it with a chance of 0.9^20 = 12 %.
#[test]
fn a_rule_is_kept_as_far_as_a_sample_sees_and_is_fair_among_equals() {
    let entries = [node(Some("here"), 1), node(Some("there"), 2)];
    let mut fleet = Fleet::default().in_region(Some(region("here")));
    for n in 0..1_000 {
        fleet.put(id(&format!("n{n}")), entries[usize::from(n % 10 != 0)].clone());
    }
    const DRAWS: u64 = 20_000;
    for rank in [RankRule::Region, RankRule::Cheapest] {
        let counts = firsts(&mut fleet, rank, DRAWS);
        let (near, far): (Vec<_>, Vec<_>) =
            counts.iter().partition(|(name, _)| name.ends_with('0'));
        let near_draws: u64 = near.iter().map(|(_, count)| **count).sum();
        assert!((86..=90).contains(&(near_draws * 100 / DRAWS)), "{rank:?}: {near_draws}");
        assert_eq!((near.len(), far.len() > 600), (100, true), "{rank:?}");
        let expected = near_draws as f64 / 100.0;
        let chi: f64 =
            near.iter().map(|(_, count)| (**count as f64 - expected).powi(2) / expected).sum();
        assert!(chi < 99.0 + 5.0 * 198f64.sqrt(), "{rank:?}: chi-square {chi:.1}");
    }
}

#[test]
fn every_rule_looks_at_as_many_nodes_in_a_large_fleet_as_in_a_small_one() {
    let looks = |fleet: &mut Fleet, rank: RankRule| {
        let one = |chance| {
            let mut selector = selector(rank, chance);
            assert!(selector.next(fleet).is_some());
            selector.looks()
        };
        (0..100).map(one).max().unwrap()
    };
    for nodes in [10, 1_000, 100_000] {
        let mut fleet = Fleet::default().in_region(Some(region("here")));
        let entry = node(Some("there"), 7);
        (0..nodes).for_each(|n| fleet.put(id(&format!("n{n}")), entry.clone()));
        for rank in [RankRule::Load, RankRule::Region, RankRule::Cheapest] {
            let most = looks(&mut fleet, rank);
            assert!(most <= 4 * 20 + 1, "{rank:?} of {nodes}: {most}");
        }
    }
}

#[test]
fn ranks_are_compared_by_demerits_then_order_then_tie() {
    let ascending = [
        Rank::new(0, 0),
        Rank::new(0, 63),
        Rank::new(1, 0),
        Rank::new((1 << 56) - 1, 63),
        Rank::new(0, 0).after(1),
        Rank::new((1 << 56) - 1, 63).after(2),
        Rank::new(0, 0).after(3),
    ];
    assert!(ascending.is_sorted_by(|one, other| one < other));
    assert_eq!(ascending.map(Rank::is_best), [true, true, false, false, false, false, false]);
}
