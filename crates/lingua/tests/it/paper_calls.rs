//! The calls of the design paper (scheduler v4.1, chapter 5), as it prints them, with curl.

use crate::process;

use std::net::SocketAddr;
use std::process::Command;

use process::{Lingua, get};
use serde_json::{Value, json};

/// Its nodes do not say what they run: without this they would wait for what they ran before.
fn start() -> Lingua {
    let no_hold = [("LINGUA_NODES_RESTART_HOLD_MS", "0")];
    Lingua::logged(&["serve", "--listen", "127.0.0.1:0"], &no_hold).0
}

/// Section 5.1 of the paper.
const REGISTER: &str = r#"{
  "node_id": "node-123",
  "health": "ready",
  "semantic_langs": ["en","zh"],
  "nmt_pairs": [["en","zh"],["zh","en"]],
  "tts_langs": ["en","zh"],
  "max_concurrent_jobs": 2
}"#;

const HEARTBEAT: &str = r#"{
  "node_id": "node-123",
  "health": "ready",
  "current_load": {"gpu": 0.52, "cpu": 0.33},
  "semantic_langs": ["en","zh"],
  "nmt_pairs": [["en","zh"],["zh","en"]],
  "tts_langs": ["en","zh"],
  "max_concurrent_jobs": 2
}"#;

/// Section 5.2 of the paper.
const DISPATCH: &str = r#"{
  "session_id": "room-888",
  "src_lang": "en",
  "tgt_lang": "zh",
  "audio_ref": "blob://...", 
  "options": {
    "require_tts": false,
    "preferred_node_id": null
  }
}"#;

/// Section 5.3 of the paper.
const ACK: &str = r#"{"job_id":"job-abc","attempt_id":1,"node_id":"node-123"}"#;
const DONE: &str = r#"{"job_id":"job-abc","attempt_id":1,"node_id":"node-123","status":"ok"}"#;
const FAIL: &str = r#"{"job_id":"job-abc","attempt_id":1,"node_id":"node-123","status":"error","reason":"MODEL_LOAD_FAILED"}"#;

/// `curl -d BODY URL`, as anybody would type it: the status and the answer.
fn curl(to: SocketAddr, path: &str, body: &str) -> (u16, Value) {
    let output = Command::new("curl")
        .args(["-s", "-m", "20", "-w", "\n%{http_code}", "-d", body])
        .arg(format!("http://{to}{path}"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (answer, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(answer).unwrap_or_default())
}

/// A job that was handed in as the paper has it, by a reference that this scheduler made.
fn dispatch(to: SocketAddr) -> String {
    let (status, kept) = curl(to, "/v1/audio", "speech");
    assert_eq!(status, 200, "{kept}");
    let body = DISPATCH.replace("blob://...", kept["audio_ref"].as_str().unwrap());
    let (status, answer) = curl(to, "/v1/dispatch/f2f", &body);
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["node_id"], &answer["attempt_id"]), (&json!("node-123"), &json!(1)));
    answer["job_id"].as_str().unwrap().to_owned()
}

/// The name of the next job, as its node is told.
fn assigned(to: SocketAddr) -> String {
    let (status, message) = get(to, "/v1/node/node-123/jobs?wait_ms=5000");
    assert_eq!((status, &message["type"]), (200, &json!("job_assign")), "{message}");
    message["job_id"].as_str().unwrap().to_owned()
}

fn state(to: SocketAddr, job: &str) -> Value {
    get(to, &format!("/v1/job/{job}?wait_ms=5000")).1
}

#[test]
fn the_papers_calls_do_what_the_paper_says() {
    let lingua = start();
    let to = lingua.address();

    // Nobody is able: the paper's refusal.
    let (status, answer) = curl(to, "/v1/audio", "speech");
    assert_eq!(status, 200, "{answer}");
    let body = DISPATCH.replace("blob://...", answer["audio_ref"].as_str().unwrap());
    let (_, refused) = curl(to, "/v1/dispatch/f2f", &body);
    assert_eq!(refused["error"], "NO_CAPABLE_NODE", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("en"), "{refused}");

    for (path, body) in [("/v1/node/register", REGISTER), ("/v1/node/heartbeat", HEARTBEAT)] {
        let (status, answer) = curl(to, path, body);
        assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{path}: {answer}");
    }

    // The reference that the paper prints was not made here; the refusal says what makes one.
    let (status, answer) = curl(to, "/v1/dispatch/f2f", DISPATCH);
    assert_eq!((status, &answer["error"]), (400, &json!("INVALID_MESSAGE")), "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("POST /v1/audio"), "{answer}");

    // By the id that the hand-in was answered with.
    let job = dispatch(to);
    for (path, body) in [("/v1/job/ack", ACK), ("/v1/job/done", DONE), ("/v1/job/done", DONE)] {
        let (status, answer) = curl(to, path, &body.replace("job-abc", &job));
        assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{path}: {answer}");
    }
    assert_eq!(state(to, &job)["state"], "DONE");

    // By the name that the node was told, which is another one.
    let first = assigned(to);
    assert_ne!(first, job, "a node does not see whose its jobs are");
    let next = dispatch(to);
    let named = assigned(to);
    let (status, answer) = curl(to, "/v1/job/ack", &ACK.replace("job-abc", &named));
    assert_eq!(status, 200, "{answer}");
    assert_ne!(named, next, "a node does not see whose its jobs are");
    let (status, answer) = curl(to, "/v1/job/done", &DONE.replace("job-abc", &named));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(state(to, &next)["state"], "DONE");

    // A failure; there is no other node.
    let last = dispatch(to);
    let (status, answer) = curl(to, "/v1/job/fail", &FAIL.replace("job-abc", &last));
    assert_eq!((status, &answer["ok"]), (200, &json!(true)), "{answer}");
    // A job of which the node knows nothing.
    let (status, answer) = curl(to, "/v1/job/ack", ACK);
    assert!(status == 400 || status == 404, "{status} {answer}");
    let other = ACK.replace("job-abc", &job).replace("node-123", "node-9");
    assert_eq!(curl(to, "/v1/job/ack", &other).0, 404);
}

/// A node that is slow to call back has five seconds for its ack.
#[test]
fn an_ack_by_a_call_may_take_longer_than_one_on_a_socket() {
    let lingua = start();
    let to = lingua.address();
    assert_eq!(curl(to, "/v1/node/register", REGISTER).0, 200);
    let job = dispatch(to);
    // Longer than a socket has for sending and ack, and for its slot.
    std::thread::sleep(std::time::Duration::from_millis(3_500));
    let (status, answer) = curl(to, "/v1/job/ack", &ACK.replace("job-abc", &job));
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = curl(to, "/v1/job/done", &DONE.replace("job-abc", &job));
    assert_eq!(status, 200, "{answer}");
    let ended = state(to, &job);
    assert_eq!(
        (&ended["state"], ended["attempts"].as_array().map(Vec::len)),
        (&json!("DONE"), Some(1)),
        "{ended}"
    );
}
