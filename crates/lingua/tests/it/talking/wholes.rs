//! Utterances that come as a whole, under the client's own numbers.

use std::time::Duration;

use lingua_lab::speech::Codec;
use serde_json::json;

use super::{
    calm, finish, is_error, is_missing, is_result, node, part, speaker, speech, take, worker,
};
use crate::app::{On, TestApp};

pub async fn a_whole_utterance_is_told_under_the_clients_number(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.whole(17, speech(Codec::Opus, 1, 400), json!({"trace_id": "tr-17"})).await.unwrap();
    let assign = take(&mut node).await;
    assert_eq!((&assign["trace_id"], &assign["is_manual_cut"]), (&json!("tr-17"), &json!(true)));
    node.result(&assign, "yes").await.unwrap();
    let ending = client.ending().await.unwrap();
    is_result(&ending, 17);
    assert_eq!(ending["trace_id"], "tr-17");
    client.whole(20, speech(Codec::Opus, 2, 400), json!({})).await.unwrap();
    take(&mut node).await;
    client.cancel(20).await.unwrap();
    is_missing(&client.ending().await.unwrap(), 20, "cancelled");
    finish(app, client).await;
}

pub async fn a_repeated_one_is_the_same_job(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    let audio = speech(Codec::Opus, 1, 400);
    client.whole(3, audio.clone(), json!({})).await.unwrap();
    let assign = take(&mut node).await;
    let told = client.until(|m| m["event"] == "INPUT_ENDED").await.unwrap();
    client.whole_again(3, audio.clone(), json!({})).await.unwrap();
    let again = client.until(|m| m["event"] == "INPUT_ENDED").await.unwrap();
    assert_eq!((&again["job_id"], &again["utterance_index"]), (&told["job_id"], &json!(3)));
    node.hears_nothing_for(Duration::from_millis(200)).await.unwrap();
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 3);
    // Its ending is told, and stays the only one.
    client.whole_again(3, audio, json!({})).await.unwrap();
    client.until(|m| m["event"] == "INPUT_ENDED").await.unwrap();
    client.hears_nothing_for(Duration::from_millis(200)).await.unwrap();
    finish(app, client).await;
}

pub async fn numbers_must_rise(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker(&app).await;
    client.whole(5, speech(Codec::Opus, 1, 200), json!({})).await.unwrap();
    is_result(&client.ending().await.unwrap(), 5);
    client.whole_again(4, speech(Codec::Opus, 2, 200), json!({})).await.unwrap();
    let refused = client.next_of("error").await.unwrap();
    is_error(&refused, "INVALID_MESSAGE");
    assert_eq!(refused["details"]["utterance_index"], 4);
    finish(app, client).await;
}

pub async fn each_has_a_direction_of_its_own(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    for (n, (from, to)) in [("en", "zh"), ("zh", "en")].into_iter().enumerate() {
        let fields = json!({"src_lang": from, "tgt_lang": to, "audio_format": "pcm16",
            "pipeline": {"use_tts": false, "custom": {"kept": true}}});
        client.whole(n as u64, speech(Codec::Pcm16, 1, 200), fields).await.unwrap();
        let assign = take(&mut node).await;
        assert_eq!((&assign["src_lang"], &assign["tgt_lang"]), (&json!(from), &json!(to)));
        assert_eq!(assign["pipeline"]["custom"]["kept"], true);
        assert_eq!(assign["audio_format"], "pcm16");
        node.result(&assign, "yes").await.unwrap();
        is_result(&client.ending().await.unwrap(), n as u64);
    }
    finish(app, client).await;
}

/// A text is translated in its turn, by a node that takes text, under the session's number or the client's.
pub async fn a_text_is_an_utterance_without_speech(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.whole(4, speech(Codec::Opus, 1, 400), json!({})).await.unwrap();
    let spoken = take(&mut node).await;
    client.text("good morning", json!({})).await.unwrap();
    let finalized = client.next_of("finalized").await.unwrap();
    assert_eq!(finalized["utterance_index"], 1);
    let typed = take(&mut node).await;
    assert_eq!(
        (&typed["text"], &typed["pipeline"]["use_asr"]),
        (&json!("good morning"), &json!(false))
    );
    assert!(typed.get("audio").is_none() && typed.get("audio_format").is_none(), "{typed}");
    // In the order in which they were said, whichever is quicker.
    node.result(&typed, "good morning").await.unwrap();
    client.hears_no_ending_for(Duration::from_millis(100)).await.unwrap();
    node.result(&spoken, "spoken").await.unwrap();
    is_result(&client.ending().await.unwrap(), 4);
    is_result(&client.ending().await.unwrap(), 1);
    client.text("once more", json!({"utterance_index": 9})).await.unwrap();
    let again = take(&mut node).await;
    client.text("once more", json!({"utterance_index": 9})).await.unwrap();
    node.hears_nothing_for(Duration::from_millis(100)).await.unwrap();
    node.result(&again, "once more").await.unwrap();
    is_result(&client.ending().await.unwrap(), 9);
    part(app, client).await;
}

pub async fn one_without_speech_is_refused(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut client = speaker(&app).await;
    client.whole_again(0, Vec::new(), json!({})).await.unwrap();
    is_error(&client.next_of("error").await.unwrap(), "INVALID_MESSAGE");
    finish(app, client).await;
}
