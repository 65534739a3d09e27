//! Nodes that are asked only when no other has a free slot.

use super::*;

#[test]
fn an_overloaded_node_is_asked_after_all_others_with_a_free_slot_and_before_the_full_ones() {
    for nodes in [3, 60] {
        let mut fleet = fleet(nodes, 2);
        fill(&mut fleet, "n0");
        fleet.set_standing(&id("n1"), Standing { overloaded: true, ..Standing::READY });
        let wish = Wish { avoid_last: Some(id("n2")), ..Wish::default() };
        for chance in 0..50 {
            let order = all(&mut select(wish.clone(), chance), &mut fleet);
            let last: Vec<&str> = order[nodes - 3..].iter().map(|(n, _)| n.as_str()).collect();
            assert_eq!(last, ["n2", "n1", "n0"], "of {nodes}");
            assert_eq!(order[nodes - 2].1, Source::Spared);
        }
    }
    let mut alone = fleet(1, 1);
    alone.set_standing(&id("n0"), Standing { overloaded: true, ..Standing::READY });
    assert_eq!(select(Wish::default(), 1).next(&mut alone).unwrap().node, id("n0"));
    assert_sound(&alone);
}

#[test]
fn a_node_of_little_trust_gets_its_first_job_like_others_and_more_only_when_all_else_is_full() {
    let mut fleet = fleet(3, 4);
    let stranger = Standing { trusted: 1, ..Standing::READY };
    fleet.set_standing(&id("n0"), stranger);
    let firsts = |fleet: &mut Fleet| -> BTreeSet<String> {
        let first = |chance| select(Wish::default(), chance).next(fleet).unwrap().node;
        (0..60).map(first).map(|node| node.to_string()).collect()
    };
    assert!(firsts(&mut fleet).contains("n0"), "it can show that it works");
    take_slot(&mut fleet, &id("n0"));
    for name in ["n1", "n2"] {
        fleet.set_usage(&id(name), 3, 4);
        assert!(!firsts(&mut fleet).contains("n0"), "the others are known");
    }
    fill(&mut fleet, "n1");
    fill(&mut fleet, "n2");
    assert_eq!(
        firsts(&mut fleet),
        BTreeSet::from(["n0".to_owned()]),
        "a job has nowhere else to go"
    );
    free_slot(&mut fleet, &id("n0"));
    assert!(!fleet.get(&id("n0")).unwrap().is_last_resort());
    assert_sound(&fleet);
}
