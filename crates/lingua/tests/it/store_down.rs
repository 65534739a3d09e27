//! A store that goes away and comes back: refused fast, nothing oversold, nothing restarted.

use crate::app;

use std::time::Duration;

use app::{On, TestApp, quick};
use lingua_lab::{Behaviour, FakeNode, HttpClient, NodeOptions};
use serde_json::{Value, json};
use tokio::time::Instant;

fn client(app: &TestApp) -> HttpClient {
    HttpClient::new(app.http("")).limit(Duration::from_secs(20))
}

fn job(wait_ms: u64) -> Value {
    json!({
        "session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
        "options": {"wait_ms": wait_ms},
    })
}

async fn node(app: &TestApp, id: &str, slots: u32, takes_ms: u64, old: bool) -> FakeNode {
    let options = NodeOptions {
        url: app.ws("/ws/node"),
        node_id: Some(id.to_owned()),
        max_concurrent_jobs: (!old).then_some(slots),
        report_running: true,
        old_agent: old,
        behaviour: Behaviour::taking_ms(takes_ms),
        ..NodeOptions::default()
    };
    FakeNode::connect(options).await.unwrap()
}

/// Asks until a job is done; how long that took.
async fn until_dispatched(client: &HttpClient, limit: Duration) -> Duration {
    let began = Instant::now();
    loop {
        let reply = client.post("/v1/dispatch/f2f", &job(5_000)).await.unwrap();
        if reply.status == 200 && reply.json().unwrap()["job"]["state"] == "DONE" {
            return began.elapsed();
        }
        assert!(began.elapsed() < limit, "still refused after {limit:?}: {}", reply.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The store is gone for a while; `empty` brings it back without its data.
async fn outage(empty: bool) {
    let mut settings = quick();
    settings.timing.exec_max_ms = 8_000;
    settings.timing.deadline_ms = 12_000;
    let mut app = TestApp::start(On::Redis, settings).await;
    let client = client(&app);
    // Busy all along: its one slot is taken before the outage and until well after it.
    let busy = node(&app, "busy", 1, 4_500, false).await;
    let running = {
        let client = client.clone();
        tokio::spawn(async move { client.post("/v1/dispatch/f2f", &job(15_000)).await.unwrap() })
    };
    while busy.stats().running == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let free = node(&app, "free", 2, 20, false).await;
    until_dispatched(&client, Duration::from_secs(2)).await;

    app.redis.as_mut().unwrap().kill().unwrap();
    let began = Instant::now();
    let reply = client.post("/v1/dispatch/f2f", &job(5_000)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "refused after {:?}", began.elapsed());
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert_eq!(reply.json().unwrap()["error"], "SCHEDULER_DEPENDENCY_DOWN");
    let ready = client.get("/ready").await.unwrap();
    assert_eq!(ready.status, 503, "{}", ready.text());

    tokio::time::sleep(Duration::from_millis(1_500)).await;
    app.redis.as_mut().unwrap().restart().await.unwrap();
    if empty {
        app.redis.as_ref().unwrap().command(&["FLUSHALL"]).await.unwrap();
    }
    let back = until_dispatched(&client, Duration::from_secs(8)).await;
    assert!(back < Duration::from_secs(5), "dispatched again only after {back:?}");

    // What ran all along ended well, and the busy node never had a second job.
    let reply = running.await.unwrap();
    assert_eq!(reply.json().unwrap()["job"]["state"], "DONE", "{}", reply.text());
    assert_eq!((busy.stats().highest_running, busy.stats().breaches), (1, 0));
    assert_eq!(free.stats().breaches, 0);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_refused_fast_and_dispatch_goes_on_when_the_store_is_back() {
    outage(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_comes_back_empty_oversells_nobody_and_dispatch_goes_on() {
    outage(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_agent_that_cannot_report_waits_for_the_quarantine() {
    let mut settings = quick();
    settings.default_max_slots = 1;
    let mut app = TestApp::start(On::Redis, settings).await;
    let client = client(&app);
    let old = node(&app, "old", 1, 20, true).await;
    until_dispatched(&client, Duration::from_secs(2)).await;
    app.redis.as_mut().unwrap().kill().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    app.redis.as_mut().unwrap().restart().await.unwrap();
    app.redis.as_ref().unwrap().command(&["FLUSHALL"]).await.unwrap();
    let back = until_dispatched(&client, Duration::from_secs(15)).await;
    assert!(back > Duration::from_secs(2), "without a quarantine: after {back:?}");
    assert_eq!(old.stats().breaches, 0);
    app.finish().await;
}
