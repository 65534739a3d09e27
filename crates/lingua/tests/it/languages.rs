//! Which pairs are served now, for whoever offers languages to people.

use crate::app;
use crate::tokens;

use std::time::Duration;

use app::{On, TestApp, quick};
use lingua_lab::{FakeNode, HttpClient, NodeOptions};
use serde_json::{Value, json};
use tokens::Guarded;

fn node(url: String, id: &str) -> NodeOptions {
    NodeOptions::new(url).node_id(id).heartbeat_every(Duration::from_millis(200))
}

/// Waits until the answer is so, and fails with what it was instead.
async fn becomes(client: &HttpClient, wanted: Value) {
    let mut last = Value::Null;
    for _ in 0..200 {
        last = client.get("/v1/languages").await.unwrap().ok().unwrap();
        if last == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(last, wanted);
}

fn pair(src: &str, tgt: &str, speech: bool) -> Value {
    json!({ "src": src, "tgt": tgt, "speech": speech })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_is_served_while_a_node_for_it_takes_jobs() {
    let app = TestApp::start(On::Memory, quick()).await;
    let client = HttpClient::new(app.http(""));
    becomes(&client, json!({ "pairs": [] })).await;
    let url = || app.ws("/ws/node");
    let written = NodeOptions { tts_languages: Vec::new(), ..node(url(), "text") };
    let written = FakeNode::connect(written.pairs(&[("en", "es")])).await.unwrap();
    becomes(&client, json!({ "pairs": [pair("en", "es", false)] })).await;
    let spoken = node(url(), "voice").languages(&["en", "es"]).pairs(&[("en", "es")]);
    let spoken = FakeNode::connect(spoken).await.unwrap();
    becomes(&client, json!({ "pairs": [pair("en", "es", true)] })).await;
    // One that is only for jobs that name it is nobody's to offer.
    let private = NodeOptions {
        accept_public_jobs: false,
        ..node(url(), "private").languages(&["de", "fr"])
    };
    let private = FakeNode::connect(private).await.unwrap();
    app.meets("private").await;
    becomes(&client, json!({ "pairs": [pair("en", "es", true)] })).await;
    client.post("/api/v1/nodes/voice/drain", &json!({})).await.unwrap().ok().unwrap();
    becomes(&client, json!({ "pairs": [pair("en", "es", false)] })).await;
    drop((written, spoken, private));
    becomes(&client, json!({ "pairs": [] })).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_told_of_what_is_there_for_it() {
    let guarded = tokio::task::spawn_blocking(|| Guarded::start("")).await.unwrap();
    let url = format!("ws://{}/ws/node", guarded.lingua.address());
    let token = guarded.mint("node", "theirs", &["--tenants", "acme"]);
    let theirs = node(url, "theirs").languages(&["en", "zh"]).bearer(&token);
    let _node = FakeNode::connect(theirs).await.unwrap();
    for (tenant, count) in [("acme", 2), ("other", 0)] {
        let token = guarded.mint("session", "app", &["--tenant", tenant]);
        let client = HttpClient::new(guarded.url()).bearer(&token).unwrap();
        let mut found = Vec::new();
        for _ in 0..100 {
            let answer = client.get("/v1/languages").await.unwrap().ok().unwrap();
            found = answer["pairs"].as_array().unwrap().clone();
            if found.len() == count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(found.len(), count, "{tenant}: {found:?}");
    }
}
