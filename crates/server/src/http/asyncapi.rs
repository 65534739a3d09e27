//! The description of the sockets.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};

static TEXT: LazyLock<String> = LazyLock::new(|| crate::wire::asyncapi::document().to_string());

/// Get the description of the WebSocket messages
#[utoipa::path(
    get, path = "/asyncapi.json", tag = "probes",
    responses((status = 200, body = Object, description = "AsyncAPI 3.0"))
)]
pub(crate) async fn asyncapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}
