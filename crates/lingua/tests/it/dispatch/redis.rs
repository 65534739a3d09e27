//! The scenarios on a real redis-server each, and those that need one.

use crate::app;
use crate::scenarios;

use std::time::Duration;

use app::jobs::{done, job, refused};
use app::{On, TestApp};
use lingua_core::job::JobState;
use lingua_engine::Settings;
use lingua_lab::fake_node::ConnectError;
use lingua_lab::{FakeNode, FaultProxy, RedisServer};
use lingua_store::redis;
use scenarios::{calm, eventually, options, report, scripted, take, view};
use serde_json::Value;

#[cfg(feature = "long")]
scenarios::scenarios!(crate::app::On::Redis);

/// What runs is delivered, what is new is refused at once, and all is well when the store is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_store_nothing_is_begun_and_nothing_is_lost() {
    let mut app = TestApp::start(On::Redis, calm()).await;
    let mut node = scripted(&app, "a").await;
    let running = job().submit(&app);
    let assign = take(&mut node).await;
    app::jobs::is(&running, JobState::Acked).await;
    app.redis.as_mut().unwrap().kill().unwrap();
    let store = app.engine.store().status.clone();
    eventually("the store is down", || !store.borrow().is_up()).await;
    let refusal = match job().try_submit(&app) {
        Err(refusal) => refusal,
        Ok(job) => refused(&job).await,
    };
    assert_eq!(refusal.code_text(), "SCHEDULER_DEPENDENCY_DOWN");
    assert!(refusal.retry_after_ms.is_some());
    let error = FakeNode::scripted(options(&app, "b")).await.unwrap_err();
    let told = error.downcast_ref::<ConnectError>().unwrap();
    let down = "SCHEDULER_DEPENDENCY_DOWN";
    assert!(matches!(told, ConnectError::Refused { code, .. } if code == down), "{told}");
    report(&app, &mut node, serde_json::json!({ "running": [scenarios::running(&assign)] })).await;
    node.result(&assign, "delivered").await.unwrap();
    assert_eq!(done(&running).await, "delivered");
    assert!(view(&app, "a").connected, "it stays connected all along");

    app.redis.as_mut().unwrap().restart().await.unwrap();
    eventually("the store is back", || store.borrow().is_up()).await;
    report(&app, &mut node, Value::Null).await;
    // The store lost its leases: for a moment nobody knows what the node may run.
    let begun = loop {
        let job = job().submit(&app);
        tokio::select! {
            assign = node.next_of("job_assign") => break (job, assign.unwrap()),
            () = job.until(|_| false) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        report(&app, &mut node, Value::Null).await;
    };
    node.result(&begun.1, "again").await.unwrap();
    assert_eq!(done(&begun.0).await, "again");
    app.finish().await;
}

/// What a node says while a second copy of its job is being placed is not lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_the_middle_of_a_hedge_counts() {
    let server = RedisServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.addr()).await.unwrap();
    let store = redis::open(&proxy.url(), redis::Options::default()).await.unwrap();
    let settings = Settings { hedge_after_ms: Some(300), ..calm() };
    let app = TestApp::over(store, "test-1", settings).await;
    let (mut slow, _spare) = (scripted(&app, "slow").await, scripted(&app, "spare").await);
    let job = job().prefer("slow").turn("t").submit(&app);
    let assign = take(&mut slow).await;
    app::jobs::is(&job, JobState::Acked).await;
    proxy.delay_downstream(Duration::from_millis(200));
    // The hedge begins at 300 ms and asks the store for the turn's node until 500.
    tokio::time::sleep(Duration::from_millis(400)).await;
    slow.result(&assign, "slow").await.unwrap();
    assert_eq!(done(&job).await, "slow");
    proxy.pass();
    app.finish().await;
}
