//! Nodes that lose their connection, or themselves, and come back.

use std::time::Duration;

use lingua_lab::{Behaviour, FakeNode, NodeOptions};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::desk::{A_WHILE, Desk, Line, assign, register_ack, until};

/// The first word of a node that comes back.
async fn says_what_it_runs(line: &mut Line) {
    let first = line.next().await;
    assert_eq!((&first["type"], first["running"].is_array()), (&json!("node_heartbeat"), true));
}

#[tokio::test]
async fn a_crash_drops_the_connection_forgets_the_jobs_and_comes_back_after_the_pause() {
    let desk = Desk::open().await;
    let behaviour = Behaviour {
        crash: 1.0,
        crash_pause: Duration::from_millis(200),
        ..Behaviour::taking_ms(50)
    };
    let (node, mut line) = desk.automatic(desk.options().behaviour(behaviour)).await;
    line.send_together(vec![assign("job-1", 1), assign("job-2", 1)]).await;
    assert_eq!(line.kinds().await, ["job_ack", "job_ack"]);
    assert_eq!(line.close_code().await, None);

    let crashed = Instant::now();
    let mut line = desk.welcome().await;
    assert!(crashed.elapsed() >= Duration::from_millis(150), "{:?}", crashed.elapsed());
    assert_eq!(line.register["node_id"], "node-1");
    says_what_it_runs(&mut line).await;
    line.is_silent().await;
    until(&node, |stats| stats.connections == 2).await;
    let stats = node.stats();
    assert_eq!((stats.crashes, stats.lost, stats.running), (1, 2, 0));

    node.set_behaviour(Behaviour::default()).await.unwrap();
    node.crash().await.unwrap();
    assert_eq!(line.close_code().await, None);
    let _line = desk.welcome().await;
}

#[tokio::test]
async fn a_lost_connection_is_made_again_and_what_ended_meanwhile_is_told() {
    let desk = Desk::open().await;
    let options = desk.options().reconnecting().behaviour(Behaviour::taking_ms(40));
    let (node, mut line) = desk.automatic(options).await;
    line.send(assign("job-1", 1)).await;
    assert_eq!(line.kinds().await, ["job_ack", "job_result"]);
    line.send(assign("job-2", 1)).await;
    assert_eq!(line.kinds().await, ["job_ack"]);
    drop(line);

    let mut line = desk.welcome().await;
    let mut results = Vec::new();
    while results.len() < 2 {
        let message = line.next().await;
        if message["type"] == "job_result" {
            let job_id = message["job_id"].as_str().unwrap().to_owned();
            line.send(json!({ "type": "result_ack", "job_id": job_id, "attempt_id": 1 })).await;
            results.push(job_id);
        } else {
            assert_eq!(message["type"], "node_heartbeat", "it says what it runs as well");
        }
    }
    assert_eq!(results, ["job-1", "job-2"]);
    until(&node, |stats| stats.unacked == 0).await;
    drop(line);
    let mut line = desk.welcome().await;
    says_what_it_runs(&mut line).await;
    line.is_silent().await;
    let stats = node.stats();
    assert_eq!((stats.connections, stats.repeated, stats.lost), (3, 1, 0));
}

#[tokio::test]
async fn without_result_ack_what_ended_meanwhile_is_lost() {
    let desk = Desk::open().await;
    let options =
        desk.options().reconnecting().without("result_ack").behaviour(Behaviour::taking_ms(20));
    let (node, mut line) = desk.automatic(options).await;
    line.send(assign("job-1", 1)).await;
    assert_eq!(line.kinds().await, ["job_ack"]);
    // The pause before the first attempt is at least twice as long as the job.
    drop(line);
    let mut line = desk.welcome().await;
    says_what_it_runs(&mut line).await;
    line.is_silent().await;
    assert_eq!(node.stats().lost, 1);
}

#[tokio::test]
async fn an_unacked_result_is_repeated_with_the_heartbeats() {
    let desk = Desk::open().await;
    let options = desk.options().heartbeat_every(Duration::from_millis(40));
    let (node, mut line) = desk.automatic(options).await;
    line.send(assign("job-1", 1)).await;
    let mut results = 0;
    while results < 3 {
        let message = line.next().await;
        results += usize::from(message["type"] == "job_result");
    }
    line.send(json!({ "type": "result_ack", "job_id": "job-1", "attempt_id": 1 })).await;
    until(&node, |stats| stats.unacked == 0).await;
    assert!(node.stats().repeated >= 2);
}

#[tokio::test]
async fn a_node_named_by_the_scheduler_keeps_the_name() {
    let desk = Desk::open().await;
    let options = NodeOptions { node_id: None, ..desk.options() }.reconnecting();
    let (node, line) = desk.automatic(options).await;
    assert!(line.register["node_id"].is_null());
    drop(line);
    let line = desk.welcome().await;
    assert_eq!(line.register["node_id"], "node-1");
    assert_eq!(node.node_id(), "node-1");
}

#[tokio::test]
async fn a_draining_scheduler_is_left_alone_as_long_as_it_asks() {
    let desk = Desk::open().await;
    let (_node, line) = desk.automatic(desk.options().reconnecting()).await;
    line.close(1001, r#"{"retry_after_ms":600}"#).await;
    let closed = Instant::now();
    let _line = desk.welcome().await;
    // Jitter goes from half to one and a half of it.
    assert!(closed.elapsed() >= Duration::from_millis(250), "{:?}", closed.elapsed());
}

#[tokio::test]
async fn a_superseded_node_does_not_come_back() {
    let desk = Desk::open().await;
    let (node, line) = desk.automatic(desk.options().reconnecting()).await;
    line.close(4001, "a newer connection").await;
    let closed = node.ended().await;
    assert_eq!((closed.code, closed.reason.as_str()), (Some(4001), "a newer connection"));
    assert!(!node.is_connected());
    node.heartbeat(json!({})).await.unwrap_err();
    assert!(timeout(A_WHILE * 3, desk.accept()).await.is_err(), "it came back");
}

#[tokio::test]
async fn a_node_tries_again_until_it_is_taken_and_gives_up_when_it_never_will_be() {
    let desk = Desk::open().await;
    let (node, line) = desk.automatic(desk.options().reconnecting()).await;
    drop(line);
    let error = |code: &str| json!({ "type": "error", "code": code, "message": "" });
    drop(desk.answer(error("SCHEDULER_DEPENDENCY_DOWN")).await);
    drop(desk.answer(error("NODE_ID_CONFLICT")).await);
    let line = desk.answer(register_ack()).await;
    until(&node, |stats| stats.connections == 2).await;
    assert!(node.is_connected());
    drop(line);
    drop(desk.answer(error("UNAUTHORIZED")).await);
    node.ended().await;
    assert!(node.last_error().unwrap().contains("UNAUTHORIZED"));
}

#[tokio::test]
async fn without_reconnect_the_end_of_the_connection_is_the_end() {
    let desk = Desk::open().await;
    let options = desk.options().behaviour(Behaviour::taking_ms(60_000));
    let (node, mut line) = desk.automatic(options).await;
    line.send(assign("job-1", 1)).await;
    assert_eq!(line.kinds().await, ["job_ack"]);
    drop(line);
    assert_eq!(node.ended().await.code, None);
    assert_eq!((node.stats().lost, node.stats().running), (1, 0));
}

#[tokio::test]
async fn two_hundred_nodes_share_a_process() {
    let desk = Desk::open().await;
    let mut pairs = Vec::new();
    for _ in 0..200 {
        let connecting = tokio::spawn(FakeNode::connect(desk.options()));
        let line = desk.welcome().await;
        pairs.push((connecting.await.unwrap().unwrap(), line));
    }
    for (number, (_, line)) in pairs.iter_mut().enumerate() {
        line.send(assign(&format!("job-{number}"), 1)).await;
    }
    for (node, line) in &mut pairs {
        assert_eq!(line.kinds().await, ["job_ack", "job_result"]);
        assert_eq!(node.stats().done, 1);
    }
}
