//! Whether the process lives, and whether it can take work.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use lingua_core::outcome::Code;
use lingua_engine::{Engine, Readiness};
use serde_json::json;

use super::error::refusal;

/// Between two looks of a caller that waits for the store.
const RETRY_AFTER_MS: u64 = 1_000;

/// The process is alive; says nothing about its store.
pub(crate) async fn health() -> Response {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")})).into_response()
}

/// Able to take work: the store answers and the process is not on its way out.
pub(crate) async fn ready(State(engine): State<Engine>) -> Response {
    match engine.readiness() {
        Readiness::Ready => {
            let store = &engine.store().description;
            Json(json!({"ready": true, "store": store})).into_response()
        }
        Readiness::Draining => {
            refusal(Code::Draining, "this instance is stopping; use another one", None)
        }
        Readiness::StoreDown { reason } => {
            tracing::debug!(reason, "not ready");
            let detail = "the store does not answer; new work is refused until it does";
            refusal(Code::SchedulerDependencyDown, detail, Some(RETRY_AFTER_MS))
        }
    }
}
