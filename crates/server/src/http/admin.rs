//! Nodes and pairs for operators and node owners, and what an administrator wants of a node.

use axum::Json;
use axum::extract::{Extension, State};
use lingua_core::NodeId;
use lingua_core::outcome::Code;
use lingua_engine::Engine;
use lingua_engine::nodes::Order;

use super::Door;
use super::error::{Answer, Refused, refusals, refused};
use super::query::{Params, Segment, named};
use crate::audit::Actor;
use crate::wire::http::fleet::{NodeBody, NodesBody, PairBody, PoolsBody, Unmet, Wanted};
use crate::wire::http::{DONE, Done, within};

/// Nodes in one answer, unless more are asked for.
const NODES: u64 = 100;

/// Nodes in one answer at most.
const MAX_NODES: u64 = 1_000;

refusals!(ListRefusals: InvalidMessage);
refusals!(NodeRefusals: InvalidMessage, NotFound);
refusals!(OrderRefusals: InvalidMessage, NotFound, SchedulerDependencyDown);

/// List the nodes that this instance knows, those of other instances included
#[utoipa::path(
    get, path = "/api/v1/nodes", operation_id = "list_nodes", tag = "admin",
    params(
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1_000, description = "At most so many; 100 if absent"),
        ("after" = Option<String>, Query, description = "Only nodes behind this one, by name"),
    ),
    responses((status = 200, body = NodesBody), ListRefusals)
)]
pub(crate) async fn nodes(State(engine): State<Engine>, params: Params) -> Answer<Json<NodesBody>> {
    let limit = within("limit", params.get("limit")?.unwrap_or(NODES), 1..=MAX_NODES)?;
    let after: Option<NodeId> = params.get("after")?;
    let limit = usize::try_from(limit).expect("at most 1000");
    let (mut shown, total) = engine.node_page(after.as_ref(), limit + 1);
    let more = shown.len() > limit;
    shown.truncate(limit);
    let next = shown.last().filter(|_| more).map(|view| view.id.to_string());
    let nodes = shown.iter().map(NodeBody::of).collect();
    Ok(Json(NodesBody { nodes, total, next }))
}

/// Look at one node
///
/// The owner's view: its state, why it gets no jobs, and what would make it useful.
#[utoipa::path(
    get, path = "/api/v1/nodes/{id}", operation_id = "get_node", tag = "admin",
    params(("id" = String, Path, description = "The node's id")),
    responses((status = 200, body = NodeBody), NodeRefusals)
)]
pub(crate) async fn node(State(engine): State<Engine>, segment: Segment) -> Answer<Json<NodeBody>> {
    let id: NodeId = named("id", segment)?;
    let view = engine.node_view(&id).ok_or_else(no_such_node)?;
    let wanted = engine.wanted_of(&view.profile).into_iter().map(Wanted::of).collect();
    Ok(Json(NodeBody::of(&view).useful_if(wanted)))
}

/// List the directed pairs
///
/// With the nodes that serve each, their free slots and the jobs in line.
#[utoipa::path(
    get, path = "/api/v1/pools", operation_id = "list_pools", tag = "admin",
    responses((status = 200, body = PoolsBody))
)]
pub(crate) async fn pools(State(engine): State<Engine>) -> Json<PoolsBody> {
    let pairs = engine.pair_views().iter().map(PairBody::of).collect();
    let unmet = engine.jobs.unmet().into_iter().map(Unmet::of).collect();
    Json(PoolsBody { pairs, unmet })
}

/// Drain a node
///
/// It finishes what it has and gets nothing new.
#[utoipa::path(
    post, path = "/api/v1/nodes/{id}/drain", operation_id = "drain_node", tag = "admin",
    params(("id" = String, Path, description = "The node's id")),
    responses((status = 200, body = Done), OrderRefusals)
)]
pub(crate) async fn drain(
    State(door): State<Door>,
    Extension(actor): Extension<Actor>,
    segment: Segment,
) -> Answer<Json<Done>> {
    order(&door, &actor, segment, Order::Drain).await
}

/// Let a node serve again
#[utoipa::path(
    post, path = "/api/v1/nodes/{id}/resume", operation_id = "resume_node", tag = "admin",
    params(("id" = String, Path, description = "The node's id")),
    responses((status = 200, body = Done), OrderRefusals)
)]
pub(crate) async fn resume(
    State(door): State<Door>,
    Extension(actor): Extension<Actor>,
    segment: Segment,
) -> Answer<Json<Done>> {
    order(&door, &actor, segment, Order::Serve).await
}

/// Shut a node out
///
/// Its connection is closed, its jobs look elsewhere, and it cannot register until it is resumed.
#[utoipa::path(
    post, path = "/api/v1/nodes/{id}/block", operation_id = "block_node", tag = "admin",
    params(("id" = String, Path, description = "The node's id")),
    responses((status = 200, body = Done), OrderRefusals)
)]
pub(crate) async fn block(
    State(door): State<Door>,
    Extension(actor): Extension<Actor>,
    segment: Segment,
) -> Answer<Json<Done>> {
    order(&door, &actor, segment, Order::Block).await
}

async fn order(door: &Door, actor: &Actor, segment: Segment, order: Order) -> Answer<Json<Done>> {
    let id: NodeId = named("id", segment)?;
    let obeyed = door.engine.nodes.order(&id, order).await.map_err(Refused::from);
    let obeyed = obeyed.and_then(|known| if known { Ok(()) } else { Err(no_such_node()) });
    actor.did(word(order), id.as_str(), &obeyed);
    obeyed?;
    if order == Order::Block
        && let Ok(node) = door.nodes.get(&id)
    {
        // A node that never asks would never learn of it.
        door.nodes.close(&node);
    }
    Ok(Json(DONE))
}

/// What an order is called in the audit log.
fn word(order: Order) -> &'static str {
    match order {
        Order::Serve => "node.resume",
        Order::Drain => "node.drain",
        Order::Block => "node.block",
    }
}

fn no_such_node() -> Refused {
    refused(Code::NotFound, "there is no such node")
}
