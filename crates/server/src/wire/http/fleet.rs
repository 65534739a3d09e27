//! Nodes, pairs and explanations, for operators and node owners.

use std::collections::BTreeMap;

use lingua_core::eligibility::{Route, WhyNot};
use lingua_core::node::{NmtPairs, NodeProfile};
use lingua_engine::explain::{Lacking, NodeView};
use lingua_engine::jobs::InVain;
use lingua_engine::nodes::{BreakerView, Supports};
use lingua_engine::pairs::{PairView, Supply};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::inventory::InventoryBody;

/// A node as its owner and operators see it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeBody {
    /// Its name.
    node_id: String,
    /// Its state: what it reports, what the scheduler sees, and orders.
    #[schema(example = "ready")]
    state: &'static str,
    /// The instance that has, or last had, its connection.
    #[schema(example = "eu-2")]
    instance: String,
    /// It has a connection to that instance.
    connected: bool,
    /// Its heartbeat is not overdue.
    fresh: bool,
    /// A reported resource is above the threshold.
    overloaded: bool,
    /// The order of an administrator: `serve`, `drain` or `block`.
    order: &'static str,
    /// Its circuit breaker: `closed` (jobs as usual), `open` (no jobs for a while), `probing` (one job).
    breaker: &'static str,
    /// It keeps failing and was put aside; `why_idle` says why, and when it is tried again.
    put_aside: bool,
    /// Rises with every connection.
    epoch: u64,
    /// Its slots.
    slots: Slots,
    /// Running attempts.
    running: usize,
    /// How long its recent jobs took for each second of speech.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<u32>,
    /// When it was first seen, in epoch milliseconds; of a node of another instance only in the view of one
    /// node, as are the three that follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<u64>,
    /// Jobs that it did, on all instances.
    done: u64,
    /// Jobs that it failed.
    failed: u64,
    /// Attempts that failed on it, by code.
    #[schema(example = json!({"NMT_TIMEOUT": 3}))]
    failed_by_code: BTreeMap<String, u64>,
    /// What it can do.
    abilities: AbilitiesBody,
    /// Protocol features that it supports.
    supports: Vec<&'static str>,
    /// Models that it reported missing.
    missing_models: Vec<String>,
    /// What it reports about itself.
    detail: DetailBody,
    /// Why it gets no jobs, in sentences; empty if it can get jobs.
    why_idle: Vec<String>,
    /// What it has installed; only in the view of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    inventory: Option<InventoryBody>,
    /// Directions that are requested and not served, each with what the node lacks for it; only in the view
    /// of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    useful_if: Option<Vec<Wanted>>,
}

/// Slots of a node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Slots {
    /// Declared by the node.
    declared: u32,
    /// Open to jobs now; the others open as its jobs succeed.
    open: u32,
    /// Used like any other node's; more of the open ones are used only if no other node is free.
    trusted: u32,
    /// Taken, as far as this instance knows.
    used: u32,
}

/// What a node can do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AbilitiesBody {
    /// Languages it recognises.
    asr_langs: Vec<String>,
    /// Languages it repairs.
    semantic_langs: Vec<String>,
    /// Languages it speaks.
    tts_langs: Vec<String>,
    /// `any`, or the directions as `src->tgt`.
    #[schema(example = json!(["en->zh"]))]
    nmt: Vec<String>,
    /// Types of services with whether each is ready.
    #[schema(example = json!({"asr": true}))]
    services: BTreeMap<String, bool>,
    /// It takes only jobs that name it.
    private: bool,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    /// The cost of a job on it; 0 if it does not say.
    cost: f64,
}

/// What a node reports about itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DetailBody {
    /// Version of its software.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
    /// Its hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    hardware: Option<Box<RawValue>>,
    /// Processors in use, as last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_percent: Option<f64>,
    /// GPU in use, as last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_percent: Option<f64>,
    /// Memory of the GPU in use, as last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_mem_percent: Option<f64>,
    /// Memory in use, as last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    mem_percent: Option<f64>,
    /// Its own last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// The nodes of this instance by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodesBody {
    pub(crate) nodes: Vec<NodeBody>,
    /// The number of all entries.
    pub(crate) total: usize,
    /// The `after` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A requested direction that is not served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Wanted {
    /// `src->tgt`, or `a<->b` if either may be spoken.
    #[schema(example = "en->zh")]
    direction: String,
    /// The translation must be spoken.
    tts: bool,
    /// What the node lacks for it.
    #[schema(example = json!(["nmt"]))]
    lacks: Vec<&'static str>,
    /// What it does not have of what such jobs ask for by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["model(whisper@3)"]))]
    asks: Vec<String>,
}

/// The language directions that nodes of this instance serve.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolsBody {
    pub(crate) pairs: Vec<PairBody>,
    /// Directions that were requested lately and that no node could take, the most requested first.
    pub(crate) unmet: Vec<Unmet>,
    /// What jobs asked for by name lately that no node has that serves their direction, the most wanted first.
    pub(crate) unmet_by_name: Vec<UnmetByName>,
}

/// What a job asked for by name in vain.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnmetByName {
    /// `src->tgt`, or `a<->b` if either may be spoken.
    #[schema(example = "en->zh")]
    direction: String,
    /// The translation is to be spoken.
    tts: bool,
    /// All that was asked for.
    #[schema(example = json!(["model(whisper@3)"]))]
    asks: Vec<String>,
}

impl UnmetByName {
    pub(crate) fn of(what: InVain) -> Self {
        UnmetByName {
            direction: what.route.to_string(),
            tts: what.speech,
            asks: what.asks.each().map(|ask| ask.to_string()).collect(),
        }
    }
}

/// A requested direction that no node could take.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Unmet {
    /// `src->tgt`, or `a<->b` if either may be spoken.
    #[schema(example = "en->zh")]
    direction: String,
    /// The translation must be spoken.
    tts: bool,
}

/// A language direction.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PairBody {
    #[schema(example = "en")]
    src: String,
    #[schema(example = "zh")]
    tgt: String,
    /// Nodes that can serve it.
    nodes: usize,
    /// Those of them that take jobs now.
    ready: usize,
    /// Those of the ready ones that speak the target.
    speaking: usize,
    /// Slots of the ready ones that are open to jobs.
    slots: u64,
    /// Those that are free.
    free: u64,
    /// Slots of the ready ones that are not open yet: they open as jobs succeed.
    not_open: u64,
    /// Queued jobs.
    waiting: usize,
    /// The same by region, with `by=region`; nodes that do not say where they are under `""`.
    #[serde(skip_serializing_if = "Option::is_none")]
    regions: Option<BTreeMap<String, RegionBody>>,
}

/// What of a pair is in one region.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RegionBody {
    /// Nodes that can serve it.
    nodes: usize,
    /// Those of them that take jobs now.
    ready: usize,
    /// Slots of the ready ones that are open to jobs.
    slots: u64,
    /// Those that are free.
    free: u64,
}

/// How many nodes could take a job, and why the others could not.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExplainBody {
    #[schema(example = "en")]
    pub(crate) src: String,
    #[schema(example = "zh")]
    pub(crate) tgt: String,
    /// The translation must be spoken.
    pub(crate) tts: bool,
    /// What is asked for by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["model(whisper@3)"]))]
    pub(crate) asks: Vec<String>,
    /// The number of nodes.
    pub(crate) nodes: usize,
    /// Nodes that could take such a job now.
    pub(crate) eligible: usize,
    /// Those of them that are asked only when no other has a free slot: overloaded, or not trusted with more.
    pub(crate) last_resort: usize,
    /// Slots of the eligible ones that are open to jobs.
    pub(crate) open_slots: u64,
    /// Slots of theirs that are not open yet: they open as jobs succeed.
    pub(crate) slots_not_open: u64,
    /// Why the others could not; a node can have several reasons.
    pub(crate) reasons: Vec<ReasonBody>,
    /// What is missing, in the words of the refusal; absent if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "No node supports semantic(en) + nmt(en->zh).")]
    pub(crate) missing: Option<String>,
    /// Queued jobs of the direction.
    pub(crate) waiting: usize,
    /// The one node that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<NodeStands>,
}

/// The number of nodes with one reason.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReasonBody {
    /// `asr`, `text`, `semantic`, `nmt`, `tts`, `service`, `model`, `feature`, `region`, `tenant`, `private`,
    /// `health` or `stale`.
    #[schema(example = "nmt")]
    pub(crate) reason: &'static str,
    pub(crate) nodes: usize,
}

/// Whether one node could take a job that names it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeStands {
    pub(crate) node_id: String,
    /// It could take such a job now.
    pub(crate) eligible: bool,
    /// Why it could not.
    pub(crate) why_not: Vec<&'static str>,
    /// Why it gets no jobs, in sentences.
    pub(crate) why_idle: Vec<String>,
}

impl NodeBody {
    pub(crate) fn of(view: &NodeView) -> Self {
        let detail = &view.detail;
        NodeBody {
            node_id: view.id.to_string(),
            state: view.health.as_str(),
            instance: view.instance.to_string(),
            connected: view.connected,
            fresh: view.fresh,
            overloaded: view.overloaded,
            order: view.order.as_str(),
            breaker: match view.breaker {
                BreakerView::Closed => "closed",
                BreakerView::Open { .. } => "open",
                BreakerView::Probing => "probing",
            },
            put_aside: view.aside.is_some(),
            epoch: view.epoch,
            slots: Slots::of(view),
            running: view.running,
            latency_ms: view.latency_ms,
            since_ms: Some(view.past.since_ms).filter(|since| *since > 0),
            done: view.past.done,
            failed: view.past.failed,
            failed_by_code: view.past.failed_by_code.clone(),
            abilities: AbilitiesBody::of(&view.profile),
            supports: supports(view.supports),
            missing_models: view.missing_models.clone(),
            detail: DetailBody {
                version: detail.version.clone(),
                platform: detail.platform.clone(),
                hardware: detail.hardware.as_deref().map(ToOwned::to_owned),
                cpu_percent: detail.percents.cpu,
                gpu_percent: detail.percents.gpu,
                gpu_mem_percent: detail.percents.gpu_mem,
                mem_percent: detail.percents.mem,
                last_error: detail.last_error.clone(),
            },
            why_idle: view.why_idle.clone(),
            inventory: None,
            useful_if: None,
        }
    }

    /// With all that is shown of one node alone.
    pub(crate) fn whole(view: &NodeView, wanted: Vec<Wanted>) -> Self {
        NodeBody {
            inventory: Some(InventoryBody::of(&view.profile.inventory)),
            useful_if: Some(wanted),
            ..NodeBody::of(view)
        }
    }
}

impl Slots {
    pub(super) fn of(view: &NodeView) -> Self {
        Slots {
            declared: view.declared_slots,
            open: view.open_slots,
            trusted: view.trusted_slots,
            used: view.used_slots,
        }
    }
}

impl AbilitiesBody {
    pub(super) fn of(profile: &NodeProfile) -> Self {
        let tags =
            |langs: &lingua_core::lang::LangSet| langs.iter().map(ToString::to_string).collect();
        let services = profile.services.iter().map(|(kind, ready)| (kind.to_string(), *ready));
        AbilitiesBody {
            asr_langs: tags(&profile.asr),
            semantic_langs: tags(&profile.semantic),
            tts_langs: tags(&profile.tts),
            nmt: directions(&profile.nmt),
            services: services.collect(),
            private: profile.private,
            region: profile.region.as_ref().map(ToString::to_string),
            cost: f64::from(profile.cost_micros) / 1e6,
        }
    }
}

fn directions(nmt: &NmtPairs) -> Vec<String> {
    match nmt {
        NmtPairs::Any => vec!["any".to_owned()],
        NmtPairs::Product(from, into) => {
            let pairs = from.iter().flat_map(|src| into.iter().map(move |tgt| (src, tgt)));
            pairs
                .filter(|(src, tgt)| src != tgt)
                .map(|(src, tgt)| format!("{src}->{tgt}"))
                .collect()
        }
        NmtPairs::Pairs(pairs) => pairs.iter().map(|(src, tgt)| format!("{src}->{tgt}")).collect(),
    }
}

fn supports(supports: Supports) -> Vec<&'static str> {
    let words = [
        ("ack", supports.ack),
        ("cancel", supports.cancel),
        ("binary_audio", supports.binary_audio),
        ("text", supports.text),
        ("tokens", supports.tokens),
        ("result_ack", supports.result_ack),
    ];
    words.into_iter().filter(|(_, understood)| *understood).map(|(word, _)| word).collect()
}

impl Wanted {
    pub(crate) fn of(Lacking { what, why, by_name }: Lacking) -> Self {
        Wanted {
            direction: what.route.to_string(),
            tts: what.speech,
            lacks: why.into_iter().map(WhyNot::as_str).collect(),
            asks: by_name,
        }
    }
}

impl Unmet {
    pub(crate) fn of((route, tts): (Route, bool)) -> Self {
        Unmet { direction: route.to_string(), tts }
    }
}

impl PairBody {
    pub(crate) fn of(pair: &PairView, by_region: bool) -> Self {
        let region = |of: &Supply| RegionBody {
            nodes: of.nodes,
            ready: of.ready,
            slots: of.slots,
            free: of.free,
        };
        let regions = pair.regions.iter().map(|(name, supply)| {
            (name.as_ref().map(ToString::to_string).unwrap_or_default(), region(supply))
        });
        PairBody {
            regions: by_region.then(|| regions.collect()),
            src: pair.src.to_string(),
            tgt: pair.tgt.to_string(),
            nodes: pair.nodes,
            ready: pair.ready,
            speaking: pair.speaking,
            slots: pair.slots,
            free: pair.free,
            not_open: pair.not_open,
            waiting: pair.waiting,
        }
    }
}
