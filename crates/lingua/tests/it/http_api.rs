//! The HTTP door as callers and operators use it.

mod operating;

use crate::app;
use crate::app::http;
use crate::app::http_node;

use std::time::Duration;

use app::{On, TestApp};
use http::{Api, calm, job, node, with};
use http_node::PollingNode;
use lingua_engine::Settings;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const DISPATCH: &str = "/v1/dispatch/f2f";

async fn start(settings: Settings) -> (TestApp, Api) {
    let app = TestApp::start(On::Memory, settings).await;
    let api = Api::of(&app).await;
    (app, api)
}

fn job_path(answer: &Value) -> String {
    format!("/v1/job/{}", answer["job_id"].as_str().unwrap())
}

/// Does whatever comes for so long.
async fn serve(node: &PollingNode, result: Value, ms: u64) {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until {
        let reply = node.ask(50).await;
        if reply.status == 200 && reply.body["type"] == "job_assign" {
            assert_eq!(node.done(&reply.body, result.clone()).await.status, 200);
        }
    }
}

#[tokio::test]
async fn a_dispatch_that_waits_answers_with_the_result() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "n").await;
    let request = with(&job("s"), json!({"options": {"wait_ms": 5_000}}));
    let (reply, ()) =
        tokio::join!(api.post(DISPATCH, &request), serve(&node, json!({"text_asr": "hi"}), 300));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body["job"]["state"], "DONE", "{}", reply.body);
    assert_eq!(reply.body["job"]["result"]["text_asr"], "hi");
    assert_eq!(reply.body["job"]["job_id"], reply.body["job_id"]);

    let request = with(&job("s2"), json!({"options": {"wait_ms": 100}}));
    let reply = api.post(DISPATCH, &request).await;
    assert_eq!(reply.body["job"]["state"], "DISPATCHED", "no longer than it said");
    serve(&node, json!({}), 200).await;
    app.finish().await;
}

#[tokio::test]
async fn what_passes_through_reaches_the_node_and_comes_back_as_it_was() {
    let (app, api) = start(calm()).await;
    let report = with(&node("n"), json!({"models": [{"model_id": "m1"}]}));
    let node = PollingNode::register_as(&api, report).await;
    let request = with(
        &job("s"),
        json!({
            "audio_format": "PCM16", "sample_rate": 8_000, "trace_id": "trace", "dialect": "scots",
            "context_text": "before\nthat", "pipeline": {"use_asr": true, "new_step": [1]},
            "features": {"emotion": true}, "mode": "one_way", "lang_a": "en", "lang_b": "zh",
            "options": {"utterance_index": 9, "turn_id": "turn-1", "models": ["m1"]},
        }),
    );
    let reply = api.post(DISPATCH, &request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let assign = node.job().await;
    for (name, value) in [
        ("audio_format", json!("pcm16")),
        ("sample_rate", json!(8_000)),
        ("trace_id", json!("trace")),
        ("dialect", json!("scots")),
        ("context_text", json!("before\nthat")),
        ("pipeline", json!({"use_asr": true, "new_step": [1]})),
        ("features", json!({"emotion": true})),
        ("mode", json!("one_way")),
        ("lang_a", json!("en")),
        ("utterance_index", json!(9)),
    ] {
        assert_eq!(assign[name], value, "{name}");
    }
    assert_ne!(assign["turn_id"], "turn-1", "a turn has another name for nodes");
    let mut done = node.word(&assign);
    done["result"] = json!({"quality_score": 0.5, "extra": {"k": [null, 1]}});
    let text = done.to_string().replace("0.5", "0.50");
    assert_eq!(api.post_bytes("/v1/job/done", text).await.status, 200);
    let view = api.get(&format!("{}?wait_ms=5000", job_path(&reply.body))).await;
    assert!(view.raw.text().contains(r#""quality_score":0.50"#), "{}", view.raw.text());
    assert_eq!(view.body["result"]["extra"], json!({"k": [null, 1]}));
    app.finish().await;
}

/// Paper 002, 2.1 and 7.3.2: what a node is able to do decides, here that it takes a text.
#[tokio::test]
async fn a_text_needs_no_recogniser_and_goes_to_a_node_that_takes_text() {
    let (app, api) = start(calm()).await;
    let hears = PollingNode::register(&api, "hears").await;
    let request = with(&job("s"), json!({"audio": null, "text": "good morning"}));
    let refused = api.post(DISPATCH, &request).await;
    assert_eq!((refused.status, &refused.body["error"]), (422, &json!("NO_CAPABLE_NODE")));
    assert!(refused.body["detail"].as_str().unwrap().contains("text input"), "{}", refused.body);
    let deaf = with(&node("deaf"), json!({"asr_langs": [], "supports": ["text", "cancel"]}));
    let deaf = PollingNode::register_as(&api, deaf).await;
    let reply = api.post(DISPATCH, &request).await;
    assert_eq!(reply.body["node_id"], "deaf", "{}", reply.body);
    let assign = deaf.job().await;
    assert_eq!(
        (&assign["text"], &assign["pipeline"]["use_asr"]),
        (&json!("good morning"), &json!(false))
    );
    for absent in ["audio", "audio_format", "sample_rate"] {
        assert!(assign.get(absent).is_none(), "{absent}");
    }
    deaf.done(&assign, json!({"text_translated": "早上好"})).await;
    let view = api.get(&format!("{}?wait_ms=5000", job_path(&reply.body))).await;
    assert_eq!(view.body["result"]["text_translated"], "早上好");
    let spoken = api.post(DISPATCH, &job("s2")).await;
    assert_eq!(spoken.body["node_id"], "hears", "speech goes to who recognises it");
    hears.done(&hears.job().await, json!({})).await;
    app.finish().await;
}

#[tokio::test]
async fn an_automatic_source_goes_to_a_node_for_both_directions() {
    let (app, api) = start(calm()).await;
    let one_way = with(&node("one-way"), json!({"nmt_pairs": [["en", "zh"]]}));
    let one_way = PollingNode::register_as(&api, one_way).await;
    let request = with(&job("s"), json!({"src_lang": "auto", "lang_a": "en", "lang_b": "zh"}));
    let refused = api.post(DISPATCH, &request).await;
    assert_eq!((refused.status, &refused.body["error"]), (422, &json!("NO_CAPABLE_NODE")));
    let both = PollingNode::register(&api, "both").await;
    let reply = api.post(DISPATCH, &request).await;
    assert_eq!(reply.body["node_id"], "both");
    let assign = both.job().await;
    assert_eq!((&assign["src_lang"], &assign["mode"]), (&json!("auto"), &json!("two_way_auto")));
    both.done(&assign, json!({})).await;
    assert_eq!(one_way.ask(0).await.status, 204);
    app.finish().await;
}

#[tokio::test]
async fn the_same_request_id_is_one_job_however_often_it_is_sent() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "n").await;
    let request = with(&job("s"), json!({"request_id": "r-1"}));
    let sent = (0..10).map(|_| {
        let (api, request) = (api.clone(), request.clone());
        tokio::spawn(async move { api.post(DISPATCH, &request).await.body })
    });
    let mut answers = Vec::new();
    for answer in sent.collect::<Vec<_>>() {
        answers.push(answer.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let assign = node.job().await;
    assert_eq!(node.ask(100).await.status, 204, "one job, one message");
    node.done(&assign, json!({"text_asr": "once"})).await;
    let view = api.get(&format!("{}?wait_ms=5000", job_path(&answers[0]))).await;
    assert_eq!(view.body["state"], "DONE");
    assert_eq!(api.post(DISPATCH, &request).await.body, answers[0], "also when it is over");
    for other in [
        json!({"session_id": "s2"}),
        json!({"tgt_lang": "en"}),
        json!({"options": {"require_tts": false}}),
    ] {
        let reply = api.post(DISPATCH, &with(&request, other)).await;
        assert_eq!((reply.status, &reply.body["error"]), (409, &json!("CONFLICT")));
    }
    let unnamed = with(&request, json!({"request_id": null}));
    let (a, b) = (api.post(DISPATCH, &unnamed).await, api.post(DISPATCH, &unnamed).await);
    assert_ne!(a.body["job_id"], b.body["job_id"]);
    serve(&node, json!({}), 300).await;
    app.finish().await;
}

#[tokio::test]
async fn a_job_of_another_instance_is_answered_from_the_store() {
    let (store, _) = app::open(On::Memory).await;
    let one = TestApp::over(store.clone(), "one", calm()).await;
    let two = TestApp::over(store, "two", calm()).await;
    let (api_1, api_2) = (Api::of(&one).await, Api::of(&two).await);
    let node = PollingNode::register(&api_1, "n").await;
    let request = with(&job("s"), json!({"request_id": "r-1"}));
    let first = api_1.post(DISPATCH, &request).await;
    let assign = node.job().await;
    let again = api_2.post(DISPATCH, &request).await;
    for name in ["job_id", "node_id", "attempt_id"] {
        assert_eq!(first.body[name], again.body[name], "{name}");
    }
    let path = job_path(&first.body);
    assert_eq!(api_2.get(&path).await.body["state"], "DISPATCHED");
    assert_eq!(api_2.delete(&path).await.status, 409);

    let waits = format!("{path}?wait_ms=5000");
    let (waited, _) = tokio::join!(api_2.get(&waits), async {
        sleep(Duration::from_millis(300)).await;
        node.done(&assign, json!({"text_asr": "x"})).await
    });
    assert_eq!(waited.body["state"], "DONE", "a wait sees the end on the other instance");
    assert!(waited.body.get("result").is_none(), "the result is kept where it came in");
    let waits = with(&request, json!({"options": {"wait_ms": 1_000}}));
    assert_eq!(api_2.post(DISPATCH, &waits).await.body["job"]["state"], "DONE");
    assert_eq!(api_2.delete(&path).await.body["state"], "DONE");

    let nowhere = with(&job("s"), json!({"request_id": "r-2", "src_lang": "de"}));
    assert_eq!(api_1.post(DISPATCH, &nowhere).await.status, 422);
    assert_eq!(api_2.post(DISPATCH, &nowhere).await.status, 422);
    one.finish().await;
    two.finish().await;
}

#[tokio::test]
async fn a_cancelled_job_ends_wherever_it_is() {
    let (app, api) = start(calm()).await;
    let node =
        PollingNode::register_as(&api, with(&node("n"), json!({"max_concurrent_jobs": 1}))).await;
    let running = api.post(DISPATCH, &job("running")).await;
    let assign = node.job().await;
    node.ack(&assign).await;
    let waiting = with(&job("waiting"), json!({"request_id": "waits"}));
    let (refused, ()) = tokio::join!(api.post(DISPATCH, &waiting), async {
        sleep(Duration::from_millis(150)).await;
        let jobs = app.engine.jobs.open_jobs();
        let job = jobs.iter().find(|job| job.session.session().as_str() == "waiting").unwrap();
        let reply = api.delete(&format!("/v1/job/{}", job.id)).await;
        assert_eq!(reply.body, json!({"ok": true, "state": "CANCELLED"}));
    });
    assert_eq!((refused.status, &refused.body["error"]), (409, &json!("JOB_CANCELLED")));

    let path = job_path(&running.body);
    for _ in 0..2 {
        assert_eq!(api.delete(&path).await.body, json!({"ok": true, "state": "CANCELLED"}));
    }
    let view = api.get(&path).await.body;
    assert_eq!(
        (&view["state"], &view["error"]["code"]),
        (&json!("CANCELLED"), &json!("JOB_CANCELLED"))
    );
    let told = node.next().await;
    assert_eq!((&told["type"], &told["job_id"]), (&json!("job_cancel"), &assign["job_id"]));
    assert_eq!(node.done(&assign, json!({})).await.status, 409, "too late");
    assert_eq!(app.used("n").await, 0);

    let done = api.post(DISPATCH, &job("done")).await;
    let assign = node.job().await;
    node.done(&assign, json!({})).await;
    api.get(&format!("{}?wait_ms=5000", job_path(&done.body))).await;
    assert_eq!(api.delete(&job_path(&done.body)).await.body["state"], "DONE");
    app.finish().await;
}

#[tokio::test]
async fn audio_by_reference_is_the_audio_that_was_handed_in() {
    let mut settings = calm();
    settings.audio.keep_ms = 1_000;
    let (app, api) = start(settings).await;
    let node = PollingNode::register(&api, "n").await;
    let kept = api.post_bytes("/v1/audio", vec![0u8, 1, 2]).await;
    let reference = kept.body["audio_ref"].as_str().unwrap();
    assert!(kept.body["expires_ms"].as_u64().unwrap() > app.engine.now_ms());
    let by_reference = with(&job("s"), json!({"audio": null, "audio_ref": reference}));
    assert_eq!(api.post(DISPATCH, &by_reference).await.status, 200);
    let assign = node.job().await;
    assert_eq!(assign["audio"], "AAEC");
    node.done(&assign, json!({})).await;

    let name = reference.strip_prefix("blob://").unwrap();
    for path in [name.to_owned(), reference.replace(':', "%3A").replace('/', "%2F")] {
        let fetched = api.get(&format!("/v1/audio/{path}")).await;
        assert_eq!((fetched.status, &fetched.raw.body[..]), (200, &[0u8, 1, 2][..]));
    }
    let forged =
        format!("{}{}", &name[..name.len() - 1], if name.ends_with('0') { '1' } else { '0' });
    assert_eq!(api.get(&format!("/v1/audio/{forged}")).await.status, 400);
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(api.get(&format!("/v1/audio/{name}")).await.status, 404);
    assert_eq!(api.post(DISPATCH, &by_reference).await.status, 404);
    app.finish().await;
}

#[tokio::test]
async fn busy_says_when_to_come_back() {
    let (app, api) = start(calm()).await;
    let node =
        PollingNode::register_as(&api, with(&node("n"), json!({"max_concurrent_jobs": 1}))).await;
    assert_eq!(api.post(DISPATCH, &job("first")).await.status, 200);
    let assign = node.job().await;
    node.ack(&assign).await;
    let busy = api.post(DISPATCH, &job("second")).await;
    assert_eq!((busy.status, &busy.body["error"]), (503, &json!("ALL_NODES_BUSY")));
    assert_eq!(busy.body["legacy_code"], "ALL_CANDIDATES_FULL_OR_FAILED");
    assert!(busy.body["retry_after_ms"].as_u64().unwrap() > 0);
    assert!(busy.raw.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    let strict = json!({"options": {"preferred_node_id": "n", "strict": true}});
    let busy = api.post(DISPATCH, &with(&job("third"), strict)).await;
    assert_eq!((busy.status, &busy.body["error"]), (503, &json!("PREFERRED_NODE_BUSY")));
    node.done(&assign, json!({})).await;
    app.finish().await;
}

#[tokio::test]
async fn a_preferred_node_is_only_the_first_choice() {
    let (app, api) = start(calm()).await;
    let texts = with(&node("texts"), json!({"tts_langs": []}));
    let texts = PollingNode::register_as(&api, texts).await;
    let speaks = PollingNode::register(&api, "speaks").await;
    let prefer = json!({"options": {"preferred_node_id": "texts"}});
    let reply = api.post(DISPATCH, &with(&job("s"), prefer)).await;
    assert_eq!(reply.body["node_id"], "speaks");
    let notes = reply.body["notes"].to_string();
    assert!(notes.contains("preferred node passed over") && notes.contains("tts"), "{notes}");
    let assign = speaks.job().await;
    speaks.done(&assign, json!({})).await;
    let prefer = json!({"options": {"preferred_node_id": "texts", "require_tts": false}});
    assert_eq!(api.post(DISPATCH, &with(&job("s"), prefer)).await.body["node_id"], "texts");
    let assign = texts.job().await;
    assert_eq!(assign["pipeline"]["use_tts"], false);
    texts.done(&assign, json!({})).await;
    app.finish().await;
}

#[tokio::test]
async fn silence_is_an_empty_ending_and_an_unsuccessful_result_a_failure() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "n").await;
    for (result, state, field, value) in [
        (
            json!({"success": true, "extra": {"reason": "ASR_EMPTY"}}),
            "DONE",
            "/empty_reason",
            "ASR_EMPTY",
        ),
        (
            json!({"success": false, "error": {"code": "TTS_TIMEOUT", "message": "slow"}}),
            "FAILED",
            "/error/code",
            "TTS_TIMEOUT",
        ),
        (json!({"success": false}), "FAILED", "/error/code", "PROCESSING_ERROR"),
    ] {
        let reply = api.post(DISPATCH, &job("s")).await;
        let assign = node.job().await;
        assert_eq!(node.done(&assign, result).await.status, 200);
        let view = api.get(&format!("{}?wait_ms=5000", job_path(&reply.body))).await.body;
        assert_eq!(view["state"], state, "{view}");
        assert_eq!(view.pointer(field).unwrap(), value, "{view}");
    }
    app.finish().await;
}
