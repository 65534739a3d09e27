use std::collections::HashMap;

use proptest::prelude::*;

use super::super::index::{Pool, PoolIx};
use super::super::listing::first_seat;
use super::super::tests::{entry, id, langs, pair, writes};
use super::super::{NodeEntry, PoolBounds};
use super::*;
use crate::chance::Chance;
use crate::eligibility::Standing;
use crate::ids::NodeId;
use crate::node::{Declaration, NmtPairs};
use crate::slots::Usage;

/// What guilds and pools must be, whatever happened before.
pub(crate) fn assert_sound(fleet: &Fleet) {
    let mut guilds: HashMap<GuildIx, usize> = HashMap::new();
    for node in fleet.nodes() {
        let (Post { guild, seat }, about) = (fleet.posts[node.ix as usize], fleet.about(node.ix));
        *guilds.entry(guild).or_default() += 1;
        assert_eq!(about.takes_jobs(), seat != NO_SEAT, "{node:?}");
        if seat != NO_SEAT {
            assert_eq!(fleet.guilds.member(guild, seat as usize), node.ix);
            assert_eq!(seat < fleet.guilds.seats(guild).free, !node.is_full(), "{node:?}");
        }
        assert_eq!(fleet.index_of(node.id()), Some(node.ix));
        assert_eq!(node.load().is_open(), about.profile.tenants.is_none());
    }
    for (guild, nodes) in &guilds {
        let seats = fleet.guilds.seats(*guild);
        assert_eq!(fleet.guilds.members(*guild).len(), seats.all as usize);
        assert!(seats.free <= seats.all && seats.all as usize <= *nodes);
    }
    let mut memberships = 0;
    for (at, pool) in (0..).zip(fleet.pools.slots()) {
        let Some(pool) = pool else { continue };
        for part in [Part::Free, Part::All] {
            memberships += pool.listing(part).len();
            guilds.keys().for_each(|guild| assert_listed(fleet, at, pool, part, *guild));
        }
    }
    assert_eq!(memberships, fleet.pools.memberships());
}

/// A guild that belongs to the pool has each of its blocks there once, or is remembered not to, and
/// its members are all in them.
fn assert_listed(fleet: &Fleet, at: PoolIx, pool: &Pool, part: Part, guild: GuildIx) {
    let (seats, guilds) = (fleet.guilds.seats(guild), &fleet.guilds);
    let belongs = pool.admits(guilds.profile(guild));
    let passes = pool.may_admit(guilds.signature(guild));
    assert!(passes || !belongs, "the sieve holds somebody back");
    let blocks = guilds.blocks(guild, part);
    assert!(seats.part(part) <= first_seat(blocks));
    for block in 0..blocks {
        let entries = pool.listing(part).entries(block).iter();
        let mine = entries.filter(|e| e.guild == guild && e.is_of(seats.serial));
        let listed = mine.clone().count();
        let notes = guilds.unlisted(guild, part).iter().filter(|note| {
            (note.pool, note.pool_serial, usize::from(note.block)) == (at, pool.serial(), block)
        });
        if belongs {
            assert_eq!(listed + notes.count(), 1, "{:?} {part:?} {block}", pool.key());
            assert!(listed == 1 || seats.part(part) <= first_seat(block), "members not listed");
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
fn naive(fleet: &Fleet, which: usize, part: Part) -> Vec<NodeIx> {
    let (src, tgt) = PAIRS[which];
    let need = super::super::tests::need(src, tgt);
    let able = fleet.nodes().filter(|node| node.why_not(&need).is_empty());
    let offered = able.filter(|node| part == Part::All || !node.is_full());
    offered.map(|node| node.ix).collect()
}

/// Draws from the pool until nothing new has come for a long while.
fn drawn(fleet: &mut Fleet, which: usize, part: Part, bits: u64) -> Vec<NodeIx> {
    let (src, tgt) = PAIRS[which];
    let mut met = Vec::new();
    let Some((at, _)) = fleet.pool_of(pair(src, tgt), false) else { return met };
    let mut chance = Chance::new(bits);
    for _ in 0..150 {
        let Some(mut hand) = fleet.draw(at, part, &mut chance) else { break };
        met.extend(hand.members().iter());
    }
    met.sort_unstable();
    met.dedup();
    let mut few = fleet.few(at, part).expect("48 nodes are few").members().to_vec();
    few.sort_unstable();
    assert_eq!(met, few);
    met
}

fn play(steps: Vec<Step>) {
    let bounds = PoolBounds { pools: 4, empty_pools: 1, memberships: 60 };
    let mut fleet = Fleet::with_bounds(bounds);
    for step in steps {
        match step {
            Step::Put(n, which, used) => {
                let usage = used.map(|running| Usage { reserved: 0, running });
                fleet.put(name(n), NodeEntry { usage, ..abilities(which) });
            }
            Step::Stand(n, fresh) => {
                fleet.set_standing(&name(n), Standing { fresh, ..Standing::READY });
            }
            Step::Remove(n) => {
                fleet.remove(&name(n));
            }
            Step::Load(n, used) => fleet.true_load(&name(n), used, 2),
            Step::Draw(which, free, bits) => {
                let part = if free { Part::Free } else { Part::All };
                let expected = naive(&fleet, which, part);
                assert_eq!(drawn(&mut fleet, which, part, bits), expected);
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
fn pools_do_not_grow_by_guilds_that_are_gone() {
    let mut fleet = Fleet::default();
    fleet.put(id("stays"), entry(writes(&["en", "zh"], 1)));
    fleet.pool_of(pair("en", "zh"), false).unwrap();
    for n in 0..2_000u32 {
        let own: String = [b'q', b'a' + (n / 26 % 26) as u8, b'a' + (n % 26) as u8]
            .map(char::from)
            .iter()
            .collect();
        fleet.put(id("changes"), entry(writes(&["en", "zh", &own], 1)));
        assert!(fleet.pools.memberships() <= 10);
    }
    assert_sound(&fleet);
}

#[test]
fn a_guild_is_of_abilities_alone() {
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
    let guilds: Vec<GuildIx> = fleet.posts.iter().map(|post| post.guild).collect();
    assert!(guilds[..3].iter().all(|guild| *guild == guilds[0]) && guilds[3] != guilds[0]);
}
