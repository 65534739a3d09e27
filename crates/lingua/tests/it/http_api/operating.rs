//! What operators ask of the HTTP door, and what it says when work cannot be taken.

use super::*;

#[tokio::test]
async fn nodes_pools_and_explanations_say_how_things_are() {
    let (app, api) = start(calm()).await;
    let one_way = with(&node("one-way"), json!({"nmt_pairs": [["en", "zh"]], "version": "1.2"}));
    PollingNode::register_as(&api, one_way).await;
    PollingNode::register_as(&api, with(&node("texts"), json!({"tts_langs": []}))).await;
    let german = json!({"src_lang": "de"});
    assert_eq!(api.post(DISPATCH, &with(&job("s"), german)).await.status, 422);

    let nodes = api.get("/api/v1/nodes").await.body;
    assert_eq!(nodes["total"], 2);
    assert_eq!(nodes["nodes"][0]["node_id"], "one-way");
    assert_eq!(nodes["nodes"][0]["abilities"]["nmt"], json!(["en->zh"]));
    assert_eq!(
        nodes["nodes"][0]["slots"],
        json!({"declared": 2, "open": 2, "trusted": 2, "used": 0})
    );
    assert_eq!(nodes["nodes"][0]["supports"], json!(["ack", "cancel"]));
    let page = api.get("/api/v1/nodes?limit=1").await.body;
    assert_eq!((&page["next"], page["nodes"].as_array().unwrap().len()), (&json!("one-way"), 1));
    let page = api.get("/api/v1/nodes?limit=1&after=one-way").await.body;
    assert_eq!((page.get("next"), &page["nodes"][0]["node_id"]), (None, &json!("texts")));

    let owner = api.get("/api/v1/nodes/one-way").await.body;
    assert_eq!((&owner["state"], &owner["detail"]["version"]), (&json!("ready"), &json!("1.2")));
    assert_eq!(owner["why_idle"], json!([]));
    assert_eq!(owner["useful_if"][0]["direction"], "de->zh", "{owner}");
    assert_eq!(owner["useful_if"][0]["lacks"], json!(["asr", "semantic", "nmt"]));
    let texts = api.get("/api/v1/nodes/texts").await.body;
    assert!(texts["why_idle"].to_string().contains("text jobs only"), "{texts}");

    let pools = api.get("/api/v1/pools").await.body;
    let pair = |src: &str, tgt: &str| {
        let pairs = pools["pairs"].as_array().unwrap();
        pairs.iter().find(|pair| pair["src"] == src && pair["tgt"] == tgt).cloned().unwrap()
    };
    let wanted = json!({"src": "en", "tgt": "zh", "nodes": 2, "ready": 2, "speaking": 1, "slots": 4,
                        "free": 4, "not_open": 0, "waiting": 0});
    assert_eq!(pair("en", "zh"), wanted);
    assert_eq!(pair("zh", "en")["nodes"], 1, "a pair is directed");
    assert_eq!(pools["unmet"], json!([{"direction": "de->zh", "tts": true}]));

    let explained = api.get("/api/v1/explain?src=en&tgt=zh&node=texts").await.body;
    assert_eq!((&explained["nodes"], &explained["eligible"]), (&json!(2), &json!(1)));
    assert_eq!(explained["reasons"], json!([{"reason": "tts", "nodes": 1}]));
    assert!(explained.get("missing").is_none());
    assert_eq!(explained["node"]["why_not"], json!(["tts"]));
    let text = api.get("/api/v1/explain?src=en&tgt=zh&tts=false&node=texts").await.body;
    assert_eq!((&text["eligible"], &text["node"]["eligible"]), (&json!(2), &json!(true)));
    let nowhere = api.get("/api/v1/explain?src=de&tgt=zh&tts=0&node=nobody").await.body;
    assert_eq!(nowhere["missing"], "No node supports semantic(de) + nmt(de->zh).", "{nowhere}");
    assert_eq!(nowhere["node"]["why_not"], json!(["unknown"]));
    app.finish().await;
}

#[tokio::test]
async fn metrics_are_text_that_counts() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "n").await;
    let reply = api.post(DISPATCH, &job("s")).await;
    let assign = node.job().await;
    node.done(&assign, json!({})).await;
    api.get(&format!("{}?wait_ms=5000", job_path(&reply.body))).await;
    node.done(&assign, json!({})).await;
    let metrics = api.get("/metrics").await.raw;
    let text = metrics.text();
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(text.ends_with("# EOF\n"));
    for line in [
        "lingua_node_registrations_total{status=\"new\"} 1",
        "lingua_jobs_ended_total{code=\"ok\"} 1",
        "lingua_stale_fence_total{kind=\"result\"} 1",
        "# UNIT lingua_job_seconds seconds",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_stopping_instance_takes_nothing_new() {
    let (app, api) = start(calm()).await;
    let node = PollingNode::register(&api, "n").await;
    let open = api.post(DISPATCH, &job("s")).await;
    let assign = node.job().await;
    node.ack(&assign).await;
    app.engine.drain();
    for (path, body) in [(DISPATCH, job("s2")), ("/v1/node/register", http::node("n2"))] {
        let reply = api.post(path, &body).await;
        assert_eq!((reply.status, &reply.body["error"]), (503, &json!("DRAINING")), "{path}");
    }
    assert_eq!(api.get("/ready").await.status, 503);
    assert_eq!(node.heartbeat(json!({})).await.status, 200);
    let began = Instant::now();
    assert_eq!(node.ask(30_000).await.status, 204, "nobody waits for a process that ends");
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(node.done(&assign, json!({})).await.status, 200, "what was accepted ends");
    let view = api.get(&format!("{}?wait_ms=5000", job_path(&open.body))).await;
    assert_eq!(view.body["state"], "DONE");
    app.finish().await;
}

#[tokio::test]
async fn without_its_store_the_door_refuses_new_work_and_says_so() {
    let mut app = TestApp::start(On::Redis, calm()).await;
    let api = Api::of(&app).await;
    let node = PollingNode::register(&api, "n").await;
    let open = api.post(DISPATCH, &job("s")).await;
    let assign = node.job().await;
    node.ack(&assign).await;
    app.redis.as_mut().unwrap().kill().unwrap();
    let engine = app.engine.clone();
    let down = move || engine.readiness() != lingua_engine::Readiness::Ready;
    assert!(app::wait_until(Duration::from_secs(5), down).await);
    let named = with(&job("s2"), json!({"request_id": "r"}));
    for (path, body) in
        [(DISPATCH, &job("s2")), (DISPATCH, &named), ("/v1/node/register", &http::node("m"))]
    {
        let reply = api.post(path, body).await;
        assert_eq!(reply.status, 503, "{}", reply.body);
        assert_eq!(reply.body["error"], "SCHEDULER_DEPENDENCY_DOWN");
        assert!(reply.body["retry_after_ms"].as_u64().is_some());
    }
    assert_eq!(api.get("/v1/job/0123456789abcdefghjkmnpqrs").await.status, 503);
    assert_eq!(api.get("/health").await.status, 200);
    assert_eq!(node.done(&assign, json!({"text_asr": "x"})).await.status, 200);
    let view = api.get(&format!("{}?wait_ms=5000", job_path(&open.body))).await;
    assert_eq!(view.body["result"]["text_asr"], "x", "results of running jobs still arrive");
    app.abandon();
}
