//! Pools and choices against a model that knows nothing but the predicate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lingua_core::eligibility::{Need, Route, Standing, eligible};
use lingua_core::fleet::select::{SelectPolicy, Selector, Wish};
use lingua_core::fleet::{Fleet, NodeEntry, PoolBounds, ProfileVersion, RankRule};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, Health, NmtPairs, NodeProfile};
use lingua_core::{Lang, NodeId, Region, TenantId};
use proptest::prelude::*;

use crate::{free_slot, take_slot};

const TAGS: [&str; 6] = ["en", "en-US", "en-GB", "zh", "zh-Hant", "de"];
const TENANTS: [&str; 2] = ["t", "u"];

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Box<Declaration>, Standing, Option<u32>),
    Stand(u8, Standing),
    Remove(u8),
    Placed(u8),
    Ended(u8),
    Truth(u8, u32, u32),
    Ask(Need),
    Choose(Need, u64),
}

fn tags() -> impl Strategy<Value = LangSet> {
    prop::sample::subsequence(&TAGS, 1..=4)
        .prop_map(|tags| LangSet::new(tags.iter().map(|t| Lang::new(t).unwrap())).unwrap())
}

fn tag() -> impl Strategy<Value = Lang> {
    // One that no node lists by itself, and one that no node serves, beside those that they list.
    prop::sample::select([&TAGS[..], &["zh-Hant-TW", "fr"]].concat())
        .prop_map(|t| Lang::new(t).unwrap())
}

fn nmt() -> impl Strategy<Value = Option<NmtPairs>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(NmtPairs::Any)),
        2 => prop::collection::vec((tag(), tag()), 0..6)
            .prop_map(|pairs| Some(NmtPairs::pairs(pairs).unwrap())),
    ]
}

fn declaration() -> impl Strategy<Value = Declaration> {
    let lists = (tags(), prop::option::of(tags()), prop::option::of(tags()), nmt());
    let allowed = prop::option::weighted(0.3, prop::sample::select(&TENANTS[..]));
    let place = (prop::option::of(prop::sample::select(&["here", "there"][..])), 0u32..3);
    (lists, 1u32..4, allowed, prop::bool::weighted(0.1), place).prop_map(
        |(lists, max_slots, tenant, private, (region, cost_micros))| {
            let (semantic, asr, tts, nmt) = lists;
            let tenants = tenant.map(|t| [TenantId::new(t).unwrap()].into());
            let services = Default::default();
            let region = region.map(|name| Region::new(name).unwrap());
            Declaration {
                semantic,
                asr,
                nmt,
                tts,
                services,
                max_slots,
                tenants,
                private,
                region,
                cost_micros,
                ..Declaration::default()
            }
        },
    )
}

fn standing() -> impl Strategy<Value = Standing> {
    let health = prop_oneof![4 => Just(Health::Ready), 1 => prop::sample::select(&Health::ALL[..])];
    let trusted = prop_oneof![2 => Just(u32::MAX), 1 => 0u32..3];
    (health, prop::bool::weighted(0.9), prop::bool::weighted(0.1), trusted).prop_map(
        |(health, fresh, overloaded, trusted)| Standing {
            health,
            fresh,
            overloaded,
            trusted,
            ..Standing::READY
        },
    )
}

fn need() -> impl Strategy<Value = Need> {
    let form = (any::<bool>(), prop::bool::weighted(0.3));
    (tag(), tag(), any::<bool>(), form, prop::sample::select(&TENANTS[..])).prop_map(
        |(a, b, both, (speech, typed), tenant)| Need {
            route: if both { Route::Either(a, b) } else { Route::Directed(a, b) },
            speech,
            typed,
            services: Vec::new(),
            models: Vec::new(),
            tenant: TenantId::new(tenant).unwrap(),
            named: false,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0u8..12;
    prop_oneof![
        4 => (node.clone(), declaration(), standing(), prop::option::of(0u32..4))
            .prop_map(|(n, d, s, u)| Step::Put(n, Box::new(d), s, u)),
        2 => (node.clone(), standing()).prop_map(|(n, s)| Step::Stand(n, s)),
        1 => node.clone().prop_map(Step::Remove),
        2 => node.clone().prop_map(Step::Placed),
        1 => node.clone().prop_map(Step::Ended),
        1 => (node, 0u32..4, 1u32..4).prop_map(|(n, u, m)| Step::Truth(n, u, m)),
        3 => need().prop_map(Step::Ask),
        4 => (need(), any::<u64>()).prop_map(|(n, c)| Step::Choose(n, c)),
    ]
}

fn name(n: u8) -> NodeId {
    NodeId::new(format!("n{n}")).unwrap()
}

/// The nodes and nothing else; every answer is computed anew.
type Model = BTreeMap<NodeId, (NodeProfile, Standing)>;

fn may_take(model: &Model, need: &Need) -> BTreeSet<NodeId> {
    let able = model.iter().filter(|(_, (profile, standing))| eligible(profile, standing, need));
    able.map(|(id, _)| id.clone()).collect()
}

fn check_pool(fleet: &mut Fleet, model: &Model, need: &Need) -> Result<(), TestCaseError> {
    let listed: Vec<NodeId> =
        fleet.members_for(need.route, need.form()).map(|node| node.id().clone()).collect();
    let members: BTreeSet<NodeId> = listed.iter().cloned().collect();
    prop_assert_eq!(listed.len(), members.len(), "a member twice");
    for tenant in TENANTS {
        let need = Need { tenant: TenantId::new(tenant).unwrap(), ..need.clone() };
        let able = may_take(model, &need);
        prop_assert!(able.is_subset(&members), "{able:?} {members:?}");
        prop_assert_eq!(fleet.explain(&need).eligible, able.len());
        prop_assert_eq!(fleet.shortage(&need).is_none(), !able.is_empty());
    }
    // Exactly the pair's own nodes, unless two tags of it fell into one.
    if let Some(key) = fleet.key(need.route, need.speech) {
        let blind = |profile: &NodeProfile| NodeProfile { tenants: None, ..profile.clone() };
        let own = Need { route: key.route, speech: key.speech, ..need.clone() };
        let admitted = model.iter().filter(|(_, (p, s))| eligible(&blind(p), s, &own));
        prop_assert_eq!(admitted.map(|(id, _)| id.clone()).collect::<BTreeSet<_>>(), members);
    } else {
        prop_assert!(members.is_empty());
    }
    Ok(())
}

fn check_choice(
    fleet: &mut Fleet,
    model: &Model,
    need: &Need,
    chance: u64,
) -> Result<(), TestCaseError> {
    // Whatever the rule, the candidates are the same.
    let rules = [RankRule::Load, RankRule::Region, RankRule::Cheapest];
    let rank = rules[(chance % 3) as usize];
    let policy = SelectPolicy { sample_k: 3, rank, ..SelectPolicy::default() };
    let mut selector = Selector::new(need.clone(), Wish::default(), policy, chance);
    let mut order = Vec::new();
    while let Some(candidate) = selector.next(fleet) {
        order.push(candidate.node);
    }
    let chosen: BTreeSet<NodeId> = order.iter().cloned().collect();
    prop_assert_eq!(order.len(), chosen.len(), "a candidate twice");
    prop_assert_eq!(chosen, may_take(model, need));
    let is_full = |id: &NodeId| fleet.get(id).unwrap().is_full();
    prop_assert!(order.is_sorted_by_key(is_full), "a full node before a free one");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pools_and_choices_are_what_the_predicate_says_after_any_history(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut fleet =
            Fleet::with_bounds(PoolBounds { pools: 6, empty_pools: 2, entries: 40 })
                .in_region(Some(Region::new("here").unwrap()));
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Put(n, declared, standing, used) => {
                    let profile = NodeProfile::from_declaration(*declared).unwrap();
                    model.insert(name(n), (profile.clone(), standing.clone()));
                    let (max, version) = (profile.max_slots, ProfileVersion::new(1));
                    let profile = Arc::new(profile);
                    fleet.put(name(n), NodeEntry { profile, version, standing });
                    if let Some(used) = used {
                        fleet.set_usage(&name(n), used, max);
                    }
                }
                Step::Stand(n, standing) => {
                    let known = model.get_mut(&name(n));
                    prop_assert_eq!(fleet.set_standing(&name(n), standing.clone()), known.is_some());
                    if let Some(known) = known {
                        known.1 = standing;
                    }
                }
                Step::Remove(n) => {
                    prop_assert_eq!(fleet.remove(&name(n)), model.remove(&name(n)).is_some());
                }
                Step::Placed(n) => take_slot(&mut fleet, &name(n)),
                Step::Ended(n) => free_slot(&mut fleet, &name(n)),
                Step::Truth(n, used, max) => fleet.set_usage(&name(n), used, max),
                Step::Ask(need) => check_pool(&mut fleet, &model, &need)?,
                Step::Choose(need, chance) => check_choice(&mut fleet, &model, &need, chance)?,
            }
            prop_assert!(fleet.pools().count() <= 6);
            prop_assert_eq!(fleet.len(), model.len());
        }
    }
}
