//! How much of what others say reaches the store, counted by a real redis-server.

use std::time::Duration;

use lingua_core::JobId;
use lingua_engine::Settings;
use lingua_lab::fake_node::ConnectError;
use lingua_lab::{FakeNode, HttpClient, NodeOptions, RedisServer, ScriptedNode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::app::http::Api;
use crate::app::jobs::job;
use crate::app::{On, TestApp, calm};
use crate::process::Lingua;
use crate::scenarios::{connect, eventually, id, options, scripted, take};

/// How long a test waits for something that is bound to happen.
const PATIENCE: Duration = Duration::from_secs(45);

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
        node.closed().await.unwrap();
    })
    .await;
    assert!(cost < 60 * 40, "{cost} commands for one minute's worth of registrations");
    let (cost, refused) = during(&app, async {
        let mut refused = 0;
        for _ in 0..200 {
            // What is left of the minute is let in, and one a second.
            let Err(error) = FakeNode::scripted(options(&app, "liar")).await else { continue };
            refused += 1;
            let told = error.downcast_ref::<ConnectError>().unwrap();
            assert!(
                matches!(told, ConnectError::Refused { code, .. } if code == "RATE_LIMITED"),
                "{told}"
            );
        }
        refused
    })
    .await;
    assert!(refused > 100, "{refused} of 200 registrations were refused");
    assert!(cost < 3_000, "{cost} commands for {refused} refused registrations");
    assert!(app.counter("lingua_limited_total{limit=\"node_registrations_per_min\"}") >= refused);
    let _other = scripted(&app, "honest").await;
    app.finish().await;
}

/// The last word is what the store knows in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abilities_that_change_again_and_again_are_written_together() {
    const CHANGES: u64 = 1_500;
    let mut settings = calm();
    settings.node_limits.updates_per_s = 2;
    let app = TestApp::start(On::Redis, settings).await;
    let mut node = nuisance(&app).await;
    let began = Instant::now();
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
    // At most two at once and two a second, and what an instance asks for by itself.
    let most = (2 + 2 * seconds) * 40 + 200 * seconds;
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
    let began = Instant::now();
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

/// Two instances over one redis-server.
async fn two(settings: Settings) -> (TestApp, TestApp) {
    let one = TestApp::start(On::Redis, settings.clone()).await;
    let two = TestApp::over(one.engine.store().clone(), "test-2", settings).await;
    let met = || one.engine.peers().len() == 1 && two.engine.peers().len() == 1;
    eventually("they see each other", met).await;
    (one, two)
}

fn job_path(id: JobId, wait_ms: u64) -> String {
    format!("/v1/job/{id}?wait_ms={wait_ms}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_jobs_of_another_instance_does_not_poll_the_store() {
    const JOBS: usize = 20;
    const CALLS: usize = 5;
    let (one, two) = two(calm()).await;
    let mut node = connect(&one, options(&one, "a").max_jobs(64)).await;
    let (mut jobs, mut assigns) = (Vec::new(), Vec::new());
    for _ in 0..JOBS {
        jobs.push(job().submit(&one));
        assigns.push(take(&mut node).await);
    }
    let api = Api::of(&two).await;
    let (quiet, ()) = during(&one, tokio::time::sleep(Duration::from_secs(3))).await;
    let mut calls = JoinSet::new();
    for id in jobs.iter().map(|job| job.id).cycle().take(JOBS * CALLS) {
        let api = api.clone();
        calls.spawn(async move { api.get(&job_path(id, 30_000)).await });
    }
    eventually("all wait", || one.counter("lingua_bus_words_total{what=\"received\"}") > 0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (waiting, ()) = during(&one, tokio::time::sleep(Duration::from_secs(3))).await;
    // Each call took 49 commands a second.
    let more = waiting.saturating_sub(quiet);
    assert!(more < 600, "{more} commands in 3 s for {} calls that wait", JOBS * CALLS);
    let began = Instant::now();
    for assign in &assigns {
        node.result(assign, "done").await.unwrap();
    }
    while let Some(reply) = calls.join_next().await {
        let reply = reply.unwrap();
        assert_eq!((reply.status, &reply.body["state"]), (200, &json!("DONE")), "{}", reply.body);
    }
    // Sooner than any reading of the record would have told.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    two.finish().await;
    one.finish().await;
}

/// Whether an instance has heard something of another.
async fn has_heard(client: &HttpClient) -> bool {
    let text = client.get("/metrics").await.unwrap().text();
    let words = "lingua_bus_words_total{what=\"received\"} ";
    text.lines().filter_map(|line| line.strip_prefix(words)).any(|count| count != "0")
}

/// The one that promised to tell is killed: the record is read until another instance has ended the
/// job at its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_instance_was_killed_is_waited_for_all_the_same() {
    let redis = RedisServer::start().await.unwrap();
    let url = redis.url();
    let start = |id: &str| {
        Lingua::start(&["serve", "--listen", "127.0.0.1:0", "--store", &url, "--instance-id", id])
    };
    let (one, two) = (start("one"), start("two"));
    let clients =
        [&one, &two].map(|lingua| HttpClient::new(format!("http://{}", lingua.address())));
    let node = NodeOptions::new(format!("ws://{}/ws/node", one.address())).node_id("a");
    // A process this young does not vouch for a node that does not say what it runs.
    let node = node.register_with(json!({ "running": [] }));
    let mut node = FakeNode::scripted(node).await.unwrap();
    let request = json!({ "session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEC",
        "options": { "deadline_ms": 8_000 } });
    let handed_in = clients[0].post("/v1/dispatch/f2f", &request).await.unwrap().ok().unwrap();
    take(&mut node).await;
    let path = format!("/v1/job/{}?wait_ms=40000", handed_in["job_id"].as_str().unwrap());
    let caller = HttpClient::new(format!("http://{}", two.address())).limit(PATIENCE);
    let call = tokio::spawn(async move { caller.get(&path).await.unwrap().ok().unwrap() });
    let end = Instant::now() + PATIENCE;
    // A job is watched by all instances once it has been open for a moment.
    let watched = async || {
        !redis.command(&["KEYS", "lingua:v1:deadlines:*"]).await.unwrap().text().is_empty()
    };
    while !has_heard(&clients[1]).await || !watched().await {
        assert!(Instant::now() < end, "nobody promised to tell");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    one.signal("KILL");
    let told = call.await.unwrap();
    assert_eq!(told["state"], "FAILED", "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_jobs_of_another_instance_are_waited_for_and_no_more() {
    let mut settings = calm();
    settings.watches.per_tenant = 2;
    let (one, two) = two(settings).await;
    let mut node = scripted(&one, "a").await;
    let (mut jobs, mut assigns) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        jobs.push(job().submit(&one));
        assigns.push(take(&mut node).await);
    }
    let api = Api::of(&two).await;
    let mut calls = JoinSet::new();
    for job in &jobs[..2] {
        let (api, id) = (api.clone(), job.id);
        calls.spawn(async move { api.get(&job_path(id, 20_000)).await });
    }
    let words = || one.counter("lingua_bus_words_total{what=\"received\"}") >= 2;
    eventually("both wait", words).await;
    let refused = api.get(&job_path(jobs[2].id, 20_000)).await;
    assert_eq!((refused.status, &refused.body["error"]), (429, &json!("QUOTA_EXCEEDED")));
    assert_eq!(api.get(&job_path(jobs[2].id, 0)).await.status, 200, "without waiting it is told");
    let shared = api.get(&job_path(jobs[1].id, 100)).await;
    assert_eq!(shared.status, 200, "one more who waits for the same costs nothing");
    for assign in &assigns {
        node.result(assign, "done").await.unwrap();
    }
    while let Some(reply) = calls.join_next().await {
        assert_eq!(reply.unwrap().body["state"], "DONE");
    }
    assert_eq!(two.counter("lingua_limited_total{limit=\"job_watches_per_tenant\"}"), 1);
    two.finish().await;
    one.finish().await;
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
