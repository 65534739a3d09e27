//! How everything stands: the snapshot, its history, the instances, the sessions, the stream.

use crate::app;
use crate::app::http;

use std::time::Duration;

use app::jobs::{done, job, refused};
use app::{On, TestApp, quick, wait_until};
use http::Api;
use lingua_lab::fake_node::Behaviour;
use lingua_lab::{FakeNode, NodeOptions, Speaker, SpeakerOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What `/api/v1/stats` answers once it is as wanted.
async fn stats(api: &Api, what: &str, ready: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..400 {
        last = api.get("/api/v1/stats").await.body;
        if ready(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("never: {what}: {last:#}");
}

fn codes(stats: &Value) -> Vec<&str> {
    let findings = stats["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

async fn node(app: &TestApp, id: &str, slots: u32) -> FakeNode {
    let options = NodeOptions::new(app.ws("/ws/node")).node_id(id).max_jobs(slots);
    FakeNode::connect(options.languages(&["en", "zh"])).await.unwrap()
}

async fn jobs_nodes_and_sessions_are_told_as_they_are(on: On) {
    let app = TestApp::start(on, quick()).await;
    let api = Api::of(&app).await;
    let empty = stats(&api, "a first snapshot", |stats| stats["snapshot"].is_object()).await;
    assert_eq!((codes(&empty), &empty["health"]), (vec!["no_nodes"], &json!("warning")));

    let node = node(&app, "one", 4).await;
    app.meets("one").await;
    for _ in 0..20 {
        done(&job().submit(&app)).await;
    }
    let refusal = refused(&job().pair("de", "fr").submit(&app)).await;
    assert_eq!(refusal.code_text(), "NO_CAPABLE_NODE");
    let speaker = SpeakerOptions { url: app.ws("/ws/session"), ..SpeakerOptions::default() };
    let speaker = Speaker::connect(speaker).await.unwrap();
    let full = stats(&api, "all of it", |stats| {
        let work = &stats["snapshot"]["work"];
        work["ended_total"] == json!({"ok": 20, "NO_CAPABLE_NODE": 1})
            && work["sessions"] == 1
            && stats["snapshot"]["nodes"]["ready"] == 1
    })
    .await;
    let snapshot = &full["snapshot"];
    assert_eq!(snapshot["nodes"]["slots"], 4);
    assert_eq!(snapshot["unmet"][0]["direction"], "de->fr");
    assert_eq!(snapshot["failures"][0]["code"], "NO_CAPABLE_NODE");
    let pair = |src: &str, tgt: &str| {
        let pairs = snapshot["pairs"].as_array().unwrap();
        pairs.iter().find(|pair| pair["src"] == src && pair["tgt"] == tgt).cloned().unwrap()
    };
    let good = json!({"src": "en", "tgt": "zh", "nodes": 1, "ready": 1, "speaking": 1, "slots": 4,
                      "free": 4, "not_open": 0, "waiting": 0, "supply": "good"});
    assert_eq!(pair("en", "zh"), good);
    assert_eq!(pair("de", "fr")["supply"], "unserved");
    assert!(codes(&full).contains(&"pair_unserved"), "{full:#}");

    // Every job is in exactly one point of the history.
    let ended = || async {
        let points = api.get("/api/v1/history").await.body["points"].clone();
        let ok = points.as_array().unwrap().iter().map(|p| p["ended"]["ok"].as_u64().unwrap_or(0));
        ok.sum::<u64>()
    };
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!((15..=25).contains(&ended().await), "{}", ended().await);

    let sessions = api.get("/api/v1/sessions").await.body;
    assert_eq!(
        (&sessions["total"], &sessions["sessions"][0]["direction"]),
        (&json!(1), &json!("en->zh"))
    );
    assert_eq!(sessions["sessions"][0]["session_id"], speaker.session_id());
    let nobody = api.get(&format!("/api/v1/sessions?after={}", speaker.session_id())).await.body;
    assert_eq!(nobody["sessions"], json!([]));
    assert_eq!(api.get("/api/v1/sessions?limit=0").await.status, 400);

    let cluster = api.get("/api/v1/cluster").await.body;
    let instances = cluster["instances"].as_array().unwrap();
    let far = matches!(on, On::FarMemory | On::FarRedis);
    assert_eq!(instances.len(), if far { 2 } else { 1 }, "{cluster:#}");
    let leads: usize = instances.iter().map(|i| i["leads"].as_array().unwrap().len()).sum();
    assert_eq!(leads, 3, "every task is led once: {cluster:#}");
    let owners: u64 = instances.iter().map(|i| i["nodes"].as_u64().unwrap()).sum();
    assert_eq!(owners, 1, "a node is counted by the instance that has it: {cluster:#}");
    assert!(instances.iter().all(|i| i["address"].as_str().unwrap().starts_with("http://")));

    speaker.close(1000, "").await.unwrap();
    node.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_store() {
    jobs_nodes_and_sessions_are_told_as_they_are(On::Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    jobs_nodes_and_sessions_are_told_as_they_are(On::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_instances_on_the_embedded_store() {
    jobs_nodes_and_sessions_are_told_as_they_are(On::FarMemory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_instances_on_redis() {
    jobs_nodes_and_sessions_are_told_as_they_are(On::FarRedis).await;
}

/// What two people say face to face is asked for as both directions at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_two_way_conversation_makes_no_language_of_its_own_and_its_warning_goes() {
    let app = TestApp::start(On::Memory, quick()).await;
    let api = Api::of(&app).await;
    let refusal = refused(&job().either("de", "en").submit(&app)).await;
    assert_eq!(refusal.code_text(), "NO_CAPABLE_NODE");
    let warned = |stats: &Value| codes(stats).contains(&"pair_unserved");
    let unserved = stats(&api, "a warning of the pair", warned).await;
    let languages = |stats: &Value| -> Vec<String> {
        let pairs = stats["snapshot"]["pairs"].as_array().unwrap();
        pairs.iter().map(|pair| format!("{} {}", pair["src"], pair["tgt"])).collect()
    };
    assert_eq!(languages(&unserved), [r#""de" "en""#, r#""en" "de""#]);

    let options = NodeOptions::new(app.ws("/ws/node")).node_id("both").max_jobs(2);
    let node = FakeNode::connect(options.languages(&["de", "en"])).await.unwrap();
    let served = stats(&api, "a pair that is served", |stats| {
        stats["snapshot"]["nodes"]["ready"] == 1 && !warned(stats)
    });
    assert!(!languages(&served.await).iter().any(|pair| pair.contains('<')));
    let view = api.get("/api/v1/nodes/both").await.body;
    assert!(view["instance"].is_string(), "the instance is named by whoever answers: {view:#}");
    node.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_that_starves_is_named() {
    let mut settings = quick();
    settings.timing.queue_max_ms = 2_500;
    let app = TestApp::start(On::Memory, settings).await;
    let api = Api::of(&app).await;
    let slow = Behaviour {
        latency: lingua_lab::fake_node::Latency::Fixed { ms: 1_500 },
        ..Behaviour::default()
    };
    let options = NodeOptions::new(app.ws("/ws/node")).node_id("slow").max_jobs(1).behaviour(slow);
    let _node = FakeNode::connect(options.languages(&["en", "zh"])).await.unwrap();
    let jobs: Vec<_> = (0..3).map(|_| job().submit(&app)).collect();
    let starved =
        stats(&api, "somebody waits", |stats| codes(stats).contains(&"pair_starved")).await;
    assert_eq!(starved["health"], "critical");
    let found = &starved["findings"][0];
    assert_eq!((&found["code"], &found["subject"]), (&json!("pair_starved"), &json!("en->zh")));
    for job in jobs {
        job.until(|view| view.ended.is_some()).await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_gone_is_told_at_once() {
    let mut app = TestApp::start(On::Redis, quick()).await;
    let api = Api::of(&app).await;
    stats(&api, "a first snapshot", |stats| stats["snapshot"].is_object()).await;
    app.redis.as_mut().unwrap().kill().unwrap();
    let down = stats(&api, "the store is gone", |stats| stats["store_up"] == false).await;
    assert_eq!((codes(&down)[0], &down["health"]), ("store_down", &json!("critical")));
    assert!(down["snapshot"].is_object(), "the last figures are still told");
    app.redis.as_mut().unwrap().restart().await.unwrap();
    stats(&api, "the store is back", |stats| stats["store_up"] == true && stats["stale"] == false)
        .await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_died_is_missing() {
    let (store, _) = app::open(On::Memory).await;
    let one = TestApp::over(store.clone(), "one", quick()).await;
    let two = TestApp::over(store, "two", quick()).await;
    let api = Api::of(&one).await;
    let both =
        |stats: &Value| stats["snapshot"]["instances"].as_array().is_some_and(|all| all.len() == 2);
    stats(&api, "both are there", both).await;
    two.abandon();
    let missing = stats(&api, "one is missed", |stats| codes(stats).contains(&"instance_missing"));
    assert_eq!(missing.await["snapshot"]["instances"][1]["missing"], true);
    one.finish().await;
}

/// Reads events until one that is as wanted.
async fn follow(socket: &mut TcpStream, ready: impl Fn(&Value) -> bool) -> Value {
    let mut text = String::new();
    let mut buffer = vec![0; 65_536];
    let reading = async {
        loop {
            let n = socket.read(&mut buffer).await.unwrap();
            assert!(n > 0, "the stream ended: {text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..n]));
            let found = text.split("\n\n").filter_map(|event| {
                let data = event.split("data: ").nth(1)?;
                serde_json::from_str::<Value>(data.trim()).ok()
            });
            if let Some(found) = found.filter(&ready).last() {
                return found;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_tells_at_once_and_with_every_change_and_ends_with_the_process() {
    let app = TestApp::start(On::Memory, quick()).await;
    let mut socket = TcpStream::connect(app.address).await.unwrap();
    socket.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    follow(&mut socket, |stats| stats["store_up"] == true).await;
    let node = node(&app, "one", 2).await;
    let told = follow(&mut socket, |stats| stats["snapshot"]["nodes"]["ready"] == 1).await;
    assert_eq!(told["health"], "ok", "{told:#}");
    node.close().await;
    let began = tokio::time::Instant::now();
    app.finish().await;
    assert!(began.elapsed() < Duration::from_secs(5), "a reader does not hold up the end");
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_nothing_holds_nothing_up() {
    let app = TestApp::start(On::Memory, quick()).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut socket = TcpStream::connect(app.address).await.unwrap();
        socket.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        silent.push(socket);
    }
    let board = app.engine.board.frames();
    let told = || {
        board
            .borrow()
            .stats
            .snapshot
            .as_ref()
            .is_some_and(|s| s.work.ended_total.contains_key("ok"))
    };
    let _node = node(&app, "one", 2).await;
    done(&job().submit(&app)).await;
    assert!(wait_until(Duration::from_secs(5), told).await);
    app.finish().await;
}

/// A page of another site must not drain nodes through somebody's browser.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_from_another_site_are_refused() {
    let app = TestApp::start(On::Memory, quick()).await;
    let node = node(&app, "one", 2).await;
    for (site, status) in
        [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
    {
        let client = lingua_lab::HttpClient::new(app.http(""));
        let client = client.header("sec-fetch-site", site).unwrap();
        let reply = client.post("/api/v1/nodes/one/resume", &json!({})).await.unwrap();
        assert_eq!(reply.status, status, "{site}");
    }
    let api = Api::of(&app).await;
    assert_eq!(api.post("/api/v1/nodes/one/drain", &json!({})).await.status, 200, "no browser");
    node.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_comes_with_a_policy_and_a_tag() {
    let app = TestApp::start(On::Memory, quick()).await;
    let client = lingua_lab::HttpClient::new(app.http(""));
    let page = client.get("/dashboard").await.unwrap();
    assert!(page.text().contains("/dashboard/app.js"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let tag = page.header("etag").unwrap().to_owned();
    for file in [
        "app.js",
        "dom.js",
        "words.js",
        "charts.js",
        "overview.js",
        "nodes.js",
        "rest.js",
        "style.css",
        "icon.svg",
    ] {
        let reply = client.get(&format!("/dashboard/{file}")).await.unwrap();
        assert_eq!((reply.status, reply.header("etag")), (200, Some(tag.as_str())), "{file}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    }
    let known = client.clone().header("if-none-match", &tag).unwrap();
    let again = known.get("/dashboard/app.js").await.unwrap();
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(client.get("/dashboard/nothing.js").await.unwrap().status, 404);
    app.finish().await;
}
