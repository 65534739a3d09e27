//! What a node says it runs, against what it should run.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_lab::FakeNode;
use serde_json::{Value, json};

use super::{calm, connect, hasty, options, report, running, scripted, short_leases, silent, take};
use crate::app::jobs::{attempts, done, is, job};
use crate::app::{On, TestApp};

pub async fn a_job_that_its_node_dropped_is_tried_elsewhere(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let (mut a, mut b) = (silent(&app, "a").await, silent(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let assign = a.next_of("job_assign").await.unwrap();
    is(&job, JobState::Acked).await;
    // Right after the dispatch its silence about the job means nothing.
    report(&app, &mut a, json!({ "running": [] })).await;
    b.hears_nothing_for(Duration::from_millis(100)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    report(&app, &mut a, json!({ "running": [] })).await;
    let again = b.next_of("job_assign").await.unwrap();
    assert_eq!((&again["job_id"], &again["attempt_id"]), (&assign["job_id"], &json!(2)));
    b.result(&again, "not lost").await.unwrap();
    assert_eq!(done(&job).await, "not lost");
    assert_eq!(attempts(&job)[0], ("a".into(), "NODE_UNAVAILABLE".into()));
    app.finish().await;
}

pub async fn a_job_that_is_listed_stays_where_it_is(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    is(&job, JobState::Acked).await;
    // More than two leases long.
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        report(&app, &mut node, json!({ "running": [running(&assign)] })).await;
        assert_eq!((app.used("a").await, job.view().state), (1, JobState::Acked));
    }
    node.result(&assign, "patience").await.unwrap();
    assert_eq!(done(&job).await, "patience");
    app.finish().await;
}

pub async fn heartbeats_of_a_node_that_lists_nothing_keep_its_jobs(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let quiet = lingua_lab::NodeOptions { report_running: false, ..options(&app, "a") };
    let mut node = connect(&app, quiet).await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    is(&job, JobState::Acked).await;
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        report(&app, &mut node, Value::Null).await;
        assert_eq!((app.used("a").await, job.view().state), (1, JobState::Acked));
    }
    node.result(&assign, "patience").await.unwrap();
    assert_eq!(done(&job).await, "patience");
    app.finish().await;
}

pub async fn a_job_that_nobody_knows_is_stopped(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let unknown = job().spec(&app).id.to_string();
    let listed = json!([{ "job_id": unknown, "attempt_id": 3 },
        { "job_id": "not-one-of-ours", "attempt_id": 1 }]);
    node.heartbeat(json!({ "running": listed })).await.unwrap();
    let mut stopped = Vec::new();
    for _ in 0..2 {
        let cancel = node.next_of("job_cancel").await.unwrap();
        stopped.push((cancel["job_id"].as_str().unwrap().to_owned(), cancel["attempt_id"].clone()));
    }
    stopped.sort_by_key(|(job, _)| job.len());
    assert_eq!(stopped[0], ("not-one-of-ours".into(), json!(1)));
    assert_eq!(stopped[1], (unknown, json!(3)));
    app.finish().await;
}

pub async fn a_job_that_was_given_up_meanwhile_is_stopped(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let mut b = connect(&app, options(&app, "b").heartbeat_every(Duration::from_millis(300))).await;
    // Last, for it says nothing until it has the job.
    let mut a = connect(&app, options(&app, "a").without("cancel")).await;
    let job = job().prefer("a").submit(&app);
    let assign = take(&mut a).await;
    is(&job, JobState::Acked).await;
    a.abort();
    let again = b.next_of("job_assign").await.unwrap();
    b.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(&job).await, "elsewhere");
    let mut back = connect(&app, options(&app, "a").without("cancel")).await;
    back.heartbeat(json!({ "running": [running(&assign)] })).await.unwrap();
    let cancel = back.next_of("job_cancel").await.unwrap();
    assert_eq!(cancel["job_id"], assign["job_id"]);
    app.settled(Duration::from_secs(10)).await;
    app.finish().await;
}

pub async fn an_earlier_attempt_that_is_listed_is_stopped(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let first = take(&mut a).await;
    a.fail(&first, "PROCESSING_ERROR").await.unwrap();
    let second = take(&mut b).await;
    a.heartbeat(json!({ "running": [running(&first)] })).await.unwrap();
    let cancel = a.next_of("job_cancel").await.unwrap();
    assert_eq!((&cancel["job_id"], &cancel["attempt_id"]), (&first["job_id"], &json!(1)));
    b.result(&second, "second").await.unwrap();
    assert_eq!(done(&job).await, "second");
    app.finish().await;
}

/// A node that lost its memory says so when it registers.
pub async fn a_node_that_registers_with_nothing_running_lost_its_jobs(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let (mut a, mut b) = (silent(&app, "a").await, silent(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    a.next_of("job_assign").await.unwrap();
    is(&job, JobState::Acked).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    a.abort();
    let empty = json!({ "running": [] });
    let _back = connect(&app, options(&app, "a").without("ack").register_with(empty)).await;
    let again = b.next_of("job_assign").await.unwrap();
    b.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(&job).await, "elsewhere");
    app.finish().await;
}

/// It runs the job no longer, for it is done with it; the result follows.
pub async fn a_result_that_was_made_while_away_counts(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let (mut a, mut b) = (silent(&app, "a").await, silent(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let assign = a.next_of("job_assign").await.unwrap();
    is(&job, JobState::Acked).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    a.abort();
    let empty = json!({ "running": [] });
    let back = options(&app, "a").without("ack").register_with(empty);
    let back = FakeNode::scripted(back).await.unwrap();
    // After what it said of itself has been dealt with.
    tokio::time::sleep(Duration::from_millis(300)).await;
    back.result(&assign, "made while away").await.unwrap();
    assert_eq!(done(&job).await, "made while away");
    assert_eq!(attempts(&job).len(), 1);
    b.hears_nothing_for(Duration::from_millis(100)).await.unwrap();
    app.finish().await;
}
