//! Spans as OTLP writes them in JSON: ids in hexadecimal, 64-bit numbers as text, enums as numbers.

use bytes::Bytes;
use lingua_engine::trace::{Kind, Span, Value};
use serde::{Deserialize, Serialize};

/// What is the same in every request.
pub(super) struct Head {
    instance: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: [Attribute<'a>; 3],
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<SpanWord<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanWord<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: &'a str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: AnyValue<'a>,
}

#[derive(Serialize)]
enum AnyValue<'a> {
    #[serde(rename = "stringValue")]
    Text(&'a str),
    #[serde(rename = "intValue")]
    Number(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    trace_id: String,
    span_id: String,
}

#[derive(Serialize)]
struct Status {
    code: u8,
}

/// `STATUS_CODE_ERROR`. What went well says nothing, as OTLP asks for.
const ERROR: u8 = 2;

impl Head {
    pub fn of(instance: &str) -> Self {
        Head { instance: instance.to_owned() }
    }

    /// The body of a request.
    pub fn body(&self, spans: &[Span]) -> Bytes {
        let text = |key, value| Attribute { key, value: AnyValue::Text(value) };
        let version = env!("CARGO_PKG_VERSION");
        let attributes = [
            text("service.name", "lingua"),
            text("service.version", version),
            text("service.instance.id", &self.instance),
        ];
        let spans = spans.iter().map(word).collect();
        let scope = Scope { name: "lingua", version };
        let request = Request {
            resource_spans: [ResourceSpans {
                resource: Resource { attributes },
                scope_spans: [ScopeSpans { scope, spans }],
            }],
        };
        serde_json::to_vec(&request).expect("texts and numbers are JSON").into()
    }
}

fn word(span: &Span) -> SpanWord<'_> {
    let attributes = span.attributes.iter().map(|(key, value)| {
        let value = match value {
            Value::Text(text) => AnyValue::Text(text),
            Value::Number(number) => AnyValue::Number(number.to_string()),
        };
        Attribute { key, value }
    });
    let link = span.link.map(|to| Link {
        trace_id: format!("{:032x}", to.trace),
        span_id: format!("{:016x}", to.span),
    });
    SpanWord {
        trace_id: format!("{:032x}", span.context.trace),
        span_id: format!("{:016x}", span.context.span),
        parent_span_id: span.parent.map(|parent| format!("{parent:016x}")),
        name: span.name,
        kind: match span.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
        },
        start_time_unix_nano: span.start_ns.to_string(),
        end_time_unix_nano: span.end_ns.to_string(),
        attributes: attributes.collect(),
        links: link.into_iter().collect(),
        status: span.failed.then_some(Status { code: ERROR }),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    partial_success: Option<PartialSuccess>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialSuccess {
    rejected_spans: Option<Count>,
}

/// Collectors write 64-bit numbers as text, and take them either way.
#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u64),
    Text(String),
}

/// Spans of a batch that a collector did not want although it took the batch.
pub(super) fn refused_spans(body: &[u8]) -> u64 {
    let response: Option<Response> = serde_json::from_slice(body).ok();
    match response.and_then(|r| r.partial_success).and_then(|partial| partial.rejected_spans) {
        Some(Count::Number(count)) => count,
        Some(Count::Text(text)) => text.parse().unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use lingua_engine::trace::Context;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_span_is_written_as_otlp_has_it() {
        let context =
            Context::parse("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01").unwrap();
        let link =
            Context::parse("00-00000000000000000000000000000001-0000000000000002-01").unwrap();
        let span = Span {
            context,
            parent: Some(link.span),
            link: Some(link),
            name: "attempt",
            kind: Kind::Client,
            start_ns: 1_793_000_000_000_000_001,
            end_ns: 1_793_000_000_000_000_002,
            attributes: vec![("node.id", "n-1".into()), ("attempt", 2.into())],
            failed: true,
        };
        let body = Head::of("i-1").body(&[span]);
        let found: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let wanted = json!({ "resourceSpans": [{
            "resource": { "attributes": [
                { "key": "service.name", "value": { "stringValue": "lingua" } },
                { "key": "service.version", "value": { "stringValue": version } },
                { "key": "service.instance.id", "value": { "stringValue": "i-1" } },
            ] },
            "scopeSpans": [{
                "scope": { "name": "lingua", "version": version },
                "spans": [{
                    "traceId": "0af7651916cd43dd8448eb211c80319c",
                    "spanId": "00f067aa0ba902b7",
                    "parentSpanId": "0000000000000002",
                    "name": "attempt",
                    "kind": 3,
                    "startTimeUnixNano": "1793000000000000001",
                    "endTimeUnixNano": "1793000000000000002",
                    "attributes": [
                        { "key": "node.id", "value": { "stringValue": "n-1" } },
                        { "key": "attempt", "value": { "intValue": "2" } },
                    ],
                    "links": [{
                        "traceId": "00000000000000000000000000000001",
                        "spanId": "0000000000000002",
                    }],
                    "status": { "code": 2 },
                }],
            }],
        }] });
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_a_collector_did_not_want_is_read_either_way() {
        for (body, count) in [
            (r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedSpans":4}}"#, 4),
            (r#"{"partialSuccess":{}}"#, 0),
            ("{}", 0),
            ("", 0),
            ("nonsense", 0),
        ] {
            assert_eq!(refused_spans(body.as_bytes()), count, "{body}");
        }
    }
}
