//! How a node's connection begins, what it may say, and how it ends.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use lingua_lab::fake_node::ConnectError;
use lingua_lab::{FakeNode, HttpClient, NodeOptions, ScriptedNode};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::{calm, connect, eventually, hasty, metric, options, report, scripted, silent, view};
use crate::app::jobs::{attempts, done, job};
use crate::app::{On, TestApp};

pub async fn a_node_is_told_its_name_its_interval_and_its_epoch(on: On) {
    let app = TestApp::start(on, calm()).await;
    let first = connect(&app, NodeOptions::new(app.ws("/ws/node"))).await;
    let ack = first.registration().unwrap().message.clone();
    let name = ack["node_id"].as_str().unwrap();
    let digits = name.strip_prefix("node-").unwrap();
    assert!(digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
    assert_eq!((&ack["status"], &ack["resume"]), (&json!("ready"), &json!(false)));
    assert_eq!(ack["heartbeat_interval_ms"], 5_000);
    assert!(ack["epoch"].as_u64().unwrap() > 0 && ack["message"].is_string(), "{ack}");

    let old = connect(&app, options(&app, "old").old_agent()).await;
    let ack = &old.registration().unwrap().message;
    assert_eq!((&ack["node_id"], &ack["heartbeat_interval_ms"]), (&json!("old"), &json!(15_000)));
    app.finish().await;
}

pub async fn a_heartbeat_before_the_registration_is_refused_and_the_socket_stays(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = FakeNode::unregistered(options(&app, "a")).await.unwrap();
    node.heartbeat(Value::Null).await.unwrap();
    says_error(&mut node, "NOT_FOUND", "register first").await;
    node.send(json!({ "type": "node_error", "code": "X" })).await.unwrap();
    says_error(&mut node, "NOT_FOUND", "register first").await;
    node.register().await.unwrap();
    report(&app, &mut node, Value::Null).await;
    app.finish().await;
}

pub async fn who_says_nothing_is_shown_the_door(on: On) {
    let app = TestApp::start(on, calm()).await;
    let node = FakeNode::unregistered(options(&app, "a")).await.unwrap();
    assert_eq!(node.closed().await.unwrap().code, Some(4002));
    app.finish().await;
}

pub async fn nonsense_is_answered_with_the_field_and_the_socket_stays(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    for (text, code, says) in [
        ("not json", "INVALID_MESSAGE", "JSON"),
        (r#"{"a":1}"#, "INVALID_MESSAGE", "type"),
        (r#"{"type":"room_create"}"#, "UNSUPPORTED_MESSAGE", "room_create"),
        (r#"{"type":"job_ack"}"#, "INVALID_MESSAGE", "job_id"),
        (r#"{"type":"job_ack","job_id":"j"}"#, "INVALID_MESSAGE", "job_id"),
        (r#"{"type":"heartbeat","health":"sick"}"#, "INVALID_MESSAGE", "health"),
        (r#"{"type":"heartbeat","running":7}"#, "INVALID_MESSAGE", "running"),
        (r#"{"type":"heartbeat","node_id":"b"}"#, "INVALID_MESSAGE", "node_id"),
        (r#"{"type":"register","node_id":"b"}"#, "INVALID_MESSAGE", "node_id"),
    ] {
        node.send_text(text).await.unwrap();
        says_error(&mut node, code, says).await;
    }
    node.send_binary(vec![1, 2, 3]).await.unwrap();
    says_error(&mut node, "UNSUPPORTED_MESSAGE", "text").await;
    report(&app, &mut node, Value::Null).await;
    app.finish().await;
}

pub async fn who_keeps_on_with_nonsense_is_shown_the_door(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    for _ in 0..20 {
        node.send_text("{}").await.unwrap();
    }
    for _ in 0..20 {
        says_error(&mut node, "INVALID_MESSAGE", "type").await;
    }
    assert_eq!(node.closed().await.unwrap().code, Some(1008));
    eventually("it is gone", || !view(&app, "a").connected).await;
    app.finish().await;
}

pub async fn a_message_that_is_too_large_ends_the_connection(on: On) {
    let app = TestApp::start(on, calm()).await;
    let node = scripted(&app, "a").await;
    let large = format!(r#"{{"type":"job_ack","job_id":"{}"}}"#, "x".repeat(16 << 20));
    // It may not even get to send all of it.
    let _ = node.send_text(large).await;
    assert_eq!(node.closed().await.unwrap().code, Some(1009));
    eventually("it is gone", || !view(&app, "a").connected).await;
    app.finish().await;
}

pub async fn a_flood_is_refused(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let line = json!({ "type": "node_error", "code": "X", "message": "y" }).to_string();
    for _ in 0..40_000 {
        if node.send_text(line.clone()).await.is_err() {
            break;
        }
    }
    says_error(&mut node, "RATE_LIMITED", "second").await;
    assert_eq!(node.closed().await.unwrap().code, Some(1008));
    app.finish().await;
}

/// Existing agents read no `error`, and try again with a new connection.
pub async fn a_refused_registration_ends_the_connection_with_its_code(on: On) {
    let app = TestApp::start(on, calm()).await;
    let languages = |languages: Value| json!({ "language_capabilities": languages });
    for (fields, says) in [
        (languages(json!({})), "semantic"),
        (languages(json!({ "semantic_languages": [] })), "semantic"),
        (languages(json!({ "semantic_languages": ["klingon!"] })), "semantic"),
        (languages(json!({ "semantic_languages": ["en"], "nmt_pairs": "some" })), "nmt_pairs"),
        (
            json!({ "max_concurrent_jobs": 0,
                "language_capabilities": { "semantic_languages": ["en"] } }),
            "max_concurrent_jobs",
        ),
    ] {
        let mut node = FakeNode::unregistered(options(&app, "a")).await.unwrap();
        let mut register = json!({ "type": "register", "node_id": "a" });
        register.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        node.send(register).await.unwrap();
        says_error(&mut node, "INVALID_CAPABILITY", says).await;
        let closed = node.closed().await.unwrap();
        assert_eq!(closed.code, Some(1008), "{says}");
        assert!(closed.reason.starts_with("INVALID_CAPABILITY: "), "{closed:?}");
    }
    let mut node = FakeNode::unregistered(options(&app, "a")).await.unwrap();
    node.register().await.unwrap();
    // A later word that cannot be costs it nothing.
    let wrong = json!({ "type": "register", "node_id": "a", "language_capabilities": {} });
    node.send(wrong).await.unwrap();
    says_error(&mut node, "INVALID_CAPABILITY", "semantic").await;
    report(&app, &mut node, Value::Null).await;
    app.finish().await;
}

pub async fn heartbeats_are_answered_to_nodes_that_understand_it(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut new = scripted(&app, "new").await;
    new.heartbeat(Value::Null).await.unwrap();
    let ack = new.next().await.unwrap();
    assert_eq!(ack["type"], "heartbeat_ack");
    assert!(ack["server_time_ms"].as_u64().unwrap() > 1_600_000_000_000, "{}", ack.message);
    let mut old = connect(&app, options(&app, "old").old_agent()).await;
    old.heartbeat(Value::Null).await.unwrap();
    old.hears_nothing_for(Duration::from_millis(300)).await.unwrap();
    app.finish().await;
}

pub async fn a_warming_node_gets_jobs_once_it_is_warm(on: On) {
    let app = TestApp::start(on, calm()).await;
    let cold = json!({ "language_capabilities": { "semantic_core_ready": false } });
    let mut node = connect(&app, options(&app, "a").register_with(cold)).await;
    assert_eq!(node.registration().unwrap().status, "registering");
    let refusal = crate::app::jobs::refused(&job().submit(&app)).await;
    assert_eq!(refusal.code_text(), "NO_CAPABLE_NODE");
    assert!(
        refusal.detail.ends_with("(listed as not ready: semantic on 1 node)."),
        "{}",
        refusal.detail
    );
    let languages = json!({ "semantic_languages": ["en"], "semantic_core_ready": true,
        "nmt_pairs": [["en", "zh"]] });
    report(&app, &mut node, json!({ "health": null, "language_capabilities": languages })).await;
    let job = job().submit(&app);
    let assign = super::take(&mut node).await;
    node.result(&assign, "warm").await.unwrap();
    assert_eq!(done(&job).await, "warm");
    app.finish().await;
}

pub async fn a_quiet_node_is_pinged(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut quiet = raw(&app, "quiet", 1).await;
    let heard = tokio::time::timeout(Duration::from_secs(25), quiet.next()).await;
    assert!(matches!(heard.unwrap().unwrap().unwrap(), Message::Ping(_)));
    app.finish().await;
}

pub async fn a_close_is_answered(on: On) {
    let app = TestApp::start(on, calm()).await;
    let node = scripted(&app, "a").await;
    assert_eq!(node.close_with(1000, "bye").await.unwrap().code, Some(1000));
    eventually("it is gone", || !view(&app, "a").connected).await;
    app.finish().await;
}

pub async fn the_newest_connection_wins_and_the_older_is_told(on: On) {
    let app = TestApp::start(on, calm()).await;
    let older = scripted(&app, "a").await;
    let mut newer = scripted(&app, "a").await;
    assert_eq!(older.closed().await.unwrap().code, Some(4001));
    let epochs = [&older, &newer].map(|node| node.registration().unwrap().epoch.unwrap());
    assert!(epochs[0] < epochs[1], "{epochs:?}");
    assert_eq!(newer.registration().unwrap().message["resume"], true);
    let job = job().submit(&app);
    let assign = super::take(&mut newer).await;
    newer.result(&assign, "newest").await.unwrap();
    assert_eq!(done(&job).await, "newest");
    app.finish().await;
}

pub async fn the_end_of_the_scheduler_is_said_with_a_pause(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = super::take(&mut node).await;
    let finishing = tokio::spawn(app.stop());
    // What was begun ends first.
    tokio::time::sleep(Duration::from_millis(200)).await;
    node.result(&assign, "in time").await.unwrap();
    assert_eq!(done(&job).await, "in time");
    let closed = node.closed().await.unwrap();
    assert_eq!(closed.code, Some(1001), "{closed}");
    let reason: Value = serde_json::from_str(&closed.reason).unwrap();
    assert!(reason["retry_after_ms"].as_u64().unwrap() > 0, "{reason}");
    finishing.await.unwrap();
}

pub async fn a_plain_request_is_told_that_this_is_a_socket(on: On) {
    let app = TestApp::start(on, calm()).await;
    let reply = HttpClient::new(app.http("")).get("/ws/node").await.unwrap();
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json().unwrap()["error"], "INVALID_MESSAGE");
    app.finish().await;
}

pub async fn an_id_that_cannot_be_is_refused(on: On) {
    let app = TestApp::start(on, calm()).await;
    let error = FakeNode::scripted(options(&app, "a b")).await.unwrap_err();
    let refused = error.downcast_ref::<ConnectError>().unwrap();
    assert!(matches!(refused, ConnectError::Refused { code, .. } if code == "INVALID_MESSAGE"));
    app.finish().await;
}

/// Its jobs go elsewhere, and nobody else waits for it.
pub async fn a_node_that_reads_nothing_is_let_go(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let mut deaf = raw(&app, "deaf", 64).await;
    let mut jobs = Vec::new();
    let audio = vec![7; 2 << 20];
    for _ in 0..16 {
        jobs.push(job().prefer("deaf").audio(audio.clone()).submit(&app));
    }
    eventually("the deaf node is let go", || !view(&app, "deaf").connected).await;
    for job in jobs {
        job.cancel("enough");
        crate::app::jobs::ended(&job).await;
        assert!(attempts(&job).iter().all(|(node, _)| node == "deaf"), "{:?}", attempts(&job));
    }
    let mut healthy = silent(&app, "healthy").await;
    let late = job().submit(&app);
    let assign = healthy.next_of("job_assign").await.unwrap();
    healthy.result(&assign, "heard").await.unwrap();
    assert_eq!(done(&late).await, "heard");
    assert!(deaf.get_mut().peer_addr().is_ok());
    app.settled(Duration::from_secs(20)).await;
    app.finish().await;
}

pub async fn a_result_that_breaks_off_does_not_count(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let mut broken = raw(&app, "broken", 4).await;
    let job = job().prefer("broken").submit(&app);
    let text = broken.next().await.unwrap().unwrap().into_text().unwrap();
    let assign: Value = serde_json::from_str(&text).unwrap();
    let mut healthy = silent(&app, "healthy").await;
    let result = json!({ "type": "job_result", "job_id": assign["job_id"], "attempt_id": 1,
        "success": true, "text_translated": "half" });
    half_a_frame(&mut broken, &result.to_string()).await;
    drop(broken);
    let assign = healthy.next_of("job_assign").await.unwrap();
    assert_eq!(assign["attempt_id"], 2);
    healthy.result(&assign, "whole").await.unwrap();
    assert_eq!(done(&job).await, "whole");
    assert_eq!(metric(&app, "lingua_jobs_ended_total{code=\"ok\"}"), 1);
    app.settled(Duration::from_secs(20)).await;
    app.finish().await;
}

async fn says_error(node: &mut ScriptedNode, code: &str, says: &str) {
    let error = node.next_of("error").await.unwrap();
    assert_eq!(error["code"], code, "{}", error.message);
    assert!(error["message"].as_str().unwrap().contains(says), "{}", error.message);
}

/// A registered node below the simulated ones: its bytes are the scenario's own.
async fn raw(app: &TestApp, id: &str, slots: u32) -> WebSocketStream<TcpStream> {
    let stream = TcpStream::connect(app.address).await.unwrap();
    let request = app.ws("/ws/node").into_client_request().unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let register = json!({ "type": "node_register", "node_id": id, "max_concurrent_jobs": slots,
        "supports": ["cancel"],
        "language_capabilities": { "semantic_languages": ["en", "zh"], "nmt_pairs": "any" } });
    socket.send(Message::text(register.to_string())).await.unwrap();
    let ack = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(ack.contains("node_register_ack"), "{ack}");
    socket
}

/// The head of a frame and the first half of its body.
async fn half_a_frame(socket: &mut WebSocketStream<TcpStream>, text: &str) {
    use tokio::io::AsyncWriteExt;
    let length = u8::try_from(text.len()).unwrap();
    // A masked text frame with a mask of zeros and a length of two bytes.
    let mut frame = vec![0x81, 0x80 | 126, 0, length, 0, 0, 0, 0];
    frame.extend_from_slice(&text.as_bytes()[..text.len() / 2]);
    socket.get_mut().write_all(&frame).await.unwrap();
    socket.get_mut().flush().await.unwrap();
}
