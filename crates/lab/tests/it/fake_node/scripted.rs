//! The node that does what its test says.

use std::time::Duration;

use bytes::Bytes;
use lingua_lab::FakeNode;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::desk::{A_WHILE, Desk, assign, register_ack};

/// An assign as it is sent to nodes that take audio in binary frames.
fn bare_assign(job_id: &str) -> Value {
    let mut assign = assign(job_id, 1);
    assign.as_object_mut().unwrap().remove("audio");
    assign
}

fn audio_frame(job_id: &str, audio: &[u8]) -> Message {
    let mut frame = vec![0x21, u8::try_from(job_id.len()).unwrap()];
    frame.extend_from_slice(job_id.as_bytes());
    frame.extend_from_slice(audio);
    Message::binary(frame)
}

#[tokio::test]
async fn every_answer_carries_the_ids_of_its_assign() {
    let desk = Desk::open().await;
    let (mut node, mut line) = desk.scripted(desk.options()).await;
    assert_eq!(node.node_id(), "node-1");
    line.send(assign("job-1", 2)).await;
    let assign = node.next().await.unwrap();
    assert_eq!(assign["job_id"], "job-1");
    assert_eq!(assign.audio, None);

    node.ack(&assign).await.unwrap();
    node.started(&assign).await.unwrap();
    node.partial(&assign, "hel").await.unwrap();
    node.progress(&assign, "nmt").await.unwrap();
    node.result(&assign, "hello").await.unwrap();
    node.fail(&assign, "NMT_TIMEOUT").await.unwrap();
    node.reject(&assign, "BUSY").await.unwrap();
    node.about(&assign, "job_result", json!({ "job_id": "other", "extra": { "a": 1 } }))
        .await
        .unwrap();
    let mut sent = Vec::new();
    for _ in 0..8 {
        sent.push(line.next().await);
    }
    for message in &sent {
        for id in ["attempt_id", "session_id", "trace_id", "lease_token"] {
            assert_eq!(message[id], assign[id], "{id} of {message}");
        }
        assert_eq!(message["node_id"], "node-1");
    }
    let kinds: Vec<_> = sent.iter().map(|message| message["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "job_ack",
            "job_started",
            "asr_partial",
            "job_progress",
            "job_result",
            "job_result",
            "job_reject",
            "job_result"
        ]
    );
    assert_eq!((&sent[2]["text"], &sent[2]["utterance_index"]), (&json!("hel"), &json!(7)));
    assert_eq!(sent[3]["stage"], "nmt");
    assert_eq!((&sent[4]["success"], &sent[4]["text_translated"]), (&json!(true), &json!("hello")));
    assert_eq!(
        (&sent[5]["success"], &sent[5]["error"]["code"]),
        (&json!(false), &json!("NMT_TIMEOUT"))
    );
    assert_eq!(sent[6]["reason"], "BUSY");
    assert_eq!((&sent[7]["job_id"], &sent[7]["extra"]["a"]), (&json!("other"), &json!(1)));
}

#[tokio::test]
async fn nothing_is_sent_that_the_test_did_not_ask_for() {
    let desk = Desk::open().await;
    let (mut node, mut line) = desk.scripted(desk.options()).await;
    line.ping().await;
    line.send(assign("job-1", 1)).await;
    line.is_silent().await;
    assert_eq!(node.next_of("job_assign").await.unwrap()["job_id"], "job-1");
    node.hears_nothing_for(A_WHILE).await.unwrap();

    node.heartbeat(json!({ "health": "degraded" })).await.unwrap();
    assert_eq!(line.next().await["health"], "degraded");
    node.send_text("{").await.unwrap();
    node.send_binary(vec![0, 1]).await.unwrap();
    assert_eq!(line.frame().await, Some(Message::text("{")));
    assert_eq!(line.frame().await, Some(Message::binary(vec![0, 1])));
}

#[tokio::test]
async fn heartbeats_come_by_themselves_if_the_options_say_so() {
    let desk = Desk::open().await;
    let options = desk.options().heartbeat_every(Duration::from_millis(30));
    let (_node, mut line) = desk.scripted(options).await;
    assert_eq!(line.kinds().await, ["node_heartbeat", "node_heartbeat"]);
}

#[tokio::test]
async fn the_audio_frame_is_attached_to_its_assign_and_other_messages_are_kept() {
    let desk = Desk::open().await;
    let (mut node, mut line) = desk.scripted(desk.options()).await;
    line.send(bare_assign("job-1")).await;
    line.send(json!({ "type": "heartbeat_ack", "server_time_ms": 1 })).await;
    line.send_frame(audio_frame("job-1", b"sound")).await;
    line.send(bare_assign("job-2")).await;
    line.send_frame(audio_frame("job-2", b"")).await;

    let first = node.next().await.unwrap();
    assert_eq!(first["job_id"], "job-1");
    assert_eq!(first.audio, Some(Bytes::from_static(b"sound")));
    assert_eq!(node.next().await.unwrap()["type"], "heartbeat_ack");
    assert_eq!(node.next().await.unwrap().audio, Some(Bytes::new()));
}

#[tokio::test]
async fn a_wait_in_vain_says_for_what_and_what_came_instead() {
    let desk = Desk::open().await;
    let mut options = desk.options();
    options.patience = A_WHILE;
    let (mut node, mut line) = desk.scripted(options).await;
    let error = node.next().await.unwrap_err();
    assert!(format!("{error:#}").contains("node \"node-1\": nothing came"), "{error:#}");

    line.send(bare_assign("job-1")).await;
    let error = node.next().await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("the audio frame of") && text.contains("job-1"), "{text}");

    line.send(bare_assign("job-1")).await;
    line.send_frame(audio_frame("job-0", b"sound")).await;
    let text = format!("{:#}", node.next().await.unwrap_err());
    assert!(text.contains("job-0"), "{text}");

    line.send(json!({ "type": "heartbeat_ack" })).await;
    let text = format!("{:#}", node.next_of("job_assign").await.unwrap_err());
    assert!(text.contains("waiting for a job_assign") && text.contains("heartbeat_ack"), "{text}");

    line.send(json!({ "type": "result_ack" })).await;
    let text = format!("{:#}", node.hears_nothing_for(A_WHILE).await.unwrap_err());
    assert!(text.contains("result_ack"), "{text}");
    let text = format!("{:#}", node.closed().await.unwrap_err());
    assert!(text.contains("still open"), "{text}");
}

#[tokio::test]
async fn both_sides_learn_how_the_connection_ended() {
    let desk = Desk::open().await;
    let (mut node, mut line) = desk.scripted(desk.options()).await;
    line.send(assign("job-1", 1)).await;
    line.close(4001, "a newer connection").await;
    let closed = node.closed().await.unwrap();
    assert_eq!((closed.code, closed.reason.as_str()), (Some(4001), "a newer connection"));
    // What came before the end is still there.
    assert_eq!(node.next().await.unwrap()["job_id"], "job-1");
    let text = format!("{:#}", node.next().await.unwrap_err());
    assert!(text.contains("4001"), "{text}");
    node.send(json!({})).await.unwrap_err();

    let (node, mut line) = desk.scripted(desk.options()).await;
    let (closed, code) = tokio::join!(node.close_with(4321, "enough"), async {
        let code = line.close_code().await;
        assert_eq!(line.close_code().await, None);
        code
    });
    assert_eq!((closed.unwrap().code, code), (Some(4321), Some(4321)));

    let (node, mut line) = desk.scripted(desk.options()).await;
    node.abort();
    assert_eq!(line.close_code().await, None);

    let (node, line) = desk.scripted(desk.options()).await;
    drop(line);
    assert_eq!(node.closed().await.unwrap().code, None);
}

#[tokio::test]
async fn even_the_registration_can_be_left_to_the_test() {
    let desk = Desk::open().await;
    let (node, mut line) = tokio::join!(FakeNode::unregistered(desk.options()), desk.accept());
    let mut node = node.unwrap();
    line.is_silent().await;
    node.heartbeat(json!({})).await.unwrap();
    assert_eq!(line.next().await["node_id"], "node-1");
    let (registered, ()) = tokio::join!(node.register(), async {
        assert_eq!(line.next().await["type"], "node_register");
        line.send(register_ack()).await;
    });
    assert_eq!(registered.unwrap().epoch, Some(3));
    assert_eq!(node.registration().unwrap().heartbeat_interval_ms, Some(60_000));
}
