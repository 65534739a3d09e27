//! Jobs that ask for models, services, features and regions by name, over HTTP and over sessions.

use lingua_core::fleet::RankRule;
use lingua_engine::Settings;
use lingua_lab::NodeOptions;
use serde_json::{Value, json};

use crate::app::http::{Api, calm, job, node as report, with};
use crate::app::http_node::PollingNode;
use crate::app::{On, TestApp};
use crate::talking::{
    is_missing, is_result, mark, node_options, node_with, options, part, speaker_with, take,
};

const DISPATCH: &str = "/v1/dispatch/f2f";

async fn start(settings: Settings) -> (TestApp, Api) {
    let app = TestApp::start(On::Memory, settings).await;
    let api = Api::of(&app).await;
    (app, api)
}

fn model(id: &str, version: &str) -> Value {
    json!({ "model_id": id, "version": version, "kind": "asr" })
}

fn asking(options: Value) -> Value {
    with(&job("s"), json!({ "options": options }))
}

/// Paper 002, 2.1, 7.3.2 and 7.4.2: matching by functions, models and service packages.
#[tokio::test]
async fn a_job_goes_to_a_node_that_has_what_it_names_and_to_no_other() {
    let (app, api) = start(calm()).await;
    let plain = PollingNode::register(&api, "plain").await;
    let old = with(&report("old"), json!({ "models": [model("whisper", "2")] }));
    let old = PollingNode::register_as(&api, old).await;
    let has = json!({ "models": [model("whisper", "3.1")], "features": { "emotion_detection": "2" },
        "services": [{ "service_id": "your-tts", "type": "tone", "version": "1.4", "status": "running" }] });
    let new = PollingNode::register_as(&api, with(&report("new"), has)).await;
    for options in [
        json!({ "models": ["whisper@3"] }),
        json!({ "services": ["tone"] }),
        json!({ "services": ["Your-TTS@1.2"] }),
        json!({ "features": ["Emotion_Detection@2"] }),
        json!({ "models": ["whisper"], "services": ["tone@1"], "features": ["emotion_detection"] }),
    ] {
        let handed_in = api.post(DISPATCH, &asking(options.clone())).await;
        assert_eq!(handed_in.body["node_id"], "new", "{options}: {}", handed_in.body);
        let assign = new.job().await;
        assert_eq!(new.done(&assign, json!({ "text_translated": "x" })).await.status, 200);
        let id = handed_in.body["job_id"].as_str().unwrap();
        assert_eq!(api.get(&format!("/v1/job/{id}?wait_ms=5000")).await.body["state"], "DONE");
    }
    for (options, says) in [
        (
            json!({ "models": ["whisper-9000"] }),
            "No node supports model(whisper-9000) (not on: model(whisper-9000) on 3 nodes).",
        ),
        (
            json!({ "models": ["whisper@4"] }),
            "No node supports model(whisper@4) (not on: model(whisper@4) on 3 nodes).",
        ),
        (
            json!({ "services": ["tone@2"] }),
            "No node supports service(tone@2) (not on: service(tone@2) on 3 nodes).",
        ),
        (
            json!({ "features": ["speaker"] }),
            "No node supports feature(speaker) (not on: feature(speaker) on 3 nodes).",
        ),
        (
            json!({ "residency": ["eu"] }),
            "No node supports region(eu) (not on: region(eu) on 3 nodes).",
        ),
    ] {
        let refused = api.post(DISPATCH, &asking(options)).await;
        assert_eq!((refused.status, &refused.body["error"]), (422, &json!("NO_CAPABLE_NODE")));
        assert_eq!(refused.body["detail"], says);
    }
    drop((plain, old));
    app.finish().await;
}

/// F5: what is remembered is what was missing, and not the direction.
#[tokio::test]
async fn what_was_asked_for_in_vain_is_told_by_its_name_and_not_as_a_direction() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "plain").await;
    let refused = api.post(DISPATCH, &asking(json!({ "models": ["whisper@3"] }))).await;
    assert_eq!(refused.status, 422);
    let pools = api.get("/api/v1/pools").await.body;
    assert_eq!(pools["unmet"], json!([]));
    let by_name = json!([{ "direction": "en->zh", "tts": true, "asks": ["model(whisper@3)"] }]);
    assert_eq!(pools["unmet_by_name"], by_name);
    let view = api.get("/api/v1/nodes/plain").await.body;
    assert_eq!(view["useful_if"][0]["lacks"], json!(["model"]));
    assert_eq!(view["useful_if"][0]["asks"], json!(["model(whisper@3)"]));
    let why = app.engine.why_idle(&"plain".parse().unwrap());
    assert!(
        why.iter().any(|why| why == "jobs that it could do ask for model(whisper@3)"),
        "{why:?}"
    );

    let explained =
        api.get("/api/v1/explain?src=en&tgt=zh&models=whisper@3&services=tone").await.body;
    let reasons = json!([{ "reason": "service", "nodes": 1 }, { "reason": "model", "nodes": 1 }]);
    assert_eq!(explained["reasons"], reasons, "{explained}");
    assert_eq!(explained["asks"], json!(["service(tone)", "model(whisper@3)"]));
    for query in ["models=a%20b", "services=,a@", "residency=e%20u", "features=a@b@c"] {
        let wrong = api.get(&format!("/api/v1/explain?src=en&tgt=zh&{query}")).await;
        assert_eq!(
            (wrong.status, &wrong.body["error"]),
            (400, &json!("INVALID_MESSAGE")),
            "{query}"
        );
    }
    let direction = with(&job("s"), json!({ "src_lang": "de" }));
    assert_eq!(api.post(DISPATCH, &direction).await.status, 422);
    assert_eq!(api.get("/api/v1/pools").await.body["unmet"][0]["direction"], "de->zh");
    drop(node);
    app.finish().await;
}

fn with_model(options: NodeOptions, id: &str) -> NodeOptions {
    let installed_models = Some(json!([model(id, "3")]));
    NodeOptions { installed_models, ..options }
}

/// F12 on the session's side, and existing clients, whose object of features asks nobody for anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_asks_by_name_and_an_object_of_features_is_passed_on() {
    let app = TestApp::start(On::Memory, calm()).await;
    let mut has = node_with(&app, with_model(node_options(&app, "has"), "whisper")).await;
    let opening = options(&app).init_with(json!({ "models": ["whisper@3"] }));
    let mut client = speaker_with(opening).await;
    client.marked_sentence(mark(0), 300).await.unwrap();
    let assign = take(&mut has).await;
    assert!(assign.get("models").is_none(), "{assign}");
    has.result(&assign, "heard").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);

    let languages =
        json!({ "type": "set_languages", "src_lang": "en", "tgt_lang": "zh", "models": ["nllb"] });
    client.send(languages).await.unwrap();
    client.marked_sentence(mark(1), 300).await.unwrap();
    is_missing(&client.ending().await.unwrap(), 1, "no_capable_node");

    let features = json!({ "emotion_detection": true });
    let languages = json!({ "type": "set_languages", "src_lang": "en", "tgt_lang": "zh", "models": [],
        "features": features });
    client.send(languages).await.unwrap();
    client.marked_sentence(mark(2), 300).await.unwrap();
    let assign = take(&mut has).await;
    assert_eq!(assign["features"], features);
    has.result(&assign, "passed on").await.unwrap();
    is_result(&client.ending().await.unwrap(), 2);
    part(app, client).await;
}

/// Paper 002, 7.4.1 and phase 3: regions.
#[tokio::test]
async fn speech_that_must_stay_in_a_region_goes_nowhere_else() {
    let mut settings = calm();
    settings.tenant_residency = [("default".parse().unwrap(), vec!["eu".parse().unwrap()])].into();
    let (app, api) = start(settings).await;
    let nowhere = PollingNode::register(&api, "nowhere").await;
    let far = PollingNode::register_as(&api, with(&report("far"), json!({ "region": "us" }))).await;
    let refused = api.post(DISPATCH, &asking(json!({}))).await;
    assert_eq!((refused.status, &refused.body["error"]), (422, &json!("NO_CAPABLE_NODE")));
    assert!(refused.body["detail"].as_str().unwrap().contains("region(eu)"), "{}", refused.body);
    let near =
        PollingNode::register_as(&api, with(&report("near"), json!({ "region": "eu" }))).await;
    for n in 0..5 {
        let request = with(&asking(json!({})), json!({ "session_id": format!("s{n}") }));
        assert_eq!(api.post(DISPATCH, &request).await.body["node_id"], "near");
        let assign = near.job().await;
        assert_eq!(near.done(&assign, json!({})).await.status, 200);
    }
    let both = api.post(DISPATCH, &asking(json!({ "residency": ["us"] }))).await;
    assert_eq!(both.status, 422, "the tenant's own regions hold too: {}", both.body);
    let pools = api.get("/api/v1/pools?by=region").await.body;
    let pair = pools["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pair| pair["src"] == "en" && pair["tgt"] == "zh");
    let regions = &pair.unwrap()["regions"];
    assert_eq!(
        (&regions["eu"]["nodes"], &regions["us"]["ready"], &regions[""]["nodes"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(api.get("/api/v1/pools?by=colour").await.status, 400);
    assert!(api.get("/api/v1/pools").await.body["pairs"][0].get("regions").is_none());
    drop((nowhere, far));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_says_where_it_is_is_served_there_and_by_the_node_that_it_names() {
    let mut settings = calm();
    (settings.select.rank, settings.region) = (RankRule::Region, Some("us".parse().unwrap()));
    let app = TestApp::start(On::Memory, settings).await;
    let place = |name: &str, region: &str| {
        node_options(&app, name).register_with(json!({ "region": region }))
    };
    let mut here = node_with(&app, place("here", "us")).await;
    let mut there = node_with(&app, place("there", "eu")).await;
    let mut near = speaker_with(options(&app).init_with(json!({ "region": "eu" }))).await;
    near.marked_sentence(mark(0), 300).await.unwrap();
    let assign = take(&mut there).await;
    there.result(&assign, "in the EU").await.unwrap();
    is_result(&near.ending().await.unwrap(), 0);
    near.close_session("done").await.unwrap();
    near.next_of("session_close_ack").await.unwrap();

    let named = json!({ "region": "eu", "preferred_node_id": "here" });
    let mut named = speaker_with(options(&app).init_with(named)).await;
    named.marked_sentence(mark(0), 300).await.unwrap();
    let assign = take(&mut here).await;
    here.result(&assign, "by name").await.unwrap();
    is_result(&named.ending().await.unwrap(), 0);
    named.close_session("done").await.unwrap();
    named.next_of("session_close_ack").await.unwrap();

    let strict = json!({ "preferred_node_id": "nobody", "strict": true });
    let mut strict = speaker_with(options(&app).init_with(strict)).await;
    strict.marked_sentence(mark(0), 300).await.unwrap();
    is_missing(&strict.ending().await.unwrap(), 0, "no_capable_node");
    part(app, strict).await;
}

/// F6: figures of the registration count, and each resource has its own threshold.
#[tokio::test]
async fn a_node_that_registers_overloaded_is_asked_last_from_its_first_moment() {
    let mut settings = calm();
    settings.overload.gpu_mem = 80.0;
    let (app, api) = start(settings).await;
    let hot = json!({ "current_load": { "gpu_mem": 0.85, "cpu": 0.85 } });
    let hot = PollingNode::register_as(&api, with(&report("hot"), hot)).await;
    let view = api.get("/api/v1/nodes/hot").await.body;
    assert_eq!(
        (&view["overloaded"], &view["detail"]["gpu_mem_percent"]),
        (&json!(true), &json!(85.0))
    );
    assert_eq!(hot.heartbeat(json!({ "current_load": { "gpu_mem": 0.76 } })).await.status, 200);
    assert_eq!(api.get("/api/v1/nodes/hot").await.body["overloaded"], true, "not clearly lower");
    assert_eq!(
        hot.heartbeat(json!({ "current_load": { "gpu_mem": 0.75, "mem": 0.9 } })).await.status,
        200
    );
    assert_eq!(api.get("/api/v1/nodes/hot").await.body["overloaded"], false);
    app.finish().await;
}

/// F10: a node's owner tells the id that the node knows, and an operator finds the job by it.
#[tokio::test]
async fn an_operator_finds_a_job_by_the_name_that_its_node_knows() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "n").await;
    let handed_in = api.post(DISPATCH, &job("s")).await.body;
    let assign = node.job().await;
    assert_ne!(assign["job_id"], handed_in["job_id"]);
    for name in [&assign["job_id"], &handed_in["job_id"]] {
        let found = api.get(&format!("/api/v1/jobs/{}", name.as_str().unwrap())).await;
        assert_eq!((found.status, &found.body["job_id"]), (200, &handed_in["job_id"]));
        assert_eq!(found.body["attempts"][0]["node_id"], "n");
    }
    assert_eq!(node.done(&assign, json!({})).await.status, 200);
    app.finish().await;
}
