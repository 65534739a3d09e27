//! A second copy of a job that takes long.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_engine::Settings;
use lingua_engine::job::Ended;
use lingua_lab::{Behaviour, FakeNode};

use super::{calm, connect, metric, options, scripted, take, until_used};
use crate::app::jobs::{attempts, done, ended, job};
use crate::app::{On, TestApp};

fn settings() -> Settings {
    Settings { hedge_after_ms: Some(200), ..calm() }
}

pub async fn the_first_answer_wins_and_the_other_copy_is_taken_back(on: On) {
    let app = TestApp::start(on, settings()).await;
    let (mut slow, mut quick) = (scripted(&app, "slow").await, scripted(&app, "quick").await);
    let job = job().prefer("slow").submit(&app);
    let assign = take(&mut slow).await;
    let copy = take(&mut quick).await;
    assert_eq!((&copy["job_id"], &copy["attempt_id"]), (&assign["job_id"], &2.into()));
    assert_eq!((app.used("slow").await, app.used("quick").await), (1, 1));
    quick.result(&copy, "quick").await.unwrap();
    assert_eq!(done(&job).await, "quick");
    let cancel = slow.next_of("job_cancel").await.unwrap();
    assert_eq!(cancel["attempt_id"], 1);
    until_used(&app, "slow", 0).await;
    slow.result(&assign, "slow").await.unwrap();
    slow.next_of("result_ack").await.unwrap();
    assert_eq!(job.view().state, JobState::Done);
    assert_eq!(metric(&app, "lingua_hedges_total"), 1);
    app.finish().await;
}

pub async fn the_first_copy_may_win_after_all(on: On) {
    let app = TestApp::start(on, settings()).await;
    let (mut slow, mut spare) = (scripted(&app, "slow").await, scripted(&app, "spare").await);
    let job = job().prefer("slow").submit(&app);
    let assign = take(&mut slow).await;
    take(&mut spare).await;
    slow.result(&assign, "slow").await.unwrap();
    assert_eq!(done(&job).await, "slow");
    assert_eq!(spare.next_of("job_cancel").await.unwrap()["attempt_id"], 2);
    app.finish().await;
}

pub async fn a_copy_that_fails_leaves_the_other_one(on: On) {
    let app = TestApp::start(on, settings()).await;
    let (mut slow, mut bad) = (scripted(&app, "slow").await, scripted(&app, "bad").await);
    let job = job().prefer("slow").submit(&app);
    let assign = take(&mut slow).await;
    let copy = take(&mut bad).await;
    bad.fail(&copy, "PROCESSING_ERROR").await.unwrap();
    until_used(&app, "bad", 0).await;
    slow.result(&assign, "slow").await.unwrap();
    assert_eq!(done(&job).await, "slow");
    let tried = attempts(&job);
    assert_eq!(tried, [("slow".into(), "ok".into()), ("bad".into(), "PROCESSING_ERROR".into())]);
    app.finish().await;
}

pub async fn a_cancel_takes_both_copies_back(on: On) {
    let app = TestApp::start(on, settings()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    take(&mut a).await;
    take(&mut b).await;
    job.cancel("by the test");
    assert!(matches!(ended(&job).await.ended, Some(Ended::Cancelled(_))));
    a.next_of("job_cancel").await.unwrap();
    b.next_of("job_cancel").await.unwrap();
    app.finish().await;
}

pub async fn without_a_second_node_the_first_one_is_waited_for(on: On) {
    let app = TestApp::start(on, settings()).await;
    let mut only = connect(&app, options(&app, "only").max_jobs(4)).await;
    let job = job().submit(&app);
    let assign = take(&mut only).await;
    only.hears_nothing_for(Duration::from_millis(500)).await.unwrap();
    only.result(&assign, "slow").await.unwrap();
    assert_eq!(done(&job).await, "slow");
    assert_eq!(metric(&app, "lingua_hedges_total"), 0);
    app.finish().await;
}

pub async fn copies_count_against_the_retry_budget(on: On) {
    let app = TestApp::start(on, settings()).await;
    let mut slow = connect(&app, options(&app, "slow").max_jobs(20)).await;
    let quick = options(&app, "quick").max_jobs(20).behaviour(Behaviour::default());
    let quick = FakeNode::connect(quick).await.unwrap();
    app.meets("quick").await;
    let jobs: Vec<_> = (0..13).map(|_| job().prefer("slow").submit(&app)).collect();
    let mut assigns = Vec::new();
    for _ in 0..13 {
        assigns.push(take(&mut slow).await);
    }
    super::eventually("ten copies", || metric(&app, "lingua_hedges_total") == 10).await;
    // The rest have no copy: they end with their first.
    tokio::time::sleep(Duration::from_millis(400)).await;
    for assign in &assigns {
        slow.result(assign, "slow").await.unwrap();
    }
    for job in &jobs {
        done(job).await;
    }
    assert_eq!((quick.stats().done, metric(&app, "lingua_hedges_total")), (10, 10));
    app.finish().await;
}
