//! Speech and results from one instance to another, directly: asked for by a name that only the two
//! know.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lingua_engine::Engine;
use lingua_engine::cluster::bodies::Fetch;
use tokio::time::timeout;

/// For one body, from the connection to its last byte.
const LIMIT: Duration = Duration::from_secs(2);

/// No body is larger: a node's message has at most so much.
const MAX_BYTES: usize = 16 << 20;

/// Connections kept to one instance.
const IDLE: usize = 32;

/// Fetches bodies from other instances.
pub(crate) struct Peers(Client<HttpConnector, Full<Bytes>>);

impl Peers {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(LIMIT));
        Peers(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(IDLE).build(connector))
    }
}

impl Fetch for Peers {
    fn fetch(
        &self,
        address: String,
        name: String,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>> {
        let client = self.0.clone();
        Box::pin(async move {
            let uri: Uri = format!("{address}/internal/v1/bodies/{name}")
                .parse()
                .map_err(|error| format!("{address} is no address: {error}"))?;
            let mut request = Request::new(Full::default());
            *request.uri_mut() = uri;
            let call = async {
                let answer = client.request(request).await.map_err(|error| error.to_string())?;
                if answer.status() != StatusCode::OK {
                    return Err(format!("it answered {}", answer.status()));
                }
                let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
                body.map(http_body_util::Collected::to_bytes).map_err(|error| error.to_string())
            };
            timeout(LIMIT, call).await.unwrap_or_else(|_| Err("it took too long".to_owned()))
        })
    }
}

/// `/internal/v1/bodies/{name}`
pub(crate) async fn body(State(engine): State<Engine>, Path(name): Path<String>) -> Response {
    match engine.body(&name) {
        Some(body) => body.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
