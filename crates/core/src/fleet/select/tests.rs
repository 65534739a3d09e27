mod last_resort;

use std::collections::BTreeSet;

use super::*;
use crate::eligibility::{Standing, WhyNot};
use crate::fleet::ProfileVersion;
use crate::fleet::assert_sound;
use crate::fleet::tests::{entry, fleet, free_slot, id, lang, need, pair, take_slot, writes};
use crate::ids::TenantId;
use crate::node::{Declaration, Health, NmtPairs};

fn policy() -> SelectPolicy {
    SelectPolicy { sample_k: 4, scan_bound: 10_000, ..SelectPolicy::default() }
}

fn select(wish: Wish, chance: u64) -> Selector {
    Selector::new(need("en", "zh"), wish, policy(), chance)
}

fn all(selector: &mut Selector, fleet: &mut Fleet) -> Vec<(String, Source)> {
    std::iter::from_fn(|| selector.next(fleet)).map(|c| (c.node.to_string(), c.source)).collect()
}

fn names(list: &[(String, Source)]) -> BTreeSet<String> {
    list.iter().map(|(name, _)| name.clone()).collect()
}

fn fill(fleet: &mut Fleet, name: &str) {
    let max = fleet.get(&id(name)).unwrap().max();
    fleet.set_usage(&id(name), max, max);
}

/// Flaws 43, 44 and 47.
#[test]
fn every_eligible_node_is_a_candidate_exactly_once() {
    for nodes in [0, 1, 2, 3, 4, 5, 10, 41, 250] {
        let mut fleet = fleet(nodes, 2);
        for n in 0..nodes / 3 {
            fill(&mut fleet, &format!("n{n}"));
        }
        for chance in 0..20 {
            let mut selector = select(Wish::default(), chance);
            let order = all(&mut selector, &mut fleet);
            assert_eq!((order.len(), names(&order).len()), (nodes, nodes));
            let full = order.iter().position(|(_, source)| *source == Source::Full);
            assert_eq!(full.unwrap_or(nodes), nodes - nodes / 3, "full ones come last");
            assert_eq!(selector.candidates(), nodes);
            assert_eq!(selector.next(&mut fleet), None, "over is over");
        }
    }
}

#[test]
fn the_rest_of_the_pool_is_asked_within_the_bound() {
    let mut fleet = fleet(100, 1);
    let policy = SelectPolicy { scan_bound: 10, ..policy() };
    let mut selector = Selector::new(need("en", "zh"), Wish::default(), policy, 7);
    assert_eq!(all(&mut selector, &mut fleet).len(), 4 + 10);
    assert_eq!(selector.verdict(), Verdict::Busy);
}

/// I15 and flaw 47: one free slot is found at once among a thousand full nodes.
#[test]
fn the_one_free_slot_is_the_first_candidate() {
    let mut fleet = fleet(1_000, 2);
    for n in 0..1_000 {
        fill(&mut fleet, &format!("n{n}"));
    }
    let policy = SelectPolicy { scan_bound: 1, ..policy() };
    for n in [3, 999, 500, 3] {
        free_slot(&mut fleet, &id(&format!("n{n}")));
        let mut selector = Selector::new(need("en", "zh"), Wish::default(), policy, n);
        assert_eq!(selector.next(&mut fleet).unwrap().node, id(&format!("n{n}")));
        take_slot(&mut fleet, &id(&format!("n{n}")));
    }
}

#[test]
fn the_less_loaded_comes_first_and_then_the_quicker_one() {
    let mut fleet = fleet(4, 4);
    for (name, used, latency) in [("n0", 2, 100), ("n1", 1, 5_000), ("n2", 1, 300), ("n3", 3, 10)] {
        fleet.set_usage(&id(name), used, 4);
        fleet.record_latency(&id(name), latency);
    }
    for chance in 0..50 {
        let order = all(&mut select(Wish::default(), chance), &mut fleet);
        let order: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(order, ["n2", "n1", "n0", "n3"]);
    }
    fleet.set_usage(&id("n3"), 1, 8);
    let first = select(Wish::default(), 1).next(&mut fleet).unwrap();
    assert_eq!(first.node, id("n3"), "the share counts, not the number");
}

/// Flaw 24: the preferred node is only the first candidate.
#[test]
fn the_preferred_node_comes_first_and_the_others_follow() {
    let mut fleet = fleet(10, 1);
    fill(&mut fleet, "n7");
    let wish = Wish { preferred: Some(id("n7")), ..Wish::default() };
    let mut selector = select(wish, 1);
    let order = all(&mut selector, &mut fleet);
    assert_eq!(order[0], ("n7".to_owned(), Source::Preferred));
    assert_eq!((order.len(), names(&order).len()), (10, 10));
    assert_eq!(selector.preferred_passed(), None);
}

#[test]
fn a_preferred_node_that_may_not_take_the_job_is_passed_with_the_reason() {
    let mut fleet = fleet(3, 1);
    let away = Standing { health: Health::Draining, ..Standing::READY };
    fleet.set_standing(&id("n1"), away);
    let wish = |name| Wish { preferred: Some(id(name)), ..Wish::default() };

    let mut selector = select(wish("n1"), 1);
    assert_eq!(names(&all(&mut selector, &mut fleet)).len(), 2);
    let Some(Passed::NotEligible(why)) = selector.preferred_passed() else { panic!() };
    assert!(why.contains(WhyNot::Health));

    let mut selector = select(wish("nobody"), 1);
    assert_eq!(all(&mut selector, &mut fleet).len(), 2);
    assert_eq!(selector.preferred_passed(), Some(Passed::Unknown));
    assert_eq!(selector.verdict(), Verdict::Busy);
}

#[test]
fn a_strict_wish_tries_the_one_node_and_no_other() {
    let mut fleet = fleet(5, 1);
    let wish = |name| Wish { preferred: Some(id(name)), strict: true, ..Wish::default() };
    let mut selector = select(wish("n3"), 1);
    assert_eq!(all(&mut selector, &mut fleet), [("n3".to_owned(), Source::Preferred)]);
    assert_eq!(selector.verdict(), Verdict::PreferredBusy);

    let mut selector = select(wish("nobody"), 1);
    assert_eq!(all(&mut selector, &mut fleet), []);
    assert_eq!(selector.verdict(), Verdict::PreferredNotCapable(Passed::Unknown));

    let nobody = Wish { strict: true, ..Wish::default() };
    assert_eq!(all(&mut select(nobody, 1), &mut fleet).len(), 5, "strict about nobody");
}

#[test]
fn a_private_node_is_a_candidate_only_for_the_job_that_names_it() {
    let mut fleet = fleet(2, 1);
    fleet.put(id("mine"), entry(Declaration { private: true, ..writes(&["en", "zh"], 1) }));
    assert!(!names(&all(&mut select(Wish::default(), 1), &mut fleet)).contains("mine"));
    let wish = Wish { preferred: Some(id("mine")), ..Wish::default() };
    assert_eq!(all(&mut select(wish, 1), &mut fleet)[0].0, "mine");
    let bound = Wish { turn_node: Some(id("mine")), ..Wish::default() };
    assert!(!names(&all(&mut select(bound, 1), &mut fleet)).contains("mine"));
    // Naming one private node opens no other, even if the caller set the flag.
    fleet.put(id("other"), entry(Declaration { private: true, ..writes(&["en", "zh"], 1) }));
    let wish = Wish {
        preferred: Some(id("mine")),
        turn_node: Some(id("other")),
        avoid_last: Some(id("other")),
        ..Wish::default()
    };
    let named = Need { named: true, ..need("en", "zh") };
    let order = all(&mut Selector::new(named, wish, policy(), 1), &mut fleet);
    assert!(names(&order).contains("mine") && !names(&order).contains("other"));
}

/// Flaws 41 and 42: affinity is the turn's, a wish, and checked like any other candidate.
#[test]
fn the_node_of_the_turn_comes_first_unless_it_is_gone() {
    let mut fleet = fleet(6, 1);
    let wish = Wish { turn_node: Some(id("n4")), avoid_last: Some(id("n4")), ..Wish::default() };
    let order = all(&mut select(wish.clone(), 1), &mut fleet);
    assert_eq!(order[0], ("n4".to_owned(), Source::Turn));
    assert_eq!((order.len(), names(&order).len()), (6, 6));

    let both = Wish { preferred: Some(id("n4")), ..wish.clone() };
    let order = all(&mut select(both, 1), &mut fleet);
    assert_eq!((order.len(), order[0].1), (6, Source::Preferred), "not a second time");

    fleet.set_standing(&id("n4"), Standing { fresh: false, ..Standing::READY });
    let mut selector = select(wish.clone(), 1);
    assert!(!names(&all(&mut selector, &mut fleet)).contains("n4"));
    assert!(matches!(selector.turn_passed(), Some(Passed::NotEligible(_))));
    fleet.remove(&id("n4"));
    let mut selector = select(wish, 1);
    assert_eq!(all(&mut selector, &mut fleet).len(), 5);
    assert_eq!(selector.turn_passed(), Some(Passed::Unknown));
}

/// Flaw 26.
#[test]
fn a_node_that_failed_the_job_never_appears_again() {
    let mut fleet = fleet(30, 1);
    fill(&mut fleet, "n2");
    let excluded = vec![id("n1"), id("n2"), id("n3")];
    let wish = Wish {
        preferred: Some(id("n1")),
        turn_node: Some(id("n3")),
        avoid_last: Some(id("n2")),
        excluded,
        ..Wish::default()
    };
    for chance in 0..50 {
        let mut selector = select(wish.clone(), chance);
        let order = all(&mut selector, &mut fleet);
        assert_eq!((order.len(), names(&order).len()), (27, 27));
        assert!(["n1", "n2", "n3"].iter().all(|name| !names(&order).contains(*name)));
        assert_eq!(selector.preferred_passed(), Some(Passed::Excluded));
    }
    // Also not when it leaves and comes back while the job goes on.
    let mut selector = select(Wish::default(), 1);
    let first = selector.next(&mut fleet).unwrap().node;
    selector.exclude(first.clone());
    fleet.remove(&first);
    fleet.put(first.clone(), entry(writes(&["en", "zh"], 1)));
    assert!(!names(&all(&mut selector, &mut fleet)).contains(first.as_str()));
}

#[test]
fn when_all_that_could_have_failed_the_job_is_not_busy_but_failed() {
    let mut fleet = fleet(2, 1);
    let wish = Wish { excluded: vec![id("n0"), id("n1")], ..Wish::default() };
    let mut selector = select(wish, 1);
    assert_eq!(all(&mut selector, &mut fleet), []);
    assert_eq!(selector.verdict(), Verdict::OnlyFailed);
}

#[test]
fn the_node_of_the_last_utterance_is_used_only_when_nothing_else_is_free() {
    let mut fleet = fleet(50, 2);
    for name in ["n8", "n9"] {
        fill(&mut fleet, name);
    }
    let wish = Wish { avoid_last: Some(id("n5")), ..Wish::default() };
    for chance in 0..50 {
        let order = all(&mut select(wish.clone(), chance), &mut fleet);
        assert_eq!((order.len(), names(&order).len()), (50, 50));
        assert_eq!(order[47], ("n5".to_owned(), Source::Spared), "behind 47 free, before 2 full");
    }
    fleet.set_usage(&id("n5"), 2, 2);
    let order = all(&mut select(wish, 1), &mut fleet);
    assert_eq!((order.len(), order[47].1), (50, Source::Full));
}

#[test]
fn nodes_over_the_exposure_cap_go_behind_and_are_not_lost() {
    let mut fleet = fleet(5, 4);
    let mut heard = Heard::default();
    for name in ["n0", "n0", "n0", "n1", "n2", "n0"] {
        heard.note(&id(name));
    }
    // With the next one n0 would have heard 5 of 7, n1 and n2 2 of 7.
    let policy = SelectPolicy { exposure_cap_percent: 30, ..policy() };
    let wish = Wish { heard, avoid_last: Some(id("n1")), ..Wish::default() };
    for chance in 0..50 {
        let mut selector = Selector::new(need("en", "zh"), wish.clone(), policy, chance);
        let order = all(&mut selector, &mut fleet);
        assert_eq!(order[3], ("n1".to_owned(), Source::Spared), "heard last, but not too much");
        assert_eq!(order[4], ("n0".to_owned(), Source::Spared));
    }
    let uncapped = SelectPolicy { exposure_cap_percent: 100, ..policy };
    let free = Wish { avoid_last: None, ..wish };
    let mut first = BTreeSet::new();
    for chance in 0..100 {
        let mut selector = Selector::new(need("en", "zh"), free.clone(), uncapped, chance);
        first.insert(selector.next(&mut fleet).unwrap().node);
    }
    assert_eq!(first.len(), 5, "I18: without a cap the past does not matter");
}

#[test]
fn what_is_remembered_of_a_conversation_is_bounded() {
    let mut heard = Heard::default();
    for n in 0..1_000 {
        heard.note(&id("often"));
        heard.note(&id(&format!("n{n}")));
    }
    let over: Vec<&NodeId> = heard.over_cap(40).collect();
    assert_eq!(over, [&id("often")]);
    let mut first = Heard::default();
    assert_eq!(first.over_cap(1).count(), 0);
    first.note(&id("a"));
    assert_eq!(first.over_cap(50).count(), 1);
}

/// Flaws 37 and 53: no node without the ability, whatever else is missing.
#[test]
fn nobody_outside_the_pool_is_ever_a_candidate() {
    let mut fleet = fleet(5, 1);
    let one_way = NmtPairs::pairs([(lang("de"), lang("en"))]).unwrap();
    let declared = Declaration { nmt: Some(one_way), ..writes(&["de", "en"], 1) };
    fleet.put(id("german"), entry(declared));
    let mut selector = Selector::new(need("de", "en"), Wish::default(), SelectPolicy::default(), 1);
    assert_eq!(all(&mut selector, &mut fleet), [("german".to_owned(), Source::Sample)]);
    let back = Need { route: pair("en", "de"), ..need("en", "de") };
    let mut selector = Selector::new(back, Wish::default(), SelectPolicy::default(), 1);
    assert_eq!(all(&mut selector, &mut fleet), []);
    assert_eq!(selector.verdict(), Verdict::NoneEligible);
}

/// The pool is for the pair; tenants and models are asked of every member.
#[test]
fn the_few_nodes_that_a_job_may_use_are_found_in_a_pool_of_others() {
    let mut fleet = fleet(0, 1);
    let allow = |tenant: &str| Declaration {
        tenants: Some([TenantId::new(tenant).unwrap()].into()),
        ..writes(&["en", "zh"], 1)
    };
    for n in 0..500 {
        fleet.put(id(&format!("n{n}")), entry(allow(if n % 250 == 7 { "t" } else { "x" })));
    }
    for chance in 0..20 {
        let mut selector = select(Wish::default(), chance);
        let order = all(&mut selector, &mut fleet);
        assert_eq!(names(&order), ["n257", "n7"].map(str::to_owned).into());
        assert_eq!(order.len(), 2);
    }
}

#[test]
fn a_candidate_carries_the_profile_it_was_judged_on() {
    let mut fleet = fleet(1, 1);
    let mut newer = entry(writes(&["en", "zh"], 1));
    newer.version = ProfileVersion::new(2);
    fleet.put(id("n0"), newer);
    let candidate = select(Wish::default(), 1).next(&mut fleet).unwrap();
    assert_eq!(candidate.version.get(), 2);
}

/// While a job waits for the store, others come and go.
#[test]
fn nodes_that_leave_are_passed_over_and_nobody_comes_twice() {
    for chance in 0..50 {
        let mut fleet = fleet(40, 2);
        let mut selector = select(Wish::default(), chance);
        let (mut seen, mut order) = (BTreeSet::new(), Chance::new(chance));
        let mut gone = BTreeSet::new();
        for scan in 0.. {
            let Some(candidate) = selector.next(&mut fleet) else { break };
            assert!(!gone.contains(&candidate.node), "left before");
            assert!(seen.insert(candidate.node.clone()), "twice");
            let victim = id(&format!("n{}", order.below(20)));
            if scan % 2 == 0 && fleet.remove(&victim) {
                gone.insert(victim);
            }
            let other = format!("n{}", 20 + order.below(20));
            match scan % 3 {
                0 => fill(&mut fleet, &other),
                1 => fleet.set_usage(&id(&other), 0, 2),
                _ => fleet.put(id(&format!("new{scan}")), entry(writes(&["en", "zh"], 2))),
            }
        }
        let stayed = (20..40).map(|n| id(&format!("n{n}")));
        assert_eq!(stayed.filter(|node| !seen.contains(node)).count(), 0, "missed");
    }
}

#[test]
fn a_place_that_another_node_took_over_is_not_mistaken_for_the_first() {
    let mut fleet = fleet(1, 1);
    let mut selector = select(Wish::default(), 1);
    assert_eq!(selector.next(&mut fleet).unwrap().node, id("n0"));
    fleet.remove(&id("n0"));
    fleet.put(id("n1"), entry(writes(&["en", "zh"], 1)));
    assert_eq!(selector.next(&mut fleet).unwrap().node, id("n1"));
}

/// Flaw 56: nothing but the bits given decides, and near bits are not near choices.
#[test]
fn the_same_bits_choose_the_same_and_neighbouring_bits_do_not_follow_a_pattern() {
    let mut fleet = fleet(10, 1);
    let first = |fleet: &mut Fleet, chance| {
        let name = select(Wish::default(), chance).next(fleet).unwrap().node.to_string();
        name[1..].parse::<i32>().unwrap()
    };
    let picks: Vec<i32> = (0..1_000).map(|chance| first(&mut fleet, chance)).collect();
    assert_eq!(picks, (0..1_000).map(|c| first(&mut fleet, c)).collect::<Vec<_>>());
    for lag in 1..20 {
        let mut steps = [0; 10];
        for window in picks.windows(lag + 1) {
            steps[(window[lag] - window[0]).rem_euclid(10) as usize] += 1;
        }
        let most = steps.iter().max().unwrap();
        assert!(*most < 160, "a step of one size {most} times in 1000 at distance {lag}");
    }
}

/// The cost of choosing, counted in members looked at, does not grow with the fleet: idle, half
/// full, and full up to the bound.
#[test]
fn choosing_looks_at_as_many_nodes_in_a_fleet_of_ten_as_of_a_hundred_thousand() {
    let policy = SelectPolicy::default();
    let looks = |fleet: &mut Fleet, candidates: usize| {
        let mut most = 0;
        for chance in 0..200 {
            let mut selector = Selector::new(need("en", "zh"), Wish::default(), policy, chance);
            (0..candidates).for_each(|_| drop(selector.next(fleet)));
            most = most.max(selector.looks());
        }
        most
    };
    let mut large = fleet(100_000, 2);
    let mut small = fleet(10, 2);
    assert!(looks(&mut small, 1) <= 11);
    assert!(looks(&mut large, 1) <= 25, "20 for the sample, some drawn twice, one asked again");
    for n in 0..50_000 {
        fill(&mut large, &format!("n{n}"));
    }
    assert!(looks(&mut large, 1) <= 81, "at most four for each of the sample");
    for n in 50_000..100_000 {
        fill(&mut large, &format!("n{n}"));
    }
    // The first job after everything filled up at once pays for listing the full ones.
    let mut selector = Selector::new(need("en", "zh"), Wish::default(), policy, 1);
    while selector.next(&mut large).is_some() {}
    assert_eq!((selector.verdict(), selector.candidates()), (Verdict::Busy, policy.scan_bound));
    let scans = large.scans();
    assert!(looks(&mut large, 1_000) <= 64, "one look for each question asked");
    free_slot(&mut large, &id("n77777"));
    assert!(looks(&mut large, 1) <= 2, "the free one is found at once");
    assert_eq!(large.scans(), scans, "and no fleet scan");
    assert_sound(&large);
}
