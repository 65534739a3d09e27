//! Whether the process lives, and whether it can take work.

use axum::Json;
use axum::extract::State;
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;
use lingua_engine::{Engine, Readiness};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{Answer, Refused, refusals, refused};

/// Between two looks of a caller that waits for the store.
const RETRY_AFTER_MS: u64 = 1_000;

refusals!(ReadyRefusals: Draining, SchedulerDependencyDown);

/// The process is alive.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(example = "ok")]
    status: &'static str,
    version: &'static str,
}

/// The process can take work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Always true; otherwise there is a refusal.
    ready: bool,
    /// Where state is kept.
    #[schema(example = "embedded")]
    store: String,
}

/// Is the process alive?
///
/// Says nothing about its store.
#[utoipa::path(get, path = "/health", tag = "probes", responses((status = 200, body = Health)))]
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Can it take work?
///
/// The store answers and the process is not on its way out.
#[utoipa::path(
    get, path = "/ready", tag = "probes",
    responses((status = 200, body = Ready), ReadyRefusals)
)]
pub(crate) async fn ready(State(engine): State<Engine>) -> Answer<Json<Ready>> {
    match engine.readiness() {
        Readiness::Ready => {
            Ok(Json(Ready { ready: true, store: engine.store().description.to_string() }))
        }
        Readiness::Draining => {
            Err(refused(Code::Draining, "this instance is stopping; use another one"))
        }
        Readiness::StoreDown { reason } => {
            tracing::debug!(reason, "not ready");
            let detail = "the store does not answer; new work is refused until it does";
            let refusal = Refusal::new(Code::SchedulerDependencyDown, detail);
            Err(Refused(refusal.retry_after(RETRY_AFTER_MS)))
        }
    }
}
