//! What Prometheus reads.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use lingua_engine::Engine;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Read the metrics
#[utoipa::path(
    get, path = "/metrics", tag = "probes",
    responses((status = 200, body = String, content_type = "application/openmetrics-text",
        description = "The metrics of this instance as text"))
)]
pub(crate) async fn metrics(State(engine): State<Engine>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], engine.metrics().render()).into_response()
}
