//! Several targets at once.

use std::collections::BTreeMap;
use std::time::Duration;

use lingua_core::NodeId;
use lingua_core::node::Health;
use lingua_lab::{NodeOptions, ScriptedNode, Speaker};
use serde_json::{Value, json};

use super::{
    calm, eventually, finish, is_error, is_missing, is_result, mark, node_options, node_with,
    options, speaker_with, take,
};
use crate::app::{On, TestApp};

/// A node that serves English, Chinese and German, and no French.
fn without_french(app: &TestApp, id: &str) -> NodeOptions {
    node_options(app, id).languages(&["en", "zh", "de"]).pairs(&[("en", "zh"), ("en", "de")])
}

/// The next so many assigns by their target, each acked.
async fn take_each(node: &mut ScriptedNode, count: usize) -> BTreeMap<String, Value> {
    let mut taken = BTreeMap::new();
    for _ in 0..count {
        let assign = take(node).await;
        taken.insert(assign["tgt_lang"].as_str().unwrap().to_owned(), assign);
    }
    assert_eq!(taken.len(), count, "one job for each target");
    taken
}

/// The next endings as index, target and type.
async fn endings(client: &mut Speaker, count: usize) -> Vec<(u64, String, String)> {
    let mut heard = Vec::new();
    for ending in client.endings(count).await.unwrap() {
        assert_eq!(ending["src_lang"], "en", "{ending:?}");
        let target = ending["tgt_lang"].as_str().unwrap().to_owned();
        heard.push((ending.index().unwrap(), target, ending.kind().to_owned()));
    }
    heard
}

fn result(index: u64, target: &str) -> (u64, String, String) {
    (index, target.to_owned(), "translation_result".to_owned())
}

pub async fn each_target_has_its_job_and_one_without_a_node_ends_alone(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node_with(&app, without_french(&app, "a")).await;
    let mut client = speaker_with(options(&app).targets("en", &["zh", "de", "fr"])).await;
    assert_eq!(client.ack().message["targets"], json!(["zh", "de", "fr"]));
    client.marked_sentence(mark(0), 300).await.unwrap();
    let jobs = take_each(&mut node, 2).await;
    assert_ne!(jobs["zh"]["job_id"], jobs["de"]["job_id"]);
    assert_ne!(jobs["zh"]["session_id"], jobs["de"]["session_id"], "agents take it for two");
    assert_eq!(jobs["zh"]["utterance_index"], jobs["de"]["utterance_index"]);
    let missing = client.ending().await.unwrap();
    is_missing(&missing, 0, "no_capable_node");
    assert_eq!((&missing["src_lang"], &missing["tgt_lang"]), (&json!("en"), &json!("fr")));
    assert!(missing.get("audio_ack").is_none(), "the others are still open");
    node.result(&jobs["de"], "guten Tag").await.unwrap();
    let german = client.ending().await.unwrap();
    assert_eq!(
        (&german["tgt_lang"], &german["text_translated"]),
        (&json!("de"), &json!("guten Tag"))
    );
    node.result(&jobs["zh"], "你好").await.unwrap();
    let chinese = client.ending().await.unwrap();
    assert_eq!((&chinese["tgt_lang"], &chinese["text_translated"]), (&json!("zh"), &json!("你好")));
    assert!(chinese["audio_ack"].is_u64(), "with it everything is told");
    assert_eq!((&chinese["group_id"], client.unacknowledged()), (&german["group_id"], 0));
    client.hears_nothing_for(Duration::from_millis(100)).await.unwrap();
    finish(app, client).await;
}

pub async fn a_slow_target_is_late_alone(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node_with(&app, without_french(&app, "a").max_jobs(8)).await;
    let mut client = speaker_with(options(&app).targets("en", &["zh", "de"])).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let first = take_each(&mut node, 2).await;
    client.marked_sentence(mark(1), 200).await.unwrap();
    let second = take_each(&mut node, 2).await;
    node.result(&second["de"], "zwei").await.unwrap();
    for jobs in [&first, &second] {
        node.result(&jobs["zh"], "好").await.unwrap();
    }
    assert_eq!(endings(&mut client, 2).await, [result(0, "zh"), result(1, "zh")]);
    node.result(&first["de"], "eins").await.unwrap();
    assert_eq!(endings(&mut client, 2).await, [result(0, "de"), result(1, "de")]);
    finish(app, client).await;
}

pub async fn speech_is_acknowledged_when_every_target_has_a_node(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node_with(&app, without_french(&app, "a")).await;
    let mut client = speaker_with(options(&app).targets("en", &["zh", "de"])).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let one = node.next_of("job_assign").await.unwrap().message;
    let other = node.next_of("job_assign").await.unwrap().message;
    node.ack(&one).await.unwrap();
    let early = client.next_of_within("audio_ack", Duration::from_millis(300)).await;
    assert!(early.is_err(), "the other target has no node yet");
    node.ack(&other).await.unwrap();
    client.next_of("audio_ack").await.unwrap();
    assert_eq!(client.unacknowledged(), 0);
    node.result(&one, "eins").await.unwrap();
    node.result(&other, "zwei").await.unwrap();
    client.endings(2).await.unwrap();
    finish(app, client).await;
}

pub async fn targets_change_in_mid_session(on: On) {
    let app = TestApp::start(on, calm()).await;
    let all = node_options(&app, "a").languages(&["en", "zh", "de", "fr"]).max_jobs(8);
    let mut node = node_with(&app, all).await;
    let mut client = speaker_with(options(&app).targets("en", &["zh", "de"])).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let first = take_each(&mut node, 2).await;
    client.set_targets("en", &["de", "fr"]).await.unwrap();
    client.marked_sentence(mark(1), 200).await.unwrap();
    let second = take_each(&mut node, 2).await;
    client.set_languages("en", "fr").await.unwrap();
    client.marked_sentence(mark(2), 200).await.unwrap();
    let third = take_each(&mut node, 1).await;
    // The order is that of each language, wherever it stands in the list.
    node.result(&third["fr"], "trois").await.unwrap();
    node.result(&second["de"], "zwei").await.unwrap();
    node.result(&second["fr"], "deux").await.unwrap();
    assert_eq!(endings(&mut client, 2).await, [result(1, "fr"), result(2, "fr")]);
    node.result(&first["de"], "eins").await.unwrap();
    assert_eq!(endings(&mut client, 2).await, [result(0, "de"), result(1, "de")]);
    node.result(&first["zh"], "一").await.unwrap();
    let last = client.ending().await.unwrap();
    is_result(&last, 0);
    assert!(last["audio_ack"].is_u64() && client.unacknowledged() == 0, "{last:?}");
    finish(app, client).await;
}

pub async fn a_cancelled_utterance_ends_in_every_target(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node_with(&app, without_french(&app, "a")).await;
    let mut client = speaker_with(options(&app).targets("en", &["zh", "de"])).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    take_each(&mut node, 2).await;
    client.cancel(0).await.unwrap();
    let mut heard = Vec::new();
    for _ in 0..2 {
        let ending = client.ending().await.unwrap();
        is_missing(&ending, 0, "cancelled");
        heard.push(ending["tgt_lang"].as_str().unwrap().to_owned());
        node.next_of("job_cancel").await.unwrap();
    }
    heard.sort_unstable();
    assert_eq!(heard, ["de", "zh"]);
    finish(app, client).await;
}

pub async fn missed_endings_are_told_again_for_each_target(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node_with(&app, without_french(&app, "a").max_jobs(8)).await;
    let mut client = speaker_with(options(&app).targets("en", &["zh", "de"])).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let first = take_each(&mut node, 2).await;
    node.result(&first["zh"], "一").await.unwrap();
    assert_eq!(endings(&mut client, 1).await, [result(0, "zh")]);
    client.marked_sentence(mark(1), 200).await.unwrap();
    let second = take_each(&mut node, 2).await;
    client.reset().await;
    node.result(&first["de"], "eins").await.unwrap();
    for target in ["zh", "de"] {
        node.result(&second[target], "unseen").await.unwrap();
    }
    eventually("it is known", || app.engine.jobs.open_jobs().is_empty()).await;
    let ack = client.resume().await.unwrap();
    assert_eq!((ack.recovered, ack.next_index), (Some(true), Some(2)));
    assert_eq!(ack.message["targets"], json!(["zh", "de"]));
    let mut missed = endings(&mut client, 3).await;
    missed.sort_unstable();
    assert_eq!(missed, [result(0, "de"), result(1, "de"), result(1, "zh")]);
    finish(app, client).await;
}

pub async fn another_instance_goes_on_with_every_target(on: On) {
    let app = TestApp::start(on, calm()).await;
    let other = TestApp::over(app.engine.store().clone(), "test-2", calm()).await;
    let mut node = node_with(&other, without_french(&other, "b").max_jobs(8)).await;
    let (id, there) = (NodeId::new("b").unwrap(), &other.engine.instance().id);
    eventually("the first instance knows the node and the way to it", || {
        let health = app.engine.fleet().lock().get(&id).map(|node| node.standing().health);
        health == Some(Health::Ready)
            && app.engine.peers().iter().any(|(peer, _)| peer.id == *there)
    })
    .await;
    let mut client = speaker_with(options(&app).targets("en", &["zh", "de"])).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let jobs = take_each(&mut node, 2).await;
    client.next_of("audio_ack").await.unwrap();
    node.result(&jobs["de"], "eins").await.unwrap();
    assert_eq!(endings(&mut client, 1).await, [result(0, "de")]);
    client.reset().await;
    client.options_mut().url = other.ws("/ws/session");
    assert_eq!(client.resume().await.unwrap().recovered, Some(true));
    node.result(&jobs["zh"], "一").await.unwrap();
    assert_eq!(endings(&mut client, 1).await, [result(0, "zh")], "and de not once more");
    client.marked_sentence(mark(1), 200).await.unwrap();
    let jobs = take_each(&mut node, 2).await;
    for target in ["de", "zh"] {
        node.result(&jobs[target], "two").await.unwrap();
        assert_eq!(endings(&mut client, 1).await, [result(1, target)]);
    }
    client.report().ensure_clean().unwrap();
    client.close_session("done").await.unwrap();
    client.next_of("session_close_ack").await.unwrap();
    other.finish().await;
    app.finish().await;
}

pub async fn targets_that_cannot_be_are_refused_and_the_session_goes_on(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node_with(&app, without_french(&app, "a")).await;
    let two_way = options(&app).two_way("en", "zh").init_with(json!({"targets": ["zh", "de"]}));
    let refused = Speaker::connect(two_way).await.unwrap_err();
    assert!(format!("{refused:#}").contains("one way only"), "{refused:#}");
    let mut client = speaker_with(options(&app).targets("en", &["zh", "de"])).await;
    for (fields, text) in [
        (json!({"tgt_lang": "fr", "targets": ["zh", "de"]}), "not among the targets"),
        (json!({"tgt_lang": "zh", "targets": ["zh", "zh"]}), "listed twice"),
        (json!({"tgt_lang": "zh", "targets": []}), "at least one"),
    ] {
        let mut languages = json!({"type": "set_languages", "src_lang": "en"});
        languages.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        client.send(languages).await.unwrap();
        let error = client.next_of("error").await.unwrap();
        is_error(&error, "INVALID_MESSAGE");
        assert!(error["message"].as_str().unwrap().contains(text), "{error:?}");
    }
    client.marked_sentence(mark(0), 200).await.unwrap();
    let jobs = take_each(&mut node, 2).await;
    for target in ["zh", "de"] {
        node.result(&jobs[target], "yes").await.unwrap();
    }
    client.endings(2).await.unwrap();
    finish(app, client).await;
}

pub async fn the_direction_that_a_node_found_is_told(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = super::node(&app, "a").await;
    let partials = json!({"enable_streaming_asr": true});
    let mut client = speaker_with(options(&app).two_way("en", "zh").init_with(partials)).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let assign = take(&mut node).await;
    let said = json!({"text": "早", "is_final": false, "src_lang": "zh"});
    node.about(&assign, "asr_partial", said).await.unwrap();
    let partial = client.next_of("asr_partial").await.unwrap();
    assert_eq!((&partial["src_lang"], &partial["tgt_lang"]), (&json!("zh"), &json!("en")));
    let found = json!({"success": true, "text_asr": "早上好", "text_translated": "good morning",
        "src_lang": "zh"});
    node.about(&assign, "job_result", found).await.unwrap();
    let ending = client.ending().await.unwrap();
    assert_eq!((&ending["src_lang"], &ending["tgt_lang"]), (&json!("zh"), &json!("en")));
    client.marked_sentence(mark(1), 200).await.unwrap();
    let assign = take(&mut node).await;
    node.result(&assign, "yes").await.unwrap();
    let ending = client.ending().await.unwrap();
    assert_eq!(ending["src_lang"], "auto", "it did not say");
    assert!(ending.get("tgt_lang").is_none(), "{ending:?}");
    finish(app, client).await;
}
