//! Nodes that miss a model.

use lingua_engine::Settings;
use lingua_engine::nodes::BreakerView;
use lingua_lab::ScriptedNode;
use serde_json::{Value, json};

use super::{calm, connect, eventually, metric, options, scripted, take, view};
use crate::app::jobs::{attempts, code, done, ended, job};
use crate::app::{On, TestApp};

async fn misses(node: &ScriptedNode, assign: &Value, model: &str) {
    let fields = json!({ "reason": "MODEL_NOT_AVAILABLE", "details": { "model": model } });
    node.about(assign, "job_reject", fields).await.unwrap();
}

fn gaps(app: &TestApp, followed: &str) -> u64 {
    metric(app, &format!("lingua_model_gaps_total{{followed=\"{followed}\"}}"))
}

pub async fn a_missing_model_is_remembered_and_the_job_goes_elsewhere(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let first = job().prefer("a").submit(&app);
    let assign = a.next_of("job_assign").await.unwrap();
    misses(&a, &assign, "nmt-en-zh").await;
    let again = take(&mut b).await;
    b.result(&again, "elsewhere").await.unwrap();
    assert_eq!(done(&first).await, "elsewhere");
    assert_eq!(attempts(&first)[0], ("a".into(), "MODEL_NOT_AVAILABLE".into()));
    assert_eq!(view(&app, "a").missing_models, ["nmt-en-zh"]);
    assert_eq!((view(&app, "a").past.failed, view(&app, "a").breaker), (0, BreakerView::Closed));
    let update = a.next_of("node_control").await.unwrap();
    assert_eq!(update["command"], "update");
    // Not asked for this direction again, also by who prefers it; asked for others.
    let second = job().prefer("a").submit(&app);
    let assign = take(&mut b).await;
    b.result(&assign, "elsewhere").await.unwrap();
    done(&second).await;
    let reverse = job().prefer("a").pair("zh", "en").submit(&app);
    let assign = take(&mut a).await;
    a.result(&assign, "mine").await.unwrap();
    assert_eq!(done(&reverse).await, "mine");
    let record = app.engine.store().nodes.get(&super::id("a")).await.unwrap().unwrap();
    assert_eq!(record.gaps.len(), 1, "other instances know it too");
    app.finish().await;
}

pub async fn a_missing_model_is_told_by_a_failed_result_too(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut old = connect(&app, options(&app, "old").old_agent()).await;
    let job = job().submit(&app);
    let assign = old.next_of("job_assign").await.unwrap();
    let error = json!({ "code": "MODEL_NOT_AVAILABLE", "message": "no",
        "details": { "model_id": "m2m100", "version": "1.0" } });
    old.about(&assign, "job_result", json!({ "success": false, "error": error })).await.unwrap();
    assert_eq!(code(&job).await, "MODEL_NOT_AVAILABLE");
    assert_eq!(view(&app, "old").missing_models, ["m2m100.1.0"]);
    assert_eq!(view(&app, "old").breaker, BreakerView::Closed);
    app.finish().await;
}

pub async fn each_node_that_misses_a_model_is_told_and_people_once(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(scripted(&app, name).await);
    }
    for node in &mut nodes {
        let job = job().only(node.node_id()).submit(&app);
        let assign = node.next_of("job_assign").await.unwrap();
        misses(node, &assign, "same-model").await;
        assert_eq!(code(&job).await, "MODEL_NOT_AVAILABLE");
        let told = node.next_of("node_control").await.unwrap();
        assert_eq!(told["command"], "update", "each node that misses it is told");
    }
    eventually("three reports", || gaps(&app, "reacted") + gaps(&app, "debounced") == 3).await;
    assert_eq!((gaps(&app, "reacted"), gaps(&app, "debounced")), (1, 2));
    app.finish().await;
}

pub async fn a_gap_is_forgotten_after_a_while(on: On) {
    let gaps = lingua_engine::settings::GapPolicy { remember_ms: 500, ..calm().gaps };
    let app = TestApp::start(on, Settings { gaps, ..calm() }).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let first = job().prefer("a").submit(&app);
    let assign = a.next_of("job_assign").await.unwrap();
    misses(&a, &assign, "m").await;
    let assign = take(&mut b).await;
    b.result(&assign, "elsewhere").await.unwrap();
    done(&first).await;
    eventually("it is not shown any more", || view(&app, "a").missing_models.is_empty()).await;
    let second = job().prefer("a").submit(&app);
    let assign = take(&mut a).await;
    a.result(&assign, "installed").await.unwrap();
    assert_eq!(done(&second).await, "installed");
    app.finish().await;
}

pub async fn when_all_able_nodes_are_marked_the_oldest_mark_is_tried(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let first = job().prefer("a").submit(&app);
    let assign = a.next_of("job_assign").await.unwrap();
    misses(&a, &assign, "m").await;
    let assign = b.next_of("job_assign").await.unwrap();
    misses(&b, &assign, "m").await;
    assert_eq!(code(&first).await, "MODEL_NOT_AVAILABLE");
    // The mark of "a" is older, and it has the model by now.
    let second = job().submit(&app);
    let assign = take(&mut a).await;
    a.result(&assign, "installed").await.unwrap();
    assert_eq!(done(&second).await, "installed");
    // Then it misses it again, and the mark of "b" is the older one.
    let third = job().submit(&app);
    let assign = a.next_of("job_assign").await.unwrap();
    misses(&a, &assign, "m").await;
    let assign = take(&mut b).await;
    b.result(&assign, "mine").await.unwrap();
    assert_eq!(done(&third).await, "mine");
    app.finish().await;
}

/// As existing agents say it: by the service, and in every heartbeat which services run.
pub async fn a_service_that_runs_again_ends_the_mark(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut old = connect(&app, options(&app, "old").old_agent()).await;
    let mut other = scripted(&app, "other").await;
    let services = |status: &str| {
        let listed = json!([{ "service_id": "nmt-m2m100", "type": "NMT", "status": status },
            { "service_id": 7 }]);
        json!({ "installed_services": listed })
    };
    // A job that asks before its instance knows the node's new record goes elsewhere.
    let known = |running: bool| {
        let inventory = &view(&app, "old").profile.inventory;
        let runs = inventory.running_services();
        inventory.services.is_some() && runs.contains(&"nmt-m2m100".to_owned()) == running
    };
    old.heartbeat(services("stopped")).await.unwrap();
    eventually("the service is known as stopped", || known(false)).await;
    let first = job().prefer("old").submit(&app);
    let assign = old.next_of("job_assign").await.unwrap();
    let error = json!({ "code": "MODEL_NOT_AVAILABLE", "message": "not running",
        "details": { "service_id": "nmt-m2m100", "reason": "service_not_running" } });
    old.about(&assign, "job_result", json!({ "success": false, "error": error })).await.unwrap();
    let assign = take(&mut other).await;
    other.result(&assign, "elsewhere").await.unwrap();
    assert_eq!(done(&first).await, "elsewhere");
    assert_eq!(view(&app, "old").missing_models, ["nmt-m2m100"]);
    let second = job().prefer("old").submit(&app);
    let assign = take(&mut other).await;
    other.result(&assign, "marked").await.unwrap();
    assert_eq!(done(&second).await, "marked");
    old.heartbeat(services("Running")).await.unwrap();
    eventually("the mark is gone", || view(&app, "old").missing_models.is_empty()).await;
    eventually("the service is known as running", || known(true)).await;
    let third = job().prefer("old").submit(&app);
    let assign = old.next_of("job_assign").await.unwrap();
    old.result(&assign, "runs").await.unwrap();
    assert_eq!(done(&third).await, "runs");
    app.finish().await;
}

pub async fn a_node_that_floods_with_gaps_is_left_alone(on: On) {
    let mut settings = calm();
    settings.gaps.report_burst = 2;
    settings.gaps.report_interval_ms = 60_000;
    settings.breaker.failures = 2;
    settings.breaker.first_pause_ms = 60_000;
    let app = TestApp::start(on, settings).await;
    let mut node = connect(&app, options(&app, "a").languages(&["en", "zh", "de", "fr"])).await;
    for (src, tgt) in [("en", "zh"), ("zh", "en"), ("en", "de"), ("de", "en")] {
        let job = job().pair(src, tgt).submit(&app);
        let assign = node.next_of("job_assign").await.unwrap();
        misses(&node, &assign, &format!("nmt-{src}-{tgt}")).await;
        ended(&job).await;
    }
    eventually("two are too many", || gaps(&app, "limited") == 2).await;
    eventually("it is left alone", || {
        matches!(view(app.of_nodes(), "a").breaker, BreakerView::Open { .. })
    })
    .await;
    assert_eq!(view(&app, "a").missing_models.len(), 4, "the facts are kept all the same");
    app.finish().await;
}
