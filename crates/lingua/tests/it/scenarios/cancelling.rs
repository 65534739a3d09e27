//! Jobs that nobody wants any more.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_engine::job::Ended;
use lingua_engine::jobs::Job;

use super::{calm, connect, options, scripted, short_leases, take, until_used};
use crate::app::jobs::{done, ended, is, job};
use crate::app::{On, TestApp};

async fn cancelled(job: &Job) {
    match ended(job).await.ended.unwrap() {
        Ended::Cancelled(reason) => assert_eq!(reason, "by the test"),
        other => panic!("ended as {:?}", other.code()),
    }
    assert_eq!(job.view().state, JobState::Cancelled);
}

pub async fn a_job_on_its_way_is_taken_back(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    job.cancel("by the test");
    cancelled(&job).await;
    let cancel = node.next_of("job_cancel").await.unwrap();
    assert_eq!(cancel["job_id"], assign["job_id"]);
    until_used(&app, "a", 0).await;
    app.finish().await;
}

pub async fn a_job_being_worked_on_is_taken_back(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    is(&job, JobState::Acked).await;
    job.cancel("by the test");
    cancelled(&job).await;
    node.next_of("job_cancel").await.unwrap();
    node.result(&assign, "anyway").await.unwrap();
    node.next_of("result_ack").await.unwrap();
    assert_eq!(job.view().state, JobState::Cancelled);
    app.finish().await;
}

pub async fn a_job_in_line_leaves_it(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(1)).await;
    let running = job().submit(&app);
    let assign = take(&mut node).await;
    let waiting = job().submit(&app);
    is(&waiting, JobState::Waiting).await;
    waiting.cancel("by the test");
    cancelled(&waiting).await;
    node.result(&assign, "done").await.unwrap();
    done(&running).await;
    node.next_of("result_ack").await.unwrap();
    node.hears_nothing_for(Duration::from_millis(300)).await.unwrap();
    app.finish().await;
}

/// The slot that was meant for it goes to the next in line.
pub async fn jobs_cancelled_as_their_slot_comes_lose_nothing(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(1)).await;
    for _ in 0..20 {
        let running = job().submit(&app);
        let assign = node.next_of("job_assign").await.unwrap();
        let waiting = job().submit(&app);
        is(&waiting, JobState::Waiting).await;
        let next = job().submit(&app);
        is(&next, JobState::Waiting).await;
        node.result(&assign, "done").await.unwrap();
        waiting.cancel("by the test");
        done(&running).await;
        ended(&waiting).await;
        // Whether or not the first in line had begun, the next one follows.
        while next.view().ended.is_none() {
            tokio::select! {
                assign = node.next_of("job_assign") => {
                    node.result(&assign.unwrap(), "done").await.unwrap();
                }
                () = next.until(|_| false) => {}
            }
        }
        done(&next).await;
    }
    app.finish().await;
}

pub async fn a_job_that_is_tried_again_is_taken_back(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut a = connect(&app, options(&app, "a").max_jobs(1)).await;
    let mut b = connect(&app, options(&app, "b").max_jobs(1)).await;
    let blocker = job().only("b").submit(&app);
    let blocking = take(&mut b).await;
    let job = job().prefer("a").submit(&app);
    let assign = take(&mut a).await;
    a.fail(&assign, "PROCESSING_ERROR").await.unwrap();
    // Its only other node is full: it waits for its second attempt.
    is(&job, JobState::Waiting).await;
    job.cancel("by the test");
    cancelled(&job).await;
    b.result(&blocking, "done").await.unwrap();
    done(&blocker).await;
    app.finish().await;
}

pub async fn a_job_that_is_over_stays_as_it_is(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "done").await.unwrap();
    assert_eq!(done(&job).await, "done");
    job.cancel("by the test");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(job.view().state, JobState::Done);
    app.finish().await;
}

pub async fn a_job_cancelled_at_its_hand_in_ends(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    for _ in 0..20 {
        let job = job().submit(&app);
        job.cancel("by the test");
        cancelled(&job).await;
    }
    until_used(&app, "a", 0).await;
    let job = job().submit(&app);
    loop {
        // Those that were sent all the same were taken back.
        let assign = node.next_of("job_assign").await.unwrap();
        node.result(&assign, "last").await.unwrap();
        if job.ended_within(Duration::from_millis(50)).await.ended.is_some() {
            break;
        }
    }
    assert_eq!(done(&job).await, "last");
    app.finish().await;
}

pub async fn a_node_that_cannot_be_stopped_keeps_its_slot_until_it_is_done(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let mut node = connect(&app, options(&app, "a").without("cancel")).await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    is(&job, JobState::Acked).await;
    job.cancel("by the test");
    cancelled(&job).await;
    assert_eq!(app.used("a").await, 1);
    node.result(&assign, "done").await.unwrap();
    until_used(&app, "a", 0).await;
    app.finish().await;
}
