use std::collections::HashMap;

use super::super::membership::tests::assert_sound;
use super::super::tests::{SPOKEN, entry, free_slot, id, pair, take_slot, writes};
use super::super::{NodeEntry, Standing};
use super::*;
use crate::fleet::select::{SelectPolicy, Selector, Wish};
use crate::inventory::Asks;

/// A language that only this node has.
fn own(n: usize) -> String {
    [n / 676, n / 26 % 26, n % 26].map(|i| char::from(b'a' + i as u8)).iter().collect()
}

fn alone(n: usize) -> NodeEntry {
    entry(writes(&["en", "zh", &own(n + 676 * 10)], 1))
}

fn assert_fair(counts: &HashMap<NodeIx, u64>, members: usize, draws: u64) {
    let expected = draws as f64 / members as f64;
    let chi: f64 = counts.values().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
    let off = (chi - (members - 1) as f64) / (2.0 * (members - 1) as f64).sqrt();
    assert!(counts.len() == members && off.abs() < 5.0, "{} of {members}, {off:.1}", counts.len());
}

/// Large and small classes, grown and shrunk, with many full: each member has the same chance.
#[test]
fn a_member_of_a_small_class_is_drawn_as_often_as_one_of_a_large_class() {
    let mut fleet = Fleet::default();
    let lists = [&["en", "zh"][..], &["en", "zh", "de"], &["en", "zh", "fr"], &["en", "zh", "it"]];
    for (which, size) in [600, 90, 7, 1].into_iter().enumerate() {
        for n in 0..size {
            fleet.put(id(&format!("{which}.{n}")), entry(writes(lists[which], 1)));
        }
    }
    let (at, _) = fleet.pool_of(pair("en", "zh"), SPOKEN, &Asks::NONE).unwrap();
    let fair = |fleet: &mut Fleet, subset: Subset, members: usize| {
        let (mut counts, mut chance) = (HashMap::new(), Chance::new(members as u64));
        let mut draws = 0;
        while draws < members as u64 * 300 {
            for ix in fleet.draw(at, subset, &mut chance).unwrap().members() {
                *counts.entry(*ix).or_default() += 1;
                draws += 1;
            }
        }
        assert_fair(&counts, members, draws);
        assert_sound(fleet);
    };
    fair(&mut fleet, Subset::Free, 698);
    // Most of the largest class go or fill up.
    (0..300).for_each(|n| assert!(fleet.remove(&id(&format!("0.{n}")))));
    (300..590).for_each(|n| take_slot(&mut fleet, &id(&format!("0.{n}"))));
    fair(&mut fleet, Subset::All, 398);
    fair(&mut fleet, Subset::Free, 108);
    (300..400).for_each(|n| free_slot(&mut fleet, &id(&format!("0.{n}"))));
    fair(&mut fleet, Subset::Free, 208);
}

#[test]
fn the_draw_stays_fair_when_all_nodes_but_a_few_are_of_one_class() {
    let mut fleet = Fleet::default();
    for n in 0..300 {
        let tags: &[&str] = if n % 100 == 0 { &["en", "zh", "de"] } else { &["en", "zh"] };
        fleet.put(id(&format!("n{n}")), entry(writes(tags, 1)));
    }
    let (mut counts, mut chance) = (HashMap::new(), Chance::new(7));
    let (at, _) = fleet.pool_of(pair("en", "zh"), SPOKEN, &Asks::NONE).unwrap();
    let mut draws = 0;
    while draws < 90_000 {
        for ix in fleet.draw(at, Subset::All, &mut chance).unwrap().members() {
            *counts.entry(*ix).or_default() += 1;
            draws += 1;
        }
    }
    assert_fair(&counts, 300, draws);
}

/// More classes than are asked about when a pool is built, and more languages than bits: whoever is
/// listed without belonging there is never drawn, and whoever belongs there is found.
#[test]
fn pools_of_very_many_different_nodes_hold_back_nobody_and_draw_no_stranger() {
    let mut fleet = Fleet::default();
    for n in 0..3_000 {
        fleet.put(id(&format!("n{n}")), alone(n));
    }
    assert_eq!(fleet.members(pair("en", "zh"), false).count(), 3_000);
    for n in [0, 1_700, 2_999] {
        let own = own(n + 676 * 10);
        let need = super::super::tests::need("en", &own);
        let mut selector = Selector::new(need, Wish::default(), SelectPolicy::default(), n as u64);
        let chosen: Vec<_> = std::iter::from_fn(|| selector.next(&mut fleet)).collect();
        assert_eq!((chosen.len(), &chosen[0].node), (1, &id(&format!("n{n}"))));
        let names: Vec<_> =
            fleet.members(pair("en", &own), false).map(|m| m.id().clone()).collect();
        assert_eq!(names, [id(&format!("n{n}"))]);
    }
    assert_sound(&fleet);
}

/// I15 in a fleet without any two nodes alike: the one free slot is found at once, however many
/// others filled up since somebody last looked.
#[test]
fn the_one_free_slot_is_found_among_very_many_different_nodes() {
    let mut fleet = Fleet::default();
    for n in 0..2_000 {
        fleet.put(id(&format!("n{n}")), alone(n));
        take_slot(&mut fleet, &id(&format!("n{n}")));
    }
    let need = super::super::tests::need("en", "zh");
    for n in [1_234, 3, 1_999] {
        free_slot(&mut fleet, &id(&format!("n{n}")));
        let policy = SelectPolicy { scan_bound: 1, ..SelectPolicy::default() };
        let mut selector = Selector::new(need.clone(), Wish::default(), policy, n);
        assert_eq!(selector.next(&mut fleet).unwrap().node, id(&format!("n{n}")));
        take_slot(&mut fleet, &id(&format!("n{n}")));
    }
    fleet.set_standing(&id("n7"), Standing { fresh: false, ..Standing::READY });
    free_slot(&mut fleet, &id("n7"));
    let mut selector = Selector::new(need, Wish::default(), SelectPolicy::default(), 1);
    let asked = std::iter::from_fn(|| selector.next(&mut fleet)).count();
    assert_eq!(asked, SelectPolicy::default().scan_bound, "all are full, one does not take jobs");
    assert_sound(&fleet);
}
