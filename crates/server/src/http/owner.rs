//! A node for its owner: the call that needs no more than the node's own token, and a page that shows it.

use std::sync::LazyLock;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use lingua_core::NodeId;
use lingua_core::outcome::Code;
use lingua_engine::Engine;

use super::error::{Answer, not_found, refusals, refused};
use super::pages::{self, File, files, tag};
use super::query::{Segment, named};
use crate::identity::Caller;
use crate::wire::http::fleet::Wanted;
use crate::wire::http::owner::OwnNodeBody;

/// What a browser may do with the page. Codes and languages of nodes are the word of strangers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

static FILES: [File; 5] = files! {
    "node_page";
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "app.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
};

static TAG: LazyLock<HeaderValue> = LazyLock::new(|| tag(&FILES));

refusals!(OwnNodeRefusals: InvalidMessage, NotFound, Forbidden);

/// Look at one's own node
///
/// With the node's own token or certificate: its state, why it gets no jobs, what would make it
/// useful, its slots and its last failures.
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
    let view = engine.own_node_view(&id).ok_or_else(|| refused(Code::NotFound, unknown))?;
    let wanted = engine.wanted_of(&view.profile).into_iter().map(Wanted::of).collect();
    Ok(Json(OwnNodeBody::of(&view, wanted)))
}

/// The page.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    serve(&FILES[0], &headers)
}

/// A part of it.
pub(crate) async fn file(Path(name): Path<String>, uri: Uri, headers: HeaderMap) -> Response {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => serve(file, &headers),
        None => not_found(uri).await.into_response(),
    }
}

fn serve(file: &File, asked: &HeaderMap) -> Response {
    pages::serve(file, asked, &TAG, &[("content-security-policy", POLICY)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> &'static str {
        FILES.iter().find(|file| file.name == name).unwrap().text
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere_and_nothing_becomes_markup() {
        pages::assert_own(&FILES);
        assert!(POLICY.starts_with("default-src 'none'; script-src 'self'; "), "{POLICY}");
        assert!(!POLICY.contains("unsafe") && !POLICY.contains('*'), "{POLICY}");
    }

    #[test]
    fn a_token_is_kept_nowhere_and_stands_in_no_address() {
        let never = ["Storage", "cookie", "location", "console", "history."];
        assert!(never.iter().all(|word| !text("app.js").contains(word)));
    }

    #[test]
    fn both_languages_have_the_same_words() {
        let (missing, count) = pages::unlike_words(text("words.js"));
        assert!(missing.is_empty(), "{missing:?}");
        assert!(count > 25, "{count}");
    }
}
