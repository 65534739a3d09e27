//! Jobs that ask for something by name.

use super::*;
use crate::fleet::select::{SelectPolicy, Selector, Verdict, Wish};
use crate::inventory::{Feature, Inventory, Model};

/// Has one model in this version, and one feature.
fn has(model: &str, version: &str, region: &str) -> NodeEntry {
    let model = Model {
        id: model.parse().unwrap(),
        version: Some(version.parse().unwrap()),
        kind: None,
        langs: LangSet::default(),
        loaded: true,
    };
    let feature = Feature { name: "emotion".parse().unwrap(), version: None };
    let inventory = Inventory {
        models: Some(vec![model]),
        features: Some(vec![feature]),
        ..Inventory::default()
    };
    let region = Some(region.parse().unwrap());
    entry(Declaration { inventory, region, ..writes(&["en", "zh"], 1) })
}

fn asking(asks: Asks) -> Need {
    Need { asks, ..need("en", "zh") }
}

fn chosen(fleet: &mut Fleet, need: Need) -> (Vec<String>, Verdict, u64) {
    let mut selector = Selector::new(need, Wish::default(), SelectPolicy::default(), 7);
    let mut found = Vec::new();
    while let Some(candidate) = selector.next(fleet) {
        found.push(candidate.node.to_string());
    }
    found.sort();
    (found, selector.verdict(), selector.looks())
}

#[test]
fn a_job_that_names_a_model_looks_only_at_nodes_that_have_it() {
    let mut fleet = fleet(2_000, 1);
    fleet.put(id("old"), has("whisper", "2", "eu"));
    fleet.put(id("new"), has("whisper", "3.1", "us"));
    let (found, _, looks) = chosen(&mut fleet, asking(asks(&[], &["whisper@3"], &[], &[])));
    assert_eq!(found, ["new"]);
    assert!(looks < 20, "{looks} looks");
    let scans = fleet.scans();
    for version in ["2.5", "3", "v3", "3.0", "2.9.9", "3.1"] {
        let word = format!("whisper@{version}");
        assert_eq!(chosen(&mut fleet, asking(asks(&[], &[&word], &[], &[]))).0, ["new"]);
    }
    assert_eq!(fleet.scans(), scans, "versions that mean the same share a pool");
    assert_eq!(chosen(&mut fleet, asking(asks(&[], &["whisper"], &[], &[]))).0, ["new", "old"]);
    assert_eq!(chosen(&mut fleet, asking(asks(&[], &[], &["emotion"], &["eu"]))).0, ["old"]);
}

#[test]
fn what_no_node_lists_is_refused_without_a_look_at_a_node() {
    let mut fleet = fleet(2_000, 1);
    fleet.put(id("one"), has("whisper", "2", "eu"));
    let scans = fleet.scans();
    for (asks, missing) in [
        (
            asks(&[], &["whisper-9000"], &[], &[]),
            "model(whisper-9000) (not on: model(whisper-9000)",
        ),
        (asks(&[], &["whisper@3"], &[], &[]), "model(whisper@3) (not on: model(whisper@3)"),
        (asks(&["tone@2"], &[], &[], &[]), "service(tone@2) (not on: service(tone@2)"),
        (asks(&[], &[], &["speaker"], &[]), "feature(speaker) (not on: feature(speaker)"),
        (asks(&[], &[], &[], &["us", "cn"]), "region(cn or us) (not on: region(cn or us)"),
    ] {
        let (found, verdict, looks) = chosen(&mut fleet, asking(asks.clone()));
        assert_eq!((found, verdict, looks), (vec![], Verdict::NoneEligible, 0));
        let shortage = fleet.shortage(&asking(asks)).unwrap().to_string();
        assert_eq!(shortage, format!("No node supports {missing} on 2001 nodes)."));
    }
    assert_eq!(fleet.scans(), scans);
}

#[test]
fn a_shortage_says_how_many_nodes_do_not_have_what_is_asked_for() {
    let mut fleet = fleet(3, 1);
    fleet.put(id("one"), has("whisper", "3", "eu"));
    fleet.put(id("two"), has("nllb", "1", "us"));
    let both = asking(asks(&[], &["whisper", "nllb"], &[], &[]));
    assert_eq!(
        fleet.shortage(&both).unwrap().to_string(),
        "No single node supports asr(en) + semantic(en) + nmt(en->zh) + model(nllb) + model(whisper) (not on: \
         model(nllb) on 4 nodes, model(whisper) on 4 nodes)."
    );
    let gap = Standing { missing_models: vec!["whisper.3".parse().unwrap()], ..Standing::READY };
    fleet.set_standing(&id("one"), gap);
    let whisper = asking(asks(&[], &["whisper"], &[], &[]));
    assert_eq!(
        fleet.shortage(&whisper).unwrap().to_string(),
        "No node supports model(whisper) (not on: model(whisper) on 5 nodes).",
        "what it reported missing it does not have"
    );
    let explained = fleet.explain(&whisper);
    assert_eq!((explained.eligible, explained.against(WhyNot::Model)), (0, 5));
}

#[test]
fn a_node_that_loses_a_model_leaves_the_pool_of_jobs_that_ask_for_it() {
    let mut fleet = fleet(0, 1);
    let need = asking(asks(&[], &["whisper@3"], &[], &[]));
    fleet.put(id("n"), has("whisper", "3", "eu"));
    assert_eq!(fleet.members_for(&need).count(), 1);
    fleet.put(id("n"), has("whisper", "2", "eu"));
    assert_eq!(fleet.members_for(&need).count(), 0);
    fleet.put(id("n"), has("whisper", "3", "eu"));
    assert_eq!(fleet.members_for(&need).count(), 1);
    assert_sound(&fleet);
}

#[test]
fn questions_by_name_push_out_no_pool_of_a_pair() {
    let bounds = PoolBounds { pools: 8, asking_pools: 2, ..PoolBounds::default() };
    let mut fleet = Fleet::with_bounds(bounds);
    for version in 0..20 {
        fleet.put(id(&format!("n{version}")), has("m", &version.to_string(), "eu"));
    }
    fleet.members(pair("en", "zh"), false).count();
    let scans = fleet.scans();
    for version in 0..20 {
        let asks = asks(&[], &[&format!("m@{version}")], &[], &[]);
        fleet.members_for(&asking(asks)).count();
    }
    assert_eq!(fleet.pools().count(), 3);
    let before = fleet.scans();
    fleet.members(pair("en", "zh"), false).count();
    assert_eq!((fleet.scans(), before - scans), (before, 20), "the pair's own pool stayed");
}

#[test]
fn latency_counts_by_the_second_of_speech() {
    use std::time::Duration;
    let ms = Duration::from_millis;
    for (took, speech_ms, counts) in
        [(3_000, 10_000, 300), (300, 1_000, 300), (300, 200, 300), (300, 0, 300)]
    {
        assert_eq!(per_second_of_speech(ms(took), speech_ms), ms(counts), "{took} for {speech_ms}");
    }
}

#[test]
fn a_text_goes_to_nodes_that_take_text_among_others_of_the_same_languages() {
    let mut fleet = Fleet::default();
    for n in 0..40 {
        let mut node = entry(writes(&["en", "zh"], 1));
        Arc::make_mut(&mut node.profile).agent = if n == 7 { TAKES_TEXT } else { 1 };
        fleet.put(id(&format!("n{n}")), node);
    }
    let typed = Need { typed: true, ..need("en", "zh") };
    assert_eq!(chosen(&mut fleet, typed).0, ["n7"]);
}
