//! Pages of other sites that may read answers: exactly those of `identity.origins` (the fetch standard, 3.2).
//!
//! Nothing is sent along by itself: there are no cookies, so there is no `Access-Control-Allow-Credentials`. A page
//! shows a token of its own in `Authorization`.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// What a page may send.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, traceparent, x-request-id",
);

/// What a page may read beside the body and the usual headers.
const ANSWER_HEADERS: HeaderValue = HeaderValue::from_static("retry-after, x-request-id");

/// How long a browser need not ask again, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The methods of each route, as a preflight is told.
static METHODS: LazyLock<HashMap<&'static str, HeaderValue>> = LazyLock::new(|| {
    let mut methods: HashMap<&'static str, Vec<String>> = HashMap::new();
    for (method, path, _) in super::calls() {
        methods.entry(path).or_default().push(method);
    }
    let header = |methods: Vec<String>| {
        HeaderValue::from_str(&methods.join(", ")).expect("names of methods")
    };
    methods.into_iter().map(|(path, methods)| (path, header(methods))).collect()
});

/// Whether a browser asks, for a page, if it may make a call.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a page that may call is told about the call of this route; `None` if there is none.
pub(super) fn preflight(path: &str) -> Option<Response> {
    let methods = METHODS.get(path)?;
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, methods.clone()),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    Some((StatusCode::NO_CONTENT, headers).into_response())
}

/// Lets the page of this origin read the answer.
pub(super) fn allow(answer: &mut HeaderMap, origin: HeaderValue) {
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preflight_is_told_the_methods_of_its_route() {
        let methods = |path: &str| {
            let answer = preflight(path)?;
            Some(answer.headers()["access-control-allow-methods"].to_str().unwrap().to_owned())
        };
        assert_eq!(methods("/v1/job/{job_id}").unwrap(), "GET, DELETE");
        assert_eq!(methods("/v1/dispatch/f2f").unwrap(), "POST");
        assert_eq!(methods("/nowhere"), None);
    }

    #[test]
    fn only_a_question_of_a_browser_is_a_preflight() {
        let mut headers = HeaderMap::new();
        assert!(!is_preflight(&Method::OPTIONS, &headers));
        headers.insert(header::ORIGIN, HeaderValue::from_static("https://a.example"));
        assert!(!is_preflight(&Method::OPTIONS, &headers));
        headers.insert(header::ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("GET"));
        assert!(is_preflight(&Method::OPTIONS, &headers));
        assert!(!is_preflight(&Method::GET, &headers));
    }
}
