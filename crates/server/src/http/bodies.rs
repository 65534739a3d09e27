//! What people said and nodes answered, for another instance.

use axum::extract::{Path, State};
use axum::response::Response;
use lingua_engine::Engine;

use crate::peers;

/// `/internal/v1/bodies/{names}`: the bodies of these names, one after the other.
pub(crate) async fn bodies(State(engine): State<Engine>, Path(names): Path<String>) -> Response {
    peers::bodies(&engine, &names)
}
