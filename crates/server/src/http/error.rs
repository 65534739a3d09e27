//! The one place that turns refusals into answers.

use std::collections::BTreeMap;

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use lingua_core::outcome::Code;
use lingua_engine::job::Refusal;
use serde_json::json;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Described, ResponseBuilder};

use crate::audit;
use crate::wire::http::{ErrorBody, Form};

/// A refusal on its way to the caller.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Refusal);

/// Why somebody was turned away, for the audit log.
#[derive(Clone, Copy)]
pub(crate) struct RefusalReason(pub(crate) &'static str);

/// What a handler answers.
pub(crate) type Answer<T = Response> = Result<T, Refused>;

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Refused(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(refusal) = self;
        let status = StatusCode::from_u16(refusal.code.http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let turned = matches!(status.as_u16(), 401 | 403).then(|| audit::reason(&refusal));
        let body = ErrorBody {
            error: refusal.code_text().to_owned(),
            retry_after_ms: refusal.retry_after_ms,
            legacy_code: refusal.code.legacy_code(),
            reason: refusal.reason,
            x_request_id: None,
            detail: refusal.detail,
        };
        let (kind, text) = body.written(status.as_u16(), Form::Plain);
        let mut answer = (status, [(header::CONTENT_TYPE, kind)], text).into_response();
        // The edge writes it again, with the name of the request and in the form that was asked for.
        answer.extensions_mut().insert(body);
        if let Some(reason) = turned {
            answer.extensions_mut().insert(RefusalReason(reason));
        }
        if let Some(ms) = refusal.retry_after_ms {
            let seconds = HeaderValue::from(ms.div_ceil(1_000));
            answer.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        answer
    }
}

/// How a call ended, as the audit log has it.
pub(crate) fn outcome<T>(answer: &Result<T, Refused>) -> Result<(), Code> {
    answer.as_ref().map(|_| ()).map_err(|Refused(refusal)| refusal.code)
}

/// A refusal with this code and sentence.
pub(crate) fn refused(code: Code, detail: impl Into<String>) -> Refused {
    Refused(Refusal::new(code, detail))
}

pub(crate) async fn not_found(uri: Uri) -> Refused {
    nothing_at(&uri)
}

/// A path that leads nowhere, or nowhere for this caller.
pub(super) fn nothing_at(uri: &Uri) -> Refused {
    let path: String = uri.path().chars().take(256).collect();
    refused(Code::NotFound, format!("there is nothing at {path}"))
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Refused {
    let [path, method] =
        [uri.path(), method.as_str()].map(|text| -> String { text.chars().take(256).collect() });
    let detail = format!("{path} does not take {method}; the header Allow has what it takes");
    refused(Code::MethodNotAllowed, detail)
}

/// The refusals of a call, as the description of the door has them: one answer for each status, with
/// the codes that come with it.
pub(crate) fn described(codes: &[Code]) -> BTreeMap<String, RefOr<Described>> {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.http_status()).or_default().push(code.as_str());
    }
    let described = by_status.into_iter().map(|(status, codes)| {
        let example = json!({"error": codes[0], "detail": "A sentence that says what is wrong."});
        let body = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("ErrorBody")))
            .example(Some(example))
            .build();
        let problem =
            ContentBuilder::new().schema(Some(Ref::from_schema_name("ProblemBody"))).build();
        let answer = ResponseBuilder::new()
            .description(codes.join(", "))
            .content("application/json", body)
            .content("application/problem+json", problem)
            .build();
        (status.to_string(), RefOr::T(answer))
    });
    described.collect()
}

/// Names the refusals of a call for its description.
macro_rules! refusals {
    ($name:ident: $($code:ident),+ $(,)?) => {
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::Response>,
            > {
                $crate::http::error::described(&[$(lingua_core::outcome::Code::$code),+])
            }
        }
    };
}

pub(crate) use refusals;
