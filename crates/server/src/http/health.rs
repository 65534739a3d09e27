//! Whether the process lives, and whether it can take work.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
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
    /// What kind of store keeps the state: `embedded` or `redis`.
    #[schema(example = "embedded")]
    store: &'static str,
}

/// Check that the process is alive
///
/// It does not check the store. Without `Accept: application/json` the answer is the text `OK`, which probes
/// of the older scheduler expect.
#[utoipa::path(
    get, path = "/health", tag = "probes",
    responses((status = 200, content((Health = "application/json"), (String = "text/plain", example = "OK"))))
)]
pub(crate) async fn health(headers: HeaderMap) -> Response {
    match wants_json(&headers) {
        true => Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") }).into_response(),
        false => "OK".into_response(),
    }
}

/// `Accept` names JSON. What takes everything does not ask for it.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    })
}

/// Check that the instance takes work
///
/// The store answers, and the process is not stopping.
#[utoipa::path(
    get, path = "/ready", tag = "probes",
    responses((status = 200, body = Ready), ReadyRefusals)
)]
pub(crate) async fn ready(State(engine): State<Engine>) -> Answer<Json<Ready>> {
    match engine.readiness() {
        Readiness::Ready => {
            // Where the store is, is nothing for strangers.
            let embedded = engine.store().description.starts_with("embedded");
            let store = if embedded { "embedded" } else { "redis" };
            Ok(Json(Ready { ready: true, store }))
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
