//! Agents of the field: no ack, no maximum, no list of what they run, and habits of their own.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_engine::job::Ended;
use lingua_engine::jobs::Job;
use lingua_lab::{Behaviour, FakeNode, ScriptedNode};
use serde_json::{Value, json};

use super::{calm, connect, hasty, options, scripted, short_leases, silent, view};
use crate::app::jobs::{attempts, done, ended, is, job, refused};
use crate::app::{On, TestApp};

async fn old(app: &TestApp, id: &str) -> ScriptedNode {
    connect(app, options(app, id).old_agent()).await
}

async fn empty(job: &Job) {
    match ended(job).await.ended.unwrap() {
        Ended::Empty { reason, .. } => assert_eq!(reason, "NO_TEXT_ASSIGNED"),
        other => panic!("ended with {:?}", other.code()),
    }
}

pub async fn a_send_counts_as_the_ack(on: On) {
    let app = TestApp::start(on, hasty()).await;
    let mut node = old(&app, "old").await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    assert!(assign["audio"].is_string(), "the audio is in the text");
    is(&job, JobState::Acked).await;
    // Much longer than an ack would be waited for.
    tokio::time::sleep(Duration::from_millis(600)).await;
    node.result(&assign, "old ways").await.unwrap();
    assert_eq!(done(&job).await, "old ways");
    node.hears_nothing_for(Duration::from_millis(100)).await.unwrap();
    app.finish().await;
}

pub async fn without_a_maximum_the_default_holds(on: On) {
    let app = TestApp::start(on, calm()).await;
    let behaviour = Behaviour::taking_ms(30);
    let node = FakeNode::connect(options(&app, "old").old_agent().behaviour(behaviour)).await;
    let node = node.unwrap();
    app.meets("old").await;
    assert_eq!(view(&app, "old").open_slots, 4);
    let jobs: Vec<_> = (0..20).map(|_| job().submit(&app)).collect();
    for job in &jobs {
        done(job).await;
    }
    let stats = node.stats();
    assert!(stats.highest_running <= 4, "{stats:?}");
    assert_eq!((stats.done, stats.errors), (20, 0), "{:?}", node.last_error());
    app.finish().await;
}

pub async fn its_heartbeats_keep_its_jobs_and_repeat_what_it_can_do(on: On) {
    let app = TestApp::start(on, short_leases()).await;
    let mut node = old(&app, "old").await;
    let epoch = view(&app, "old").epoch;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        node.heartbeat(Value::Null).await.unwrap();
        assert_eq!(app.used("old").await, 1);
    }
    node.result(&assign, "patience").await.unwrap();
    assert_eq!(done(&job).await, "patience");
    assert_eq!(view(&app, "old").epoch, epoch);
    app.finish().await;
}

pub async fn parts_without_a_result_of_their_own_end_empty_with_a_later_part(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = old(&app, "old").await;
    let mut parts = Vec::new();
    for index in 0..3 {
        let part = job().session("s").turn("t").index(index).submit(&app);
        let assign = node.next_of("job_assign").await.unwrap();
        is(&part, JobState::Acked).await;
        parts.push((part, assign));
    }
    let other = job().session("s").turn("other").index(3).submit(&app);
    let unrelated = node.next_of("job_assign").await.unwrap();
    let (closing, assign) = parts.pop().unwrap();
    node.result(&assign, "all of it").await.unwrap();
    assert_eq!(done(&closing).await, "all of it");
    for (part, _) in &parts {
        empty(part).await;
    }
    assert_eq!(other.view().ended.map(|_| ()), None, "another turn goes on");
    node.result(&unrelated, "x").await.unwrap();
    done(&other).await;
    assert_eq!(view(&app, "old").past.failed, 0);
    app.finish().await;
}

pub async fn a_part_with_a_result_of_its_own_does_not_end_those_after_it(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = old(&app, "old").await;
    let first = job().session("s").turn("t").index(0).submit(&app);
    let one = node.next_of("job_assign").await.unwrap();
    let second = job().session("s").turn("t").index(1).submit(&app);
    let two = node.next_of("job_assign").await.unwrap();
    node.result(&one, "first").await.unwrap();
    assert_eq!(done(&first).await, "first");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(second.view().state, JobState::Acked);
    node.result(&two, "second").await.unwrap();
    assert_eq!(done(&second).await, "second");
    app.finish().await;
}

pub async fn a_part_that_stays_without_a_result_ends_empty_and_is_no_failure(on: On) {
    let app = TestApp::start(on, {
        let mut settings = calm();
        settings.timing.exec_max_ms = 400;
        settings
    })
    .await;
    let mut node = old(&app, "old").await;
    let part = job().session("s").turn("t").submit(&app);
    node.next_of("job_assign").await.unwrap();
    empty(&part).await;
    assert_eq!((view(&app, "old").past.failed, app.used("old").await), (0, 0));
    // The same by the job's own deadline.
    let part = job().session("s").turn("u").deadline_ms(300).submit(&app);
    node.next_of("job_assign").await.unwrap();
    empty(&part).await;
    app.finish().await;
}

pub async fn a_duplicate_refusal_sends_the_job_elsewhere_without_blame(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = old(&app, "old").await;
    let mut other = scripted(&app, "other").await;
    let job = job().prefer("old").submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    node.fail(&assign, "DUPLICATE_UTTERANCE").await.unwrap();
    let again = super::take(&mut other).await;
    other.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(&job).await, "elsewhere");
    assert_eq!(view(&app, "old").past.failed, 0);
    app.finish().await;
}

pub async fn a_busy_result_is_a_refusal_and_not_a_failure(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = old(&app, "old").await;
    let mut other = silent(&app, "other").await;
    let job = job().prefer("old").submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    node.fail(&assign, "BUSY").await.unwrap();
    let again = other.next_of("job_assign").await.unwrap();
    other.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(&job).await, "elsewhere");
    assert_eq!(view(&app, "old").past.failed, 0);
    assert_eq!(attempts(&job).len(), 2);
    app.finish().await;
}

/// Every spelling found in the field is read; what is not known is passed over.
pub async fn its_spellings_are_lived_with(on: On) {
    let app = TestApp::start(on, calm()).await;
    let fields = json!({ "type": "register",
        "capability_by_type": [{ "type": "ASR", "ready": true }, { "type": "Punctuation" },
            { "type": "tone", "ready": false, "reason": null }],
        "installed_services": [{ "type": "SomethingNew", "device": "NPU", "status": "Odd" }],
        "hardware": { "memory_gb": 15.87 }, "brand_new_field": { "x": [] } });
    let mut node = connect(&app, options(&app, "old").old_agent().register_with(fields)).await;
    assert_eq!(node.registration().unwrap().status, "ready");
    let beat = json!({ "type": "heartbeat", "installed_services": null, "rerun_metrics": {},
        "resource_usage": { "gpu_percent": null, "cpu_percent": 3 } });
    node.heartbeat(beat).await.unwrap();
    let job = job().submit(&app);
    let assign = node.next().await.unwrap();
    assert_eq!(assign["type"], "job_assign", "no error before it");
    node.result(&assign, "understood").await.unwrap();
    assert_eq!(done(&job).await, "understood");
    app.finish().await;
}

/// It lists every installed service, also those that it does not run.
pub async fn its_languages_decide_and_not_what_it_lists_as_stopped(on: On) {
    let app = TestApp::start(on, calm()).await;
    let stopped = json!({ "capability_by_type": [{ "type": "asr", "ready": true },
        { "type": "semantic", "ready": false, "reason": "stopped" }, { "type": "tone", "ready": false }] });
    let mut node = connect(&app, options(&app, "old").old_agent().register_with(stopped)).await;
    assert_eq!(node.registration().unwrap().status, "ready");
    let why = view(&app, "old").why_idle;
    assert!(why.contains(&"services that are not ready: semantic, tone".to_owned()), "{why:?}");
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    node.result(&assign, "repaired").await.unwrap();
    assert_eq!(done(&job).await, "repaired");
    app.finish().await;
}

pub async fn it_may_register_before_its_services_run(on: On) {
    let app = TestApp::start(on, calm()).await;
    let nothing = |ready: bool, langs: &[&str]| {
        json!({ "capability_by_type": [{ "type": "asr", "ready": ready }, { "type": "semantic", "ready": ready }],
            "language_capabilities": { "asr_languages": langs, "semantic_languages": langs,
                "tts_languages": langs, "semantic_core_ready": ready } })
    };
    let cold = options(&app, "old").old_agent().register_with(nothing(false, &[]));
    let mut node = FakeNode::scripted(cold).await.unwrap();
    assert_eq!(node.registration().unwrap().status, "registering");
    app.follows("old").await;
    let why = view(&app, "old").why_idle;
    assert!(why.contains(&"services that are not ready: asr, semantic".to_owned()), "{why:?}");
    let refusal = refused(&job().submit(&app)).await;
    assert_eq!(refusal.code_text(), "NO_CAPABLE_NODE");
    assert!(
        refusal.detail.contains("listed as not ready: semantic on 1 node"),
        "{}",
        refusal.detail
    );
    node.heartbeat(nothing(true, &["en", "zh"])).await.unwrap();
    let chosen_as = || {
        let fleet = app.engine.fleet().lock();
        fleet.get(&super::id("old")).map(|node| node.standing().health)
    };
    let ready = || chosen_as() == Some(lingua_core::node::Health::Ready);
    super::eventually("its services run", ready).await;
    let job = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    node.result(&assign, "warm").await.unwrap();
    assert_eq!(done(&job).await, "warm");
    app.finish().await;
}

/// A figure of one moment says little of an agent that reports every 15 s.
pub async fn it_is_overloaded_after_two_reports_in_a_row(on: On) {
    let app = TestApp::start(on, calm()).await;
    let node = old(&app, "old").await;
    let report = |percent: f64| json!({ "resource_usage": { "mem_percent": percent } });
    let shown = || view(app.of_nodes(), "old").detail.percents.mem;
    for (percent, overloaded) in [(99.0, false), (50.0, false), (98.0, false), (97.0, true)] {
        node.heartbeat(report(percent)).await.unwrap();
        super::eventually("it is reported", || shown() == Some(percent)).await;
        assert_eq!(view(app.of_nodes(), "old").overloaded, overloaded, "at {percent}");
    }
    app.follows("old").await;
    let job = job().submit(&app);
    let mut node = node;
    let assign = node.next_of("job_assign").await.unwrap();
    node.result(&assign, "hot").await.unwrap();
    assert_eq!(done(&job).await, "hot", "there is no other");
    app.finish().await;
}

/// Takes as many jobs as it has slots, loses its connection and comes back after they were given up.
async fn breaks_under_load(app: &TestApp) -> ScriptedNode {
    let mut node = old(app, "old").await;
    let jobs: Vec<_> = (0..4).map(|_| job().submit(app)).collect();
    for job in &jobs {
        node.next_of("job_assign").await.unwrap();
        is(job, JobState::Acked).await;
    }
    node.abort();
    for job in &jobs {
        assert_eq!(crate::app::jobs::code(job).await, "NODE_UNAVAILABLE");
    }
    old(app, "old").await
}

fn short_grace() -> lingua_engine::Settings {
    let mut settings = calm();
    settings.reconnect_grace_ms = 200;
    settings.timing.queue_max_ms = 1_000;
    settings
}

/// Its leases last for 45 s, and four failures in a row would open its breaker.
pub async fn a_line_that_breaks_under_load_costs_neither_slots_nor_trust(on: On) {
    let app = TestApp::start(on, short_grace()).await;
    let mut node = breaks_under_load(&app).await;
    let began = tokio::time::Instant::now();
    node.heartbeat(json!({ "resource_usage": { "running_jobs": 0 } })).await.unwrap();
    super::until_used(&app, "old", 0).await;
    app.meets("old").await;
    assert_eq!(view(&app, "old").breaker, lingua_engine::nodes::BreakerView::Closed);
    let jobs: Vec<_> = (0..4).map(|_| job().submit(&app)).collect();
    for _ in 0..4 {
        let assign = node.next_of("job_assign").await.unwrap();
        node.result(&assign, "back").await.unwrap();
    }
    for job in &jobs {
        assert_eq!(done(job).await, "back");
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    app.finish().await;
}

/// What it may still run keeps its slot.
pub async fn as_many_slots_stay_taken_as_it_says_that_it_runs_jobs(on: On) {
    let app = TestApp::start(on, short_grace()).await;
    let mut node = breaks_under_load(&app).await;
    node.heartbeat(json!({ "resource_usage": { "running_jobs": 3 } })).await.unwrap();
    super::until_used(&app, "old", 3).await;
    let first = job().submit(&app);
    let assign = node.next_of("job_assign").await.unwrap();
    assert_eq!(crate::app::jobs::code(&job().submit(&app)).await, "ALL_NODES_BUSY");
    node.result(&assign, "beside them").await.unwrap();
    assert_eq!(done(&first).await, "beside them");
    node.heartbeat(json!({ "resource_usage": { "running_jobs": 0 } })).await.unwrap();
    super::until_used(&app, "old", 0).await;
    app.finish().await;
}
