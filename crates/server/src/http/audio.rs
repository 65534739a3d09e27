//! Audio ahead of its job.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use lingua_engine::Engine;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::Unread;
use super::error::{Answer, refusals};
use super::guard::of_tenant;
use super::query::{Segment, named};
use crate::identity::Caller;

refusals!(KeepRefusals: InvalidMessage, MessageTooLarge, QuotaExceeded);
refusals!(FetchRefusals: InvalidMessage, NotFound);

/// A reference to audio that was handed in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Kept {
    /// For `audio_ref` of a job. What stands behind `blob://` names it in `GET /v1/audio/{ref}`.
    #[schema(example = "blob://000102030405060708090a0b0c0d0e0f.1793000000000.6f0c…")]
    audio_ref: String,
    /// Epoch milliseconds until which it is good.
    expires_ms: u64,
}

/// Upload the audio of a job
#[utoipa::path(
    post, path = "/v1/audio", operation_id = "keep_audio", tag = "audio",
    request_body(content = Vec<u8>, content_type = "application/octet-stream",
        description = "The bytes as they are, at most 2 MiB unless configured otherwise"),
    responses((status = 200, body = Kept), KeepRefusals)
)]
pub(crate) async fn keep(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    body: Unread,
) -> Answer<Json<Kept>> {
    let audio = body.bytes(engine.settings().max_audio_bytes).await?;
    let (audio_ref, expires_ms) = engine.audio.keep(&of_tenant(&caller)?, audio)?;
    Ok(Json(Kept { audio_ref, expires_ms }))
}

/// Get uploaded audio
///
/// Only by references of this instance, until they expire.
#[utoipa::path(
    get, path = "/v1/audio/{ref}", operation_id = "fetch_audio", tag = "audio",
    params(("ref" = String, Path, description = "The part of the reference after `blob://`")),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream",
            description = "The bytes as they were handed in"),
        FetchRefusals
    )
)]
pub(crate) async fn fetch(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    segment: Segment,
) -> Answer {
    let reference: String = named("ref", segment)?;
    let audio = engine.audio.fetch(&of_tenant(&caller)?, &reference)?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], audio).into_response())
}
