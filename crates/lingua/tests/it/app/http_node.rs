//! Nodes of the HTTP door, as their agents would be written.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use super::http::{Api, Reply, node};

/// A node that asks for its jobs.
pub struct PollingNode {
    pub id: String,
    pub api: Api,
}

impl PollingNode {
    pub async fn register(api: &Api, id: &str) -> Self {
        PollingNode::register_as(api, node(id)).await
    }

    pub async fn register_as(api: &Api, report: Value) -> Self {
        let reply = api.post("/v1/node/register", &report).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        PollingNode { id: report["node_id"].as_str().unwrap().to_owned(), api: api.clone() }
    }

    /// The next message, or the answer that there is none.
    pub async fn ask(&self, wait_ms: u64) -> Reply {
        self.api.get(&format!("/v1/node/{}/jobs?wait_ms={wait_ms}", self.id)).await
    }

    /// The next message.
    pub async fn next(&self) -> Value {
        let reply = self.ask(5_000).await;
        assert_eq!(reply.status, 200, "nothing came: {}", reply.body);
        reply.body
    }

    /// The next message, which must be a job.
    pub async fn job(&self) -> Value {
        let message = self.next().await;
        assert_eq!(message["type"], "job_assign", "{message}");
        message
    }

    pub fn word(&self, job: &Value) -> Value {
        word(&self.id, job)
    }

    pub async fn ack(&self, job: &Value) -> Reply {
        self.api.post("/v1/job/ack", &self.word(job)).await
    }

    pub async fn done(&self, job: &Value, result: Value) -> Reply {
        let mut word = self.word(job);
        word["status"] = json!("ok");
        word["result"] = result;
        self.api.post("/v1/job/done", &word).await
    }

    pub async fn fail(&self, job: &Value, reason: &str) -> Reply {
        let mut word = self.word(job);
        word["status"] = json!("error");
        word["reason"] = json!(reason);
        self.api.post("/v1/job/fail", &word).await
    }

    pub async fn heartbeat(&self, fields: Value) -> Reply {
        let mut beat = json!({ "node_id": self.id });
        for (name, value) in fields.as_object().unwrap() {
            beat[name] = value.clone();
        }
        self.api.post("/v1/node/heartbeat", &beat).await
    }
}

/// Who speaks about which attempt.
pub fn word(node: &str, job: &Value) -> Value {
    json!({ "node_id": node, "job_id": job["job_id"], "attempt_id": job["attempt_id"] })
}

/// A node's own HTTP server.
pub struct Endpoint {
    pub address: SocketAddr,
    pub messages: Mutex<mpsc::Receiver<Value>>,
    behaviour: Arc<Behaviour>,
    serving: JoinHandle<()>,
}

struct Behaviour {
    status: AtomicU16,
    delay_ms: AtomicU64,
    messages: mpsc::Sender<Value>,
}

impl Endpoint {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, messages) = mpsc::channel(1_024);
        let behaviour = Arc::new(Behaviour {
            status: AtomicU16::new(200),
            delay_ms: AtomicU64::new(0),
            messages: sender,
        });
        let router = Router::new().route("/jobs", post(take)).with_state(Arc::clone(&behaviour));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Endpoint { address, messages: Mutex::new(messages), behaviour, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}/jobs", self.address)
    }

    /// Answers with this status from now on.
    pub fn answer(&self, status: u16) {
        self.behaviour.status.store(status, Ordering::Relaxed);
    }

    /// Answers only after so long from now on.
    pub fn delay(&self, ms: u64) {
        self.behaviour.delay_ms.store(ms, Ordering::Relaxed);
    }

    pub async fn next(&self) -> Value {
        let mut messages = self.messages.lock().await;
        tokio::time::timeout(Duration::from_secs(5), messages.recv()).await.unwrap().unwrap()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take(State(behaviour): State<Arc<Behaviour>>, Json(message): Json<Value>) -> StatusCode {
    behaviour.messages.try_send(message).unwrap();
    tokio::time::sleep(Duration::from_millis(behaviour.delay_ms.load(Ordering::Relaxed))).await;
    StatusCode::from_u16(behaviour.status.load(Ordering::Relaxed)).unwrap()
}
