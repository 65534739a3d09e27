//! A small HTTP client for JSON.
//!
//! Connections are kept and used again; every call has a limit; what a call answers is the status
//! and the body as they came, whatever they are, because tests look at refusals as often as at
//! success.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

/// Longer than any long poll of the tests.
const LIMIT: Duration = Duration::from_secs(30);

/// The largest body that is taken.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// A client of one server, with whatever connects to it. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpClient<C = HttpConnector> {
    client: Client<C, Full<Bytes>>,
    /// `http://host:port`, without a slash at the end.
    base: String,
    headers: HeaderMap,
    limit: Duration,
    largest: usize,
}

/// What a server answered.
#[derive(Debug, Clone)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl HttpClient {
    /// A client of `http://host:port`.
    pub fn new(base: impl Into<String>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self::with(connector, base)
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> HttpClient<C> {
    /// A client of a server that is reached by this.
    pub fn with(connector: C, base: impl Into<String>) -> Self {
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let base = base.into().trim_end_matches('/').to_owned();
        Self { client, base, headers: HeaderMap::new(), limit: LIMIT, largest: MAX_BODY_BYTES }
    }

    /// How long a call may take, from the connection to the last byte.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The largest body that is taken, in bytes.
    pub fn largest(mut self, bytes: usize) -> Self {
        self.largest = bytes;
        self
    }

    /// Sends this header with every call. An error if it is none.
    pub fn header(mut self, name: &str, value: &str) -> anyhow::Result<Self> {
        self.headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        Ok(self)
    }

    /// Shows this token with every call.
    pub fn bearer(self, token: &str) -> anyhow::Result<Self> {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> anyhow::Result<HttpReply> {
        self.request(Method::GET, path, None, Bytes::new()).await
    }

    /// Sends a DELETE request.
    pub async fn delete(&self, path: &str) -> anyhow::Result<HttpReply> {
        self.request(Method::DELETE, path, None, Bytes::new()).await
    }

    /// POST of a JSON value.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<HttpReply> {
        self.post_bytes(path, "application/json", body.to_string()).await
    }

    /// POST of anything.
    pub async fn post_bytes(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<HttpReply> {
        self.request(Method::POST, path, Some(content_type), body.into()).await
    }

    /// Any call.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Bytes,
    ) -> anyhow::Result<HttpReply> {
        let called = format!("{method} {}{path}", self.base);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() =
            Uri::try_from(format!("{}{path}", self.base)).with_context(|| called.clone())?;
        request.headers_mut().clone_from(&self.headers);
        if let Some(content_type) = content_type {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::try_from(content_type)?);
        }
        match timeout(self.limit, self.call(request)).await {
            Ok(reply) => reply.context(called),
            Err(_) => bail!("{called}: no answer within {:?}", self.limit),
        }
    }

    async fn call(&self, request: Request<Full<Bytes>>) -> anyhow::Result<HttpReply> {
        let (parts, body) = self.client.request(request).await?.into_parts();
        let body = Limited::new(body, self.largest).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("reading the body: {error}"))?.to_bytes();
        Ok(HttpReply { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}

impl HttpReply {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("status {}, no JSON: {}", self.status, self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header, if it is there and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON, or an error with the whole answer if the status is not 2xx.
    pub fn ok(&self) -> anyhow::Result<Value> {
        if !self.is_success() {
            bail!("status {}: {}", self.status, self.text());
        }
        self.json()
    }
}
