//! Questions and orders from one instance to another, for operators: who speaks there, how a job stands, end
//! it.
//!
//! A question is signed with what only the instances of one store know, for one of them and for a
//! moment; from anybody else there is nothing to be had here.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lingua_engine::Engine;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::tls::{Connector, Trust, whole};

/// For one answer, from the connection to its last byte; longer than a job or session takes to end.
const LIMIT: Duration = Duration::from_secs(4);

/// The largest answer: a thousand sessions have a quarter of it.
const MAX_ANSWER: usize = 1 << 20;

/// Instances asked at the same time for one who looks, and how many who look are served at once.
const AT_ONCE: usize = 8;
const LOOKERS: usize = 8;

/// Carries until when a question holds, and its mark.
const MARK: HeaderName = HeaderName::from_static("x-lingua-question");

/// Asks other instances.
#[derive(Clone)]
pub(crate) struct Ask {
    client: Client<Connector, Full<Bytes>>,
    places: Arc<Semaphore>,
}

/// What an instance answered.
pub(crate) struct Answered {
    /// The instance that is asked.
    pub(crate) instance: String,
    /// Its answer; `None`: it has nothing of that kind. An error: it could not be asked.
    pub(crate) said: Result<Option<Bytes>, String>,
}

impl Ask {
    /// As instances are met here: with TLS, by their certificates.
    pub(crate) fn new(trust: Trust) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(1)
            .build(Connector::new(trust, LIMIT));
        Ask { client, places: Arc::new(Semaphore::new(LOOKERS)) }
    }

    /// Asks every other instance, or only the one of this name, for the same path.
    pub(crate) async fn others(
        &self,
        engine: &Engine,
        only: Option<&str>,
        path: &str,
    ) -> Vec<Answered> {
        self.all(engine, only, Method::GET, path).await
    }

    /// Tells every other instance to do the same, whichever of them it concerns.
    pub(crate) async fn order(&self, engine: &Engine, path: &str) -> Vec<Answered> {
        self.all(engine, None, Method::POST, path).await
    }

    async fn all(
        &self,
        engine: &Engine,
        only: Option<&str>,
        method: Method,
        path: &str,
    ) -> Vec<Answered> {
        let peers = engine.peers().into_iter();
        let peers = peers.map(|(instance, address)| (instance.id.to_string(), address));
        let peers: Vec<_> = peers.filter(|(id, _)| only.is_none_or(|only| only == id)).collect();
        if peers.is_empty() {
            return Vec::new();
        }
        let _place = self.places.acquire().await;
        let ask = |(instance, address): (String, String)| {
            let method = method.clone();
            async move {
                let asked = self.one(engine, method, &instance, &address, path);
                let asked = timeout(LIMIT, asked).await;
                let said = asked.unwrap_or_else(|_| Err("it took too long".to_owned()));
                Answered { instance, said }
            }
        };
        futures_util::stream::iter(peers).map(ask).buffer_unordered(AT_ONCE).collect().await
    }

    async fn one(
        &self,
        engine: &Engine,
        method: Method,
        instance: &str,
        address: &str,
        path: &str,
    ) -> Result<Option<Bytes>, String> {
        let uri: Uri = format!("{address}{path}")
            .parse()
            .map_err(|error| format!("{address} is no address: {error}"))?;
        let mut request = Request::new(Full::default());
        *request.uri_mut() = uri;
        *request.method_mut() = method;
        let mark = HeaderValue::try_from(engine.question(instance, path));
        request.headers_mut().insert(MARK, mark.expect("hexadecimal and a dash"));
        let answer = self.client.request(request).await.map_err(|error| whole(&error))?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NO_CONTENT => return Ok(None),
            status => return Err(format!("it answered {status}")),
        }
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        Ok(Some(body.map_err(|error| error.to_string())?.to_bytes()))
    }
}

/// Whether this call is the question of another instance to this one.
pub(crate) fn is_a_question(engine: &Engine, headers: &HeaderMap, uri: &Uri) -> bool {
    let mark = headers.get(MARK).and_then(|mark| mark.to_str().ok());
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    mark.is_some_and(|mark| engine.is_question(path, mark))
}
