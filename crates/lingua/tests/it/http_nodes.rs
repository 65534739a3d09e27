//! Nodes that speak HTTP: by long poll and by a push to their endpoint.

mod pushed;

use crate::app;
use crate::app::http;
use crate::app::http_node;

use std::sync::Arc;
use std::time::Duration;

use app::{On, TestApp};
use http::{Api, calm, job, node, with};
use http_node::{Endpoint, PollingNode, word};
use lingua_engine::Settings;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

async fn start(settings: Settings) -> (TestApp, Api) {
    let app = TestApp::start(On::Memory, settings).await;
    let api = Api::of(&app).await;
    (app, api)
}

/// Hands a job in; the answer with its ids.
async fn hand_in(api: &Api, request: &Value) -> Value {
    let reply = api.post("/v1/dispatch/f2f", request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

/// How a job stands, at the latest when it is over.
async fn ended(api: &Api, handed_in: &Value) -> Value {
    let id = handed_in["job_id"].as_str().unwrap();
    let reply = api.get(&format!("/v1/job/{id}?wait_ms=10000")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

async fn view(api: &Api, node: &str) -> Value {
    let reply = api.get(&format!("/api/v1/nodes/{node}")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

/// Asks again until it is so.
async fn becomes(api: &Api, node: &str, so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let seen = view(api, node).await;
        if so(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "{seen}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_polled_job_goes_from_hand_in_to_result() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "polls").await;
    let handed_in = hand_in(&api, &with(&job("room"), json!({"trace_id": "t-1"}))).await;
    assert_eq!((&handed_in["node_id"], &handed_in["attempt_id"]), (&json!("polls"), &json!(1)));

    let assign = node.job().await;
    assert_eq!((&assign["audio"], &assign["trace_id"]), (&json!("AAEC"), &json!("t-1")));
    assert_eq!((&assign["src_lang"], &assign["tgt_lang"]), (&json!("en"), &json!("zh")));
    assert_ne!(assign["job_id"], handed_in["job_id"], "a node knows the job by another name");
    assert_ne!(assign["session_id"], "room", "and the session too");
    assert!(assign["deadline_ms"].as_u64().unwrap() > app.engine.now_ms());
    let id = handed_in["job_id"].as_str().unwrap();
    assert_eq!(api.get(&format!("/v1/job/{id}")).await.body["state"], "DISPATCHED");
    assert_eq!(app.used("polls").await, 1);

    assert_eq!(node.ack(&assign).await.status, 200);
    app::wait_until(Duration::from_secs(1), || {
        app.engine.jobs.job(&id.parse().unwrap()).unwrap().view().acked_ms.is_some()
    })
    .await;
    assert_eq!(api.get(&format!("/v1/job/{id}")).await.body["state"], "ACKED");

    let result = json!({"text_asr": "hello", "text_translated": "你好", "tts_audio": "AAEC"});
    assert_eq!(node.done(&assign, result.clone()).await.status, 200);
    let view = ended(&api, &handed_in).await;
    assert_eq!(view["state"], "DONE", "{view}");
    for (name, value) in result.as_object().unwrap() {
        assert_eq!(&view["result"][name], value);
    }
    for hidden in ["job_id", "attempt_id", "node_id", "session_id", "type"] {
        assert!(view["result"].get(hidden).is_none(), "{hidden}: {view}");
    }
    let attempt = &view["attempts"][0];
    assert_eq!((&attempt["number"], &attempt["outcome"]), (&json!(1), &json!("ok")));
    assert!(attempt["acked_ms"].as_u64() >= attempt["sent_ms"].as_u64());
    assert_eq!(view["session_id"], "room");
    app.finish().await;
}

#[tokio::test]
async fn a_poll_waits_for_a_job_and_no_longer_than_it_said() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "polls").await;
    let began = Instant::now();
    assert_eq!(node.ask(0).await.status, 204);
    assert!(began.elapsed() < Duration::from_secs(3));
    let began = Instant::now();
    assert_eq!(node.ask(300).await.status, 204);
    assert!(began.elapsed() >= Duration::from_millis(300));

    let (assign, handed_in) = tokio::join!(node.job(), async {
        sleep(Duration::from_millis(1_200)).await;
        hand_in(&api, &job("s")).await
    });
    assert_eq!(node.done(&assign, json!({})).await.status, 200);
    assert_eq!(ended(&api, &handed_in).await["state"], "DONE");
    app.finish().await;
}

#[tokio::test]
async fn a_head_request_takes_no_job() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "polls").await;
    hand_in(&api, &job("s")).await;
    let head = axum::http::Method::HEAD;
    let reply = api.client.request(head, "/v1/node/polls/jobs", None, bytes::Bytes::new()).await;
    assert_eq!(reply.unwrap().status, 405);
    let assign = node.job().await;
    node.done(&assign, json!({})).await;
    app.finish().await;
}

#[tokio::test]
async fn a_repeated_done_gets_the_same_answer_and_has_no_effect() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "polls").await;
    let handed_in = hand_in(&api, &job("s")).await;
    let assign = node.job().await;
    for text in ["first", "second", "third"] {
        let reply = node.done(&assign, json!({"text_asr": text})).await;
        assert_eq!(reply.status, 200, "{text}: {}", reply.body);
        ended(&api, &handed_in).await;
    }
    assert_eq!(node.ack(&assign).await.status, 200, "an ack that was overtaken");
    let view = ended(&api, &handed_in).await;
    assert_eq!(view["result"]["text_asr"], "first");
    assert_eq!(app.used("polls").await, 0);
    assert_eq!(node.ask(0).await.status, 204, "and no message about it");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_done_sent_several_times_at_once_is_always_right() {
    for on in [On::Memory, On::Redis] {
        let app = TestApp::start(on, calm()).await;
        let api = Api::of(&app).await;
        let node = Arc::new(PollingNode::register(&api, "polls").await);
        for i in 0..40 {
            let handed_in = hand_in(&api, &job(&format!("s{i}"))).await;
            let assign = node.job().await;
            let sent = (0..6).map(|late: u64| {
                let (node, assign) = (Arc::clone(&node), assign.clone());
                tokio::spawn(async move {
                    sleep(Duration::from_micros(150 * late)).await;
                    node.done(&assign, json!({})).await
                })
            });
            for reply in sent.collect::<Vec<_>>() {
                let reply = reply.await.unwrap();
                assert_eq!(reply.status, 200, "{}", reply.body);
            }
            assert_eq!(ended(&api, &handed_in).await["state"], "DONE");
        }
        app.finish().await;
    }
}

#[tokio::test]
async fn words_about_an_attempt_that_is_not_the_nodes_are_stale() {
    let (app, api) = start(calm()).await;
    let slow = PollingNode::register(&api, "slow").await;
    let request = with(&job("s"), json!({"options": {"preferred_node_id": "slow"}}));
    let handed_in = hand_in(&api, &request).await;
    assert_eq!(handed_in["node_id"], "slow");
    let quick = PollingNode::register(&api, "quick").await;
    let old = slow.job().await;
    // No ack: the job goes to the other one.
    let new = quick.job().await;
    assert_eq!((&old["attempt_id"], &new["attempt_id"]), (&json!(1), &json!(2)));
    let cancel = slow.next().await;
    assert_eq!((&cancel["type"], &cancel["attempt_id"]), (&json!("job_cancel"), &json!(1)));
    for reply in
        [slow.ack(&old).await, slow.done(&old, json!({})).await, slow.fail(&old, "X").await]
    {
        assert_eq!((reply.status, &reply.body["error"]), (409, &json!("STALE_ATTEMPT")));
    }
    let stranger = api.post("/v1/job/done", &word("slow", &new)).await;
    assert_eq!(stranger.status, 409, "the attempt is not this node's");
    assert_eq!(quick.done(&new, json!({"text_asr": "x"})).await.status, 200);
    let view = ended(&api, &handed_in).await;
    assert_eq!((&view["state"], &view["attempt_id"]), (&json!("DONE"), &json!(2)));
    assert_eq!(view["attempts"][0]["outcome"], "ACK_TIMEOUT");
    app.finish().await;
}

#[tokio::test]
async fn a_failed_job_is_tried_elsewhere_and_a_nodes_own_code_is_passed_on() {
    let (app, api) = start(calm()).await;
    let first = PollingNode::register(&api, "first").await;
    let request = with(&job("s"), json!({"options": {"preferred_node_id": "first"}}));
    let handed_in = hand_in(&api, &request).await;
    let second = PollingNode::register(&api, "second").await;
    let assign = first.job().await;
    assert_eq!(first.fail(&assign, "NMT_TIMEOUT").await.status, 200);
    let again = second.job().await;
    assert_eq!(again["attempt_id"], 2);
    assert_eq!(second.fail(&again, "the disk is full").await.status, 200);
    let view = ended(&api, &handed_in).await;
    assert_eq!(view["state"], "FAILED", "{view}");
    assert_eq!(view["attempts"][0]["outcome"], "NMT_TIMEOUT");
    assert_eq!(view["error"]["code"], "PROCESSING_ERROR", "a text is no code");
    assert!(view["error"]["detail"].as_str().unwrap().contains("the disk is full"));
    app.finish().await;
}

#[tokio::test]
async fn a_node_that_says_busy_or_misses_a_model_is_not_blamed() {
    let (app, api) = start(calm()).await;
    let first = PollingNode::register(&api, "first").await;
    let prefer_first = with(&job("s"), json!({"options": {"preferred_node_id": "first"}}));
    let busy = hand_in(&api, &prefer_first).await;
    let second = PollingNode::register(&api, "second").await;
    let assign = first.job().await;
    assert_eq!(first.fail(&assign, "BUSY").await.status, 200);
    let assign = second.job().await;
    assert_eq!(second.done(&assign, json!({})).await.status, 200);
    assert_eq!(ended(&api, &busy).await["state"], "DONE");
    // It said itself that it is full: an order from an administrator is not needed to ask it again.
    assert_eq!(first.heartbeat(json!({"max_concurrent_jobs": 3})).await.status, 200);
    becomes(&api, "first", |node| node["slots"]["used"] == 0).await;

    let missing = hand_in(&api, &with(&prefer_first, json!({"session_id": "s2"}))).await;
    let assign = first.job().await;
    let mut word = first.word(&assign);
    word["reason"] = json!("MODEL_NOT_AVAILABLE");
    word["model"] = json!("nmt-en-zh");
    assert_eq!(api.post("/v1/job/fail", &word).await.status, 200);
    let assign = second.job().await;
    assert_eq!(second.done(&assign, json!({})).await.status, 200);
    assert_eq!(ended(&api, &missing).await["state"], "DONE");
    let seen = view(&api, "first").await;
    assert_eq!((&seen["failed"], &seen["breaker"]), (&json!(0), &json!("closed")), "{seen}");
    assert_eq!(seen["missing_models"], json!(["nmt-en-zh"]));
    app.finish().await;
}

#[tokio::test]
async fn a_heartbeat_changes_what_it_names_and_nothing_else() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "beats").await;
    let before = view(&api, "beats").await;
    assert_eq!(node.heartbeat(json!({})).await.body, json!({"ok": true}));
    let told = node.heartbeat(json!({"tts_langs": [], "max_concurrent_jobs": 5})).await;
    assert_eq!(told.status, 200);
    let after = view(&api, "beats").await;
    assert_eq!(after["abilities"]["tts_langs"], json!([]));
    assert_eq!(after["abilities"]["semantic_langs"], before["abilities"]["semantic_langs"]);
    assert_eq!(after["slots"]["declared"], 5);
    let mut spoken = job("s");
    spoken["options"]["require_tts"] = json!(true);
    let refused = api.post("/v1/dispatch/f2f", &spoken).await;
    assert_eq!((refused.status, &refused.body["error"]), (422, &json!("NO_CAPABLE_NODE")));
    assert!(refused.body["detail"].as_str().unwrap().contains("tts(zh)"), "{}", refused.body);

    // A refused heartbeat changes nothing.
    assert_eq!(
        node.heartbeat(json!({"tts_langs": ["!"], "max_concurrent_jobs": 1})).await.status,
        422
    );
    assert_eq!(node.heartbeat(json!({"health": "ready"})).await.status, 200);
    assert_eq!(view(&api, "beats").await["slots"]["declared"], 5);

    assert_eq!(node.heartbeat(json!({"current_load": {"gpu": 0.99}})).await.status, 200);
    let loaded = view(&api, "beats").await;
    assert_eq!(
        (&loaded["overloaded"], &loaded["detail"]["gpu_percent"]),
        (&json!(true), &json!(99.0))
    );
    assert_eq!(
        node.heartbeat(json!({"current_load": {"gpu": 0.5}, "health": "Draining"})).await.status,
        200
    );
    let draining = view(&api, "beats").await;
    assert_eq!((&draining["overloaded"], &draining["state"]), (&json!(false), &json!("draining")));
    assert!(!draining["why_idle"].as_array().unwrap().is_empty());

    let lost = node.heartbeat(json!({"health": "ready", "semantic_langs": []})).await;
    assert_eq!(lost.status, 200, "it keeps its record and is known to be unable");
    let explained = api.get("/api/v1/explain?src=en&tgt=zh&tts=false&node=beats").await.body;
    assert_eq!(explained["node"]["why_not"], json!(["semantic"]), "{explained}");
    app.finish().await;
}

#[tokio::test]
async fn a_node_reports_what_it_runs_and_keeps_it() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "reports").await;
    let handed_in = hand_in(&api, &job("s")).await;
    let assign = node.job().await;
    node.ack(&assign).await;
    let running = json!([{"job_id": assign["job_id"], "attempt_id": assign["attempt_id"]}]);
    assert_eq!(node.heartbeat(json!({ "running": running })).await.status, 200);
    assert_eq!(node.ask(200).await.status, 204, "nothing to stop");
    // What it does not have any more is tried elsewhere, and there is nowhere else.
    sleep(Duration::from_millis(600)).await;
    assert_eq!(node.heartbeat(json!({ "running": [] })).await.status, 200);
    let view = ended(&api, &handed_in).await;
    assert_eq!(view["error"]["code"], "NODE_UNAVAILABLE", "{view}");
    app.finish().await;
}

#[tokio::test]
async fn the_newest_registration_counts_and_the_older_poll_is_told() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "twice").await;
    let handed_in = hand_in(&api, &job("s")).await;
    let assign = node.job().await;
    node.ack(&assign).await;
    let first = view(&api, "twice").await["epoch"].as_u64().unwrap();
    let (old, _) = tokio::join!(node.ask(10_000), async {
        sleep(Duration::from_millis(100)).await;
        PollingNode::register(&api, "twice").await
    });
    assert_eq!((old.status, &old.body["error"]), (409, &json!("CONFLICT")));
    assert!(view(&api, "twice").await["epoch"].as_u64().unwrap() > first);
    assert_eq!(node.done(&assign, json!({})).await.status, 200, "its job went on");
    assert_eq!(ended(&api, &handed_in).await["state"], "DONE");
    assert_eq!(node.ask(0).await.status, 204, "who asks anew asks under the newest");
    app.finish().await;
}

#[tokio::test]
async fn a_silent_node_is_let_go_and_must_register_again() {
    let mut settings = calm();
    settings.timing.heartbeat_ms = 100;
    let (app, api) = start(settings).await;
    let node = PollingNode::register(&api, "silent").await;
    let handed_in = hand_in(&api, &job("s")).await;
    let assign = node.job().await;
    node.ack(&assign).await;
    becomes(&api, "silent", |seen| seen["fresh"] == false).await;
    becomes(&api, "silent", |seen| seen["connected"] == false).await;
    for reply in
        [node.heartbeat(json!({})).await, node.ask(0).await, node.done(&assign, json!({})).await]
    {
        assert_eq!((reply.status, &reply.body["detail"]), (404, &json!("register again")));
    }
    let node = PollingNode::register(&api, "silent").await;
    assert_eq!(node.done(&assign, json!({})).await.status, 200, "back within the grace");
    assert_eq!(ended(&api, &handed_in).await["state"], "DONE");
    app.finish().await;
}

#[tokio::test]
async fn drain_resume_and_block_do_what_they_say() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "ruled").await;
    let order =
        async |what: &str| api.post(&format!("/api/v1/nodes/ruled/{what}"), &json!({})).await;
    assert_eq!(order("drain").await.status, 200);
    let told = node.next().await;
    assert_eq!((&told["type"], &told["command"]), (&json!("node_control"), &json!("drain")));
    let refused = api.post("/v1/dispatch/f2f", &job("s")).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    let seen = view(&api, "ruled").await;
    assert_eq!((&seen["state"], &seen["order"]), (&json!("draining"), &json!("drain")));
    assert_eq!(seen["why_idle"], json!(["an administrator drains it"]));

    assert_eq!(order("resume").await.status, 200);
    assert_eq!(node.next().await["command"], "resume");
    let handed_in = hand_in(&api, &job("s")).await;
    let assign = node.job().await;
    node.done(&assign, json!({})).await;
    ended(&api, &handed_in).await;

    let (told, _) = tokio::join!(node.ask(5_000), order("block"));
    assert!(told.status == 200 || told.status == 403, "{}", told.body);
    assert_eq!(node.heartbeat(json!({})).await.status, 404);
    let refused = api.post("/v1/node/register", &http::node("ruled")).await;
    assert_eq!((refused.status, &refused.body["error"]), (403, &json!("FORBIDDEN")));
    assert_eq!(order("resume").await.status, 200);
    PollingNode::register(&api, "ruled").await;
    app.finish().await;
}

#[tokio::test]
async fn what_a_node_has_installed_is_shown_and_replaced_list_by_list() {
    let (app, api) = start(calm()).await;
    let has = json!({
        "models": [{ "model_id": "whisper", "version": "3", "kind": "ASR", "languages": ["en"] }],
        "services": [{ "service_id": "faster-whisper", "type": "ASR", "version": "1.4.0", "status": "Running" }],
        "features": { "emotion_detection": true, "speaker_identification": false, "diarization": "2.1" },
        "hardware": { "cpu_cores": 8, "memory_gb": 15.5, "gpus": [{ "name": "RTX", "memory_gb": 24 }] },
    });
    let node = PollingNode::register_as(&api, with(&node("has"), has)).await;
    let service =
        json!([{ "id": "faster-whisper", "type": "asr", "version": "1.4.0", "status": "running" }]);
    let seen = view(&api, "has").await;
    assert_eq!(
        seen["inventory"],
        json!({
            "models": [{ "id": "whisper", "version": "3", "kind": "asr", "languages": ["en"], "loaded": true }],
            "services": service,
            "features": [{ "name": "diarization", "version": "2.1" }, { "name": "emotion_detection" }],
            "hardware": { "cpu_cores": 8.0, "memory_gb": 15.5, "gpus": [{ "name": "RTX", "memory_gb": 24.0 }] },
        })
    );
    let record = app.engine.store().nodes.get(&"has".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(record.profile.inventory.models.unwrap()[0].id.as_str(), "whisper");
    let version = record.version;

    assert_eq!(node.heartbeat(json!({})).await.status, 200);
    assert_eq!(node.heartbeat(json!({ "models": [] })).await.status, 200);
    let seen = becomes(&api, "has", |seen| seen["inventory"]["models"] == json!([])).await;
    assert_eq!(seen["inventory"]["services"], service, "the other lists stay");
    let record = app.engine.store().nodes.get(&"has".parse().unwrap()).await.unwrap().unwrap();
    assert_ne!(record.version, version);

    let silent = PollingNode::register(&api, "silent").await;
    assert_eq!(view(&api, "silent").await["inventory"], json!({}), "it never said");
    drop((node, silent));
    app.finish().await;
}
