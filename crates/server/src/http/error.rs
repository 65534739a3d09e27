//! The one place that turns refusals into answers.

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use lingua_core::outcome::Code;
use serde::Serialize;

/// A refusal as callers see it.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal {
    error: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// An answer with a stable code, a sentence, and when to try again.
pub(crate) fn refusal(
    code: Code,
    detail: impl Into<String>,
    retry_after_ms: Option<u64>,
) -> Response {
    let status =
        StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = Refusal { error: code.as_str(), detail: detail.into(), retry_after_ms };
    (status, Json(body)).into_response()
}

pub(crate) async fn not_found(uri: Uri) -> Response {
    refusal(Code::NotFound, format!("there is nothing at {}", uri.path()), None)
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    let detail = format!("{} does not take {method}", uri.path());
    let mut answer = refusal(Code::UnsupportedMessage, detail, None);
    *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    answer
}
