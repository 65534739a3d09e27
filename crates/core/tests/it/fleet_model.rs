//! Pools and choices against a model that knows nothing but the predicate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lingua_core::eligibility::{Need, Route, Standing, eligible};
use lingua_core::fleet::select::{SelectPolicy, Selector, Wish};
use lingua_core::fleet::{Fleet, NodeEntry, PoolBounds, ProfileVersion, RankRule};
use lingua_core::inventory::{
    Asks, Feature, Inventory, ItemName, Model as Installed, Required, Requirements, Service,
};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, Health, NmtPairs, NodeProfile, ServiceKind, TAKES_TEXT};
use lingua_core::{Lang, ModelId, NodeId, Region, TenantId};
use proptest::prelude::*;

use crate::{free_slot, take_slot};

const TAGS: [&str; 6] = ["en", "en-US", "en-GB", "zh", "zh-Hant", "de"];
const TENANTS: [&str; 2] = ["t", "u"];

#[derive(Clone, Debug)]
enum Step {
    /// With whether it takes text.
    Put(u8, Box<Declaration>, bool, Standing, Option<u32>),
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
    let has = (readiness(), inventory());
    (lists, 1u32..4, allowed, prop::bool::weighted(0.1), place, has).prop_map(
        |(lists, max_slots, tenant, private, (region, cost_micros), (services, inventory))| {
            let (semantic, asr, tts, nmt) = lists;
            let tenants = tenant.map(|t| [TenantId::new(t).unwrap()].into());
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
                inventory,
            }
        },
    )
}

fn readiness() -> impl Strategy<Value = BTreeMap<ServiceKind, bool>> {
    let tone = prop::option::weighted(0.4, any::<bool>());
    tone.prop_map(|ready| ready.map(|ready| (ServiceKind::new("tone").unwrap(), ready)))
        .prop_map(|tone| tone.into_iter().collect())
}

fn inventory() -> impl Strategy<Value = Inventory> {
    let version = || prop::option::of(prop::sample::select(&["1", "2", "2.0", "3"][..]));
    let name = |names: &'static [&'static str]| prop::sample::select(names);
    let model = (name(&["m", "n"]), version(), prop::bool::weighted(0.8));
    let service = (name(&["tone", "Pitch"]), version(), name(&["tone", "asr"]), any::<bool>());
    let feature = (name(&["f", "g"]), version());
    let lists = (
        prop::option::of(prop::collection::vec(model, 0..3)),
        prop::option::of(prop::collection::vec(service, 0..2)),
        prop::option::of(prop::collection::vec(feature, 0..2)),
    );
    let item = |name: &str| ItemName::new(name).unwrap();
    lists.prop_map(move |(models, services, features)| {
        let model = |(id, version, loaded): (&str, Option<&str>, bool)| Installed {
            id: item(id),
            version: version.map(|version| version.parse().unwrap()),
            kind: None,
            langs: LangSet::default(),
            loaded,
        };
        let service = |(id, version, kind, runs): (&str, Option<&str>, &str, bool)| Service {
            id: item(id),
            version: version.map(|version| version.parse().unwrap()),
            kind: Some(item(kind)),
            status: item(if runs { Service::RUNNING } else { "stopped" }),
        };
        let feature = |(name, version): (&str, Option<&str>)| Feature {
            name: item(name),
            version: version.map(|version| version.parse().unwrap()),
        };
        Inventory {
            models: models.map(|list| list.into_iter().map(model).collect()),
            services: services.map(|list| list.into_iter().map(service).collect()),
            features: features.map(|list| list.into_iter().map(feature).collect()),
            hardware: None,
        }
    })
}

fn asks() -> impl Strategy<Value = Asks> {
    let some =
        |words: &'static [&'static str]| prop::collection::vec(prop::sample::select(words), 0..2);
    let home = prop::option::weighted(0.2, prop::sample::select(&["here", "there"][..]));
    let lists = (
        some(&["tone", "pitch", "tone@2"]),
        some(&["m", "m@2", "m@1.5", "m@v3", "m@9", "n", "o"]),
        some(&["f", "g@2", "f@2.0"]),
        some(&["here", "there", "nowhere"]),
        home,
    );
    let asks = lists.prop_map(|(services, models, features, regions, home)| {
        let required = |words: Vec<&str>| -> Vec<Required> {
            words.into_iter().map(|word| word.parse().unwrap()).collect()
        };
        Asks::new(Requirements {
            services: required(services),
            models: required(models),
            features: required(features),
            regions: regions.into_iter().map(|name| name.parse().unwrap()).collect(),
            tenant_regions: home.into_iter().map(|name| name.parse().unwrap()).collect(),
        })
    });
    prop_oneof![1 => Just(Asks::NONE), 1 => asks]
}

fn standing() -> impl Strategy<Value = Standing> {
    let health = prop_oneof![4 => Just(Health::Ready), 1 => prop::sample::select(&Health::ALL[..])];
    let trusted = prop_oneof![2 => Just(u32::MAX), 1 => 0u32..3];
    let gaps = prop::collection::vec(prop::sample::select(&["m", "m.2", "tone"][..]), 0..2);
    let gaps = prop_oneof![3 => Just(Vec::new()), 1 => gaps];
    (health, prop::bool::weighted(0.9), prop::bool::weighted(0.1), trusted, gaps).prop_map(
        |(health, fresh, overloaded, trusted, gaps)| Standing {
            health,
            fresh,
            overloaded,
            trusted,
            missing_models: gaps.into_iter().map(|gap| ModelId::new(gap).unwrap()).collect(),
        },
    )
}

fn need() -> impl Strategy<Value = Need> {
    let form = (any::<bool>(), prop::bool::weighted(0.3));
    (tag(), tag(), any::<bool>(), form, asks(), prop::sample::select(&TENANTS[..])).prop_map(
        |(a, b, both, (speech, typed), asks, tenant)| Need {
            route: if both { Route::Either(a, b) } else { Route::Directed(a, b) },
            speech,
            typed,
            asks,
            tenant: TenantId::new(tenant).unwrap(),
            named: false,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0u8..12;
    prop_oneof![
        4 => (node.clone(), declaration(), any::<bool>(), standing(), prop::option::of(0u32..4))
            .prop_map(|(n, d, t, s, u)| Step::Put(n, Box::new(d), t, s, u)),
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
    let listed: Vec<NodeId> = fleet.members_for(need).map(|node| node.id().clone()).collect();
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
    if let Some(key) = fleet.key(need) {
        let blind = |profile: &NodeProfile| NodeProfile { tenants: None, ..profile.clone() };
        let own = Need { route: key.route, speech: key.speech, asks: key.asks, ..need.clone() };
        // What a node reported missing is asked of each member.
        let whole = |standing: &Standing| Standing { missing_models: vec![], ..standing.clone() };
        let admitted = model.iter().filter(|(_, (p, s))| eligible(&blind(p), &whole(s), &own));
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
            Fleet::with_bounds(PoolBounds { pools: 6, empty_pools: 2, asking_pools: 3, entries: 40 })
                .in_region(Some(Region::new("here").unwrap()));
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Put(n, declared, takes_text, standing, used) => {
                    let profile = NodeProfile::from_declaration(*declared).unwrap();
                    let agent = if takes_text { TAKES_TEXT } else { 1 };
                    let profile = NodeProfile { agent, ..profile };
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
