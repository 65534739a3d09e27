//! What a running scheduler writes on standard error.

use crate::process;

use std::time::Duration;

use lingua_lab::speech::{Codec, Signal};
use lingua_lab::{FakeNode, NodeOptions, Speaker, SpeakerOptions};
use process::{Lingua, Log, get, lingua, wait_for};
use serde_json::{Value, json};

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];
/// Ten of these are said.
const NODES: usize = 40;
/// What is said and heard, and must be found nowhere else.
const CANARY: &str = "canary sings at dawn";

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SERVE.iter().chain(more).copied().collect()
}

fn url(server: &Lingua, scheme: &str, path: &str) -> String {
    format!("{scheme}://{}{path}", server.address())
}

/// Every line as JSON.
fn lines(log: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    let lines: Vec<Value> = log.lines().map(read).collect();
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "no {field}: {line}");
        }
        let levels = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
        assert!(levels.contains(&line["level"].as_str().unwrap()), "{line}");
    }
    lines
}

/// Many nodes say in one moment what one says.
async fn flood(server: &Lingua) {
    let mut nodes = Vec::new();
    for n in 0..NODES {
        let options = NodeOptions::new(url(server, "ws", "/ws/node")).node_id(format!("n-{n}"));
        nodes.push(FakeNode::connect(options).await.unwrap());
    }
    let address = server.address();
    let all = tokio::task::spawn_blocking(move || {
        wait_for("all nodes are there", || {
            let (_, nodes) = get(address, "/api/v1/nodes?limit=100");
            nodes["nodes"].as_array().is_some_and(|nodes| nodes.len() == NODES)
        });
    });
    all.await.unwrap();
}

async fn ended(mut server: Lingua, log: Log) -> String {
    server.signal("TERM");
    tokio::task::spawn_blocking(move || {
        assert_eq!(server.exit_code(), Some(0));
        log.all()
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_for_machines_is_one_object_per_line_also_when_lines_are_held_back() {
    let (server, log) = Lingua::logged(&with(&["--log-format", "json"]), &[]);
    flood(&server).await;
    let log = ended(server, log).await;
    let lines = lines(&log);
    let registered: Vec<&Value> =
        lines.iter().filter(|line| line["message"] == "node registered").collect();
    let said = registered.len();
    assert!((10..NODES).contains(&said), "{log}");
    assert!(registered.iter().all(|line| line["node.id"].is_string()), "{log}");
    let told = |line: &&Value| line["of"] == "node registered";
    let held: u64 = lines.iter().filter(told).map(|line| line["held"].as_u64().unwrap()).sum();
    assert_eq!(held, (NODES - said) as u64, "every line is said or counted: {log}");
    let one = lines.iter().find(told).unwrap();
    assert_eq!(
        (&one["level"], &one["from"]),
        (&json!("INFO"), &json!("lingua_engine::nodes::registration"))
    );
    assert!(one["message"].as_str().unwrap().ends_with("more of these in 10 s"), "{one}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_for_people_holds_lines_back_too_whatever_is_filtered() {
    // Only one part of it is wanted, and that part's repeats are told all the same.
    let (server, log) = Lingua::logged(&SERVE, &[("LINGUA_LOG", "off,lingua_engine::nodes=info")]);
    flood(&server).await;
    let log = ended(server, log).await;
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    let said = count("lingua_engine::nodes::registration: node registered");
    assert!((10..NODES).contains(&said), "{log}");
    assert!(log.contains(&format!("… and {} more of these in 10 s", NODES - said)), "{log}");
    assert!(!log.contains("stopping"), "{log}");
}

/// It takes a whole window: nobody ends the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_back_is_told_while_it_runs() {
    let (server, log) = Lingua::logged(&with(&["--log-format", "json"]), &[]);
    flood(&server).await;
    let told = tokio::task::spawn_blocking(move || {
        wait_for("what was held back is told", || log.so_far().contains("more of these in 10 s"));
    });
    told.await.unwrap();
    drop(server);
}

#[test]
fn why_it_does_not_start_is_a_line_like_any_other() {
    let (code, log) = lingua(&["serve", "--listen", "0.0.0.0:0", "--log-format", "json"]);
    assert_eq!(code, Some(78), "{log}");
    let lines = lines(&log);
    let last = lines.last().unwrap();
    assert_eq!((&last["level"], &last["exit_code"]), (&json!("ERROR"), &json!(78)));
    assert!(last["message"].as_str().unwrap().contains("--insecure"), "{log}");
    for wrong in [&["--log-format", "xml"][..], &["--otlp", "nowhere"], &["--trace-share", "2"]] {
        let (code, says) = lingua(&with(wrong));
        assert_eq!(code, Some(2), "{wrong:?}: {says}");
        assert!(says.contains(wrong[0]), "{wrong:?}: {says}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_log_holds_what_is_said() {
    let everything = [(
        "LINGUA_LOG",
        "lingua_core=trace,lingua_store=trace,lingua_engine=trace,lingua_server=trace",
    )];
    let (server, log) = Lingua::logged(&with(&["--log-format", "json"]), &everything);
    let patience = Duration::from_secs(15);
    let options = NodeOptions::new(url(&server, "ws", "/ws/node")).node_id("n-1");
    let options = options.register_with(json!({ "running": [] }));
    let mut node = FakeNode::scripted(NodeOptions { patience, ..options }).await.unwrap();
    let options = SpeakerOptions::new(url(&server, "ws", "/ws/session")).patience(patience);
    let mut client = Speaker::connect(options).await.unwrap();
    let token = client.ack().resume_token.clone().unwrap();
    for n in 0..2 {
        let audio = Codec::Opus.speech(Signal::Babble, 300, None, n);
        client.whole(n, audio, json!({})).await.unwrap();
        let assign = node.next_of("job_assign").await.unwrap().message;
        node.ack(&assign).await.unwrap();
        node.partial(&assign, CANARY).await.unwrap();
        if n == 0 {
            node.result(&assign, CANARY).await.unwrap();
        } else {
            let error = json!({"code": "GPU_LOST", "message": CANARY});
            let fields = json!({"utterance_index": 1, "success": false, "error": error});
            node.about(&assign, "job_result", fields).await.unwrap();
        }
        client.ending().await.unwrap();
    }
    let error = json!({"type": "node_error", "node_id": "n-1", "code": "OOM", "message": CANARY});
    node.send(error).await.unwrap();
    let address = server.address();
    let noted = tokio::task::spawn_blocking(move || {
        wait_for("the node's error is noted", || {
            let (_, node) = get(address, "/api/v1/nodes/n-1");
            node.to_string().contains(CANARY)
        });
    });
    noted.await.unwrap();
    drop((client, node));
    let log = ended(server, log).await;
    let lines = lines(&log);
    let said = |message: &str| lines.iter().find(|line| line["message"] == message);
    assert!(said("an utterance was cut").is_some(), "{log}");
    let failed = said("job failed").unwrap();
    assert_eq!((&failed["reason"], &failed["pair"]), (&json!("GPU_LOST"), &json!("en->zh")));
    assert!(failed["session.id"].is_string() && failed["elapsed_ms"].is_number(), "{failed}");
    assert_eq!(said("a node reports an error").unwrap()["reason"], "OOM");
    assert!(!log.contains("canary"), "what was said is in the log: {log}");
    assert!(!log.contains(&token), "a token is in the log: {log}");
}
