//! Why a job would go where, or why nowhere.

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use lingua_core::eligibility::{Need, Route, WhyNot};
use lingua_core::inventory::Requirements;
use lingua_core::limits::{MAX_FEATURES_PER_JOB, MAX_MODELS_PER_JOB, MAX_SERVICES_PER_NODE};
use lingua_core::outcome::Code;
use lingua_core::{Lang, NodeId};
use lingua_engine::Engine;
use lingua_protocol::asked::{lowercase, names, regions};

use super::error::{Answer, Refused, refusals, refused};
use super::query::Params;
use crate::identity::default_tenant;
use crate::wire::http::fleet::{ExplainBody, NodeStands, ReasonBody};
use crate::wire::http::invalid;

refusals!(Refusals: InvalidMessage, InvalidLanguage);

/// Explain how many nodes could take a job
///
/// And why the others could not: the number of nodes for each reason, and what is missing, in the words of
/// the refusal that the caller would get.
#[utoipa::path(
    get, path = "/api/v1/explain", tag = "admin",
    params(
        ("src" = String, Query, description = "The source language", example = "en"),
        ("tgt" = String, Query, description = "The target language", example = "zh"),
        ("tts" = Option<bool>, Query, description = "Whether the job needs speech output; true if absent"),
        ("tenant" = Option<String>, Query, description = "The tenant of the job; `default` if absent"),
        ("services" = Option<String>, Query, description = "Services that the job asks for, each `name` or `name@version`, separated by commas"),
        ("models" = Option<String>, Query, description = "Models, in the same form"),
        ("features" = Option<String>, Query, description = "Features, in the same form"),
        ("residency" = Option<String>, Query, description = "Regions that the node may be in, separated by commas, in addition to those of the tenant"),
        ("node" = Option<String>, Query, description = "Also explain whether this node could take a job that names it"),
    ),
    responses((status = 200, body = ExplainBody), Refusals)
)]
pub(crate) async fn explain(
    State(engine): State<Engine>,
    params: Params,
) -> Answer<Json<ExplainBody>> {
    let (src, tgt) = (language(&params, "src")?, language(&params, "tgt")?);
    let Speech(tts) = params.get("tts")?.unwrap_or(Speech(true));
    let node: Option<NodeId> = params.get("node")?;
    let route = Route::Directed(src, tgt);
    let tenant = params.get("tenant")?.unwrap_or_else(default_tenant);
    let asks = engine.settings().asks_of(asked(&params)?, &tenant);
    let need = Need { asks, ..Need::of(route, tts, tenant) };
    let (explanation, missing) = {
        let mut fleet = engine.fleet().lock();
        (fleet.explain(&need), fleet.shortage(&need))
    };
    let reasons = explanation.reasons();
    let reasons = reasons.map(|(reason, nodes)| ReasonBody { reason: reason.as_str(), nodes });
    Ok(Json(ExplainBody {
        src: src.to_string(),
        tgt: tgt.to_string(),
        tts,
        asks: need.asks.each().map(|ask| ask.to_string()).collect(),
        nodes: explanation.nodes,
        eligible: explanation.eligible,
        last_resort: explanation.last_resort,
        open_slots: explanation.open_slots,
        slots_not_open: explanation.slots_not_open,
        reasons: reasons.collect(),
        missing: missing.map(|missing| missing.to_string()),
        waiting: engine.jobs.waiting(route, tts),
        node: node.map(|id| stands(&engine, id, need)).transpose()?,
    }))
}

/// What the job would ask for by name.
fn asked(params: &Params) -> Result<Requirements, Refused> {
    let words = |name: &str| -> Result<Vec<String>, Refused> {
        let list: Option<String> = params.get(name)?;
        let words = list.iter().flat_map(|list| list.split(','));
        Ok(words.filter(|word| !word.is_empty()).map(str::to_owned).collect())
    };
    let services = names("services", &words("services")?, MAX_SERVICES_PER_NODE)?;
    let features = names("features", &words("features")?, MAX_FEATURES_PER_JOB)?;
    Ok(Requirements {
        services: lowercase(services),
        models: names("models", &words("models")?, MAX_MODELS_PER_JOB)?,
        features: lowercase(features),
        regions: regions("residency", &words("residency")?)?,
        ..Requirements::default()
    })
}

fn language(params: &Params, name: &str) -> Result<Lang, Refused> {
    let Some(tag) = params.get::<String>(name)? else {
        return Err(invalid(format!("{name}: is needed")).into());
    };
    Lang::new(&tag).map_err(|error| refused(Code::InvalidLanguage, format!("{name}: {error}")))
}

fn stands(engine: &Engine, id: NodeId, need: Need) -> Result<NodeStands, Refused> {
    let need = Need { named: true, ..need };
    let why = engine.fleet().lock().get(&id).map(|node| node.why_not(&need));
    let (why_not, why_idle) = match (why, engine.node_view(&id)) {
        (Some(why), Some(view)) => (why.iter().map(WhyNot::as_str).collect(), view.why_idle),
        _ => (vec!["unknown"], vec!["this instance has no such node".to_owned()]),
    };
    Ok(NodeStands { eligible: why_not.is_empty(), node_id: id.to_string(), why_not, why_idle })
}

/// `true` or `false`, `1` or `0`.
struct Speech(bool);

impl FromStr for Speech {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "true" | "1" => Ok(Speech(true)),
            "false" | "0" => Ok(Speech(false)),
            _ => Err("is true or false"),
        }
    }
}
