//! What was used, by day, and the catalogue of services with the nodes that have them.

use crate::app;
use crate::app::http;
use crate::process::{self, Lingua};

use app::jobs::{done, job};
use app::{On, TestApp, quick};
use http::Api;
use lingua_lab::{Behaviour, FakeNode, HttpClient, NodeOptions};
use serde_json::{Value, json};

fn row<'a>(body: &'a Value, name: &str) -> &'a Value {
    let rows =
        body["days"].as_array().unwrap().iter().flat_map(|day| day["rows"].as_array().unwrap());
    rows.into_iter().find(|row| row["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn what_was_used_is_told_by_pair_tenant_service_and_node_as_json_and_csv() {
    let app = TestApp::start(On::Memory, quick()).await;
    let mut options = NodeOptions::new(app.ws("/ws/node")).node_id("n").languages(&["en", "zh"]);
    options.installed_services = Some(json!([
        { "service_id": "faster-whisper", "type": "ASR", "status": "running", "version": "3" }
    ]));
    let _node = FakeNode::connect(options.behaviour(Behaviour::taking_ms(5))).await.unwrap();
    for tenant in ["acme", "acme", "other-co"] {
        done(&job().tenant(tenant).submit(&app)).await;
    }
    let api = Api::of(&app).await;
    let api = &api;
    let used = |by: &'static str| async move { api.get(&format!("/api/v1/usage?by={by}")).await };
    let pairs = used("pair").await.body;
    assert_eq!(pairs["days"].as_array().unwrap().len(), 7);
    let pair = row(&pairs, "en->zh");
    assert_eq!((&pair["sentences"], &pair["endings"]["result"]), (&json!(3), &json!(3)), "{pairs}");
    assert_eq!(row(&used("tenant").await.body, "acme")["sentences"], 2);
    assert_eq!(row(&used("service").await.body, "faster-whisper")["jobs"], 3);
    assert_eq!(row(&used("service").await.body, "nmt")["jobs"], 3, "one without a name of its own");
    assert_eq!(row(&used("node").await.body, "n")["failed"], 0);
    let today = pairs["to"].as_str().unwrap();
    let client = HttpClient::new(app.http(""));
    let table = client.get("/api/v1/usage?by=pair&format=csv").await.unwrap();
    assert_eq!(table.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    let line = format!("\r\n{today},en->zh,3,,");
    assert!(table.text().starts_with("day,pair,sentences,") && table.text().contains(&line));
    let asked = client.header("accept", "text/csv").unwrap();
    assert_eq!(asked.get("/api/v1/usage").await.unwrap().text(), table.text());
    for (wrong, field) in [
        ("by=mood", "by:"),
        ("from=yesterday", "from:"),
        ("to=2026-02-30", "to:"),
        ("from=2026-11-02&to=2026-11-01", "from:"),
        ("from=2026-01-01&to=2026-03-01", "from:"),
        ("format=xml", "format:"),
        ("since=1", "\"since\":"),
    ] {
        let refused = api.get(&format!("/api/v1/usage?{wrong}")).await;
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(refused.status == 400 && detail.starts_with(field), "{wrong}: {detail}");
    }
    app.finish().await;
}

const CATALOGUE: &str = r#"{"services":[
    {"id":"faster-whisper","kind":"asr","languages":["en","zh"],
     "versions":[{"version":"3","size_bytes":3100000000},{"version":"2"}]},
    {"id":"piper","kind":"tts"}]}"#;

#[test]
fn the_catalogue_says_which_nodes_have_what_and_what_it_did() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("catalogue.json");
    std::fs::write(&file, CATALOGUE).unwrap();
    let config = directory.path().join("lingua.toml");
    std::fs::write(&config, format!("[catalogue]\nfile = {:?}\n", file.to_str().unwrap())).unwrap();
    let lingua =
        Lingua::start(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connect = async {
        let url = format!("ws://{}/ws/node", lingua.address());
        let mut options = NodeOptions::new(url).node_id("n").languages(&["en", "zh"]);
        options.installed_services = Some(json!([
            { "service_id": "faster-whisper", "type": "ASR", "status": "running", "version": "4" }
        ]));
        FakeNode::connect(options.behaviour(Behaviour::taking_ms(5))).await.unwrap()
    };
    let _node = runtime.block_on(connect);
    let order = json!({ "session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAEC",
        "options": { "wait_ms": 5_000 } });
    let client = HttpClient::new(format!("http://{}", lingua.address()));
    runtime.block_on(client.post("/v1/dispatch/f2f", &order)).unwrap();
    let get = || process::get(lingua.address(), "/api/v1/catalogue").1;
    process::wait_for("the work of the job", || get()["services"][0]["jobs"] == 1);
    let body = get();
    let [whisper, piper] = [&body["services"][0], &body["services"][1]];
    assert_eq!(body["problem"], Value::Null);
    assert_eq!(whisper["versions"][0]["size_bytes"], 3_100_000_000_u64);
    let installed =
        json!([{ "version": "4", "listed": false, "nodes": 1, "running": 1, "node_ids": ["n"] }]);
    assert_eq!(whisper["installed"], installed);
    assert_eq!((&piper["nodes"], &piper["jobs"]), (&json!(0), &json!(0)));
}
