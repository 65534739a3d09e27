//! The catalogue of services, with the nodes that have each and what it did.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use lingua_core::Moment;
use lingua_core::usage::{Day, DayUsage, Sum, Worked};
use lingua_engine::Engine;
use lingua_engine::pairs::Installed;
use lingua_protocol::catalogue::CatalogueService;
use serde::Serialize;
use utoipa::ToSchema;

use crate::catalogue::CatalogueCache;

/// Days whose work is told.
const DAYS: u32 = 7;

/// Nodes that are named for one version of a service.
const MAX_NAMED: usize = 20;

/// The catalogue of services.
#[derive(Serialize, ToSchema)]
pub(crate) struct CatalogueBody {
    /// Where it is read, if anywhere.
    source: Option<String>,
    /// When the source last had what is shown, in epoch milliseconds; `null` before that.
    confirmed_ms: Option<u64>,
    /// How long ago that was.
    age_ms: Option<u64>,
    /// Why the last reading was in vain; what is shown is the last good catalogue.
    problem: Option<String>,
    /// Days whose work is told with each service, the present one included.
    days: u32,
    /// In the order of the catalogue.
    services: Vec<CatalogueEntry>,
}

/// A service of the catalogue.
#[derive(Serialize, ToSchema)]
struct CatalogueEntry {
    #[serde(flatten)]
    service: CatalogueService,
    /// Nodes that have it, in any version.
    nodes: u64,
    /// The versions on nodes, those with most nodes first.
    installed: Vec<CatalogueInstalled>,
    /// Jobs that it had a part in and that were answered.
    jobs: u64,
    /// Speech of those, in seconds.
    speech_s: f64,
    /// Attempts that failed on its nodes.
    failed: u64,
}

/// A version of a service on nodes.
#[derive(Serialize, ToSchema)]
struct CatalogueInstalled {
    /// `null` if the nodes do not say which.
    version: Option<String>,
    /// The catalogue has it.
    listed: bool,
    /// Nodes that have it.
    nodes: u64,
    /// Those of them where it can be used.
    running: u64,
    /// Some of them.
    node_ids: Vec<String>,
}

/// List the services that exist
///
/// From `catalogue.url` or `catalogue.file`, read in the background every 30 s; each with the nodes that have it, and
/// with what it did in the last seven days.
#[utoipa::path(
    get, path = "/api/v1/catalogue", operation_id = "get_catalogue", tag = "admin",
    responses((status = 200, body = CatalogueBody))
)]
pub(crate) async fn catalogue(
    State(engine): State<Engine>,
    State(cache): State<CatalogueCache>,
) -> Json<CatalogueBody> {
    let known = cache.known();
    let now_ms = engine.now_ms();
    let services = known.catalogue.map_or_else(Vec::new, |known| known.services.clone());
    let mut work = BTreeMap::new();
    if !services.is_empty() {
        let today = Day::of(Moment::from_millis(now_ms));
        let days = (today.0.saturating_sub(DAYS - 1)..=today.0).map(Day);
        // Without the store there are no figures, and the catalogue all the same.
        for (_, day) in engine.usage(days).await.unwrap_or_default() {
            add_work(&mut work, &day);
        }
    }
    let installed = if services.is_empty() { Vec::new() } else { engine.installed() };
    let confirmed_ms = known.confirmed.map(Moment::as_millis);
    Json(CatalogueBody {
        source: known.source,
        confirmed_ms,
        age_ms: confirmed_ms.map(|confirmed_ms| now_ms.saturating_sub(confirmed_ms)),
        problem: known.problem,
        days: DAYS,
        services: services.into_iter().map(|one| entry(one, &installed, &work)).collect(),
    })
}

/// What each service and each model worked, by its name without a version.
fn add_work(work: &mut BTreeMap<String, Worked>, day: &DayUsage) {
    for ((service, model, _), count) in &day.worked {
        let model = model.split('@').next().unwrap_or_default();
        work.entry(service.clone()).or_default().add(count);
        if !model.is_empty() && model != service {
            work.entry(model.to_owned()).or_default().add(count);
        }
    }
}

fn entry(
    service: CatalogueService,
    installed: &[Installed],
    work: &BTreeMap<String, Worked>,
) -> CatalogueEntry {
    let own = installed.iter().filter(|one| one.is(&service.kind, &service.id));
    let mut versions: BTreeMap<Option<&str>, CatalogueInstalled> = BTreeMap::new();
    for one in own {
        let version = one.version.as_deref();
        let listed = |version| service.versions.iter().any(|listed| listed.version == version);
        let row = versions.entry(version).or_insert_with(|| CatalogueInstalled {
            version: version.map(str::to_owned),
            listed: version.is_some_and(listed),
            nodes: 0,
            running: 0,
            node_ids: Vec::new(),
        });
        row.nodes += one.nodes;
        row.running += if one.running { one.nodes } else { 0 };
        let named = one.node_ids.iter().map(ToString::to_string);
        row.node_ids.extend(named.take(MAX_NAMED.saturating_sub(row.node_ids.len())));
    }
    let mut versions: Vec<CatalogueInstalled> = versions.into_values().collect();
    versions.sort_by_key(|row| std::cmp::Reverse(row.nodes));
    let did = work.get(&service.id).copied().unwrap_or_default();
    CatalogueEntry {
        nodes: versions.iter().map(|row| row.nodes).sum(),
        installed: versions,
        jobs: did.jobs,
        speech_s: did.speech_ms as f64 / 1_000.0,
        failed: did.failed,
        service,
    }
}
