mod by_name;
mod shortage;

use super::membership::tests::assert_sound;
use super::*;
use crate::eligibility::WhyNot;
use crate::ids::{ModelId, TenantId};
use crate::inventory::Requirements;
use crate::lang::{Lang, LangSet};
use crate::node::{Declaration, Health, NmtPairs, NodeProfile, ServiceKind, TAKES_TEXT};

pub(crate) fn lang(tag: &str) -> Lang {
    Lang::new(tag).unwrap()
}

pub(crate) fn langs(tags: &[&str]) -> LangSet {
    LangSet::new(tags.iter().map(|t| lang(t))).unwrap()
}

pub(crate) fn id(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub(crate) fn pair(src: &str, tgt: &str) -> Route {
    Route::Directed(lang(src), lang(tgt))
}

/// Speech in, text out.
pub(crate) const SPOKEN: Form = Form { speech: false, typed: false };

pub(crate) fn need(src: &str, tgt: &str) -> Need {
    Need {
        route: pair(src, tgt),
        speech: false,
        typed: false,
        asks: Asks::NONE,
        tenant: TenantId::new("t").unwrap(),
        named: false,
    }
}

/// Services, models, features and regions by name.
pub(crate) fn asks(
    services: &[&str],
    models: &[&str],
    features: &[&str],
    regions: &[&str],
) -> Asks {
    let required = |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect();
    Asks::new(Requirements {
        services: required(services),
        models: required(models),
        features: required(features),
        regions: regions.iter().map(|name| name.parse().unwrap()).collect(),
        ..Requirements::default()
    })
}

/// Repairs, recognises and translates among these languages, in writing.
pub(crate) fn writes(tags: &[&str], max_slots: u32) -> Declaration {
    Declaration { semantic: langs(tags), max_slots, ..Declaration::default() }
}

pub(crate) fn entry(declared: Declaration) -> NodeEntry {
    NodeEntry {
        profile: Arc::new(NodeProfile::from_declaration(declared).unwrap()),
        version: ProfileVersion::new(1),
        standing: Standing::READY,
    }
}

/// A job took a slot of the node.
pub(crate) fn take_slot(fleet: &mut Fleet, node: &NodeId) {
    let (used, max) = usage(fleet, node);
    fleet.set_usage(node, used + 1, max);
}

/// A job gave a slot of the node back.
pub(crate) fn free_slot(fleet: &mut Fleet, node: &NodeId) {
    let (used, max) = usage(fleet, node);
    fleet.set_usage(node, used.saturating_sub(1), max);
}

fn usage(fleet: &Fleet, node: &NodeId) -> (u32, u32) {
    fleet.get(node).map_or((0, 0), |node| (node.used(), node.max()))
}

pub(crate) fn fleet(nodes: usize, max_slots: u32) -> Fleet {
    let mut fleet = Fleet::default();
    let entry = entry(writes(&["en", "zh"], max_slots));
    for n in 0..nodes {
        fleet.put(id(&format!("n{n}")), entry.clone());
    }
    fleet
}

fn members(fleet: &mut Fleet, src: &str, tgt: &str) -> Vec<String> {
    let mut names: Vec<String> =
        fleet.members(pair(src, tgt), false).map(|node| node.id().to_string()).collect();
    names.sort();
    names
}

/// Flaws 36, 38, 48 and 61.
#[test]
fn a_node_is_in_its_pools_when_put_and_out_when_it_loses_the_ability() {
    let mut fleet = Fleet::default();
    assert!(members(&mut fleet, "en", "zh").is_empty());
    fleet.put(id("a"), entry(writes(&["en", "zh", "de"], 1)));
    assert_eq!(members(&mut fleet, "en", "zh"), ["a"]);
    assert_eq!(members(&mut fleet, "de", "en"), ["a"]);

    fleet.put(id("a"), entry(writes(&["en", "zh"], 1)));
    assert!(members(&mut fleet, "de", "en").is_empty(), "dropped a language");
    assert_eq!(members(&mut fleet, "en", "zh"), ["a"]);

    let away = [
        Standing { health: Health::Draining, ..Standing::READY },
        Standing { fresh: false, ..Standing::READY },
    ];
    for standing in away {
        assert!(fleet.set_standing(&id("a"), standing));
        assert!(members(&mut fleet, "en", "zh").is_empty());
        assert!(fleet.set_standing(&id("a"), Standing::READY));
        assert_eq!(members(&mut fleet, "en", "zh"), ["a"]);
    }
    assert!(fleet.remove(&id("a")) && !fleet.remove(&id("a")));
    assert!(members(&mut fleet, "en", "zh").is_empty());
    assert!(!fleet.set_standing(&id("a"), Standing::READY));
    assert_sound(&fleet);
}

/// Flaw 52.
#[test]
fn a_pair_and_its_reverse_are_two_pools() {
    let mut fleet = Fleet::default();
    let zh_en = NmtPairs::pairs([(lang("zh"), lang("en"))]).unwrap();
    let declared = Declaration { nmt: Some(zh_en), ..writes(&["en", "zh"], 1) };
    fleet.put(id("one-way"), entry(declared));
    fleet.put(id("both"), entry(writes(&["en", "zh"], 1)));
    assert_eq!(members(&mut fleet, "zh", "en"), ["both", "one-way"]);
    assert_eq!(members(&mut fleet, "en", "zh"), ["both"]);
    let either = |a, b| Route::Either(lang(a), lang(b));
    assert_eq!(fleet.members(either("en", "zh"), false).count(), 1);
    let key = |a, b| fleet.key(&Need { route: either(a, b), ..need("en", "zh") });
    assert_eq!(key("en", "zh"), key("zh", "en"));
}

/// Flaw 52: without a list of spoken languages a node is text-only, not nowhere.
#[test]
fn speech_and_text_are_two_pools() {
    let mut fleet = fleet(1, 1);
    let speaks = Declaration { tts: Some(langs(&["zh"])), ..writes(&["en", "zh"], 1) };
    fleet.put(id("speaks"), entry(speaks));
    assert_eq!(members(&mut fleet, "en", "zh"), ["n0", "speaks"]);
    let speaking: Vec<_> = fleet.members(pair("en", "zh"), true).map(|n| n.id().clone()).collect();
    assert_eq!(speaking, [id("speaks")]);
}

/// Flaw 54.
#[test]
fn a_node_that_is_put_again_and_again_is_a_member_once() {
    let mut fleet = fleet(3, 2);
    for _ in 0..10 {
        fleet.put(id("n1"), entry(writes(&["en", "zh"], 2)));
        assert_eq!(members(&mut fleet, "en", "zh"), ["n0", "n1", "n2"]);
    }
    assert_sound(&fleet);
}

/// Flaw 40: a reconnect under the same name leaves nothing behind, here or in the places it used.
#[test]
fn reconnects_do_not_grow_the_fleet() {
    let mut fleet = fleet(1, 1);
    members(&mut fleet, "en", "zh");
    for _ in 0..150 {
        fleet.put(id("back"), entry(writes(&["en", "zh"], 1)));
        fleet.remove(&id("back"));
    }
    fleet.put(id("back"), entry(writes(&["en", "zh"], 1)));
    assert_eq!((fleet.len(), fleet.ids.capacity()), (2, 2));
    assert_eq!(members(&mut fleet, "en", "zh"), ["back", "n0"]);
}

/// Flaw 49: a resync says the same again, and what went wrong meanwhile is right afterwards.
#[test]
fn a_resync_puts_right_what_was_missed_and_costs_nothing_where_nothing_was() {
    let mut fleet = fleet(3, 1);
    members(&mut fleet, "en", "zh");
    let before = (fleet.layout_version(), fleet.record_version());
    for n in 0..3 {
        fleet.put(id(&format!("n{n}")), entry(writes(&["en", "zh"], 1)));
    }
    assert_eq!((fleet.layout_version(), fleet.record_version()), before, "nothing moved");
    fleet.retain(|node| node.as_str() != "n0");
    fleet.put(id("n1"), entry(writes(&["de", "zh"], 1)));
    fleet.put(id("n3"), entry(writes(&["en", "zh"], 1)));
    assert_eq!(members(&mut fleet, "en", "zh"), ["n2", "n3"]);
}

/// Flaws 45 and 46: pools list_growth from what nodes say, not from what clients ask.
#[test]
fn tags_that_no_node_tells_apart_share_a_pool() {
    let mut fleet = fleet(5, 1);
    for region in ["en", "en-US", "en-GB", "en-AU", "en-Latn-NZ"] {
        for target in ["zh", "zh-CN", "zh-Hant-TW"] {
            assert_eq!(members(&mut fleet, region, target).len(), 5);
        }
    }
    assert_eq!((fleet.pools().count(), fleet.scans()), (1, 1));

    fleet.put(id("kiwi"), entry(writes(&["en-Latn", "zh"], 1)));
    assert_eq!(members(&mut fleet, "en-Latn-NZ", "zh").len(), 6);
    assert_eq!(members(&mut fleet, "en-US", "zh").len(), 5);
    assert_eq!(fleet.pools().count(), 2);
}

/// Flaw 45.
#[test]
fn a_language_that_no_node_mentions_is_answered_without_looking_at_any() {
    let mut fleet = fleet(5, 1);
    for i in 0..26u8 {
        let odd = format!("q{}", char::from(b'a' + i));
        assert!(members(&mut fleet, &odd, "zh").is_empty());
        assert!(members(&mut fleet, "en", &odd).is_empty());
        assert!(fleet.shortage(&need(&odd, "zh")).is_some());
        assert!(fleet.shortage(&need("en", &odd)).is_some());
    }
    assert_eq!((fleet.pools().count(), fleet.scans()), (0, 0));
}

/// Flaw 45: odd targets of a node that translates into anything share one pool as well.
#[test]
fn all_unmentioned_targets_are_one_pool() {
    let mut fleet = fleet(2, 1);
    let any = Declaration { nmt: Some(NmtPairs::Any), ..writes(&["en"], 1) };
    fleet.put(id("any"), entry(any));
    for target in ["fr", "ja", "qaa", "und"] {
        assert_eq!(members(&mut fleet, "en", target), ["any"]);
    }
    assert_eq!(fleet.pools().count(), 1);
    assert_eq!(fleet.members(pair("en", "fr"), true).count(), 0);
}

#[test]
fn pools_are_bounded_and_the_longest_unused_makes_room() {
    let bounds = PoolBounds { pools: 4, empty_pools: 2, asking_pools: 2, entries: 100 };
    let mut fleet = Fleet::with_bounds(bounds);
    let tags = ["de", "en", "es", "fr", "it", "zh"];
    fleet.put(id("a"), entry(writes(&tags, 1)));
    for scan in 0..3 {
        for src in &tags {
            for tgt in &tags {
                assert_eq!(members(&mut fleet, tags[0], tags[1]).len(), 1);
                assert_eq!(members(&mut fleet, src, tgt).len(), 1, "scan {scan}");
                assert!(fleet.pools().count() <= 4);
            }
        }
    }
    let kept: Vec<PoolKey> = fleet.pools().map(|(key, _)| key.clone()).collect();
    assert!(kept.contains(&PoolKey {
        route: pair(tags[0], tags[1]),
        speech: false,
        typed: false,
        asks: Asks::NONE
    }));
    assert_sound(&fleet);
}

#[test]
fn questions_for_pairs_that_nobody_serves_push_out_no_pool_of_use() {
    let bounds = PoolBounds { pools: 10, empty_pools: 2, asking_pools: 2, entries: 100 };
    let mut fleet = Fleet::with_bounds(bounds);
    let known = ["en", "zh", "de", "fr", "it", "es"];
    for pair in known.chunks(2) {
        fleet.put(id(pair[0]), entry(writes(pair, 1)));
    }
    for pair in known.chunks(2) {
        assert_eq!(members(&mut fleet, pair[0], pair[1]).len(), 1);
    }
    let scans = fleet.scans();
    for src in &known[..2] {
        for tgt in &known[2..] {
            assert!(members(&mut fleet, src, tgt).is_empty());
            assert!(fleet.pools().count() <= 5);
        }
    }
    assert_eq!(fleet.scans() - scans, 8);
    members(&mut fleet, known[1], known[5]);
    for pair in known.chunks(2) {
        members(&mut fleet, pair[0], pair[1]);
    }
    assert_eq!(fleet.scans() - scans, 8, "the last empty ones and all of use are still ready");
}

#[test]
fn all_memberships_together_are_bounded_also_while_nodes_join() {
    let bounds = PoolBounds { pools: 100, empty_pools: 2, asking_pools: 2, entries: 60 };
    let mut fleet = Fleet::with_bounds(bounds);
    let join = |fleet: &mut Fleet, n: usize| {
        let own =
            format!("q{}{}", char::from(b'a' + n as u8 / 26), char::from(b'a' + n as u8 % 26));
        fleet.put(id(&format!("n{n}")), entry(writes(&["en", "zh", "de", &own], 1)));
    };
    for n in 0..20 {
        join(&mut fleet, n);
        for (src, tgt) in [("en", "zh"), ("en", "de"), ("zh", "de")] {
            assert_eq!(members(&mut fleet, src, tgt).len(), n + 1);
            assert!(fleet.pools.entries() <= 60);
        }
        assert_sound(&fleet);
    }
    for n in 20..50 {
        join(&mut fleet, n);
    }
    assert_eq!(members(&mut fleet, "en", "zh").len(), 50, "one pool is kept whatever its size");
}

#[test]
fn own_placements_count_at_once_and_a_refusal_carries_the_truth() {
    let mut fleet = fleet(1, 2);
    let n0 = id("n0");
    let load = |fleet: &Fleet| {
        let node = fleet.get(&id("n0")).unwrap();
        (node.used(), node.max(), node.is_full())
    };
    take_slot(&mut fleet, &n0);
    assert_eq!(load(&fleet), (1, 2, false));
    take_slot(&mut fleet, &n0);
    assert_eq!(load(&fleet), (2, 2, true));
    free_slot(&mut fleet, &n0);
    assert_eq!(load(&fleet), (1, 2, false));
    fleet.set_usage(&n0, 1, 1);
    assert_eq!(load(&fleet), (1, 1, true));
    fleet.put(n0.clone(), entry(writes(&["en", "zh"], 2)));
    assert_eq!(load(&fleet), (1, 1, true), "the same profile again says nothing about load");
    fleet.put(n0.clone(), entry(writes(&["en", "zh"], 3)));
    assert_eq!(load(&fleet), (1, 3, false));
    free_slot(&mut fleet, &n0);
    assert_eq!(load(&fleet), (0, 3, false));
    for _ in 0..5 {
        free_slot(&mut fleet, &n0);
    }
    assert_eq!(load(&fleet), (0, 3, false));
}

#[test]
fn what_was_slow_once_fades() {
    let mut fleet = fleet(1, 1);
    fleet.decay_latency(&id("n0"));
    assert_eq!(fleet.get(&id("n0")).unwrap().latency_ms(), None);
    fleet.record_latency(&id("n0"), 8_000);
    for left in [4_000, 2_000, 1_000] {
        fleet.decay_latency(&id("n0"));
        assert_eq!(fleet.get(&id("n0")).unwrap().latency_ms(), Some(left));
    }
    fleet.decay_latency(&id("nobody"));
}

#[test]
fn latency_follows_the_latest_jobs() {
    let mut fleet = fleet(1, 1);
    fleet.record_latency(&id("n0"), 800);
    assert_eq!(fleet.get(&id("n0")).unwrap().latency_ms(), Some(800));
    (0..100).for_each(|_| fleet.record_latency(&id("n0"), 100));
    assert!(fleet.get(&id("n0")).unwrap().latency_ms().unwrap() < 110);
    fleet.record_latency(&id("n0"), u32::MAX);
}

/// Flaw 53: an empty pool is an answer with a reason, never a licence to ask any node.
#[test]
fn the_missing_ability_is_named_in_the_words_of_the_protocol() {
    let mut fleet = Fleet::default();
    let text = |fleet: &mut Fleet, need: &Need| fleet.shortage(need).unwrap().to_string();
    let en_zh = need("en", "zh");
    assert_eq!(text(&mut fleet, &en_zh), "No node supports semantic(en) + nmt(en->zh).");
    fleet.put(id("zh"), entry(writes(&["zh"], 1)));
    assert_eq!(text(&mut fleet, &en_zh), "No node supports semantic(en) + nmt(en->zh).");
    let hears = Declaration { asr: Some(langs(&["en", "zh"])), ..writes(&["zh"], 1) };
    fleet.put(id("hears"), entry(hears));
    assert_eq!(text(&mut fleet, &en_zh), "No node supports semantic(en) + nmt(en->zh).");
    fleet.put(id("en"), entry(writes(&["en"], 1)));
    assert_eq!(text(&mut fleet, &en_zh), "No node supports nmt(en->zh).");
    let spoken = Need { speech: true, ..need("en", "zh") };
    assert_eq!(text(&mut fleet, &spoken), "No node supports nmt(en->zh) + tts(zh).");

    let translates = Declaration { nmt: Some(NmtPairs::Any), ..writes(&["fr"], 1) };
    fleet.put(id("translates"), entry(translates));
    let apart = "No single node supports asr(en) + semantic(en) + nmt(en->zh).";
    assert_eq!(text(&mut fleet, &en_zh), apart);
    let tone = Need { asks: asks(&["tone"], &[], &[], &[]), ..en_zh.clone() };
    assert_eq!(
        text(&mut fleet, &tone),
        "No node supports service(tone) (not on: service(tone) on 4 nodes)."
    );

    fleet.put(id("able"), entry(writes(&["en", "zh"], 1)));
    assert_eq!(fleet.shortage(&en_zh), None);
    let missing_models = vec![ModelId::new("m.1").unwrap()];
    fleet.set_standing(&id("able"), Standing { fresh: false, missing_models, ..Standing::READY });
    assert_eq!(
        text(&mut fleet, &en_zh),
        "No node that supports asr(en) + semantic(en) + nmt(en->zh) takes jobs now (heartbeat \
         overdue)."
    );
}

/// Guarantee I13.
#[test]
fn a_shortage_does_not_tell_what_other_tenants_nodes_can_do() {
    let mut fleet = Fleet::default();
    let theirs = Declaration {
        tenants: Some([TenantId::new("other").unwrap()].into()),
        ..writes(&["en", "zh"], 1)
    };
    fleet.put(id("theirs"), entry(theirs));
    fleet.put(id("private"), entry(Declaration { private: true, ..writes(&["en", "zh"], 1) }));
    let text = fleet.shortage(&need("en", "zh")).unwrap().to_string();
    assert_eq!(text, "No node supports semantic(en) + nmt(en->zh).");
    assert_eq!(members(&mut fleet, "en", "zh"), ["theirs"], "filtered for each job");
}

#[test]
fn saying_no_again_costs_no_second_scan_until_a_node_changes() {
    let mut fleet = fleet(3, 1);
    fleet.put(id("de"), entry(writes(&["de", "fr"], 1)));
    for _ in 0..10 {
        assert!(fleet.shortage(&need("en", "de")).is_some());
    }
    assert_eq!(fleet.scans(), 1);
    let text = |fleet: &mut Fleet| fleet.shortage(&need("en", "de")).map(|s| s.to_string());
    fleet.put(id("de"), entry(writes(&["en", "de"], 1)));
    assert_eq!(text(&mut fleet), None, "a known node learnt it");
    fleet.set_standing(&id("de"), Standing { fresh: false, ..Standing::READY });
    assert!(text(&mut fleet).unwrap().ends_with("takes jobs now (heartbeat overdue)."));
    fleet.put(id("new"), entry(writes(&["en", "de"], 1)));
    assert_eq!(text(&mut fleet), None, "a new one has it");
    fleet.remove(&id("new"));
    fleet.put(id("de"), entry(writes(&["de", "fr"], 1)));
    assert_eq!(text(&mut fleet).unwrap(), "No node supports nmt(en->de).");
}

#[test]
fn an_explanation_counts_the_nodes_for_each_reason() {
    let mut fleet = fleet(3, 1);
    fleet.set_standing(&id("n1"), Standing { fresh: false, ..Standing::READY });
    fleet.put(id("de"), entry(writes(&["de"], 1)));
    let explanation = fleet.explain(&need("en", "zh"));
    assert_eq!((explanation.nodes, explanation.eligible), (4, 2));
    use crate::eligibility::WhyNot::*;
    let reasons: Vec<_> = explanation.reasons().collect();
    assert_eq!(reasons, [(Asr, 1), (Semantic, 1), (Nmt, 1), (Stale, 1)]);
    assert_eq!(explanation.against(Tts), 0);
}
