//! A client of the HTTP door that holds every answer against the door's own description.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use lingua_engine::Settings;
use lingua_http_client::HttpReply;
use lingua_lab::HttpClient;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use crate::app::schema;
use crate::app::{TestApp, quick};

/// Quick, but for heartbeats: a test's nodes send none unless it is about them.
pub fn calm() -> Settings {
    let mut settings = quick();
    settings.timing.heartbeat_ms = 5_000;
    settings.timing.running_lease_ms = 15_000;
    settings.timing.quarantine_ms = 15_000;
    settings.timing.check().unwrap();
    settings
}

/// The client.
#[derive(Clone)]
pub struct Api {
    pub client: HttpClient,
    pub description: Arc<Value>,
    seen: Arc<Mutex<BTreeSet<(String, String, u16)>>>,
}

/// An answer that was as described.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
    pub raw: HttpReply,
}

impl Api {
    pub async fn of(app: &TestApp) -> Self {
        let client = HttpClient::new(app.http(""));
        let description = client.get("/openapi.json").await.unwrap().ok().unwrap();
        Api { client, description: Arc::new(description), seen: Arc::default() }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.check("get", path, self.client.get(path).await.unwrap())
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.check("delete", path, self.client.delete(path).await.unwrap())
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.check("post", path, self.client.post(path, body).await.unwrap())
    }

    pub async fn post_bytes(&self, path: &str, body: impl Into<Bytes>) -> Reply {
        let reply = self.client.post_bytes(path, "application/json", body).await.unwrap();
        self.check("post", path, reply)
    }

    /// What was answered so far: method, described path, status.
    pub fn seen(&self) -> BTreeSet<(String, String, u16)> {
        self.seen.lock().clone()
    }

    fn check(&self, method: &str, path: &str, raw: HttpReply) -> Reply {
        let path = path.split('?').next().unwrap();
        let called = format!("{method} {path} -> {} {}", raw.status, raw.text());
        let body = match raw.header("content-type") {
            Some("application/json") => raw.json().unwrap(),
            _ => Value::Null,
        };
        let described = self.operation(method, path);
        match described {
            Err(status) => {
                assert_eq!(raw.status, status, "{called}");
                self.assert_fits(
                    &json!({"$ref": "#/components/schemas/ErrorBody"}),
                    &body,
                    &called,
                );
            }
            Ok((template, operation)) => {
                let answer = &operation["responses"][raw.status.to_string()];
                assert!(answer.is_object(), "not described: {called}");
                self.assert_answer(answer, &raw, &body, &called);
                self.seen.lock().insert((method.to_owned(), template, raw.status));
            }
        }
        Reply { status: raw.status, body, raw }
    }

    fn assert_answer(&self, answer: &Value, raw: &HttpReply, body: &Value, called: &str) {
        let Some(content) = answer["content"].as_object() else {
            assert!(raw.body.is_empty(), "a body that is not described: {called}");
            return;
        };
        let kind = raw.header("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap();
        let described = content.get(kind).unwrap_or_else(|| panic!("{kind:?}: {called}"));
        if kind == "application/json" {
            self.assert_fits(&described["schema"], body, called);
        }
        if raw.status >= 400 {
            let codes: Vec<&str> = answer["description"].as_str().unwrap().split(", ").collect();
            assert!(codes.contains(&body["error"].as_str().unwrap()), "{codes:?}: {called}");
            assert!(!body["detail"].as_str().unwrap().is_empty(), "{called}");
        }
    }

    fn assert_fits(&self, schema: &Value, body: &Value, called: &str) {
        // A schema of a free object has no fields of its own to hold it against.
        let wrong = schema::differences(&self.description, schema, body);
        assert!(wrong.is_empty(), "{wrong:#?}\n{called}");
    }

    /// The description of a call, or the status of one that there is none of.
    fn operation(&self, method: &str, path: &str) -> Result<(String, &Value), u16> {
        let paths = self.description["paths"].as_object().unwrap();
        let template = paths
            .keys()
            .filter(|template| fits(template, path))
            .min_by_key(|template| template.matches('{').count());
        let template = template.ok_or(404u16)?;
        let operation = &paths[template][method];
        if operation.is_object() { Ok((template.clone(), operation)) } else { Err(405) }
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template
            .iter()
            .zip(&path)
            .all(|(want, have)| want == have || (want.starts_with('{') && !have.is_empty()))
}

/// A registration that is right in every field that counts.
pub fn node(id: &str) -> Value {
    json!({ "node_id": id, "health": "ready", "semantic_langs": ["en", "zh"],
            "tts_langs": ["en", "zh"], "max_concurrent_jobs": 2, "running": [] })
}

/// A job that is right.
pub fn job(session: &str) -> Value {
    json!({ "session_id": session, "src_lang": "en", "tgt_lang": "zh", "audio": "AAEC" })
}

/// `base` with fields put in; `null` takes a field out.
pub fn with(base: &Value, fields: Value) -> Value {
    let mut changed = base.clone();
    for (name, value) in fields.as_object().unwrap() {
        match value {
            Value::Null => drop(changed.as_object_mut().unwrap().remove(name)),
            value => changed[name] = value.clone(),
        }
    }
    changed
}
