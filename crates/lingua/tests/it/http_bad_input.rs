//! Whatever is sent, the answer is a clear refusal, and the scheduler goes on as before.

mod tables;

use crate::app;
use crate::app::http;
use crate::app::http_node;

use app::{On, TestApp};
use http::{Api, calm, job, node, with};
use http_node::PollingNode;
use serde_json::{Value, json};

/// A job id that nobody has.
const NO_JOB: &str = "0123456789abcdefghjkmnpqrs";

/// What is sent.
enum Sent {
    Json(Value),
    Raw(Vec<u8>),
    Get,
    Delete,
}

/// One wrong call and what it must be answered.
struct Case {
    path: String,
    sent: Sent,
    status: u16,
    code: &'static str,
    /// What the sentence must hold: mostly the field.
    says: String,
}

#[derive(Default)]
struct Table(Vec<Case>);

impl Table {
    fn add(&mut self, path: &str, sent: Sent, (status, code): (u16, &'static str), says: &str) {
        let (path, says) = (path.to_owned(), says.to_owned());
        self.0.push(Case { path, sent, status, code, says });
    }

    /// One field of a body that is otherwise right; the sentence must name it.
    fn field(&mut self, path: &str, base: &Value, name: &str, wrong: &[Value], want: Want) {
        for value in wrong {
            let sent = Sent::Json(with(base, json!({ name: value })));
            self.add(path, sent, want, name);
        }
    }

    /// The same for a field that may be missing only here.
    fn needed(&mut self, path: &str, base: &Value, name: &str) {
        self.add(path, Sent::Json(with(base, json!({ name: null }))), BAD, name);
        let mut null = base.clone();
        null[name] = Value::Null;
        self.add(path, Sent::Json(null), BAD, name);
    }

    /// Bodies that are no JSON object.
    fn not_an_object(&mut self, path: &str, limit: usize) {
        let deep = |n: usize| format!("{{\"x\":{}{}}}", "[".repeat(n), "]".repeat(n)).into_bytes();
        for body in [
            b"".to_vec(),
            b"[]".to_vec(),
            b"\"text\"".to_vec(),
            b"null".to_vec(),
            b"7".to_vec(),
            b"{".to_vec(),
            b"{}{}".to_vec(),
            b"{} and more".to_vec(),
            b"{'a': 1}".to_vec(),
            b"{\"a\": NaN}".to_vec(),
            b"{\"a\": 01}".to_vec(),
            b"\xef\xbb\xbf{}".to_vec(),
            b"{\"node_id\": \"\xff\xfe\"}".to_vec(),
            b"\x1f\x8b\x08\x00".to_vec(),
            b"a=b&c=d".to_vec(),
        ] {
            self.add(path, Sent::Raw(body), BAD, "body");
        }
        self.add(path, Sent::Raw(deep(70)), BAD, "nested");
        self.add(path, Sent::Raw(deep(200_000)), BAD, "nested");
        self.add(path, Sent::Raw(vec![b' '; limit + 1]), LARGE, "bytes");
    }
}

type Want = (u16, &'static str);

const BAD: Want = (400, "INVALID_MESSAGE");
const LARGE: Want = (413, "MESSAGE_TOO_LARGE");
const LANGUAGE: Want = (422, "INVALID_LANGUAGE");
const UNABLE: Want = (422, "INVALID_CAPABILITY");
const UNKNOWN: Want = (404, "NOT_FOUND");

async fn call(api: &Api, case: &Case) -> http::Reply {
    match &case.sent {
        Sent::Json(body) => api.post(&case.path, body).await,
        Sent::Raw(body) => api.post_bytes(&case.path, body.clone()).await,
        Sent::Get => api.get(&case.path).await,
        Sent::Delete => api.delete(&case.path).await,
    }
}

/// A job goes all the way.
async fn a_good_job_works(api: &Api, node: &PollingNode, session: &str) {
    let handed_in = api.post("/v1/dispatch/f2f", &job(session)).await;
    assert_eq!(handed_in.status, 200, "{}", handed_in.body);
    let assign = node.job().await;
    assert_eq!(node.ack(&assign).await.status, 200);
    assert_eq!(node.done(&assign, json!({"text_asr": "a"})).await.status, 200);
    let id = handed_in.body["job_id"].as_str().unwrap();
    let view = api.get(&format!("/v1/job/{id}?wait_ms=5000")).await;
    assert_eq!((view.status, &view.body["state"]), (200, &json!("DONE")), "{}", view.body);
}

#[tokio::test]
async fn every_wrong_field_of_every_call_is_named_and_nothing_breaks() {
    let app = TestApp::start(On::Memory, calm()).await;
    let api = Api::of(&app).await;
    let node = PollingNode::register(&api, "asks").await;
    a_good_job_works(&api, &node, "before").await;
    let first = with(&job("bad-input"), json!({"request_id": "used-before"}));
    assert_eq!(api.post("/v1/dispatch/f2f", &first).await.status, 200);
    let assign = node.job().await;
    assert_eq!(node.done(&assign, json!({})).await.status, 200);

    let mut table = Table::default();
    tables::dispatch(&mut table);
    tables::register(&mut table);
    tables::heartbeat(&mut table);
    tables::words(&mut table);
    tables::looks(&mut table);
    let cases = table.0;
    assert!(cases.len() >= 650, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let reply = call(&api, case).await;
        let detail = reply.body["detail"].as_str().unwrap_or_default();
        let fits = reply.status == case.status
            && reply.body["error"] == case.code
            && detail.contains(&case.says)
            && detail.chars().count() <= 400;
        if !fits {
            let sent = match &case.sent {
                Sent::Json(body) => body.to_string(),
                Sent::Raw(body) => String::from_utf8_lossy(body).into_owned(),
                Sent::Get | Sent::Delete => String::new(),
            };
            let sent: String = sent.chars().take(200).collect();
            wrong.push(format!(
                "{} {sent}: wanted {} {} {:?}, got {} {}",
                case.path, case.status, case.code, case.says, reply.status, reply.body
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));

    assert_eq!(api.get("/health").await.status, 200);
    assert_eq!(api.get("/ready").await.status, 200);
    assert_eq!(api.get("/api/v1/nodes").await.body["total"], 1, "no wrong node was taken in");
    a_good_job_works(&api, &node, "after").await;
    app.finish().await;
}

#[tokio::test]
async fn null_equals_absent_and_unknown_fields_are_ignored() {
    let app = TestApp::start(On::Memory, calm()).await;
    let api = Api::of(&app).await;
    let mut report = node("asks");
    for name in
        ["asr_langs", "nmt_pairs", "endpoint", "running", "current_load", "hardware", "version"]
    {
        report[name] = Value::Null;
    }
    report["something_new"] = json!({"deep": [1, 2, {"x": null}]});
    let node = PollingNode::register_as(&api, report).await;
    let mut request = job("s");
    for name in
        ["audio_ref", "audio_format", "sample_rate", "options", "request_id", "mode", "lang_a"]
    {
        request[name] = Value::Null;
    }
    request["something_new"] = json!([[]]);
    assert_eq!(api.post("/v1/dispatch/f2f", &request).await.status, 200);
    let assign = node.job().await;
    let mut done = node.word(&assign);
    for name in ["lease_token", "status", "result"] {
        done[name] = Value::Null;
    }
    assert_eq!(api.post("/v1/job/done", &done).await.status, 200);
    app.finish().await;
}
