//! How much of what others say reaches the store, counted by a real redis-server.

use std::time::Duration;

use lingua_lab::fake_node::ConnectError;
use lingua_lab::{FakeNode, RedisServer, ScriptedNode};
use serde_json::{Value, json};

use crate::app::http::Api;
use crate::app::jobs::job;
use crate::app::{On, TestApp, calm};
use crate::scenarios::{eventually, id, options, scripted};

/// Commands that the server has done so far, those inside of scripts counted.
async fn commands(redis: &RedisServer) -> u64 {
    let said = redis.info("stats", "total_commands_processed").await.unwrap();
    said.unwrap().parse().unwrap()
}

/// Commands of the server while `work` lasts.
async fn during<T>(app: &TestApp, work: impl Future<Output = T>) -> (u64, T) {
    let redis = app.redis.as_ref().unwrap();
    let before = commands(redis).await;
    let done = work.await;
    (commands(redis).await - before, done)
}

/// A node that has nothing else to do than to be a nuisance.
async fn nuisance(app: &TestApp) -> ScriptedNode {
    scripted(app, "liar").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_registers_again_and_again_is_refused_before_it_reaches_the_store() {
    let app = TestApp::start(On::Redis, calm()).await;
    let mut node = nuisance(&app).await;
    let (cost, ()) = during(&app, async {
        // A minute's worth at once; then it is refused, and shown the door after twenty times.
        for _ in 0..200 {
            let _ = node.register().await;
        }
        assert_eq!(node.closed().await.unwrap().code, Some(1008));
    })
    .await;
    assert!(cost < 60 * 40, "{cost} commands for one minute's worth of registrations");
    let (cost, ()) = during(&app, async {
        for _ in 0..200 {
            let error = FakeNode::scripted(options(&app, "liar")).await.unwrap_err();
            let told = error.downcast_ref::<ConnectError>().unwrap();
            assert!(
                matches!(told, ConnectError::Refused { code, .. } if code == "RATE_LIMITED"),
                "{told}"
            );
        }
    })
    .await;
    assert!(cost < 1_000, "{cost} commands for 200 refused registrations");
    assert!(app.counter("lingua_limited_total{limit=\"node_registrations_per_min\"}") >= 200);
    let _other = scripted(&app, "honest").await;
    app.finish().await;
}

/// The last word is what the store knows in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abilities_that_change_again_and_again_are_written_together() {
    const CHANGES: u64 = 1_500;
    let app = TestApp::start(On::Redis, calm()).await;
    let mut node = nuisance(&app).await;
    let began = tokio::time::Instant::now();
    let (cost, ()) = during(&app, async {
        for n in 0..CHANGES {
            node.heartbeat(json!({ "max_concurrent_jobs": 1 + n % 7 })).await.unwrap();
        }
        for _ in 0..CHANGES {
            node.next_of("heartbeat_ack").await.unwrap();
        }
    })
    .await;
    let seconds = 1 + began.elapsed().as_secs();
    // At most ten at once and ten a second, and what an instance asks for by itself.
    let most = (10 + 10 * seconds) * 40 + 100 * seconds;
    assert!(cost < most, "{cost} commands for {CHANGES} changes in {seconds} s, at most {most}");
    assert!(app.counter("lingua_limited_total{limit=\"node_updates_per_s\"}") > 0);
    let store = app.engine.store().clone();
    let last = u32::try_from(1 + (CHANGES - 1) % 7).unwrap();
    for _ in 0..500 {
        if store.nodes.get(&id("liar")).await.unwrap().unwrap().profile.max_slots == last {
            return app.finish().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the last word of the node was not written down");
}

fn unknown_jobs(app: &TestApp, count: usize) -> Value {
    let unknown = |_| json!({ "job_id": job().spec(app).id.to_string(), "attempt_id": 1 });
    (0..count).map(unknown).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_nobody_knows_are_looked_up_at_a_bounded_rate() {
    let app = TestApp::start(On::Redis, calm()).await;
    let mut node = nuisance(&app).await;
    let began = tokio::time::Instant::now();
    let (cost, refused) = during(&app, async {
        let mut refused = 0;
        for _ in 0..40 {
            node.heartbeat(json!({ "running": unknown_jobs(&app, 200) })).await.unwrap();
            let answer = loop {
                let said = node.next().await.unwrap();
                if said["type"] != "job_cancel" {
                    break said;
                }
            };
            if answer["type"] == "error" {
                assert_eq!(answer["code"], "RATE_LIMITED", "{}", answer.message);
                refused += 1;
            }
        }
        // One job that is named a thousand times is one job.
        let one = unknown_jobs(&app, 1)[0].clone();
        node.heartbeat(json!({ "running": vec![one; 1_000] })).await.unwrap();
        refused
    })
    .await;
    let seconds = 1 + began.elapsed().as_secs();
    let most = (512 + 64 * seconds) * 5 + 1_000 * seconds;
    assert!(cost < most, "{cost} commands for 8,000 unknown jobs in {seconds} s, at most {most}");
    assert!(refused >= 30, "{refused} of 40 reports were refused");
    assert!(app.counter("lingua_limited_total{limit=\"node_lookups_per_s\"}") >= refused);
    assert!(app.engine.node_view(&id("liar")).unwrap().connected, "it lives all the same");
    app.finish().await;
}

/// Results of jobs that are not here are looked up too, in case their instance is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_jobs_that_nobody_knows_are_looked_up_at_a_bounded_rate() {
    let app = TestApp::start(On::Redis, calm()).await;
    let node = nuisance(&app).await;
    let (cost, ()) = during(&app, async {
        for _ in 0..3_000 {
            let id = job().spec(&app).id.to_string();
            let result = json!({ "type": "job_result", "job_id": id, "attempt_id": 1,
                "lease_token": "00", "success": true });
            node.send(result).await.unwrap();
        }
        let limited = || app.counter("lingua_limited_total{limit=\"node_lookups_per_s\"}") > 1_000;
        eventually("it met the limit", limited).await;
        // They are looked up a moment later.
        tokio::time::sleep(Duration::from_millis(2_000)).await;
    })
    .await;
    assert!(cost < 8_000, "{cost} commands for 3,000 results that nobody asked for");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_leaves_nothing_in_the_store() {
    let mut settings = calm();
    settings.admission.jobs_per_tenant_per_s = 1;
    let app = TestApp::start(On::Redis, settings).await;
    let api = Api::of(&app).await;
    let redis = app.redis.as_ref().unwrap();
    let mut codes = Vec::new();
    for n in 0..4 {
        let request = json!({ "session_id": "s", "src_lang": "en", "tgt_lang": "zh",
            "audio": "AAEC", "request_id": format!("r-{n}") });
        let reply = api.post("/v1/dispatch/f2f", &request).await;
        codes.push(reply.body["error"].as_str().unwrap().to_owned());
    }
    assert_eq!(codes[0], "NO_CAPABLE_NODE");
    assert!(codes[1..].contains(&"RATE_LIMITED".to_owned()), "{codes:?}");
    let keys = redis.command(&["KEYS", "*{r:*"]).await.unwrap();
    assert_eq!(keys.text(), "", "what is left of refused requests");
    app.finish().await;
}
