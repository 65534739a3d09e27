//! Nothing is waited for without end.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_engine::job::Ended;

use super::{
    calm, connect, hasty, metric, options, scripted, short_leases, silent, take, until_used, view,
};
use crate::app::jobs::{attempts, code, done, ended, is, job, refused};
use crate::app::{On, TestApp};

pub async fn a_node_that_does_not_ack_is_replaced_and_told_to_stop(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let (mut mute, mut other) = (scripted(&app, "mute").await, silent(&app, "other").await);
    let job = job().prefer("mute").submit(&app);
    let assign = mute.next_of("job_assign").await.unwrap();
    let again = other.next_of("job_assign").await.unwrap();
    let cancel = mute.next_of("job_cancel").await.unwrap();
    assert_eq!((&cancel["job_id"], &cancel["attempt_id"]), (&assign["job_id"], &1.into()));
    // It was told to stop, and it does.
    until_used(&app, "mute", 0).await;
    other.result(&again, "acked").await.unwrap();
    assert_eq!(done(&job).await, "acked");
    assert_eq!(metric(&app, "lingua_ack_timeouts_total"), 1);
    app.finish().await;
}

pub async fn the_only_node_that_does_not_ack_ends_the_job(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let mut mute = scripted(&app, "mute").await;
    let job = job().submit(&app);
    mute.next_of("job_assign").await.unwrap();
    assert_eq!(code(&job).await, "ACK_TIMEOUT");
    super::eventually("its owner counts it", || view(app.of_nodes(), "mute").past.failed == 1)
        .await;
    app.finish().await;
}

/// A node that cannot be told to stop may still work: its slot stays taken as long as its lease.
pub async fn a_slot_is_left_to_a_node_that_cannot_be_stopped(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let mut mute = connect(&app, options(&app, "mute").without("cancel")).await;
    let job = job().submit(&app);
    mute.next_of("job_assign").await.unwrap();
    assert_eq!(code(&job).await, "ACK_TIMEOUT");
    assert_eq!(app.used("mute").await, 1);
    assert_eq!(metric(&app, "lingua_slots_left_to_lapse_total"), 1);
    app.settled(Duration::from_secs(10)).await;
    app.finish().await;
}

pub async fn a_node_that_takes_too_long_is_replaced(on: On) {
    let app = TestApp::start(on, {
        let mut settings = calm();
        settings.timing.exec_max_ms = 300;
        settings
    })
    .await;
    let (mut slow, mut other) = (scripted(&app, "slow").await, scripted(&app, "other").await);
    let job = job().prefer("slow").submit(&app);
    take(&mut slow).await;
    let again = other.next_of("job_assign").await.unwrap();
    other.result(&again, "quick").await.unwrap();
    assert_eq!(done(&job).await, "quick");
    assert_eq!(attempts(&job)[0], ("slow".into(), "JOB_TIMEOUT".into()));
    slow.next_of("job_cancel").await.unwrap();
    app.finish().await;
}

pub async fn the_deadline_ends_a_job_wherever_it_is(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(2)).await;
    // One on its way, one being worked on, one in line.
    let sent = job().deadline_ms(700).submit(&app);
    node.next_of("job_assign").await.unwrap();
    let acked = job().deadline_ms(700).submit(&app);
    take(&mut node).await;
    is(&acked, JobState::Acked).await;
    let waiting = job().deadline_ms(700).submit(&app);
    is(&waiting, JobState::Waiting).await;
    for job in [&sent, &acked] {
        let refusal = refused(job).await;
        assert_eq!(refusal.code_text(), "JOB_TIMEOUT");
        node.next_of("job_cancel").await.unwrap();
    }
    let late = match ended(&waiting).await.ended.unwrap() {
        Ended::Failed(refusal) => refusal.code_text().to_owned(),
        _ => panic!("it had no slot"),
    };
    // It may get one of the slots at the very last moment.
    assert!(["JOB_TIMEOUT", "ALL_NODES_BUSY"].contains(&late.as_str()), "{late}");
    app.finish().await;
}

pub async fn a_deadline_that_has_passed_is_not_begun(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    assert_eq!(code(&job().deadline_ms(0).submit(&app)).await, "JOB_TIMEOUT");
    node.hears_nothing_for(Duration::from_millis(50)).await.unwrap();
    app.finish().await;
}

pub async fn a_running_lease_lapses_when_nobody_renews_it(on: On) {
    let app = TestApp::start(on, {
        let mut settings = short_leases();
        settings.timing.exec_max_ms = 400;
        settings
    })
    .await;
    let mut node = connect(&app, options(&app, "a").without("cancel")).await;
    let job = job().submit(&app);
    take(&mut node).await;
    assert_eq!(code(&job).await, "JOB_TIMEOUT");
    assert_eq!(app.used("a").await, 1, "it may still work");
    app.settled(Duration::from_secs(10)).await;
    app.finish().await;
}
