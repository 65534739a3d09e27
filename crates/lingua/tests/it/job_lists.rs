//! Jobs and sessions as operators see them, on one instance and on two: lists, one of them, and ending one.

use crate::app;
use crate::app::http;

use std::time::Duration;

use app::jobs::{attempts, code, done, is, job};
use app::{On, TestApp, quick, wait_until};
use http::Api;
use lingua_core::job::JobState;
use lingua_engine::jobs::Job;
use lingua_lab::{Behaviour, FakeNode, NodeOptions, Speaker, SpeakerOptions};
use lingua_store::history::Series;
use serde_json::{Value, json};

/// A node that does its jobs, and one that never answers.
async fn nodes(app: &TestApp) -> Vec<FakeNode> {
    let node = |id: &str, langs: &[&str], never_answer| {
        let behaviour = Behaviour { never_answer, ..Behaviour::taking_ms(5) };
        let options = NodeOptions::new(app.ws("/ws/node")).node_id(id).max_jobs(4);
        FakeNode::connect(options.languages(langs).behaviour(behaviour).logging(100))
    };
    let found =
        vec![node("able", &["en", "zh"], 0.0).await, node("mute", &["ja", "ko"], 1.0).await];
    for id in ["able", "mute"] {
        app.meets(id).await;
    }
    found.into_iter().map(Result::unwrap).collect()
}

fn ids(body: &Value) -> Vec<String> {
    let jobs = body["jobs"].as_array().unwrap().iter();
    jobs.map(|job| job["job_id"].as_str().unwrap().to_owned()).collect()
}

/// All jobs that a filter leaves, page by page.
async fn walk(api: &Api, filter: &str) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/api/v1/jobs?limit=2{filter}&after={after}")).await.body;
        found.extend(ids(&page));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => {
                assert_eq!(page["total"], found.len(), "{filter}");
                found.sort();
                return found;
            }
        }
    }
}

async fn refuses_wrong_filters(api: &Api) {
    for wrong in ["state=happy", "after=nowhere", "code=a-b", "limit=0", "mood=good"] {
        assert_eq!(api.get(&format!("/api/v1/jobs?{wrong}")).await.status, 400, "{wrong}");
    }
    assert_eq!(api.get("/api/v1/jobs?instance=nobody").await.status, 404);
}

async fn is_found_by_either_id(api: &Api, app: &TestApp, one: &Job, node: &FakeNode) {
    let masked = app.engine.masked(one.id).to_string();
    assert!(node.log().iter().any(|entry| entry.job_id == masked), "{masked}");
    for id in [one.id.to_string(), masked.clone()] {
        let told = api.get(&format!("/api/v1/jobs/{id}")).await.body;
        assert_eq!(told["job_id"], one.id.to_string(), "{told:#}");
        let (masked, trace) = (json!(masked), json!("trace"));
        assert_eq!((&told["node_job_id"], &told["trace_id"]), (&masked, &trace));
        assert_eq!(told["attempts"][0]["node_id"], attempts(one)[0].0, "{told:#}");
    }
}

/// Through the instance that does not have it, by the id that its node knows.
async fn is_cancelled_through_another(api: &Api, far: &TestApp, open: &Job) {
    let path = format!("/api/v1/jobs/{}/cancel", far.engine.masked(open.id));
    for _ in 0..2 {
        let told = api.post(&path, &json!({})).await;
        let state = json!("CANCELLED");
        assert_eq!((told.status, &told.body["state"]), (200, &state), "again is no error");
    }
    let told = api.get(&format!("/api/v1/jobs/{}", open.id)).await.body;
    assert_eq!((&told["state"], &told["detail"]), (&json!("CANCELLED"), &json!("operator")));
    let nobody = api.post("/api/v1/jobs/00000000000000000000000000/cancel", &json!({})).await;
    assert_eq!(nobody.status, 404);
}

async fn jobs_of_all_instances_are_listed_filtered_and_found(on: On) {
    let app = TestApp::start(on, quick()).await;
    let far = app.of_nodes();
    let nodes = nodes(&app).await;

    // Three here and two there; then one that nobody can do, and one that stays open.
    let mut good = Vec::new();
    for (at, tenant) in [(&app, "acme"), (far, "acme"), (&app, "other"), (far, "other")] {
        let one = job().tenant(tenant).session("talk").submit(at);
        done(&one).await;
        good.push(one);
    }
    let failed = job().pair("ja", "ko").only("mute").deadline_ms(700).submit(&app);
    let failed_with = code(&failed).await;
    let open = job().either("ja", "ko").deadline_ms(60_000).submit(far);
    is(&open, JobState::Acked).await;
    let named = |at: &[usize]| {
        let mut ids: Vec<String> = at.iter().map(|at| good[*at].id.to_string()).collect();
        ids.sort();
        ids
    };

    let apis = [Api::of(&app).await, Api::of(far).await];
    for api in &apis {
        let all = api.get("/api/v1/jobs").await.body;
        assert_eq!((&all["total"], &all["silent"]), (&json!(6), &json!([])), "{all:#}");
        let created: Vec<u64> = all["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["created_ms"].as_u64().unwrap())
            .collect();
        assert!(created.is_sorted_by(|a, b| a >= b), "the newest first: {created:?}");

        let walk = async |filter: &str| walk(api, filter).await;
        assert_eq!(walk("").await.len(), 6);
        for (filter, wanted) in [
            ("&state=open", vec![open.id.to_string()]),
            ("&state=ACKED", vec![open.id.to_string()]),
            ("&state=FAILED", vec![failed.id.to_string()]),
            (&format!("&code={failed_with}"), vec![failed.id.to_string()]),
            ("&code=ok", named(&[0, 1, 2, 3])),
            ("&state=DONE&tenant=acme", named(&[0, 1])),
            ("&tenant=other&session=talk", named(&[2, 3])),
            ("&session=nobody", vec![]),
            ("&node=able", named(&[0, 1, 2, 3])),
            ("&src=en&tgt=zh", named(&[0, 1, 2, 3])),
            // Either may be spoken in the one that is open.
            ("&src=ko&tgt=ja", vec![open.id.to_string()]),
            ("&src=zh", vec![]),
        ] {
            assert_eq!(walk(filter).await, wanted, "{filter}");
        }
        let mut mute = vec![open.id.to_string(), failed.id.to_string()];
        mute.sort();
        assert_eq!(walk("&node=mute").await, mute);
        refuses_wrong_filters(api).await;
        // One job, by its id and by the one that its node knows.
        for (one, node) in [(&good[0], &nodes[0]), (&open, &nodes[1])] {
            is_found_by_either_id(api, &app, one, node).await;
        }
        let told = api.get(&format!("/api/v1/jobs/{}", good[0].id)).await.body;
        assert_eq!((&told["tenant"], &told["direction"]), (&json!("acme"), &json!("en->zh")));
        assert_eq!((&told["instance"], &told["code"]), (&json!("test-1"), &json!("ok")));
        assert!(!told.to_string().contains("[zh]"), "nothing that was said: {told}");
        assert_eq!(api.get("/api/v1/jobs/00000000000000000000000000").await.status, 404);
    }
    is_cancelled_through_another(&apis[0], far, &open).await;
    for node in nodes {
        node.close().await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_listed_filtered_and_found_on_one_instance() {
    jobs_of_all_instances_are_listed_filtered_and_found(On::Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_listed_filtered_and_found_on_two_instances_over_redis() {
    jobs_of_all_instances_are_listed_filtered_and_found(On::FarRedis).await;
}

async fn a_session_is_disconnected_through_any_instance(on: On) {
    let app = TestApp::start(on, quick()).await;
    let far = app.of_nodes();
    let speak = async |at: &TestApp| {
        let url = at.http("/ws/session").replace("http://", "ws://");
        Speaker::connect(SpeakerOptions { url, ..SpeakerOptions::default() }).await.unwrap()
    };
    let (stays, goes) = (speak(&app).await, speak(far).await);
    let api = Api::of(&app).await;
    let path = format!("/api/v1/sessions/{}", goes.session_id());
    let one = api.get(&path).await.body;
    assert_eq!((&one["connected"], &one["direction"]), (&json!(true), &json!("en->zh")), "{one:#}");
    assert_eq!(api.get(&format!("{path}?tenant=other")).await.status, 404);
    let order = format!("{path}/disconnect");
    assert_eq!(api.post(&format!("{order}?tenant=other"), &json!({})).await.status, 404);
    assert!(goes.is_connected());

    assert_eq!(api.post(&order, &json!({})).await.status, 200);
    let closed = goes.closed_within(Duration::from_secs(5)).await.unwrap();
    assert_eq!(closed.code, Some(1008), "{closed:?}");
    assert_eq!(api.get(&path).await.status, 404);
    assert_eq!(api.post(&order, &json!({})).await.status, 404);
    assert!(stays.is_connected(), "nobody else is disconnected");
    assert_eq!(api.get("/api/v1/sessions").await.body["total"], 1);
    stays.close(1000, "").await.unwrap();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_disconnected_on_one_instance() {
    a_session_is_disconnected_through_any_instance(On::Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_disconnected_on_another_instance_over_redis() {
    a_session_is_disconnected_through_any_instance(On::FarRedis).await;
}

async fn a_day_of_charts_and_the_history_of_a_node_are_told(on: On) {
    let (store, servers) = app::open(on).await;
    // What an instance wrote before this one was started.
    let now_ms = lingua_store::Clock::system().now().as_millis();
    let quantiles = json!({"p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0, "count": 60});
    let point = json!({"at_ms": now_ms - 3_600_000, "ended_per_s": 1.0, "ended": {"ok": 60},
        "latency": {"dispatch": quantiles, "job": quantiles, "sentence": quantiles},
        "waiting": 0, "sessions": 2, "slots": 8, "used": 3});
    assert!(
        store.history.append(&Series::snapshots(), point.to_string().as_bytes()).await.unwrap()
    );

    let app = TestApp::over(store, "test-1", quick()).await;
    let api = Api::of(&app).await;
    let options = NodeOptions::new(app.ws("/ws/node")).node_id("one").max_jobs(3);
    let node = FakeNode::connect(options.languages(&["en", "zh"])).await.unwrap();
    let read = wait_until(Duration::from_secs(10), || !app.engine.board.day().is_empty()).await;
    assert!(read, "the day is not read");
    let day = api.get("/api/v1/history?by=minute").await.body;
    assert_eq!((&day["interval_ms"], &day["points"]), (&json!(60_000), &json!([point])));
    assert_eq!(api.get("/api/v1/history").await.body["interval_ms"], 500);
    assert_eq!(api.get("/api/v1/history?by=hour").await.status, 400);

    for _ in 0..3 {
        done(&job().submit(&app)).await;
    }
    let path = "/api/v1/nodes/one/history";
    let mut told = Value::Null;
    for _ in 0..100 {
        told = api.get(path).await.body;
        let points = told["points"].as_array().unwrap();
        let sum =
            |name: &str| points.iter().map(|point| point[name].as_u64().unwrap()).sum::<u64>();
        if (sum("done"), sum("failed")) == (3, 0) {
            assert_eq!(points.last().unwrap()["slots"], 3, "{told:#}");
            break;
        }
        told = Value::Null;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(told.is_object(), "three jobs are not in its history");
    assert_eq!(api.get("/api/v1/nodes/nobody/history").await.body["points"], json!([]));
    node.close().await;
    app.finish().await;
    drop(servers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_charts_and_the_history_of_a_node_are_told_on_the_embedded_store() {
    a_day_of_charts_and_the_history_of_a_node_are_told(On::Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_charts_and_the_history_of_a_node_are_told_on_redis() {
    a_day_of_charts_and_the_history_of_a_node_are_told(On::Redis).await;
}
