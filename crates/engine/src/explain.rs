//! Why things are as they are, for operators and node owners: read-only views.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lingua_core::eligibility::{Need, Standing, WhyNot, why_not};
use lingua_core::inventory::Asks;
use lingua_core::link::Breaker;
use lingua_core::node::{Health, NodeProfile, ServiceKind};
use lingua_core::time::millis;
use lingua_core::{InstanceId, Lang, Moment, NodeId, TenantId};

use crate::engine::Engine;
use crate::job::Refusal;
use crate::jobs::InVain;
use crate::nodes::{Aside, BreakerView, NodeDetail, Order, Reputation, Supports};
use crate::pairs::{PairView, directions, pair_views, plain_need, served};

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
    /// It keeps failing and was put aside.
    pub aside: Option<Aside>,
    /// It gets no jobs for so long, unless it says what it runs: the scheduler has started a moment ago.
    pub held_for: Option<Duration>,
    /// Of its present connection.
    pub epoch: u64,
    /// Slots it declares.
    pub declared_slots: u32,
    /// Slots open to jobs now.
    pub open_slots: u32,
    /// Slots that are filled like any other node's; more of them are a last resort.
    pub trusted_slots: u32,
    /// Slots taken, as far as this instance knows.
    pub used_slots: u32,
    /// Attempts that it has.
    pub running: usize,
    /// How long its recent jobs took for each second of speech.
    pub latency_ms: Option<u32>,
    /// What it did and failed, on whichever instance; of a node of another instance only in the view of
    /// that node alone, as the store has it.
    pub past: Reputation,
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
            aside: status.aside,
            held_for: status.held_for,
            epoch: status.epoch,
            declared_slots: status.profile.max_slots,
            open_slots: status.open_slots,
            trusted_slots: status.trusted_slots,
            used_slots: used,
            running: status.running,
            latency_ms,
            past: status.past.unwrap_or_default(),
            profile: status.profile,
            supports: status.supports,
            missing_models: status.missing_models,
            detail: status.detail,
            why_idle: Vec::new(),
        };
        view.why_idle = why_idle(&view);
        Some(view)
    }

    /// The same with all that is known of it: of a node of another instance the store says what it did
    /// and failed, and what follows from that.
    pub async fn whole_node_view(&self, id: &NodeId) -> Option<NodeView> {
        let is_here = self.router.status(id)?.past.is_some();
        let mut view = self.node_view(id)?;
        if !is_here && let Some(known) = self.router.known_in_store(id).await {
            let breaker = Breaker::recalled(known.breaker, Moment::ZERO, &self.settings().breaker);
            view.breaker = BreakerView::of(breaker.state(), Moment::ZERO);
            view.aside = known.aside(&breaker, Moment::ZERO);
            view.past = known;
            view.why_idle = why_idle(&view);
        }
        Some(view)
    }

    /// The same as its owner sees it: jobs have the ids that the node was told.
    pub async fn own_node_view(&self, id: &NodeId) -> Option<NodeView> {
        let mut view = self.whole_node_view(id).await?;
        for failure in &mut view.past.failures {
            failure.job = self.masked(failure.job);
        }
        Some(view)
    }

    /// The node's owner or an operator says that it works again: it gets one job as a probe at once. `false` if there
    /// is no such node.
    pub fn request_probe(&self, id: &NodeId) -> Result<bool, Refusal> {
        self.router.request_probe(id)
    }

    /// Why a node gets no jobs, for its next heartbeat's answer. Nothing while it works.
    pub fn why_idle(&self, id: &NodeId) -> Vec<String> {
        let Some(mut view) = self.node_view(id).filter(|view| view.running == 0) else {
            return Vec::new();
        };
        let names = self.asked_in_vain(&view.profile);
        if !names.is_empty() {
            view.why_idle.push(format!("jobs that it could do ask for {}", names.join(", ")));
        }
        view.why_idle
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

    /// What would make the node useful: what is asked for and nobody, or too few, can do, each with what the
    /// node lacks for it.
    pub fn wanted_of(&self, profile: &NodeProfile) -> Vec<Lacking> {
        let directions = self.jobs.unmet().into_iter();
        let directions =
            directions.map(|(route, speech)| InVain { route, speech, asks: Asks::NONE });
        let all = directions.chain(self.jobs.unmet_by_name());
        all.filter_map(|what| Lacking::of(profile, what)).collect()
    }

    /// What jobs ask for by name that the node could do otherwise, and that nobody has.
    fn asked_in_vain(&self, profile: &NodeProfile) -> Vec<String> {
        let lacking = self.jobs.unmet_by_name().into_iter();
        let lacking = lacking.filter_map(|what| Lacking::of(profile, what));
        let by_name = lacking.filter(|lacking| {
            let only = [WhyNot::Service, WhyNot::Model, WhyNot::Feature];
            lacking.why.iter().all(|why| only.contains(why))
        });
        let mut names: Vec<String> = by_name.flat_map(|lacking| lacking.by_name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The directed pairs that this tenant is served in now, each with whether it is spoken too.
    pub fn served(&self, tenant: &TenantId) -> BTreeMap<(Lang, Lang), bool> {
        served(self.fleet(), tenant)
    }

    /// The directed pairs that nodes serve, with nodes, slots and waiting jobs.
    pub fn pair_views(&self) -> Vec<PairView> {
        pair_views(self.fleet(), &self.jobs)
    }
}

/// What a node lacks for something that is asked for in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lacking {
    /// What is asked for.
    pub what: InVain,
    /// Why the node may not take such a job.
    pub why: Vec<WhyNot>,
    /// What it does not have of what is asked for by name: `model(whisper@3)`.
    pub by_name: Vec<String>,
}

impl Lacking {
    fn of(profile: &NodeProfile, what: InVain) -> Option<Self> {
        let need = Need { asks: what.asks.clone(), ..plain_need(what.route, what.speech) };
        let why: Vec<WhyNot> = why_not(profile, &Standing::READY, &need).iter().collect();
        let without = need.asks.each().filter(|ask| !profile.has(*ask, &[]));
        let by_name = without.map(|ask| ask.to_string()).collect();
        (!why.is_empty()).then_some(Lacking { what, why, by_name })
    }
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
    why_left_alone(view).into_iter().for_each(|text| say(true, text));
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
    let (open, trusted, declared) = (view.open_slots, view.trusted_slots, view.declared_slots);
    say(view.used_slots >= open && view.connected, "all its open slots are taken".into());
    // What is not open yet is never told as taken.
    say(
        open < declared && view.breaker == BreakerView::Closed,
        format!("{open} of {declared} slots open; the others open as its jobs succeed"),
    );
    say(
        open == declared && trusted < declared,
        format!(
            "it has shown itself on {trusted} of {declared} slots: the others are used only if no other \
             node is free, until its jobs succeed"
        ),
    );
    let down: Vec<&str> = view.profile.listed_down().map(ServiceKind::as_str).collect();
    say(!down.is_empty(), format!("services that are not ready: {}", down.join(", ")));
    say(
        view.profile.semantic.is_empty(),
        "it lists no language for semantic repair: its services are not running yet".into(),
    );
    why
}

/// Why the scheduler leaves it alone, or takes it with care.
fn why_left_alone(view: &NodeView) -> Vec<String> {
    let held = view.held_for.map(|left| {
        let left_s = millis(left).div_ceil(1_000);
        format!(
            "the scheduler has just started: it gets jobs once it says what it runs, or in {left_s} s"
        )
    });
    let failed = match (&view.aside, view.breaker) {
        (Some(aside), _) => Some(format!("it was {aside}")),
        (None, BreakerView::Open { left_ms }) => {
            let left_s = left_ms.div_ceil(1_000);
            Some(format!("it failed too often and gets no jobs for {left_s} s"))
        }
        (None, BreakerView::Probing) => Some("it failed before and gets one job as a probe".into()),
        (None, BreakerView::Closed) => None,
    };
    held.into_iter().chain(failed).collect()
}
