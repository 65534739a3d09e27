//! What a person takes and how quickly: text in place of speech, captions, another way, a profile of one's own.

use std::time::Duration;

use lingua_engine::Settings;
use serde_json::{Value, json};

use crate::app::http::{Api, calm, job, node as report, with};
use crate::app::http_node::PollingNode;
use crate::app::{On, TestApp};
use crate::talking::{
    finish, is_error, is_missing, is_result, mark, node_options, node_with, options, part,
    speaker_with, take,
};

const DISPATCH: &str = "/v1/dispatch/f2f";

async fn start(settings: Settings) -> (TestApp, Api) {
    let app = TestApp::start(On::Memory, settings).await;
    let api = Api::of(&app).await;
    (app, api)
}

/// Translates one direction, and takes text.
fn one_way(id: &str, src: &str, tgt: &str) -> Value {
    with(
        &report(id),
        json!({"semantic_langs": [src], "nmt_pairs": [[src, tgt]], "tts_langs": [tgt],
            "supports": ["text", "cancel"]}),
    )
}

/// Paper 001, 11.1: an empty pool.
#[tokio::test]
async fn a_pair_without_a_node_goes_by_way_of_another_language_with_one_ending() {
    let (app, api) = start(calm()).await;
    let into = PollingNode::register_as(&api, one_way("into", "de", "en")).await;
    let from = PollingNode::register_as(&api, one_way("from", "en", "zh")).await;
    let request = with(
        &job("s"),
        json!({"src_lang": "de", "options": {"wait_ms": 10_000, "accept": ["speech", "captions"]}}),
    );
    let serve = async {
        let first = into.job().await;
        assert_eq!((&first["src_lang"], &first["tgt_lang"]), (&json!("de"), &json!("en")));
        assert_eq!(
            (&first["audio"], &first["pipeline"]["use_tts"]),
            (&json!("AAEC"), &json!(false))
        );
        into.done(&first, json!({"text_asr": "guten Morgen", "text_translated": "good morning"}))
            .await;
        let second = from.job().await;
        assert_eq!((&second["text"], &second["tgt_lang"]), (&json!("good morning"), &json!("zh")));
        let steps = &second["pipeline"];
        assert_eq!((&steps["use_asr"], &steps["use_tts"]), (&json!(false), &json!(true)));
        assert!(second["deadline_ms"].as_u64() <= first["deadline_ms"].as_u64(), "one deadline");
        assert_ne!(second["session_id"], first["session_id"], "nodes cannot tell whose it is");
        let answer =
            json!({"text_asr": "good morning", "text_translated": "早上好", "tts_audio": "AA=="});
        from.done(&second, answer).await;
    };
    let (reply, ()) = tokio::join!(api.post(DISPATCH, &request), serve);
    let done = &reply.body["job"];
    assert_eq!((&done["state"], &done["via"]), (&json!("DONE"), &json!("en")), "{done}");
    assert_eq!(done["result"]["text_asr"], "guten Morgen", "what the person said");
    assert_eq!(
        (&done["result"]["text_translated"], &done["form"]),
        (&json!("早上好"), &json!("speech"))
    );
    let legs: Vec<&Value> =
        done["legs"].as_array().unwrap().iter().map(|leg| &leg["direction"]).collect();
    assert_eq!(legs, ["de->en", "en->zh"]);
    let nodes: Vec<&Value> =
        done["attempts"].as_array().unwrap().iter().map(|one| &one["node_id"]).collect();
    assert_eq!(nodes, ["into", "from"]);
    assert!(done["notes"][0].as_str().unwrap().contains("by way of en"), "{done}");
    // A half is a job of its own, for who looks.
    let half = api.get(&format!("/v1/job/{}", done["legs"][0]["job_id"].as_str().unwrap())).await;
    assert_eq!(half.body["state"], "DONE");
    assert_eq!(app.counter("lingua_pivots_total"), 1);
    app.finish().await;
}

#[tokio::test]
async fn a_tenant_without_pivots_is_told_that_nobody_is_able() {
    let mut settings = calm();
    settings.pivot.without = vec!["default".parse().unwrap()];
    let (app, api) = start(settings).await;
    PollingNode::register_as(&api, one_way("into", "de", "en")).await;
    PollingNode::register_as(&api, one_way("from", "en", "zh")).await;
    let refused = api.post(DISPATCH, &with(&job("s"), json!({"src_lang": "de"}))).await;
    assert_eq!((refused.status, &refused.body["error"]), (422, &json!("NO_CAPABLE_NODE")));
    app.finish().await;
}

#[tokio::test]
async fn a_first_half_that_fails_is_the_end_of_the_whole() {
    let (app, api) = start(calm()).await;
    let into = PollingNode::register_as(&api, one_way("into", "de", "en")).await;
    let from = PollingNode::register_as(&api, one_way("from", "en", "zh")).await;
    let options = json!({"src_lang": "de", "options": {"wait_ms": 10_000}});
    let serve = async {
        let first = into.job().await;
        into.fail(&first, "GPU_ON_FIRE").await;
    };
    let request = with(&job("s"), options);
    let (reply, ()) = tokio::join!(api.post(DISPATCH, &request), serve);
    let done = &reply.body["job"];
    assert_eq!((&done["state"], &done["error"]["code"]), (&json!("FAILED"), &json!("GPU_ON_FIRE")));
    assert_eq!(from.ask(0).await.status, 204, "the second half never began");
    app.finish().await;
}

/// I4 and I5 over real sockets: one ending for each utterance, in the order in which they were said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn utterances_by_another_way_end_once_and_in_their_turn() {
    let app = TestApp::start(On::Memory, calm()).await;
    let english = node_options(&app, "into").languages(&["de", "en"]).pairs(&[("de", "en")]);
    let mut into = node_with(&app, english).await;
    let chinese = node_options(&app, "from").languages(&["en", "zh"]).pairs(&[("en", "zh")]);
    let mut from = node_with(&app, chinese).await;
    let opening = options(&app).languages("de", "zh");
    let accept = json!({"accept": ["speech", "captions"]});
    let mut client = speaker_with(opening.init_with(accept)).await;
    client.marked_sentence(mark(0), 300).await.unwrap();
    let first = take(&mut into).await;
    client.hears_no_ending_for(Duration::from_millis(100)).await.unwrap();
    client.text("good morning", json!({"src_lang": "en"})).await.unwrap();
    client.next_of("finalized").await.unwrap();
    let straight = take(&mut from).await;
    from.result(&straight, "早上好").await.unwrap();
    client.hears_no_ending_for(Duration::from_millis(100)).await.unwrap();
    into.result(&first, "good evening").await.unwrap();
    let second = take(&mut from).await;
    assert_eq!(second["text"], "good evening");
    from.result(&second, "晚上好").await.unwrap();
    let ending = client.ending().await.unwrap();
    is_result(&ending, 0);
    assert_eq!((&ending["via"], &ending["form"]), (&json!("en"), &json!("speech")), "{ending:?}");
    assert_eq!(ending["text_asr"], "heard: good evening");
    assert!(ending["audio_ack"].is_u64(), "the speech is safe with its ending, and not before");
    let ending = client.ending().await.unwrap();
    is_result(&ending, 1);
    assert!(ending.get("via").is_none(), "{ending:?}");
    client.hears_no_ending_for(Duration::from_millis(100)).await.unwrap();
    part(app, client).await;
}

/// Captions where there is no voice, the original where there is no translation, and the result says which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_gets_the_best_of_what_it_takes_and_hears_what_it_got() {
    let app = TestApp::start(On::Memory, calm()).await;
    let hears = node_options(&app, "a").languages(&["de"]).pairs(&[]);
    let mut node = node_with(
        &app,
        hears.register_with(json!({"language_capabilities":
        {"semantic_languages": ["de"], "tts_languages": null, "nmt_pairs": []}})),
    )
    .await;
    let open =
        |accept: Value| options(&app).languages("de", "zh").init_with(json!({"accept": accept}));
    let mut client = speaker_with(open(json!(["speech", "captions", "original"]))).await;
    client.marked_sentence(mark(0), 300).await.unwrap();
    let assign = take(&mut node).await;
    let steps = &assign["pipeline"];
    assert_eq!(
        (&assign["tgt_lang"], &steps["use_nmt"], &steps["use_tts"]),
        (&json!("de"), &json!(false), &json!(false))
    );
    node.result(&assign, "guten Morgen").await.unwrap();
    let ending = client.ending().await.unwrap();
    is_result(&ending, 0);
    assert_eq!((&ending["form"], &ending["tgt_lang"]), (&json!("original"), &json!("zh")));
    let mut strict = speaker_with(open(json!(["speech"]))).await;
    strict.marked_sentence(mark(0), 300).await.unwrap();
    is_missing(&strict.ending().await.unwrap(), 0, "no_capable_node");
    strict.close_session("done").await.unwrap();
    strict.next_of("session_close_ack").await.unwrap();
    finish(app, client).await;
}

/// F3: a fleet that only writes serves a session whose pipeline has no voice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pipeline_of_a_session_is_that_of_its_utterances() {
    let app = TestApp::start(On::Memory, calm()).await;
    let writes = node_options(&app, "a").register_with(json!({"language_capabilities":
        {"semantic_languages": ["en", "zh"], "tts_languages": null}}));
    let mut node = node_with(&app, writes).await;
    let pipeline = json!({"use_asr": true, "use_nmt": true, "use_tts": false, "mine": {"kept": 1}});
    let opening = options(&app).init_with(json!({"pipeline": pipeline}));
    let mut client = speaker_with(opening).await;
    client.marked_sentence(mark(0), 300).await.unwrap();
    let assign = take(&mut node).await;
    assert_eq!(assign["pipeline"], pipeline);
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    client.text("typed", json!({})).await.unwrap();
    let typed = take(&mut node).await;
    let steps = &typed["pipeline"];
    assert_eq!((&steps["use_asr"], &steps["use_tts"]), (&json!(false), &json!(false)));
    node.result(&typed, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 1);
    part(app, client).await;
}

/// Paper 005, 10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_chooses_stable_or_fast_and_the_jobs_view_says_so() {
    let mut settings = calm();
    settings.tenant_profiles = [("default".parse().unwrap(), lingua_core::Profile::Fast)].into();
    let (app, api) = start(settings).await;
    let node = PollingNode::register(&api, "n").await;
    for (options, used) in [
        (json!({"profile": "stable"}), "stable"),
        (json!({"profile": "fast"}), "fast"),
        (json!({}), "fast"),
    ] {
        let reply = api.post(DISPATCH, &with(&job("s"), json!({"options": options}))).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let id = reply.body["job_id"].as_str().unwrap().to_owned();
        let assign = node.job().await;
        node.done(&assign, json!({"text_asr": "hi"})).await;
        let view = api.get(&format!("/v1/job/{id}?wait_ms=5000")).await;
        assert_eq!((&view.body["profile"], &view.body["state"]), (&json!(used), &json!("DONE")));
        // The instance is stable by its own figures; fast has its preset of 25 s.
        let began = view.body["timings"]["created_ms"].as_u64().unwrap();
        let whole = assign["deadline_ms"].as_u64().unwrap() - began;
        assert_eq!(whole > 20_000, used == "fast", "{whole} ms");
        let view = api.get(&format!("/api/v1/jobs/{id}")).await;
        assert_eq!(view.body["profile"], used);
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wishes_that_contradict_each_other_are_refused_and_nothing_is_lost() {
    let app = TestApp::start(On::Memory, calm()).await;
    for (fields, says) in [
        (json!({"accept": ["original"]}), "accept: has speech or captions"),
        (json!({"accept": ["smells"]}), "accept: is a list of"),
        (json!({"accept": []}), "accept: is a list of"),
        (json!({"accept": ["captions"], "speech": true}), "accept: contradicts speech"),
        (json!({"accept": ["speech"], "pipeline": {"use_tts": false}}), "pipeline.use_tts"),
        (json!({"speech": false, "pipeline": {"use_tts": true}}), "pipeline.use_tts"),
        (json!({"profile": "quick"}), "profile: is stable or fast"),
        (json!({"pipeline": [1]}), "pipeline"),
    ] {
        let opening = options(&app).init_with(fields.clone());
        let mut client = lingua_lab::Speaker::unopened_with(opening.clone()).await.unwrap();
        let mut init = json!({"type": "session_init", "client_version": "1", "platform": "test",
            "src_lang": "en", "tgt_lang": "zh"});
        init.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        client.send(init).await.unwrap();
        let refused = client.next_of("error").await.unwrap();
        is_error(&refused, "INVALID_MESSAGE");
        let message = refused["message"].as_str().unwrap();
        assert!(message.starts_with(says), "{fields}: {message}");
    }
    let mut node = node_with(&app, node_options(&app, "a")).await;
    let mut client = speaker_with(options(&app)).await;
    client.text("typed", json!({"pipeline": {"use_asr": true}})).await.unwrap();
    is_error(&client.next_of("error").await.unwrap(), "INVALID_MESSAGE");
    client.text("typed", json!({})).await.unwrap();
    let typed = take(&mut node).await;
    node.result(&typed, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    part(app, client).await;
}
