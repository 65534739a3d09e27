//! Nodes and pairs for operators and node owners, and what an administrator wants of a node.

use axum::Json;
use axum::extract::{Extension, State};
use lingua_core::node::Health;
use lingua_core::outcome::Code;
use lingua_core::{InstanceId, Lang, NodeId};
use lingua_engine::Engine;
use lingua_engine::explain::NodeView;
use lingua_engine::nodes::Order;

use super::Door;
use super::error::{Answer, Refused, outcome, refusals, refused};
use super::paging::Page;
use super::query::{Params, Segment, named};
use crate::audit::Actor;
use crate::wire::http::fleet::{
    NodeBody, NodesBody, PairBody, PoolsBody, Unmet, UnmetByName, Wanted,
};
use crate::wire::http::{DONE, Done, wrong};

refusals!(ListRefusals: InvalidMessage);
refusals!(NodeRefusals: InvalidMessage, NotFound);
refusals!(OrderRefusals: InvalidMessage, NotFound, SchedulerDependencyDown);

/// List the nodes that this instance knows, those of other instances included
#[utoipa::path(
    get, path = "/api/v1/nodes", operation_id = "list_nodes", tag = "admin",
    params(
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1_000, description = "Maximum number of entries; 100 if absent"),
        ("after" = Option<String>, Query, description = "`next` of the previous page"),
        ("state" = Option<String>, Query, description = "Only nodes in this state: `registering`, `ready`, `degraded`, `draining` or `offline`"),
        ("instance" = Option<String>, Query, description = "Only nodes that this instance has, or last had, a connection to"),
        ("src" = Option<String>, Query, description = "Only nodes that translate from this language"),
        ("tgt" = Option<String>, Query, description = "Only nodes that translate into this language; with `src`, in this direction"),
    ),
    responses((status = 200, body = NodesBody), ListRefusals)
)]
pub(crate) async fn nodes(State(engine): State<Engine>, params: Params) -> Answer<Json<NodesBody>> {
    let page: Page<NodeId> = Page::asked(&params)?;
    let filter = NodeFilter::asked(&params)?;
    let wanted = |view: &NodeView| filter.takes(view);
    let wanted: Option<&dyn Fn(&NodeView) -> bool> =
        if filter == NodeFilter::default() { None } else { Some(&wanted) };
    let (mut shown, total) = engine.node_page(page.after.as_ref(), page.fetch(), wanted);
    let next = page.cut(&mut shown, |view| view.id.to_string());
    let nodes = shown.iter().map(NodeBody::of).collect();
    Ok(Json(NodesBody { nodes, total, next }))
}

/// Which nodes are wanted: those that fit everything that is named.
#[derive(Default, PartialEq)]
struct NodeFilter {
    state: Option<Health>,
    instance: Option<InstanceId>,
    src: Option<Lang>,
    tgt: Option<Lang>,
}

impl NodeFilter {
    fn asked(params: &Params) -> Answer<Self> {
        let states = Health::ALL.map(|state| (state.as_str(), state));
        Ok(NodeFilter {
            state: params.one_of("state", &states)?,
            instance: params.get("instance")?,
            src: params.get("src")?,
            tgt: params.get("tgt")?,
        })
    }

    fn takes(&self, view: &NodeView) -> bool {
        self.state.is_none_or(|state| state == view.health)
            && self.instance.as_ref().is_none_or(|instance| *instance == view.instance)
            && ((self.src, self.tgt) == (None, None) || view.serves(self.src, self.tgt))
    }
}

/// Get a node
///
/// Its state, why it gets no jobs, and what would make it more useful.
#[utoipa::path(
    get, path = "/api/v1/nodes/{id}", operation_id = "get_node", tag = "admin",
    params(("id" = String, Path, description = "The node's id")),
    responses((status = 200, body = NodeBody), NodeRefusals)
)]
pub(crate) async fn node(State(engine): State<Engine>, segment: Segment) -> Answer<Json<NodeBody>> {
    let id: NodeId = named("id", segment)?;
    let view = engine.whole_node_view(&id).await.ok_or_else(no_such_node)?;
    let wanted = engine.wanted_of(&view.profile).into_iter().map(Wanted::of).collect();
    Ok(Json(NodeBody::whole(&view, wanted)))
}

/// List the language directions
///
/// Each with the nodes that serve it, their free slots and the queued jobs.
#[utoipa::path(
    get, path = "/api/v1/pools", operation_id = "list_pools", tag = "admin",
    params(("by" = Option<String>, Query, description = "`region`: each pair also by the regions of its nodes")),
    responses((status = 200, body = PoolsBody), ListRefusals)
)]
pub(crate) async fn pools(State(engine): State<Engine>, params: Params) -> Answer<Json<PoolsBody>> {
    let by_region = match params.get::<String>("by")?.as_deref() {
        None => false,
        Some("region") => true,
        Some(_) => return Err(wrong("by", "is region, or absent").into()),
    };
    let views = engine.pair_views();
    let pairs = views.iter().map(|pair| PairBody::of(pair, by_region)).collect();
    let unmet = engine.jobs.unmet().into_iter().map(Unmet::of).collect();
    let unmet_by_name = engine.jobs.unmet_by_name().into_iter().map(UnmetByName::of).collect();
    Ok(Json(PoolsBody { pairs, unmet, unmet_by_name }))
}

/// Drain a node
///
/// It finishes its jobs and gets no new ones.
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

/// Return a drained or blocked node to service
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

/// Block a node
///
/// Its connection is closed, its jobs are retried on other nodes, and it cannot register until it is resumed.
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
    let obeyed = door.engine.order_node(&id, order).await.map_err(Refused::from);
    let obeyed = obeyed.and_then(|known| if known { Ok(()) } else { Err(no_such_node()) });
    actor.did(word(order), id.as_str(), outcome(&obeyed));
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
