//! What the owner of a node sees of it: over HTTP with the node's own token, and in answers to its heartbeats.

use crate::app::http::Api;
use crate::app::jobs::{job, refused};
use crate::app::{On, TestApp};
use crate::scenarios::{calm, scripted, take};

use serde_json::{Value, json};

async fn start() -> (TestApp, Api) {
    let app = TestApp::start(On::Memory, calm()).await;
    let api = Api::of(&app).await;
    (app, api)
}

async fn own(api: &Api, node: &str) -> Value {
    let reply = api.get(&format!("/v1/node/{node}")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_sees_state_slots_and_why_the_node_is_idle() {
    let (app, api) = start().await;
    let missing = api.get("/v1/node/a").await;
    assert_eq!((missing.status, &missing.body["error"]), (404, &json!("NOT_FOUND")));
    let node = scripted(&app, "a").await;
    let seen = own(&api, "a").await;
    assert_eq!((&seen["state"], &seen["why_idle"]), (&json!("ready"), &json!([])), "{seen}");
    assert_eq!(seen["slots"]["declared"], 4, "{seen}");
    assert_eq!((&seen["done"], &seen["failures"]), (&json!(0), &json!([])), "{seen}");
    assert!(seen.get("instance").is_none(), "names of instances are no owner's concern: {seen}");

    api.post("/api/v1/nodes/a/drain", &json!({})).await;
    let seen = own(&api, "a").await;
    assert_eq!((&seen["state"], &seen["order"]), (&json!("draining"), &json!("drain")), "{seen}");
    assert_eq!(seen["why_idle"], json!(["an administrator drains it"]), "{seen}");
    drop(node);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_sees_the_last_failures_under_the_ids_that_the_node_was_told() {
    let (app, api) = start().await;
    let mut node = scripted(&app, "a").await;
    let failed = job().submit(&app);
    let assign = take(&mut node).await;
    node.fail(&assign, "NMT_TIMEOUT").await.unwrap();
    assert_eq!(refused(&failed).await.code_text(), "NMT_TIMEOUT");
    let seen = own(&api, "a").await;
    assert_eq!(seen["failed"], 1, "{seen}");
    let last = &seen["failures"][0];
    assert_eq!((&last["code"], &last["job_id"]), (&json!("NMT_TIMEOUT"), &assign["job_id"]));
    assert!(last["at_ms"].as_u64().unwrap() > 1_600_000_000_000, "{seen}");
    let told = serde_json::to_string(&seen).unwrap();
    let real = failed.id.to_string();
    assert!(real != assign["job_id"] && !told.contains(&real), "{told}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_is_answered_with_why_the_node_gets_no_jobs() {
    let (app, api) = start().await;
    let mut node = scripted(&app, "a").await;
    node.heartbeat(Value::Null).await.unwrap();
    let ack = node.next_of("heartbeat_ack").await.unwrap().message;
    assert!(ack.get("why_idle").is_none(), "nothing is in the way: {ack}");
    api.post("/api/v1/nodes/a/drain", &json!({})).await;
    node.heartbeat(Value::Null).await.unwrap();
    let ack = node.next_of("heartbeat_ack").await.unwrap().message;
    assert_eq!(ack["why_idle"], json!(["an administrator drains it"]));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_node_is_served_with_its_parts() {
    let (app, api) = start().await;
    let page = api.client.get("/node").await.unwrap();
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let html = page.text();
    for part in ["/node/app.js", "/node/style.css", "/node/icon.svg", "/node/words.js"] {
        assert!(part.ends_with("words.js") || html.contains(part), "{part}");
        assert_eq!(api.client.get(part).await.unwrap().status, 200, "{part}");
    }
    assert_eq!(api.client.get("/node/none.js").await.unwrap().status, 404);
    app.finish().await;
}
