//! What people see of one instance through another: its sessions, and the attempts of its jobs.

use crate::app;
use crate::app::http;

use std::time::Duration;

use app::jobs::{done, job};
use app::{On, TestApp, quick, wait_until};
use http::Api;
use lingua_engine::cluster::presence;
use lingua_lab::{FakeNode, NodeOptions, Speaker, SpeakerOptions};
use lingua_store::Instance;
use serde_json::{Value, json};

async fn speaker(app: &TestApp) -> Speaker {
    let url = app.http("/ws/session").replace("http://", "ws://");
    Speaker::connect(SpeakerOptions { url, ..SpeakerOptions::default() }).await.unwrap()
}

fn listed(body: &Value) -> Vec<(String, String)> {
    let sessions = body["sessions"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    sessions.map(|one| (text(&one["session_id"]), text(&one["instance"]))).collect()
}

async fn any_instance_lists_the_sessions_of_all(on: On) {
    let app = TestApp::start(on, quick()).await;
    let far = app.of_nodes();
    let (here, there) = (speaker(&app).await, speaker(far).await);
    let mut all = vec![
        (here.session_id().to_owned(), "test-1".to_owned()),
        (there.session_id().to_owned(), "far-1".to_owned()),
    ];
    all.sort();
    for (asked, name) in [(&app, "test-1"), (far, "far-1")] {
        let api = Api::of(asked).await;
        let body = api.get("/api/v1/sessions").await.body;
        assert_eq!((listed(&body), &body["total"]), (all.clone(), &json!(2)), "{body:#}");
        assert_eq!((&body["instance"], &body["silent"]), (&json!(name), &json!([])));
        assert!(body.get("next").is_none(), "{body:#}");

        // In pages, whichever instance has the next.
        let first = api.get("/api/v1/sessions?limit=1").await.body;
        assert_eq!((listed(&first), &first["total"]), (all[..1].to_vec(), &json!(2)));
        let next = first["next"].as_str().unwrap();
        let second = api.get(&format!("/api/v1/sessions?limit=1&after={next}")).await.body;
        assert_eq!((listed(&second), second.get("next")), (all[1..].to_vec(), None));

        for (id, instance) in &all {
            let one = api.get(&format!("/api/v1/sessions?instance={instance}")).await.body;
            assert_eq!(listed(&one), [(id.clone(), instance.clone())]);
            assert_eq!(one["total"], 1);
        }
        // The other instance filters too.
        for (filter, fits) in [
            ("tenant=default", true),
            ("tenant=other", false),
            ("connected=true", true),
            ("connected=false", false),
            ("src=en", true),
            ("src=en&tgt=zh", true),
            ("src=zh", false),
        ] {
            let body = api.get(&format!("/api/v1/sessions?{filter}")).await.body;
            let wanted = if fits { all.clone() } else { Vec::new() };
            assert_eq!(
                (listed(&body), &body["total"]),
                (wanted, &json!(if fits { 2 } else { 0 })),
                "{filter}"
            );
        }
        let nobody = api.get("/api/v1/sessions?instance=nobody").await;
        assert_eq!((nobody.status, &nobody.body["error"]), (404, &json!("NOT_FOUND")));
    }
    for speaker in [here, there] {
        speaker.close(1000, "").await.unwrap();
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_instance_lists_the_sessions_of_all_on_the_embedded_store() {
    any_instance_lists_the_sessions_of_all(On::FarMemory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_instance_lists_the_sessions_of_all_on_redis() {
    any_instance_lists_the_sessions_of_all(On::FarRedis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_does_not_answer_is_named() {
    let app = TestApp::start(On::Memory, quick()).await;
    let speaker = speaker(&app).await;
    // One that says it lives where nobody is, and one where somebody listens and says nothing.
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute_at = format!("http://{}", mute.local_addr().unwrap());
    let store = app.engine.store();
    for (id, address) in [("gone", "http://127.0.0.1:1"), ("mute", &mute_at)] {
        let instance = Instance { id: id.parse().unwrap(), boot: 1 };
        let said = presence::signed(&app::secret(), &instance, format!("{address}#wire=1-1"));
        store.presence.announce(&instance, &said, Duration::from_secs(60)).await.unwrap();
    }
    let known = wait_until(Duration::from_secs(5), || app.engine.peers().len() == 2).await;
    assert!(known, "they are not heard of");
    let api = Api::of(&app).await;
    let body = api.get("/api/v1/sessions").await.body;
    assert_eq!(body["silent"], json!(["gone", "mute"]), "{body:#}");
    assert_eq!((listed(&body).len(), &body["total"]), (1, &json!(1)), "the others are told");
    speaker.close(1000, "").await.unwrap();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_instances_ask_each_other_nobody_else_can() {
    let app = TestApp::start(On::Memory, quick()).await;
    let api = Api::of(&app).await;
    let path = "/internal/v1/sessions?limit=5";
    assert_eq!(api.client.get(path).await.unwrap().status, 404);
    let ask = |mark: String| api.client.clone().header("x-lingua-question", &mark).unwrap();
    let right = ask(app.engine.question("test-1", path));
    assert_eq!(right.get(path).await.unwrap().status, 200);
    assert_eq!(right.get("/internal/v1/sessions?limit=6").await.unwrap().status, 404, "another");
    let other = ask(app.engine.question("test-2", path));
    assert_eq!(other.get(path).await.unwrap().status, 404, "for another instance");
    app.finish().await;
}

async fn any_instance_tells_the_attempts_of_a_job(on: On) {
    let app = TestApp::start(on, quick()).await;
    let options = NodeOptions::new(app.ws("/ws/node")).node_id("one").max_jobs(2);
    let node = FakeNode::connect(options.languages(&["en", "zh"])).await.unwrap();
    app.meets("one").await;
    let job = job().submit(&app);
    done(&job).await;
    let path = format!("/v1/job/{}", job.id);
    let here = Api::of(&app).await.get(&path).await.body;
    let far = Api::of(app.of_nodes()).await;
    let alone = far.get(&path).await.body;
    assert_eq!((&alone["state"], &alone["attempts"]), (&json!("DONE"), &json!([])), "{alone:#}");
    let there = far.get(&format!("{path}?attempts=true")).await.body;
    assert_eq!(there["attempts"], here["attempts"]);
    assert_eq!(there["attempts"][0]["outcome"], "ok", "{there:#}");
    assert_eq!((&there["timings"], &there["state"]), (&here["timings"], &json!("DONE")));
    assert!(here["result"].is_object() && there.get("result").is_none(), "{there:#}");
    let note = there["notes"].as_array().unwrap().last().unwrap();
    assert_eq!(note, "instance test-1 looked after this job and keeps its result");

    let gone = "/v1/job/00000000000000000000000000?attempts=true";
    assert_eq!(far.get(gone).await.status, 404);
    assert_eq!(far.get(&format!("{path}?attempts=some")).await.status, 400);
    node.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_instance_tells_the_attempts_of_a_job_on_the_embedded_store() {
    any_instance_tells_the_attempts_of_a_job(On::FarMemory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_instance_tells_the_attempts_of_a_job_on_redis() {
    any_instance_tells_the_attempts_of_a_job(On::FarRedis).await;
}
