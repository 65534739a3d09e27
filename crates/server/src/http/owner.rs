//! A node for its owner: the call that needs no more than the node's own token, and a page that shows it.

use axum::extract::State;
use axum::{Extension, Json};
use lingua_core::NodeId;
use lingua_core::outcome::Code;
use lingua_engine::Engine;

use super::error::{Answer, refusals, refused};
use super::pages::page;
use super::query::{Segment, named};
use crate::identity::Caller;
use crate::wire::http::fleet::Wanted;
use crate::wire::http::owner::OwnNodeBody;
use crate::wire::http::{DONE, Done};

page! {
    NODE_PAGE: "node_page", None;
    "index.html", "style.css", "icon.svg", "app.js", "words.js"; from "dashboard": "reasons.js"
}

refusals!(OwnNodeRefusals: InvalidMessage, NotFound, Forbidden);
refusals!(OwnWordRefusals: InvalidMessage, NotFound, Forbidden, RateLimited);

/// Get one's own node
///
/// With the node's own token or certificate: its state, why it gets no jobs, what would make it more useful,
/// its slots and its last failures.
#[utoipa::path(
    get, path = "/v1/node/{id}", operation_id = "get_own_node", tag = "nodes",
    params(("id" = String, Path, description = "The node's id")),
    responses((status = 200, body = OwnNodeBody), OwnNodeRefusals)
)]
pub(crate) async fn view(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    segment: Segment,
) -> Answer<Json<OwnNodeBody>> {
    let id: NodeId = named("id", segment)?;
    caller.is_node(id.as_str())?;
    let unknown = "this node is not registered; nodes that are away for long are forgotten";
    let view = engine.own_node_view(&id).await.ok_or_else(|| refused(Code::NotFound, unknown))?;
    let wanted = engine.wanted_of(&view.profile).into_iter().map(Wanted::of).collect();
    Ok(Json(OwnNodeBody::of(&view, wanted)))
}

/// Ask for a probe of one's own node
///
/// For a node that was put aside, or whose circuit breaker is open: it gets one job at once, and a success
/// returns it to service. Allowed twice a minute. It does not lift an administrator's order.
#[utoipa::path(
    post, path = "/v1/node/{id}/resume", operation_id = "resume_own_node", tag = "nodes",
    params(("id" = String, Path, description = "The node's id")),
    responses((status = 200, body = Done), OwnWordRefusals)
)]
pub(crate) async fn resume(
    State(engine): State<Engine>,
    Extension(caller): Extension<Caller>,
    segment: Segment,
) -> Answer<Json<Done>> {
    let id: NodeId = named("id", segment)?;
    caller.is_node(id.as_str())?;
    let unknown = "this node is not registered; nodes that are away for long are forgotten";
    match engine.request_probe(&id)? {
        true => Ok(Json(DONE)),
        false => Err(refused(Code::NotFound, unknown)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_page_is_of_our_own_files_in_both_languages() {
        NODE_PAGE.assert_own(25);
    }

    #[test]
    fn a_token_is_kept_nowhere_and_stands_in_no_address() {
        let never = ["Storage", "cookie", "location", "console", "history."];
        assert!(never.iter().all(|word| !NODE_PAGE.text("app.js").contains(word)));
    }
}
