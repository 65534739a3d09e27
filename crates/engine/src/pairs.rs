//! The directed pairs of languages that the fleet serves: what `explain` and `snapshot` show of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use lingua_core::eligibility::{Need, Route, Standing, WhyNot, why_not};
use lingua_core::inventory::Model;
use lingua_core::node::{Health, NmtPairs, NodeProfile};
use lingua_core::{Lang, NodeId, Region, TenantId};

use crate::fleet::FleetView;
use crate::jobs::Dispatcher;

/// Pairs shown at once; a fleet with more is told by the pairs that most nodes serve.
const MAX_PAIRS: usize = 4_096;

/// One directed pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairView {
    /// Source language.
    pub src: Lang,
    /// Target language.
    pub tgt: Lang,
    /// Nodes that can serve it.
    pub nodes: usize,
    /// Those of them that take jobs now.
    pub ready: usize,
    /// Those of them that speak the target.
    pub speaking: usize,
    /// Slots of the ready ones that are open to jobs.
    pub slots: u64,
    /// Free ones of those.
    pub free: u64,
    /// Slots of the ready ones that are not open yet.
    pub not_open: u64,
    /// Jobs in line.
    pub waiting: usize,
    /// What of it is in each region; `None` are nodes that do not say where they are.
    pub regions: BTreeMap<Option<Region>, Supply>,
}

/// Nodes and slots of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Supply {
    /// Nodes that can serve it.
    pub nodes: usize,
    /// Those of them that take jobs now.
    pub ready: usize,
    /// Slots of the ready ones that are open to jobs.
    pub slots: u64,
    /// Free ones of those.
    pub free: u64,
}

/// The directed pairs that nodes serve, with nodes, slots and the waiting jobs of this instance.
pub(crate) fn pair_views(fleet: &FleetView, jobs: &Dispatcher) -> Vec<PairView> {
    let groups = groups(fleet);
    let mut pairs: BTreeMap<(Lang, Lang), PairView> = BTreeMap::new();
    for group in groups {
        for (src, tgt) in directions(&group.profile) {
            if pairs.len() >= MAX_PAIRS && !pairs.contains_key(&(src, tgt)) {
                continue;
            }
            let pair = pairs.entry((src, tgt)).or_insert_with(|| PairView {
                src,
                tgt,
                nodes: 0,
                ready: 0,
                speaking: 0,
                slots: 0,
                free: 0,
                not_open: 0,
                waiting: 0,
                regions: BTreeMap::new(),
            });
            let here = pair.regions.entry(group.profile.region.clone()).or_default();
            here.nodes += group.nodes;
            here.ready += group.ready;
            here.slots += group.slots;
            here.free += group.free;
            pair.nodes += group.nodes;
            pair.ready += group.ready;
            pair.speaking += if group.profile.tts.serves(&tgt) { group.ready } else { 0 };
            pair.slots += group.slots;
            pair.free += group.free;
            pair.not_open += group.not_open;
        }
    }
    for pair in pairs.values_mut() {
        let route = Route::Directed(pair.src, pair.tgt);
        pair.waiting = jobs.waiting(route, true) + jobs.waiting(route, false);
    }
    pairs.into_values().collect()
}

/// A service or a model in one version, as nodes with the same abilities have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// What it does, if the nodes say so.
    pub kind: Option<String>,
    /// Its name.
    pub name: String,
    /// Its version, if the nodes say one.
    pub version: Option<String>,
    /// It can be used.
    pub running: bool,
    /// Nodes that have it.
    pub nodes: u64,
    /// Some of them.
    pub node_ids: Vec<NodeId>,
}

impl Installed {
    /// Whether it is this service: by its name, and by its kind where both say one.
    pub fn is(&self, kind: &str, name: &str) -> bool {
        self.name == name && self.kind.as_deref().is_none_or(|own| own == kind)
    }
}

/// Nodes of the same abilities that are named.
const MAX_NAMED: usize = 20;

/// What nodes have installed. Nodes with the same abilities are looked at together.
pub(crate) fn installed(fleet: &FleetView) -> Vec<Installed> {
    let groups = groups(fleet);
    groups.iter().flat_map(Group::installed).collect()
}

impl Group {
    /// The services and models of these nodes. One that is both, by one name, is told as the service.
    fn installed(&self) -> Vec<Installed> {
        let inventory = &self.profile.inventory;
        let one = |kind: Option<String>, name: &str, version: Option<String>, running| Installed {
            kind,
            name: name.to_owned(),
            version,
            running,
            nodes: self.nodes as u64,
            node_ids: self.named.clone(),
        };
        let text = |item: &Option<_>| item.as_ref().map(ToString::to_string);
        let services = inventory.services.iter().flatten().map(|service| {
            let version = service.version.as_ref().map(ToString::to_string);
            one(text(&service.kind), service.id.as_str(), version, service.is_running())
        });
        let is_service = |model: &Model| {
            inventory.services.iter().flatten().any(|service| service.id == model.id)
        };
        let models = inventory.models.iter().flatten().filter(|model| !is_service(model));
        let models = models.map(|model| {
            let version = model.version.as_ref().map(ToString::to_string);
            one(text(&model.kind), model.id.as_str(), version, model.loaded)
        });
        services.chain(models).collect()
    }
}

/// The directed pairs that this tenant is served in now, each with whether it is spoken too.
pub(crate) fn served(fleet: &FleetView, tenant: &TenantId) -> BTreeMap<(Lang, Lang), bool> {
    let mut served = BTreeMap::new();
    for Group { profile, ready, .. } in groups(fleet) {
        let theirs = profile.tenants.as_ref().is_none_or(|list| list.contains(tenant));
        if ready == 0 || profile.private || !theirs {
            continue;
        }
        // Nobody offers a language into itself, although it can be had.
        for (src, tgt) in directions(&profile).into_iter().filter(|(src, tgt)| src != tgt) {
            if served.len() < MAX_PAIRS || served.contains_key(&(src, tgt)) {
                *served.entry((src, tgt)).or_default() |= profile.tts.serves(&tgt);
            }
        }
    }
    served
}

/// Says whether a node that takes jobs now serves a direction, with speech if the second is true. Who
/// may use that node is left out: a direction that only some tenants are served in is served.
pub(crate) fn serves_now(fleet: &FleetView) -> impl Fn(Route, bool) -> bool {
    let mut groups = groups(fleet);
    groups.retain(|group| group.ready > 0);
    move |route, speech| {
        let need = plain_need(route, speech);
        groups.iter().any(|group| {
            let why_not = why_not(&group.profile, &Standing::READY, &need);
            why_not.iter().all(|why| matches!(why, WhyNot::Tenant | WhyNot::Private))
        })
    }
}

/// A job of this direction that asks for nothing beside it.
pub(crate) fn plain_need(route: Route, speech: bool) -> Need {
    let tenant: TenantId = "default".parse().expect("a fixed id");
    Need::of(route, speech, tenant)
}

/// Nodes with the same abilities together: a large fleet has few kinds.
fn groups(fleet: &FleetView) -> Vec<Group> {
    let fleet = fleet.lock();
    let mut groups: HashMap<u64, Group> = HashMap::new();
    for node in fleet.nodes() {
        let group = groups.entry(node.version().get()).or_insert_with(|| Group {
            profile: Arc::clone(node.profile()),
            nodes: 0,
            ready: 0,
            slots: 0,
            free: 0,
            not_open: 0,
            named: Vec::new(),
        });
        if group.named.len() < MAX_NAMED {
            group.named.push(node.id().clone());
        }
        let standing = node.standing();
        group.nodes += 1;
        if standing.health == Health::Ready && standing.fresh {
            group.ready += 1;
            group.slots += u64::from(node.max());
            group.free += u64::from(node.max().saturating_sub(node.used()));
            group.not_open += u64::from(node.profile().max_slots.saturating_sub(node.max()));
        }
    }
    groups.into_values().collect()
}

struct Group {
    profile: Arc<NodeProfile>,
    nodes: usize,
    ready: usize,
    slots: u64,
    free: u64,
    not_open: u64,
    /// Some of them.
    named: Vec<NodeId>,
}

/// The directions a profile serves, by the predicate itself.
pub(crate) fn directions(profile: &NodeProfile) -> Vec<(Lang, Lang)> {
    let mut targets: BTreeSet<Lang> =
        profile.semantic.iter().chain(profile.tts.iter()).copied().collect();
    match &profile.nmt {
        NmtPairs::Any => {}
        NmtPairs::Product(_, into) => targets.extend(into.iter()),
        NmtPairs::Pairs(pairs) => targets.extend(pairs.iter().map(|(_, into)| *into)),
    }
    let mut found = Vec::new();
    for src in profile.semantic.iter().filter(|src| profile.asr.serves(src)) {
        for tgt in targets.iter().filter(|tgt| profile.nmt.serves(src, tgt)) {
            found.push((*src, *tgt));
        }
    }
    found
}
