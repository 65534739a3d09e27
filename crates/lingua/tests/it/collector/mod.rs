//! An OpenTelemetry collector on a real socket: it takes `POST /v1/traces`, reads it as strictly as
//! OTLP allows, and does whatever else a test wants.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::net::TcpListener;

/// How it answers.
#[derive(Clone, Copy, Debug)]
pub enum Mood {
    Well,
    /// With this status, and asks to be asked again after so many seconds.
    Answers(u16, Option<u64>),
    /// Takes the batch, but for so many spans.
    TakesAllBut(u64),
    /// Not at all.
    Silent,
}

/// What a span said.
#[derive(Clone, Debug)]
pub struct Seen {
    pub name: String,
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub links: Vec<(String, String)>,
    pub kind: u8,
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, String>,
    pub error: bool,
    /// `service.instance.id` of who sent it.
    pub instance: String,
}

impl Seen {
    pub fn says(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }

    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.id)
    }
}

#[derive(Default)]
struct Inner {
    mood: Mutex<Option<Mood>>,
    spans: Mutex<Vec<Seen>>,
    raw: Mutex<Vec<u8>>,
    requests: Mutex<u32>,
}

/// The collector. Clones are the same one.
#[derive(Clone)]
pub struct Collector {
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

impl Collector {
    pub async fn start(mood: Mood) -> Self {
        let (inner, router) = Collector::router(mood);
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(socket, router).await });
        Collector { address, inner }
    }

    /// The same behind a door of the test's own.
    pub fn behind(address: SocketAddr) -> (Self, Router) {
        let (inner, router) = Collector::router(Mood::Well);
        (Collector { address, inner }, router)
    }

    fn router(mood: Mood) -> (Arc<Inner>, Router) {
        let inner = Arc::new(Inner { mood: Mutex::new(Some(mood)), ..Inner::default() });
        let router = Router::new().route("/v1/traces", post(take));
        (Arc::clone(&inner), router.with_state(inner))
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set(&self, mood: Mood) {
        *self.inner.mood.lock() = Some(mood);
    }

    pub fn requests(&self) -> u32 {
        *self.inner.requests.lock()
    }

    pub fn spans(&self) -> Vec<Seen> {
        self.inner.spans.lock().clone()
    }

    /// Everything that was sent, as it came.
    pub fn raw(&self) -> Vec<u8> {
        self.inner.raw.lock().clone()
    }

    /// All spans, once there are this many of that name.
    pub async fn has(&self, name: &str, count: usize) -> Vec<Seen> {
        for _ in 0..1_500 {
            let spans = self.spans();
            if spans.iter().filter(|span| span.name == name).count() >= count {
                return spans;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not {count} spans {name}: {:#?}", self.spans());
    }
}

async fn take(State(inner): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> Response {
    *inner.requests.lock() += 1;
    inner.raw.lock().extend_from_slice(&body);
    let mood = inner.mood.lock().unwrap();
    if headers.get("content-type").unwrap() != "application/json" {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    match mood {
        Mood::Well | Mood::TakesAllBut(_) => {}
        Mood::Silent => std::future::pending().await,
        Mood::Answers(status, after) => {
            let status = StatusCode::from_u16(status).unwrap();
            return match after {
                Some(after) => (status, [("retry-after", after.to_string())]).into_response(),
                None => status.into_response(),
            };
        }
    }
    let spans = read(&body).unwrap_or_else(|wrong| panic!("this is not OTLP: {wrong}"));
    inner.spans.lock().extend(spans);
    let refused = match mood {
        Mood::TakesAllBut(count) => {
            format!(r#"{{"partialSuccess":{{"rejectedSpans":"{count}","errorMessage":"no"}}}}"#)
        }
        _ => r#"{"partialSuccess":{}}"#.to_owned(),
    };
    ([("content-type", "application/json")], refused).into_response()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    attributes: Vec<KeyValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    name: String,
    #[allow(dead_code, reason = "must be there")]
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Span {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<KeyValue>,
    #[serde(default)]
    links: Vec<Link>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Link {
    trace_id: String,
    span_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    code: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyValue {
    key: String,
    value: AnyValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum AnyValue {
    StringValue(String),
    IntValue(String),
}

fn attributes(list: Vec<KeyValue>) -> Result<BTreeMap<String, String>, String> {
    let mut read = BTreeMap::new();
    for KeyValue { key, value } in list {
        let value = match value {
            AnyValue::StringValue(text) => text,
            AnyValue::IntValue(text) => text.parse::<i64>().map_err(|e| e.to_string())?.to_string(),
        };
        if read.insert(key.clone(), value).is_some() {
            return Err(format!("{key} twice"));
        }
    }
    Ok(read)
}

fn id(text: String, digits: usize) -> Result<String, String> {
    let hex = text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let right = hex && text.bytes().any(|byte| byte != b'0');
    if right { Ok(text) } else { Err(format!("{text:?} is no id of {digits} digits")) }
}

/// A request as OTLP says that it is.
fn read(body: &[u8]) -> Result<Vec<Seen>, String> {
    let request: Request = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let mut seen = Vec::new();
    for group in request.resource_spans {
        let resource = attributes(group.resource.attributes)?;
        if resource.get("service.name").map(String::as_str) != Some("lingua") {
            return Err(format!("{resource:?}"));
        }
        for ScopeSpans { scope, spans } in group.scope_spans {
            assert_eq!(scope.name, "lingua");
            for span in spans {
                let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
                let nanos = |text: String| text.parse::<u64>().map_err(|e| e.to_string());
                let (start, end) = (nanos(start)?, nanos(end)?);
                // After 2020, in nanoseconds, and not the wrong way round.
                if start < 1_577_836_800_000_000_000 || end < start {
                    return Err(format!("from {start} to {end}"));
                }
                if !(1..=5).contains(&span.kind) {
                    return Err(format!("kind {}", span.kind));
                }
                let link = |link: Link| Ok((id(link.trace_id, 32)?, id(link.span_id, 16)?));
                let links: Result<_, String> = span.links.into_iter().map(link).collect();
                seen.push(Seen {
                    name: span.name,
                    trace: id(span.trace_id, 32)?,
                    id: id(span.span_id, 16)?,
                    parent: span.parent_span_id.map(|parent| id(parent, 16)).transpose()?,
                    links: links?,
                    kind: span.kind,
                    start,
                    end,
                    attributes: attributes(span.attributes)?,
                    error: span.status.is_some_and(|status| status.code == 2),
                    instance: resource["service.instance.id"].clone(),
                });
            }
        }
    }
    Ok(seen)
}
