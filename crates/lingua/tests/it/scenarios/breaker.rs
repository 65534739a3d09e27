//! Nodes that fail again and again.

use lingua_core::job::JobState;
use lingua_core::node::Health;
use lingua_engine::Settings;
use lingua_engine::nodes::BreakerView;
use lingua_lab::ScriptedNode;

use super::{calm, connect, eventually, hasty, options, scripted, take, view};
use crate::app::jobs::{code, done, ended, is, job, refused};
use crate::app::{On, TestApp};

fn settings() -> Settings {
    let mut settings = calm();
    settings.breaker.failures = 2;
    settings.breaker.first_pause_ms = 400;
    settings.breaker.longest_pause_ms = 5_000;
    settings
}

async fn fails(app: &TestApp, node: &mut ScriptedNode) {
    let job = job().only(node.node_id()).submit(app);
    let assign = take(node).await;
    node.fail(&assign, "GPU_LOST").await.unwrap();
    assert_eq!(code(&job).await, "GPU_LOST");
}

/// The node's own instance counts, and others see what follows from it.
async fn pause_is_over(app: &TestApp) {
    let probing = || breaker(app) == BreakerView::Probing;
    eventually("the pause is over", probing).await;
    app.follows("a").await;
}

fn breaker(app: &TestApp) -> BreakerView {
    view(app.of_nodes(), "a").breaker
}

pub async fn failures_in_a_row_open_it_and_one_good_probe_closes_it(on: On) {
    let app = TestApp::start(on, settings()).await;
    let mut node = scripted(&app, "a").await;
    fails(&app, &mut node).await;
    assert_eq!(breaker(&app), BreakerView::Closed);
    fails(&app, &mut node).await;
    assert!(matches!(breaker(&app), BreakerView::Open { .. }));
    app.follows("a").await;
    assert_eq!(view(&app, "a").health, Health::Degraded);
    let refusal = refused(&job().submit(&app)).await;
    assert_eq!(refusal.code_text(), "NODE_UNAVAILABLE");
    assert!(refusal.retry_after_ms.is_some(), "the pause ends");
    pause_is_over(&app).await;
    assert_eq!(view(&app, "a").open_slots, 1, "one job, to see");
    let probe = job().submit(&app);
    let assign = take(&mut node).await;
    let waiting = job().submit(&app);
    is(&waiting, JobState::Waiting).await;
    node.result(&assign, "well again").await.unwrap();
    assert_eq!(done(&probe).await, "well again");
    eventually("it is closed", || breaker(&app) == BreakerView::Closed).await;
    let assign = take(&mut node).await;
    node.result(&assign, "x").await.unwrap();
    done(&waiting).await;
    eventually("all its slots are open", || view(&app, "a").open_slots == 4).await;
    app.finish().await;
}

pub async fn a_bad_probe_makes_the_next_pause_longer(on: On) {
    let app = TestApp::start(on, settings()).await;
    let mut node = scripted(&app, "a").await;
    fails(&app, &mut node).await;
    fails(&app, &mut node).await;
    pause_is_over(&app).await;
    fails(&app, &mut node).await;
    let BreakerView::Open { left_ms } = breaker(&app) else { panic!("not open") };
    assert!((401..=800).contains(&left_ms), "{left_ms} ms");
    pause_is_over(&app).await;
    let probe = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "x").await.unwrap();
    done(&probe).await;
    app.finish().await;
}

/// It reads why, and comes back by itself: its connection is on one instance, and people ask another.
pub async fn a_node_that_keeps_failing_is_put_aside_and_comes_back_after_a_probe(on: On) {
    let mut settings = settings();
    settings.breaker.first_pause_ms = 50;
    let app = TestApp::start(on, settings).await;
    let mut node = scripted(&app, "a").await;
    fails(&app, &mut node).await;
    while view(app.of_nodes(), "a").aside.is_none() {
        fails(&app, &mut node).await;
        pause_is_over(&app).await;
    }
    let drain = node.next_of("node_control").await.unwrap().message;
    assert_eq!(drain["command"], "drain");
    let why = drain["reason"].as_str().unwrap();
    assert!(why.starts_with("put aside after 5 failures in a row, the last one GPU_LOST"), "{why}");
    let resume = node.next_of("node_control").await.unwrap().message;
    assert_eq!(resume["command"], "resume");
    eventually_known(&app, 5).await;
    let seen = app.engine.whole_node_view(&super::id("a")).await.unwrap();
    assert!(seen.aside.is_some() && seen.why_idle[0].contains("put aside"), "{:?}", seen.why_idle);
    assert_eq!(seen.past.failed_by_code["GPU_LOST"], 5);
    let probe = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "well again").await.unwrap();
    assert_eq!(done(&probe).await, "well again");
    eventually("it is back", || view(app.of_nodes(), "a").aside.is_none()).await;
    app.finish().await;
}

/// Waits until the store knows so many failures of the node.
async fn eventually_known(app: &TestApp, failed: u64) {
    for _ in 0..1_500 {
        let seen = app.engine.whole_node_view(&super::id("a")).await.unwrap();
        if seen.past.failed == failed {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the store does not know of {failed} failures");
}

pub async fn a_success_in_between_begins_the_count_anew(on: On) {
    let app = TestApp::start(on, settings()).await;
    let mut node = scripted(&app, "a").await;
    for _ in 0..3 {
        fails(&app, &mut node).await;
        let good = job().submit(&app);
        let assign = take(&mut node).await;
        node.result(&assign, "x").await.unwrap();
        done(&good).await;
    }
    assert_eq!(breaker(&app), BreakerView::Closed);
    app.finish().await;
}

pub async fn work_goes_on_elsewhere_while_one_is_left_alone(on: On) {
    let app = TestApp::start(on, {
        let mut settings = settings();
        settings.breaker.first_pause_ms = 60_000;
        settings.breaker.longest_pause_ms = 60_000;
        settings
    })
    .await;
    let mut bad = scripted(&app, "bad").await;
    fails(&app, &mut bad).await;
    fails(&app, &mut bad).await;
    app.follows("bad").await;
    let mut good = connect(&app, options(&app, "good").max_jobs(8)).await;
    for _ in 0..8 {
        let job = job().prefer("bad").submit(&app);
        let assign = take(&mut good).await;
        good.result(&assign, "x").await.unwrap();
        ended(&job).await;
    }
    app.finish().await;
}

/// An agent that cannot be stopped keeps the slots of what was given up; the probe gets one beside them.
pub async fn the_slots_of_what_was_given_up_leave_room_for_the_probe(on: On) {
    let mut settings = Settings { breaker: settings().breaker, ..hasty() };
    settings.timing.exec_max_ms = 300;
    let app = TestApp::start(on, settings).await;
    let mut node = connect(&app, options(&app, "a").old_agent()).await;
    for _ in 0..2 {
        let slow = job().submit(&app);
        node.next_of("job_assign").await.unwrap();
        assert_eq!(code(&slow).await, "JOB_TIMEOUT");
    }
    let probing = || breaker(&app) == BreakerView::Probing;
    eventually("the pause is over", probing).await;
    app.follows("a").await;
    assert_eq!(app.used("a").await, 2, "the agent may still work on both");
    let probe = job().deadline_ms(10_000).submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    node.result(&assign, "well again").await.unwrap();
    assert_eq!(done(&probe).await, "well again");
    eventually("it is closed", || breaker(&app) == BreakerView::Closed).await;
    // It runs nothing by its own word: nothing is left to lapse.
    node.heartbeat(serde_json::Value::Null).await.unwrap();
    super::until_used(&app, "a", 0).await;
    app.finish().await;
}
