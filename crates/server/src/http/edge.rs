//! What holds for every request and every answer, whatever the route.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;

use super::error::Refused;
use super::nodes::FROM_SCHEDULER;
use crate::identity::Gate;

/// For as long browsers use TLS without asking again: a year, as is usual.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// What the edge goes by.
#[derive(Clone)]
pub(super) struct Edge {
    pub(super) gate: Arc<Gate>,
    /// The listener speaks TLS.
    pub(super) tls: bool,
}

impl Edge {
    fn may_enter(&self, request: &Request) -> Result<(), Refusal> {
        if request.headers().contains_key(FROM_SCHEDULER) {
            let detail = "a scheduler sends this to the endpoint of a node, and this is none";
            return Err(Refusal::new(Code::Forbidden, detail).because("other_site"));
        }
        self.gate.may_be_called(request.uri(), request.headers())
    }
}

/// Refuses requests for other hosts, and completes the headers of every answer.
pub(super) async fn edge(State(edge): State<Edge>, request: Request, next: Next) -> Response {
    let mut answer = match edge.may_enter(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => Refused(refusal).into_response(),
    };
    complete(answer.headers_mut(), edge.tls);
    answer
}

fn complete(headers: &mut HeaderMap, tls: bool) {
    if tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
    }
    // It says how things stand at this moment, and to this caller.
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if is_json && !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, NO_STORE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(headers: &[(&'static str, &'static str)], tls: bool) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_static(value));
        }
        complete(&mut map, tls);
        map
    }

    #[test]
    fn json_is_not_stored_and_pages_keep_their_own_rule() {
        assert_eq!(
            completed(&[("content-type", "application/json")], false)["cache-control"],
            "no-store"
        );
        let page =
            completed(&[("content-type", "text/html"), ("cache-control", "no-cache")], false);
        assert_eq!(page["cache-control"], "no-cache");
        assert!(!completed(&[("content-type", "text/html")], false).contains_key("cache-control"));
    }

    #[test]
    fn only_what_goes_over_tls_asks_for_tls() {
        assert!(!completed(&[], false).contains_key("strict-transport-security"));
        assert_eq!(completed(&[], true)["strict-transport-security"], "max-age=31536000");
    }
}
