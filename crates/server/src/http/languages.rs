//! What can be asked for now.

use axum::extract::State;
use axum::{Extension, Json};
use lingua_engine::Engine;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::Answer;
use super::guard::of_tenant;
use crate::identity::Caller;

/// The directed pairs that somebody serves.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LanguagesBody {
    /// By language; empty if no node takes jobs.
    pairs: Vec<ServedPair>,
}

/// One of them.
#[derive(Debug, Serialize, ToSchema)]
struct ServedPair {
    #[schema(example = "en")]
    src: String,
    #[schema(example = "zh")]
    tgt: String,
    /// The translation is spoken too, not only written.
    speech: bool,
}

/// List the language pairs that are served now
///
/// Served to the caller's tenant by nodes that take jobs, so that a client offers only those. A pair that is
/// not listed may be served a moment later, and a listed one may be full.
#[utoipa::path(
    get, path = "/v1/languages", operation_id = "list_languages", tag = "jobs",
    responses((status = 200, body = LanguagesBody))
)]
pub(crate) async fn languages(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
) -> Answer<Json<LanguagesBody>> {
    let served = engine.served(&of_tenant(&caller)?);
    let pair = |((src, tgt), speech): ((lingua_core::Lang, lingua_core::Lang), bool)| ServedPair {
        src: src.to_string(),
        tgt: tgt.to_string(),
        speech,
    };
    Ok(Json(LanguagesBody { pairs: served.into_iter().map(pair).collect() }))
}
