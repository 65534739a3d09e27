//! Nodes that go away, come back, or come twice.

use std::time::Duration;

use lingua_core::job::JobState;
use serde_json::{Value, json};

use super::{
    calm, connect, eventually, id, options, report, running, scripted, short_leases, take, view,
};
use crate::app::jobs::{attempts, code, done, is, job};
use crate::app::{On, TestApp};

pub async fn a_node_that_vanishes_before_the_ack_is_replaced_at_once(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    a.next_of("job_assign").await.unwrap();
    a.abort();
    let again = take(&mut b).await;
    b.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(&job).await, "elsewhere");
    assert_eq!(attempts(&job)[0], ("a".into(), "NODE_UNAVAILABLE".into()));
    // Whether it works on it, nobody knows: its slot is free when its lease is over.
    app.settled(Duration::from_secs(10)).await;
    app.finish().await;
}

pub async fn a_node_that_vanishes_after_the_ack_has_a_moment_to_come_back(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let assign = take(&mut a).await;
    is(&job, JobState::Acked).await;
    a.abort();
    eventually("it is gone", || !view(&app, "a").connected).await;
    let back = scripted(&app, "a").await;
    assert_eq!(back.registration().unwrap().message["resume"], true);
    back.result(&assign, "back").await.unwrap();
    assert_eq!(done(&job).await, "back");
    assert_eq!(attempts(&job), [("a".into(), "ok".into())]);
    b.hears_nothing_for(Duration::from_millis(50)).await.unwrap();
    app.finish().await;
}

pub async fn a_node_that_does_not_come_back_is_replaced(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let mut a = scripted(&app, "a").await;
    let mut b = connect(&app, options(&app, "b").heartbeat_every(Duration::from_millis(200))).await;
    let job = job().prefer("a").submit(&app);
    take(&mut a).await;
    is(&job, JobState::Acked).await;
    a.abort();
    let again = b.next_of("job_assign").await.unwrap();
    b.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(&job).await, "elsewhere");
    assert_eq!(attempts(&job)[0], ("a".into(), "NODE_UNAVAILABLE".into()));
    app.settled(Duration::from_secs(10)).await;
    app.finish().await;
}

pub async fn the_last_node_that_vanishes_takes_its_job_along(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let mut a = scripted(&app, "a").await;
    let job = job().submit(&app);
    a.next_of("job_assign").await.unwrap();
    a.abort();
    assert_eq!(code(&job).await, "NODE_UNAVAILABLE");
    app.settled(Duration::from_secs(10)).await;
    app.finish().await;
}

pub async fn a_node_may_register_again_in_the_middle_of_a_job(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    is(&job, JobState::Acked).await;
    let register = json!({ "type": "node_register", "node_id": "a", "supports": ["result_ack"],
        "running": [running(&assign)], "max_concurrent_jobs": 2,
        "language_capabilities": { "semantic_languages": ["en", "zh"] } });
    node.send(register).await.unwrap();
    let ack = node.next_of("node_register_ack").await.unwrap();
    assert_eq!((&ack["node_id"], &ack["resume"]), (&json!("a"), &json!(true)));
    app.follows("a").await;
    assert_eq!(view(&app, "a").open_slots, 2);
    assert_eq!((job.view().state, app.used("a").await), (JobState::Acked, 1));
    node.result(&assign, "same socket").await.unwrap();
    assert_eq!(done(&job).await, "same socket");
    app.finish().await;
}

pub async fn a_new_socket_in_the_middle_of_a_job_carries_its_result(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut older = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut older).await;
    is(&job, JobState::Acked).await;
    let mut newer = scripted(&app, "a").await;
    report(&app, &mut newer, json!({ "running": [running(&assign)] })).await;
    assert_eq!(app.used("a").await, 1);
    newer.result(&assign, "new socket").await.unwrap();
    assert_eq!(done(&job).await, "new socket");
    app.finish().await;
}

pub async fn an_assign_that_got_lost_with_the_old_socket_is_not_waited_for(on: On) {
    let app = TestApp::start(on, super::hasty()).await;
    let mut older = scripted(&app, "a").await;
    let mut b = super::silent(&app, "b").await;
    let job = job().prefer("a").submit(&app);
    older.next_of("job_assign").await.unwrap();
    let _newer = scripted(&app, "a").await;
    let again = b.next_of("job_assign").await.unwrap();
    b.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(&job).await, "elsewhere");
    assert_eq!(attempts(&job)[0], ("a".into(), "ACK_TIMEOUT".into()));
    app.settled(Duration::from_secs(10)).await;
    app.finish().await;
}

pub async fn a_node_whose_heartbeat_is_overdue_gets_nothing_until_it_reports(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let mut node = scripted(&app, "a").await;
    eventually("its heartbeat is overdue", || !view(app.of_nodes(), "a").fresh).await;
    // The pools follow within a tick of the clockwork.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let refusal = crate::app::jobs::refused(&job().submit(&app)).await;
    assert_eq!((refusal.code_text(), refusal.code.http_status()), ("NODE_UNAVAILABLE", 503));
    assert!(refusal.retry_after_ms.is_some(), "it passes");
    report(&app, &mut node, Value::Null).await;
    app.meets("a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "alive").await.unwrap();
    assert_eq!(done(&job).await, "alive");
    app.finish().await;
}

pub async fn the_record_in_the_store_follows_the_node(on: On) {
    let app = TestApp::start(on, calm()).await;
    let node = scripted(&app, "a").await;
    let health = || async {
        let record = app.engine.store().nodes.get(&id("a")).await.unwrap();
        record.map(|record| record.health.as_str())
    };
    assert_eq!(health().await, Some("ready"));
    node.close().await.unwrap();
    for _ in 0..500 {
        if health().await == Some("offline") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(health().await, Some("offline"));
    app.finish().await;
}
