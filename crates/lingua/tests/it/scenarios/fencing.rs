//! Words that do not match the current assignment have no effect.

use std::time::Duration;

use lingua_core::job::JobState;
use serde_json::{Value, json};

use super::{calm, connect, hasty, metric, options, report, scripted, silent, take};
use crate::app::jobs::{attempts, done, is, job};
use crate::app::{On, TestApp};

fn stale(app: &TestApp, kind: &str) -> u64 {
    metric(app, &format!("lingua_stale_fence_total{{kind=\"{kind}\"}}"))
}

pub async fn an_ack_said_twice_counts_once(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    node.ack(&assign).await.unwrap();
    node.ack(&assign).await.unwrap();
    is(&job, JobState::Acked).await;
    report(&app, &mut node, json!({ "running": [super::running(&assign)] })).await;
    assert_eq!(app.used("a").await, 1);
    node.result(&assign, "once").await.unwrap();
    assert_eq!(done(&job).await, "once");
    app.finish().await;
}

pub async fn a_late_ack_does_not_take_a_second_slot(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let (mut late, mut other) = (scripted(&app, "late").await, silent(&app, "other").await);
    let job = job().prefer("late").submit(&app);
    let assign = late.next_of("job_assign").await.unwrap();
    let again = other.next_of("job_assign").await.unwrap();
    assert_eq!(late.next_of("job_cancel").await.unwrap()["attempt_id"], 1);
    late.ack(&assign).await.unwrap();
    report(&app, &mut late, Value::Null).await;
    assert_eq!((app.used("late").await, stale(&app, "ack")), (0, 1));
    late.result(&assign, "too late").await.unwrap();
    other.result(&again, "in time").await.unwrap();
    assert_eq!(done(&job).await, "in time");
    assert_eq!(attempts(&job)[0], ("late".into(), "ACK_TIMEOUT".into()));
    app.finish().await;
}

pub async fn a_word_for_an_old_attempt_has_no_effect(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let first = take(&mut a).await;
    a.fail(&first, "PROCESSING_ERROR").await.unwrap();
    let second = b.next_of("job_assign").await.unwrap();
    let old = json!({ "attempt_id": 1, "lease_token": null });
    b.about(&second, "job_ack", old.clone()).await.unwrap();
    b.about(&second, "job_result", json!({ "attempt_id": 1, "success": true })).await.unwrap();
    report(&app, &mut b, Value::Null).await;
    assert_eq!(job.view().state, JobState::Dispatched);
    assert_eq!((stale(&app, "ack"), stale(&app, "result")), (1, 1));
    // Nor does a second word of the node that failed it.
    a.result(&first, "changed my mind").await.unwrap();
    report(&app, &mut a, Value::Null).await;
    assert_eq!(stale(&app, "result"), 2);
    b.result(&second, "right").await.unwrap();
    assert_eq!(done(&job).await, "right");
    app.finish().await;
}

pub async fn a_word_from_the_wrong_node_has_no_effect(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut owner, mut thief) = (scripted(&app, "owner").await, scripted(&app, "thief").await);
    let job = job().only("owner").submit(&app);
    let assign = owner.next_of("job_assign").await.unwrap();
    // It knows everything that the owner knows, and says that it is the owner.
    let as_owner = json!({ "node_id": "owner" });
    thief.about(&assign, "job_ack", as_owner.clone()).await.unwrap();
    let forged = json!({ "node_id": "owner", "success": true, "text_translated": "forged" });
    thief.about(&assign, "job_result", forged).await.unwrap();
    thief.about(&assign, "job_reject", json!({ "reason": "BUSY" })).await.unwrap();
    thief.about(&assign, "asr_partial", json!({ "text": "forged" })).await.unwrap();
    report(&app, &mut thief, Value::Null).await;
    assert_eq!(job.view().state, JobState::Dispatched);
    assert!(job.view().partial.is_none());
    for kind in ["ack", "result", "reject", "partial"] {
        assert_eq!(stale(&app, kind), 1, "{kind}");
    }
    owner.result(&assign, "genuine").await.unwrap();
    assert_eq!(done(&job).await, "genuine");
    app.finish().await;
}

pub async fn a_result_said_twice_counts_once_and_is_acked_again(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "first").await.unwrap();
    node.next_of("result_ack").await.unwrap();
    node.result(&assign, "second").await.unwrap();
    let ack = node.next_of("result_ack").await.unwrap();
    assert_eq!(ack["job_id"], assign["job_id"], "or it would be sent for ever");
    assert_eq!(done(&job).await, "first");
    assert_eq!(stale(&app, "result"), 1);
    let jobs_done = super::view(app.of_nodes(), "a").past.done;
    assert_eq!((jobs_done, metric(&app, "lingua_jobs_ended_total{code=\"ok\"}")), (1, 1));
    app.finish().await;
}

pub async fn a_wrong_lease_token_has_no_effect(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    let wrong = json!({ "lease_token": "0".repeat(32), "success": true });
    node.about(&assign, "job_result", wrong).await.unwrap();
    report(&app, &mut node, Value::Null).await;
    assert_eq!((job.view().state, stale(&app, "result")), (JobState::Dispatched, 1));
    node.result(&assign, "right").await.unwrap();
    assert_eq!(done(&job).await, "right");
    app.finish().await;
}

pub async fn who_was_given_a_lease_token_must_show_it(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    let none = json!({ "lease_token": null, "success": true });
    node.about(&assign, "job_ack", none.clone()).await.unwrap();
    node.about(&assign, "job_result", none).await.unwrap();
    report(&app, &mut node, Value::Null).await;
    assert_eq!(job.view().state, JobState::Dispatched);
    assert_eq!((stale(&app, "ack"), stale(&app, "result")), (1, 1));
    node.result(&assign, "right").await.unwrap();
    assert_eq!(done(&job).await, "right");
    app.finish().await;
}

pub async fn a_superseded_connection_has_no_say(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut older = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut older).await;
    is(&job, JobState::Acked).await;
    let newer = scripted(&app, "a").await;
    // Its last words may reach the scheduler before the close reaches it.
    let _ = older.result(&assign, "old").await;
    assert_eq!(older.closed().await.unwrap().code, Some(4001));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(job.view().state, JobState::Acked);
    newer.result(&assign, "new").await.unwrap();
    assert_eq!(done(&job).await, "new");
    app.finish().await;
}

/// Acks without end neither fill anything up nor hide the result.
pub async fn a_node_that_repeats_itself_still_gets_its_result_through(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(1)).await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    for _ in 0..500 {
        node.ack(&assign).await.unwrap();
        node.partial(&assign, "again").await.unwrap();
    }
    node.result(&assign, "at last").await.unwrap();
    assert_eq!(done(&job).await, "at last");
    app.finish().await;
}
