//! Nodes that speak HTTP: they register, say that they live, and get their jobs by a POST to their
//! endpoint or by asking for them.

mod push;
mod table;

pub(crate) use push::{Endpoints, FROM_SCHEDULER};
pub(crate) use table::HttpNodes;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use lingua_core::NodeId;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use lingua_engine::nodes::Register;
use lingua_engine::{Readiness, tasks};
use lingua_protocol::node::capability::Abilities;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Door;
use super::body::{NODE_BODY_BYTES, Unread};
use super::error::{Answer, method_not_allowed, refusals, refused};
use super::query::{Params, Segment, named};
use crate::identity::Caller;
use crate::listener::Peer;
use crate::wire::http::node::{NodeReport, Registered};
use crate::wire::http::{DONE, Done};
use table::HttpNode;

/// Messages that wait for one node; a node that lets more pile up is not given any.
const INBOX: usize = 256;

refusals!(RegisterRefusals: InvalidMessage, MessageTooLarge, InvalidCapability, Forbidden,
    NodeIdConflict, RateLimited, QuotaExceeded, Draining, SchedulerDependencyDown);
refusals!(HeartbeatRefusals: InvalidMessage, MessageTooLarge, QuotaExceeded, InvalidCapability, NotFound,
    Forbidden, RateLimited);
refusals!(NextRefusals: InvalidMessage, NotFound, Conflict, Forbidden);

/// Register a node
///
/// The newest registration of a node counts; requests for jobs under an older one get 409.
#[utoipa::path(
    post, path = "/v1/node/register", operation_id = "register_node", tag = "nodes", request_body = NodeReport,
    responses((status = 200, body = Registered), RegisterRefusals)
)]
pub(crate) async fn register(
    State(door): State<Door>,
    Extension(caller): Extension<Caller>,
    Extension(peer): Extension<Peer>,
    body: Unread,
) -> Answer<Json<Registered>> {
    let mut report: NodeReport = body.json(NODE_BODY_BYTES).await?;
    caller.is_node(report.node_id.as_str())?;
    let engine = &door.engine;
    let endpoint = report.endpoint(peer.address, &door.listeners)?;
    let said = report.health()?;
    let mut abilities = Abilities::default();
    report.abilities(&mut abilities)?;
    let health = said.unwrap_or_else(|| abilities.health());
    let running = report.running()?;
    if engine.readiness() == Readiness::Draining {
        return Err(refused(Code::Draining, "this instance is stopping; use another one"));
    }
    let (out, inbox) = mpsc::channel(INBOX);
    let registered = engine
        .nodes
        .register(Register {
            declaration: caller
                .narrowed(abilities.declaration(engine.settings().default_max_slots)?)?,
            health,
            supports: report.supports(),
            arrival: caller.arrival(peer.address),
            out,
            reports: running.is_some(),
            running,
            running_jobs: None,
            detail: report.detail()?,
            node: report.node_id,
        })
        .await?;
    let connection = registered.connection;
    let inbox = match endpoint {
        None => Some(tokio::sync::Mutex::new(inbox)),
        Some(endpoint) => {
            let (nodes, endpoints) = (Arc::clone(&engine.nodes), door.endpoints.clone());
            let work = push::deliver(nodes, connection.clone(), endpoints, endpoint, inbox);
            tasks::spawn("an HTTP node's jobs", work);
            None
        }
    };
    let (epoch, heartbeat) = (registered.epoch, registered.heartbeat);
    door.nodes.put(HttpNode {
        connection,
        epoch,
        heartbeat,
        abilities: Mutex::new(abilities),
        inbox,
        heard: Mutex::new(Instant::now()),
    });
    Ok(Json(Registered {
        ok: true,
        heartbeat_interval_ms: millis(heartbeat),
        epoch,
        status: if registered.ready { "ready" } else { "registering" },
    }))
}

/// Send a heartbeat with what changed
#[utoipa::path(
    post, path = "/v1/node/heartbeat", operation_id = "heartbeat_node", tag = "nodes", request_body = NodeReport,
    responses((status = 200, body = Done), HeartbeatRefusals)
)]
pub(crate) async fn heartbeat(
    State(door): State<Door>,
    Extension(caller): Extension<Caller>,
    body: Unread,
) -> Answer<Json<Done>> {
    let mut report: NodeReport = body.json(NODE_BODY_BYTES).await?;
    caller.is_node(report.node_id.as_str())?;
    let mut beat = report.heartbeat()?;
    let node = door.nodes.get(&report.node_id)?;
    let mut abilities = node.abilities.lock().clone();
    if report.abilities(&mut abilities)? && abilities != *node.abilities.lock() {
        let default_slots = door.engine.settings().default_max_slots;
        beat.declaration = Some(caller.narrowed(abilities.declaration(default_slots)?)?);
    }
    beat.services = report.running_services(&abilities);
    door.engine.nodes.heartbeat(&node.connection, beat)?;
    *node.abilities.lock() = abilities;
    *node.heard.lock() = Instant::now();
    Ok(Json(DONE))
}

/// Get the next message of a node
///
/// For a node that registered without an endpoint. The answer is one message in the form of the node
/// socket: `job_assign`, `job_cancel` or `node_control`.
#[utoipa::path(
    get, path = "/v1/node/{id}/jobs", operation_id = "next_message", tag = "nodes",
    params(
        ("id" = String, Path, description = "The node's id"),
        ("wait_ms" = Option<u64>, Query, maximum = 60_000,
            description = "Answer only when there is something, or after so long; at once if absent"),
    ),
    responses(
        (status = 200, body = Object, description = "One message, by its `type`", example = json!({
            "type": "job_assign", "job_id": "7m2k9x4c0v8b3n5q1w6e2r7t4y", "attempt_id": 1,
            "session_id": "s-1f0c", "utterance_index": 0, "src_lang": "en", "tgt_lang": "zh",
            "audio": "AAEC", "audio_format": "opus", "sample_rate": 16000, "deadline_ms": 1793000000000u64
        })),
        (status = 204, description = "Nothing came in time"),
        NextRefusals
    )
)]
pub(crate) async fn next(
    State(door): State<Door>,
    Extension(caller): Extension<Caller>,
    method: Method,
    uri: Uri,
    segment: Segment,
    params: Params,
) -> Answer {
    if method == Method::HEAD {
        // It would take a job and throw it away.
        let refused = method_not_allowed(method, uri).await;
        return Ok(([(header::ALLOW, "GET")], refused).into_response());
    }
    let id: NodeId = named("id", segment)?;
    caller.is_node(id.as_str())?;
    let message = door.nodes.next(&door.engine, &id, params.wait()?).await?;
    Ok(message.map_or_else(|| StatusCode::NO_CONTENT.into_response(), json))
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
