//! What is for a node goes to its endpoint as a POST, one message each.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lingua_engine::job::ToNode;
use lingua_engine::nodes::{Connection, Nodes};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::wire::http::node::SUPPORTS;
use crate::wire::node::render;

/// For one POST, from the connection to the status. A node takes a message and works on it later.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Jobs on their way to one node at the same time.
const AT_ONCE: usize = 8;

/// What is read of an endpoint's answer, so that its connection can be used again.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// What every call to an endpoint says of itself. No scheduler takes such a call: an endpoint that turns
/// out to be one, of another instance on this machine, would otherwise be given orders in its name.
pub(crate) const FROM_SCHEDULER: HeaderName = HeaderName::from_static("lingua-from-scheduler");

/// The client of all endpoints. It keeps connections and follows no redirects.
#[derive(Clone)]
pub(crate) struct Endpoints(Client<HttpConnector, Full<Bytes>>);

impl Endpoints {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(SEND_TIMEOUT));
        Endpoints(
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(AT_ONCE).build(connector),
        )
    }

    /// `Err` says why the endpoint did not take the message.
    async fn post(&self, endpoint: Uri, message: &ToNode) -> Result<(), String> {
        let mut text = String::new();
        render(message, SUPPORTS, &mut text);
        let mut request = Request::new(Full::new(Bytes::from(text)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = endpoint;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        request.headers_mut().insert(FROM_SCHEDULER, HeaderValue::from_static("1"));
        let call = async {
            let (head, body) = match self.0.request(request).await {
                Ok(answer) => answer.into_parts(),
                Err(error) => return Err(error.to_string()),
            };
            let _ = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
            match head.status.is_success() {
                true => Ok(()),
                false => Err(format!("it answered {}", head.status)),
            }
        };
        timeout(SEND_TIMEOUT, call)
            .await
            .unwrap_or_else(|_| Err("it did not answer in time".into()))
    }
}

/// Sends until the node has a newer connection, is blocked or gone.
pub(super) async fn deliver(
    nodes: Arc<Nodes>,
    connection: Connection,
    endpoints: Endpoints,
    endpoint: Uri,
    mut inbox: mpsc::Receiver<ToNode>,
) {
    let mut under_way = JoinSet::new();
    while let Some(message) = inbox.recv().await {
        let most = match message {
            ToNode::Superseded => break,
            ToNode::Blocked => {
                nodes.gone(&connection);
                break;
            }
            // The answer to its call has told it already.
            ToNode::ResultAck { .. } => continue,
            ToNode::Assign(assign) if assign.is_late() => {
                nodes.send_failed(&connection, assign.job, assign.attempt);
                continue;
            }
            ToNode::Assign(_) => AT_ONCE - 1,
            // Not before what it is about.
            _ => 0,
        };
        while under_way.try_join_next().is_some() {}
        while under_way.len() > most {
            under_way.join_next().await;
        }
        let (nodes, connection) = (Arc::clone(&nodes), connection.clone());
        let (endpoints, endpoint) = (endpoints.clone(), endpoint.clone());
        under_way.spawn(async move {
            match (endpoints.post(endpoint, &message).await, message) {
                (Ok(()), ToNode::Assign(assign)) => assign.sent(),
                (Err(why), ToNode::Assign(assign)) => {
                    tracing::info!(node.id = %connection.node_id(), reason = why, "a job was not sent");
                    nodes.send_failed(&connection, assign.job, assign.attempt);
                }
                (Err(why), _) => {
                    tracing::debug!(node.id = %connection.node_id(), reason = why, "a word was not sent");
                }
                (Ok(()), _) => {}
            }
        });
    }
    while under_way.join_next().await.is_some() {}
}
