//! Why things are as they are, for operators and node owners: read-only views.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use lingua_core::eligibility::{Need, Route, Standing, WhyNot, why_not};
use lingua_core::node::{Health, NmtPairs, NodeProfile, ServiceKind};
use lingua_core::{InstanceId, Lang, NodeId, TenantId};

use crate::engine::Engine;
use crate::fleet::FleetView;
use crate::job::Refusal;
use crate::jobs::Dispatcher;
use crate::nodes::{BreakerView, NodeDetail, NodeFailure, Order, Supports};

/// Pairs shown at once; a fleet with more is told by the pairs that most nodes serve.
const MAX_PAIRS: usize = 4_096;

/// A node as its owner and operators see it.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its name.
    pub id: NodeId,
    /// Where it is in its life, by everybody's word.
    pub health: Health,
    /// The instance that has, or last had, its connection.
    pub instance: InstanceId,
    /// It has a connection to this instance, or to that one.
    pub connected: bool,
    /// Its heartbeat is not overdue.
    pub fresh: bool,
    /// A reported resource is above the threshold.
    pub overloaded: bool,
    /// What an administrator wants of it.
    pub order: Order,
    /// What its failures brought it.
    pub breaker: BreakerView,
    /// Of its present connection.
    pub epoch: u64,
    /// Slots it declares.
    pub declared_slots: u32,
    /// Slots open to jobs now.
    pub open_slots: u32,
    /// Slots taken, as far as this instance knows.
    pub used_slots: u32,
    /// Attempts that it has.
    pub running: usize,
    /// How long its recent jobs took.
    pub latency_ms: Option<u32>,
    /// Jobs it did.
    pub done: u64,
    /// Jobs it failed.
    pub failed: u64,
    /// The last attempts that failed on it, the newest first.
    pub failures: Vec<NodeFailure>,
    /// What it can do.
    pub profile: Arc<NodeProfile>,
    /// What it understands.
    pub supports: Supports,
    /// Models it misses.
    pub missing_models: Vec<String>,
    /// What it says of itself.
    pub detail: Arc<NodeDetail>,
    /// Why it gets no jobs, or fewer than it could, in sentences; empty if nothing is in the way.
    pub why_idle: Vec<String>,
}

/// One directed pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairView {
    /// From.
    pub src: Lang,
    /// Into.
    pub tgt: Lang,
    /// Nodes that can serve it.
    pub nodes: usize,
    /// Those of them that take jobs now.
    pub ready: usize,
    /// Those of them that speak the target.
    pub speaking: usize,
    /// Slots of the ready ones.
    pub slots: u64,
    /// Free ones.
    pub free: u64,
    /// Jobs in line.
    pub waiting: usize,
}

impl NodeView {
    /// Whether it can translate from `src` into `tgt`; either may be left open.
    pub fn serves(&self, src: Option<Lang>, tgt: Option<Lang>) -> bool {
        let fits =
            |(from, into)| src.is_none_or(|src| src == from) && tgt.is_none_or(|tgt| tgt == into);
        directions(&self.profile).into_iter().any(fits)
    }
}

impl Engine {
    /// What an administrator wants of a node, wherever it is. `false` if nobody knows such a node.
    pub async fn order_node(&self, id: &NodeId, order: Order) -> Result<bool, Refusal> {
        self.router.order(id, order).await
    }

    /// A node that this instance knows.
    pub fn node_view(&self, id: &NodeId) -> Option<NodeView> {
        let status = self.router.status(id)?;
        let (used, latency_ms) = {
            let fleet = self.fleet().lock();
            fleet.get(id).map_or((0, None), |node| (node.used(), node.latency_ms()))
        };
        let mut view = NodeView {
            id: id.clone(),
            health: status.health,
            instance: status.instance,
            connected: status.connected,
            fresh: status.fresh,
            overloaded: status.overloaded,
            order: status.order,
            breaker: status.breaker,
            epoch: status.epoch,
            declared_slots: status.profile.max_slots,
            open_slots: status.open_slots,
            used_slots: used,
            running: status.running,
            latency_ms,
            done: status.done,
            failed: status.failed,
            failures: status.failures,
            profile: status.profile,
            supports: status.supports,
            missing_models: status.missing_models,
            detail: status.detail,
            why_idle: Vec::new(),
        };
        view.why_idle = why_idle(&view);
        Some(view)
    }

    /// The same as its owner sees it: jobs have the ids that the node was told.
    pub fn own_node_view(&self, id: &NodeId) -> Option<NodeView> {
        let mut view = self.node_view(id)?;
        for failure in &mut view.failures {
            failure.job = self.masked(failure.job);
        }
        Some(view)
    }

    /// Why a node gets no jobs, for its next heartbeat's answer. Nothing while it works.
    pub fn why_idle(&self, id: &NodeId) -> Vec<String> {
        let view = self.node_view(id).filter(|view| view.running == 0);
        view.map(|view| view.why_idle).unwrap_or_default()
    }

    /// All nodes of this instance, by name.
    pub fn node_views(&self) -> Vec<NodeView> {
        let ids = self.router.ids();
        ids.iter().filter_map(|id| self.node_view(id)).collect()
    }

    /// So many nodes behind `after`, by name, and how many there are in all. With `wanted` only the
    /// nodes that it takes are shown and counted; without, only those of the page are looked at.
    pub fn node_page(
        &self,
        after: Option<&NodeId>,
        limit: usize,
        wanted: Option<&dyn Fn(&NodeView) -> bool>,
    ) -> (Vec<NodeView>, usize) {
        let ids = self.router.ids();
        let is_behind = |id: &NodeId| after.is_none_or(|after| id > after);
        let Some(wanted) = wanted else {
            let behind = ids.iter().filter(|id| is_behind(id));
            return (behind.filter_map(|id| self.node_view(id)).take(limit).collect(), ids.len());
        };
        let (mut page, mut total) = (Vec::new(), 0);
        for view in ids.iter().filter_map(|id| self.node_view(id)).filter(wanted) {
            total += 1;
            if page.len() < limit && is_behind(&view.id) {
                page.push(view);
            }
        }
        (page, total)
    }

    /// What would make the node useful: directions that are asked for and that nobody, or too few,
    /// serve, each with what the node lacks for it.
    pub fn wanted_of(&self, profile: &NodeProfile) -> Vec<(Route, bool, Vec<WhyNot>)> {
        let unmet = self.jobs.unmet();
        let lacking = unmet.into_iter().map(|(route, speech)| {
            let why = why_not(profile, &Standing::READY, &plain_need(route, speech));
            (route, speech, why.iter().collect::<Vec<_>>())
        });
        lacking.filter(|(.., why)| !why.is_empty()).collect()
    }

    /// The directed pairs that this tenant is served in now, each with whether it is spoken too.
    pub fn served(&self, tenant: &TenantId) -> BTreeMap<(Lang, Lang), bool> {
        let mut served = BTreeMap::new();
        for Group { profile, ready, .. } in groups(self.fleet()) {
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

    /// The directed pairs that nodes serve, with nodes, slots and waiting jobs.
    pub fn pair_views(&self) -> Vec<PairView> {
        pair_views(self.fleet(), &self.jobs)
    }
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
                waiting: 0,
            });
            pair.nodes += group.nodes;
            pair.ready += group.ready;
            pair.speaking += if group.profile.tts.serves(&tgt) { group.ready } else { 0 };
            pair.slots += group.slots;
            pair.free += group.free;
        }
    }
    for pair in pairs.values_mut() {
        let route = Route::Directed(pair.src, pair.tgt);
        pair.waiting = jobs.waiting(route, true) + jobs.waiting(route, false);
    }
    pairs.into_values().collect()
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
fn plain_need(route: Route, speech: bool) -> Need {
    let tenant: TenantId = "default".parse().expect("a fixed id");
    Need { route, speech, services: Vec::new(), models: Vec::new(), tenant, named: false }
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
        });
        let standing = node.standing();
        group.nodes += 1;
        if standing.health == Health::Ready && standing.fresh {
            group.ready += 1;
            group.slots += u64::from(node.max());
            group.free += u64::from(node.max().saturating_sub(node.used()));
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
}

/// The directions a profile serves, by the predicate itself.
fn directions(profile: &NodeProfile) -> Vec<(Lang, Lang)> {
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

fn why_idle(view: &NodeView) -> Vec<String> {
    let mut why = Vec::new();
    let mut say = |applies: bool, text: String| {
        if applies {
            why.push(text);
        }
    };
    say(!view.connected, "it is not connected".into());
    say(view.connected && !view.fresh, "its heartbeat is overdue".into());
    say(view.order == Order::Drain, "an administrator drains it".into());
    say(view.order == Order::Block, "an administrator blocked it".into());
    if let BreakerView::Open { left_ms } = view.breaker {
        say(
            true,
            format!("it failed too often and gets no jobs for {} s", left_ms.div_ceil(1_000)),
        );
    }
    say(
        view.breaker == BreakerView::Probing,
        "it failed before and gets one job as a probe".into(),
    );
    say(
        view.overloaded,
        "it reports a resource above the threshold: it gets jobs only when no other node is free"
            .into(),
    );
    let own = [Health::Registering, Health::Degraded, Health::Draining, Health::Offline];
    let by_itself = view.order == Order::Serve && view.breaker == BreakerView::Closed;
    say(
        view.connected && by_itself && own.contains(&view.health),
        format!("it reports the state {}", view.health.as_str()),
    );
    say(
        view.profile.private,
        "it takes only jobs that name it (accept_public_jobs is false)".into(),
    );
    say(
        view.profile.tts.is_empty(),
        "it has no speech synthesis, so it gets text jobs only".into(),
    );
    say(!view.missing_models.is_empty(), format!("it lacks {}", view.missing_models.join(", ")));
    say(
        view.used_slots >= view.open_slots && view.connected,
        match view.open_slots < view.declared_slots {
            true => {
                let (open, declared) = (view.open_slots, view.declared_slots);
                format!("all its open slots are taken ({open} of {declared} slots open)")
            }
            false => "all its open slots are taken".into(),
        },
    );
    let down: Vec<&str> = view.profile.listed_down().map(ServiceKind::as_str).collect();
    say(!down.is_empty(), format!("services that are not ready: {}", down.join(", ")));
    say(
        view.profile.semantic.is_empty(),
        "it lists no language for semantic repair: its services are not running yet".into(),
    );
    why
}
