//! What an administrator wants of a node, and what a node says of its own health.

use lingua_core::node::Health;
use lingua_engine::nodes::Order;
use lingua_lab::FakeNode;
use lingua_lab::fake_node::ConnectError;
use serde_json::json;

use super::{calm, eventually, id, options, report, running, scripted, take, view};
use crate::app::jobs::{code, done, job};
use crate::app::{On, TestApp};

pub async fn a_drained_node_finishes_what_it_has_and_gets_nothing_new(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let running = job().submit(&app);
    let assign = take(&mut node).await;
    assert!(app.engine.order_node(&id("a"), Order::Drain).await.unwrap());
    assert_eq!(node.next_of("node_control").await.unwrap()["command"], "drain");
    assert_eq!(code(&job().submit(&app)).await, "NO_CAPABLE_NODE");
    node.result(&assign, "finished").await.unwrap();
    assert_eq!(done(&running).await, "finished");
    // Coming back does not undo it.
    let mut again = scripted(&app, "a").await;
    assert_eq!(code(&job().submit(&app)).await, "NO_CAPABLE_NODE");
    assert!(app.engine.order_node(&id("a"), Order::Serve).await.unwrap());
    assert_eq!(again.next_of("node_control").await.unwrap()["command"], "resume");
    eventually("all know it", || view(&app, "a").health == Health::Ready).await;
    let job = job().submit(&app);
    let assign = take(&mut again).await;
    again.result(&assign, "resumed").await.unwrap();
    assert_eq!(done(&job).await, "resumed");
    app.finish().await;
}

pub async fn a_blocked_node_is_shut_out_until_it_is_let_in(on: On) {
    let app = TestApp::start(on, calm()).await;
    let node = scripted(&app, "a").await;
    assert!(app.engine.order_node(&id("a"), Order::Block).await.unwrap());
    assert_eq!(node.closed().await.unwrap().code, Some(1008));
    eventually("it is gone", || !view(&app, "a").connected).await;
    let mut again = FakeNode::unregistered(options(&app, "a")).await.unwrap();
    let error = again.register().await.unwrap_err();
    let refused = error.downcast_ref::<ConnectError>().unwrap();
    assert!(matches!(refused, ConnectError::Refused { code, .. } if code == "FORBIDDEN"));
    assert_eq!(again.closed().await.unwrap().code, Some(1008));
    assert!(app.engine.order_node(&id("a"), Order::Serve).await.unwrap());
    let mut node = scripted(&app, "a").await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "back in").await.unwrap();
    assert_eq!(done(&job).await, "back in");
    assert!(!app.engine.order_node(&id("nobody"), Order::Drain).await.unwrap());
    app.finish().await;
}

pub async fn a_node_may_drain_itself(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let begun = job().submit(&app);
    let assign = take(&mut node).await;
    let passes = |health: &str| health == "degraded" || health == "registering";
    for health in ["draining", "degraded", "offline", "registering"] {
        report(&app, &mut node, json!({ "health": health, "running": [running(&assign)] })).await;
        assert_eq!(view(&app, "a").health.as_str(), health);
        let told = if passes(health) { "NODE_UNAVAILABLE" } else { "NO_CAPABLE_NODE" };
        assert_eq!(code(&job().submit(&app)).await, told, "{health}");
    }
    node.result(&assign, "finished").await.unwrap();
    assert_eq!(done(&begun).await, "finished");
    report(&app, &mut node, json!({ "health": "READY" })).await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "ready").await.unwrap();
    assert_eq!(done(&job).await, "ready");
    app.finish().await;
}

pub async fn a_nodes_own_error_is_shown(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    node.send(json!({ "type": "node_error", "node_id": "a", "code": "GPU_HOT",
        "message": "93 degrees", "details": { "gpu": 0 } }))
        .await
        .unwrap();
    report(&app, &mut node, serde_json::Value::Null).await;
    let shown = view(app.of_nodes(), "a").detail.last_error.clone().unwrap();
    assert!(shown.contains("GPU_HOT") && shown.contains("93 degrees"), "{shown}");
    app.finish().await;
}
