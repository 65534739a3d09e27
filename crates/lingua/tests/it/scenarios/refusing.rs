//! Nodes that do not take a job.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_engine::nodes::BreakerView;
use tokio::time::Instant;

use super::{calm, scripted, take, view};
use crate::app::jobs::{attempts, code, done, is, job};
use crate::app::{On, TestApp};

pub async fn a_busy_node_is_passed_over_at_once_and_not_blamed(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut busy, mut other) = (scripted(&app, "busy").await, scripted(&app, "other").await);
    for _ in 0..6 {
        let job = job().prefer("busy").submit(&app);
        let assign = busy.next_of("job_assign").await.unwrap();
        let began = Instant::now();
        busy.reject(&assign, "BUSY").await.unwrap();
        let again = take(&mut other).await;
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        other.result(&again, "free").await.unwrap();
        assert_eq!(done(&job).await, "free");
        assert_eq!(attempts(&job)[0], ("busy".into(), "ALL_NODES_BUSY".into()));
    }
    let busy = view(&app, "busy");
    assert_eq!((busy.past.failed, busy.breaker), (0, BreakerView::Closed));
    app.finish().await;
}

pub async fn busy_nodes_are_asked_again_while_the_job_can_wait(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    for attempt in 1..4 {
        let assign = node.next_of("job_assign").await.unwrap();
        assert_eq!(assign["attempt_id"], attempt);
        node.reject(&assign, "BUSY").await.unwrap();
    }
    let assign = node.next_of("job_assign").await.unwrap();
    node.result(&assign, "at last").await.unwrap();
    assert_eq!(done(&job).await, "at last");
    app.finish().await;
}

pub async fn a_fleet_that_stays_busy_is_told_as_busy(on: On) {
    let app = TestApp::start(on, {
        let mut settings = calm();
        settings.timing.queue_max_ms = 600;
        settings
    })
    .await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let mut asked = 0;
    while job.view().ended.is_none() {
        tokio::select! {
            assign = node.next_of("job_assign") => {
                asked += 1;
                node.reject(&assign.unwrap(), "BUSY").await.unwrap();
            }
            () = job.until(|_| false) => {}
        }
    }
    assert_eq!(code(&job).await, "ALL_NODES_BUSY");
    // Eight refusals do not count as attempts, and with one more it ends.
    assert!((2..=9).contains(&asked), "{asked} times");
    app.finish().await;
}

pub async fn other_refusals_go_elsewhere_and_end_somewhere(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(scripted(&app, name).await);
    }
    let job = job().prefer("a").submit(&app);
    let mut refused = Vec::new();
    for _ in 0..3 {
        let (node, number) = last_attempt(&job, refused.len()).await;
        let at = nodes.iter().position(|n| n.node_id() == node).unwrap();
        let assign = nodes[at].next_of("job_assign").await.unwrap();
        assert_eq!(assign["attempt_id"], number);
        nodes[at].reject(&assign, "no mood").await.unwrap();
        refused.push(node);
    }
    refused.sort();
    assert_eq!(refused, ["a", "b", "c"], "each was asked once");
    assert_eq!(code(&job).await, "NODE_UNAVAILABLE");
    for name in ["a", "b", "c"] {
        assert_eq!(view(&app, name).past.failed, 0);
    }
    app.finish().await;
}

async fn last_attempt(job: &lingua_engine::jobs::Job, before: usize) -> (String, u32) {
    job.until(|view| view.attempts.len() > before).await;
    let view = job.view();
    let attempt = view.attempts.last().unwrap();
    (attempt.node.to_string(), attempt.number)
}

pub async fn a_job_that_was_refused_is_shown_as_retrying_and_dispatched_again(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let assign = take(&mut a).await;
    is(&job, JobState::Acked).await;
    // Also after its ack a node may change its mind.
    a.reject(&assign, "BUSY").await.unwrap();
    let again = b.next_of("job_assign").await.unwrap();
    is(&job, JobState::Dispatched).await;
    b.result(&again, "b").await.unwrap();
    assert_eq!(done(&job).await, "b");
    app.finish().await;
}
