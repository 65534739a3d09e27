//! What Prometheus reads.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use tokio::sync::Semaphore;

use super::error::refused;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whoever reads too often waits for a turn and takes no more than one thread.
static WRITING: Semaphore = Semaphore::const_new(1);

/// Get the metrics
#[utoipa::path(
    get, path = "/metrics", tag = "probes",
    responses((status = 200, body = String, content_type = "application/openmetrics-text",
        description = "The metrics of this instance as text"))
)]
pub(crate) async fn metrics(State(engine): State<Engine>) -> Response {
    let _turn = WRITING.acquire().await.expect("never closed");
    // Written on a thread that no job waits for.
    match tokio::task::spawn_blocking(move || engine.scrape()).await {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => refused(Code::InternalError, "the metrics could not be written").into_response(),
    }
}
