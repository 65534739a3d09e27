use std::collections::HashMap;

use proptest::prelude::*;

use super::super::block_list::first_position;
use super::super::index::{Pool, PoolIx};
use super::super::tests::{SPOKEN, entry, id, langs, pair, writes};
use super::super::{NodeEntry, PoolBounds};
use super::*;
use crate::chance::Chance;
use crate::eligibility::Standing;
use crate::ids::NodeId;
use crate::inventory::Asks;
use crate::node::{Declaration, NmtPairs};

/// What classes and pools must be, whatever happened before.
pub(crate) fn assert_sound(fleet: &Fleet) {
    let mut classes: HashMap<ClassIx, usize> = HashMap::new();
    for node in fleet.nodes() {
        let (Membership { class, position }, state) =
            (fleet.memberships[node.ix as usize], fleet.state(node.ix));
        *classes.entry(class).or_default() += 1;
        assert_eq!(state.takes_jobs(), position != NO_POSITION, "{node:?}");
        if position != NO_POSITION {
            assert_eq!(fleet.classes.member(class, position as usize), node.ix);
            assert_eq!(position < fleet.classes.head(class).free, !node.is_full(), "{node:?}");
        }
        assert_eq!(fleet.index_of(node.id()), Some(node.ix));
        assert_eq!(node.load().is_open(), state.profile.tenants.is_none());
        assert_eq!(fleet.cost_micros(node.ix), state.profile.cost_micros);
        let same = fleet.region.is_some() && fleet.region == state.profile.region;
        assert_eq!(fleet.region(node.ix).is_near(fleet.near(None)), same);
    }
    for (class, nodes) in &classes {
        let head = fleet.classes.head(*class);
        assert_eq!(fleet.classes.members(*class).len(), head.all as usize);
        assert!(head.free <= head.all && head.all as usize <= *nodes);
    }
    let mut entries = 0;
    for (at, pool) in (0..).zip(fleet.pools.slots()) {
        let Some(pool) = pool else { continue };
        for subset in [Subset::Free, Subset::All] {
            entries += pool.list(subset).len();
            classes.keys().for_each(|class| assert_listed(fleet, at, pool, subset, *class));
        }
    }
    assert_eq!(entries, fleet.pools.entries());
}

/// A class that belongs to the pool has each of its blocks there once, or is remembered not to, and
/// its members are all in them.
fn assert_listed(fleet: &Fleet, at: PoolIx, pool: &Pool, subset: Subset, class: ClassIx) {
    let (head, classes) = (fleet.classes.head(class), &fleet.classes);
    let belongs = pool.admits(classes.profile(class));
    let passes = pool.may_admit(classes.signature(class));
    assert!(passes || !belongs, "the filter holds somebody back");
    let blocks = classes.blocks(class, subset);
    assert!(head.count(subset) <= first_position(blocks));
    for block in 0..blocks {
        let entries = pool.list(subset).entries(block).iter();
        let mine = entries.filter(|e| e.class == class && e.is_current(head.serial));
        let listed = mine.clone().count();
        let notes = classes.unlisted(class, subset).iter().filter(|note| {
            (note.pool, note.pool_serial, usize::from(note.block)) == (at, pool.serial(), block)
        });
        if belongs {
            assert_eq!(listed + notes.count(), 1, "{:?} {subset:?} {block}", pool.key());
            assert!(
                listed == 1 || head.count(subset) <= first_position(block),
                "members not listed"
            );
        } else {
            assert!(listed <= 1 && mine.into_iter().all(|entry| !entry.is_checked()));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, usize, Option<u32>),
    Stand(u8, bool),
    Remove(u8),
    Load(u8, u32),
    Draw(usize, bool, u64),
}

/// Abilities of which some are in the same pools, some are not, and one pair is in neither.
fn abilities(which: usize) -> NodeEntry {
    let lists = [&["en", "zh"][..], &["en", "zh", "de"], &["en-GB", "zh"], &["de", "zh"], &["en"]];
    let mut declared = writes(lists[which % lists.len()], 2);
    if which >= lists.len() {
        declared.nmt = Some(NmtPairs::pairs([("zh", "en")].map(|(a, b)| tags(a, b))).unwrap());
        declared.semantic = langs(&["en", "zh"]);
    }
    entry(declared)
}

fn tags(src: &str, tgt: &str) -> (crate::Lang, crate::Lang) {
    (super::super::tests::lang(src), super::super::tests::lang(tgt))
}

const PAIRS: [(&str, &str); 5] =
    [("en", "zh"), ("zh", "en"), ("de", "zh"), ("en-GB", "zh"), ("en", "en")];

fn step() -> impl Strategy<Value = Step> {
    let node = 0u8..48;
    prop_oneof![
        6 => (node.clone(), 0usize..6, prop::option::of(0u32..3))
            .prop_map(|(n, which, used)| Step::Put(n, which, used)),
        2 => (node.clone(), any::<bool>()).prop_map(|(n, well)| Step::Stand(n, well)),
        2 => node.clone().prop_map(Step::Remove),
        4 => (node, 0u32..3).prop_map(|(n, used)| Step::Load(n, used)),
        4 => (0..PAIRS.len(), any::<bool>(), any::<u64>())
            .prop_map(|(which, free, bits)| Step::Draw(which, free, bits)),
    ]
}

fn name(n: u8) -> NodeId {
    id(&format!("n{n}"))
}

/// Who may be drawn, asked of every node.
fn naive(fleet: &Fleet, which: usize, subset: Subset) -> Vec<NodeIx> {
    let (src, tgt) = PAIRS[which];
    let need = super::super::tests::need(src, tgt);
    let able = fleet.nodes().filter(|node| node.why_not(&need).is_empty());
    let offered = able.filter(|node| subset == Subset::All || !node.is_full());
    offered.map(|node| node.ix).collect()
}

/// Draws from the pool until nothing new has come for a long while.
fn drawn(fleet: &mut Fleet, which: usize, subset: Subset, bits: u64) -> Vec<NodeIx> {
    let (src, tgt) = PAIRS[which];
    let mut met = Vec::new();
    let Some((at, _)) = fleet.pool_of(pair(src, tgt), SPOKEN, &Asks::NONE) else { return met };
    let mut chance = Chance::new(bits);
    for _ in 0..150 {
        let Some(mut sample) = fleet.draw(at, subset, &mut chance) else { break };
        met.extend(sample.members().iter());
    }
    met.sort_unstable();
    met.dedup();
    let mut small_pool =
        fleet.small_pool(at, subset).expect("48 nodes are small_pool").members().to_vec();
    small_pool.sort_unstable();
    assert_eq!(met, small_pool);
    met
}

fn play(steps: Vec<Step>) {
    let bounds = PoolBounds { pools: 4, empty_pools: 1, asking_pools: 2, entries: 60 };
    let mut fleet = Fleet::with_bounds(bounds);
    for step in steps {
        match step {
            Step::Put(n, which, used) => {
                let entry = abilities(which);
                let max = entry.profile.max_slots;
                fleet.put(name(n), entry);
                if let Some(used) = used {
                    fleet.set_usage(&name(n), used, max);
                }
            }
            Step::Stand(n, fresh) => {
                fleet.set_standing(&name(n), Standing { fresh, ..Standing::READY });
            }
            Step::Remove(n) => {
                fleet.remove(&name(n));
            }
            Step::Load(n, used) => fleet.set_usage(&name(n), used, 2),
            Step::Draw(which, free, bits) => {
                let subset = if free { Subset::Free } else { Subset::All };
                let expected = naive(&fleet, which, subset);
                assert_eq!(drawn(&mut fleet, which, subset, bits), expected);
            }
        }
        assert_sound(&fleet);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_can_be_drawn_is_what_every_node_would_say_after_any_history(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        play(steps);
    }
}

/// Nodes that come and go with ever new abilities leave nothing behind in pools that nobody uses.
#[test]
fn pools_do_not_grow_by_classes_that_are_gone() {
    let mut fleet = Fleet::default();
    fleet.put(id("stays"), entry(writes(&["en", "zh"], 1)));
    fleet.pool_of(pair("en", "zh"), SPOKEN, &Asks::NONE).unwrap();
    for n in 0..2_000u32 {
        let own: String = [b'q', b'a' + (n / 26 % 26) as u8, b'a' + (n % 26) as u8]
            .map(char::from)
            .iter()
            .collect();
        fleet.put(id("record_version"), entry(writes(&["en", "zh", &own], 1)));
        assert!(fleet.pools.entries() <= 10);
    }
    assert_sound(&fleet);
}

#[test]
fn a_class_depends_on_capabilities_alone() {
    let mut fleet = Fleet::default();
    let same = [
        writes(&["en", "zh"], 1),
        Declaration { private: true, ..writes(&["zh", "en"], 7) },
        Declaration { asr: Some(langs(&["en", "zh"])), ..writes(&["en", "zh"], 1) },
    ];
    for (n, declared) in (0..).zip(same) {
        fleet.put(name(n), entry(declared));
    }
    fleet.put(name(9), entry(writes(&["en"], 1)));
    let classes: Vec<ClassIx> =
        fleet.memberships.iter().map(|membership| membership.class).collect();
    assert!(classes[..3].iter().all(|class| *class == classes[0]) && classes[3] != classes[0]);
}
