//! Every route, on one screen.

mod error;
mod health;

use axum::Router;
use axum::routing::get;
use lingua_engine::Engine;

/// The HTTP edge of an engine.
pub(crate) fn router(engine: Engine) -> Router {
    Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .with_state(engine)
}
