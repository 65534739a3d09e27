//! Every route, on one screen. Handlers parse, call one service and render.

mod admin;
mod audio;
mod board;
mod dashboard;
mod body;
mod dispatch;
mod error;
mod explain;
mod health;
mod jobs;
mod metrics;
mod nodes;
mod openapi;
mod query;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::{get, post};
use lingua_core::TenantId;
use lingua_engine::Engine;

use board::Readers;
use nodes::{Endpoints, HttpNodes};

/// The HTTP edge of an engine.
pub(crate) fn router(engine: Engine) -> Router {
    Router::new()
        .route("/v1/dispatch/f2f", post(dispatch::f2f))
        .route("/v1/job/{job_id}", get(jobs::view).delete(jobs::cancel))
        .route("/v1/audio", post(audio::keep))
        .route("/v1/audio/{ref}", get(audio::fetch))
        .route("/v1/node/register", post(nodes::register))
        .route("/v1/node/heartbeat", post(nodes::heartbeat))
        .route("/v1/node/{id}/jobs", get(nodes::next))
        .route("/v1/job/ack", post(jobs::ack))
        .route("/v1/job/done", post(jobs::done))
        .route("/v1/job/fail", post(jobs::fail))
        .route("/api/v1/nodes", get(admin::nodes))
        .route("/api/v1/nodes/{id}", get(admin::node))
        .route("/api/v1/nodes/{id}/drain", post(admin::drain))
        .route("/api/v1/nodes/{id}/resume", post(admin::resume))
        .route("/api/v1/nodes/{id}/block", post(admin::block))
        .route("/api/v1/pools", get(admin::pools))
        .route("/api/v1/explain", get(explain::explain))
        .route("/api/v1/stats", get(board::stats))
        .route("/api/v1/history", get(board::history))
        .route("/api/v1/cluster", get(board::cluster))
        .route("/api/v1/sessions", get(board::sessions))
        .route("/api/v1/events", get(board::events))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi::openapi))
        .route("/", get(dashboard::root))
        .route("/dashboard", get(dashboard::page))
        .route("/dashboard/{file}", get(dashboard::file))
        .route("/internal/v1/bodies/{names}", get(crate::peers::bodies))
        .route("/ws/node", get(crate::ws::node))
        .route("/ws/session", get(crate::ws::session))
        .fallback(error::not_found)
        .method_not_allowed_fallback(error::method_not_allowed)
        .with_state(Door::new(engine))
}

/// What the handlers share.
#[derive(Clone)]
struct Door {
    engine: Engine,
    /// The nodes that registered through this door.
    nodes: Arc<HttpNodes>,
    /// What calls the endpoints of those that gave one.
    endpoints: Endpoints,
    /// Who follows how everything stands.
    readers: Readers,
}

impl Door {
    fn new(engine: Engine) -> Self {
        let nodes = HttpNodes::start(Arc::clone(&engine.nodes));
        Door { engine, nodes, endpoints: Endpoints::new(), readers: Readers::default() }
    }
}

impl FromRef<Door> for Engine {
    fn from_ref(door: &Door) -> Engine {
        door.engine.clone()
    }
}

/// Whose call it is: everybody's is the same tenant's.
fn tenant() -> TenantId {
    TenantId::new("default").expect("within an id's letters")
}
