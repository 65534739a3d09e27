//! What people said and nodes answered, for another instance.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use lingua_engine::job::Refusal;

use super::error::Answer;
use super::error::Refused;
use crate::peers;

/// `/internal/v1/bodies/{names}`: the bodies of these names, one after the other.
pub(crate) async fn bodies(
    State(engine): State<Engine>,
    headers: HeaderMap,
    uri: Uri,
    Path(names): Path<String>,
) -> Answer {
    if !peers::asks_for_bodies(&engine, &headers, &uri) {
        let detail = "this is for other instances, who sign what they ask for";
        return Err(Refused(Refusal::new(Code::Forbidden, detail).because("not_an_instance")));
    }
    let found: Response = peers::bodies(&engine, &names);
    Ok(found)
}
