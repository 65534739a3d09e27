//! What holds for every request and every answer, whatever the route.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;
use tracing::Instrument;

use super::error::Refused;
use super::nodes::FROM_SCHEDULER;
use super::request_id::{RequestId, X_REQUEST_ID};
use super::{accept, compress, cors};
use crate::identity::{Authenticator, other_site};
use crate::wire::http::{ErrorBody, Form};

/// For as long browsers use TLS without asking again: a year, as is usual.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// What the edge goes by.
#[derive(Clone)]
pub(super) struct Edge {
    pub(super) authenticator: Arc<Authenticator>,
    /// The listener speaks TLS.
    pub(super) tls: bool,
}

impl Edge {
    fn may_enter(&self, request: &Request) -> Result<(), Refusal> {
        if request.headers().contains_key(FROM_SCHEDULER) {
            let detail = "a scheduler sends this to the endpoint of a node, and this is none";
            return Err(Refusal::new(Code::Forbidden, detail).because("other_site"));
        }
        self.authenticator.may_be_called(request.uri(), request.headers())
    }
}

/// Names the request, refuses what is for other hosts or from pages of other sites, and completes every answer.
pub(super) async fn edge(State(edge): State<Edge>, request: Request, next: Next) -> Response {
    let asked = Asked::of(&edge.authenticator, &request);
    // Of the highest level, so that it is there whatever is logged.
    let span = tracing::error_span!("request", "request.id" = asked.id.as_str());
    let answered = async {
        let answer = edge.answer(&asked, request, next).await;
        let (path, status) = (asked.path(), answer.status().as_u16());
        tracing::debug!(method = %asked.method, path, status, "a request was answered");
        answer
    };
    let mut answer = asked.rendered(answered.instrument(span).await);
    if asked.takes_gzip && compress::may_be(asked.path()) {
        answer = compress::compressed(answer).await;
    }
    asked.complete(answer.headers_mut());
    complete(answer.headers_mut(), edge.tls);
    answer
}

impl Edge {
    async fn answer(&self, asked: &Asked, request: Request, next: Next) -> Response {
        if let Err(refusal) = self.may_enter(&request) {
            return Refused(refusal).into_response();
        }
        if !cors::is_preflight(request.method(), request.headers()) {
            return next.run(request).await;
        }
        match &asked.origin {
            Some(_) => match cors::preflight(asked.path()) {
                Some(answer) => answer,
                None => next.run(request).await,
            },
            None => Refused(other_site()).into_response(),
        }
    }
}

/// What the edge has to know of a request when it is answered.
struct Asked {
    id: RequestId,
    method: Method,
    route: Option<MatchedPath>,
    form: Form,
    takes_gzip: bool,
    /// Of a page that may read the answer.
    origin: Option<HeaderValue>,
    /// The answer may be another one for another page.
    by_origin: bool,
}

impl Asked {
    fn of(authenticator: &Authenticator, request: &Request) -> Self {
        let headers = request.headers();
        Asked {
            id: RequestId::of(headers),
            method: request.method().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
            form: if accept::wants_problem(headers) { Form::Problem } else { Form::Plain },
            takes_gzip: accept::takes_gzip(headers),
            origin: authenticator.may_be_read_by(headers),
            by_origin: authenticator.has_origins(),
        }
    }

    /// By its route: what callers put into it stays out.
    fn path(&self) -> &str {
        self.route.as_ref().map_or("", MatchedPath::as_str)
    }

    /// A refusal in the form that the caller asked for, with the name of its request.
    fn rendered(&self, mut answer: Response) -> Response {
        let Some(mut body) = answer.extensions_mut().remove::<ErrorBody>() else { return answer };
        body.x_request_id = Some(self.id.as_str().to_owned());
        let (kind, text) = body.written(answer.status().as_u16(), self.form);
        *answer.body_mut() = text.into();
        answer.headers_mut().remove(header::CONTENT_LENGTH);
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        answer
    }

    fn complete(&self, headers: &mut HeaderMap) {
        headers.insert(X_REQUEST_ID, self.id.header());
        if compress::may_be(self.path()) {
            headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        if self.by_origin {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = &self.origin {
            cors::allow(headers, origin.clone());
        }
    }
}

fn complete(headers: &mut HeaderMap, tls: bool) {
    if tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
    }
    // It says how things stand at this moment, and to this caller.
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        let known = [&b"application/json"[..], b"application/problem+json"];
        known.iter().any(|json| kind.as_bytes().starts_with(json))
    });
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
