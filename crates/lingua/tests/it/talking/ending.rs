//! Every utterance ends exactly once, in order, by its deadline.

use std::time::Duration;

use lingua_lab::speech::Codec;
use serde_json::json;
use tokio::time::Instant;

use super::{
    calm, finish, hurried, is_error, is_missing, is_result, mark, metric, node, node_options,
    node_with, options, part, speaker, speaker_with, speech, take, worker,
};
use crate::app::{On, TestApp};

pub async fn results_are_told_in_the_order_of_speech(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    let mut assigns = Vec::new();
    for n in 0..3 {
        client.marked_sentence(mark(n), 200).await.unwrap();
        assigns.push(take(&mut node).await);
    }
    for assign in assigns.iter().rev() {
        node.result(assign, &format!("of {}", assign["utterance_index"])).await.unwrap();
    }
    for (n, ending) in client.endings(3).await.unwrap().iter().enumerate() {
        is_result(ending, n as u64);
        assert_eq!(ending["text_translated"], format!("of {n}"));
    }
    finish(app, client).await;
}

pub async fn partials_come_only_to_those_who_asked(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let asked = json!({"enable_streaming_asr": true});
    for (client, told) in
        [(speaker(&app).await, false), (speaker_with(options(&app).init_with(asked)).await, true)]
    {
        let mut client = client;
        client.marked_sentence(mark(0), 200).await.unwrap();
        let assign = take(&mut node).await;
        node.partial(&assign, "so far").await.unwrap();
        // The text of a later step is a translation, which is no partial.
        let translated = json!({"stage": "nmt", "text": "bis hier"});
        node.about(&assign, "job_progress", translated).await.unwrap();
        let mut partials = Vec::new();
        if told {
            // An ending that overtakes a partial would leave nothing to tell.
            let partial = client.next_of("asr_partial").await.unwrap();
            partials.push(partial["text"].as_str().unwrap().to_owned());
        }
        node.result(&assign, "all").await.unwrap();
        loop {
            let heard = client.next().await.unwrap();
            if heard.kind() == "asr_partial" {
                partials.push(heard["text"].as_str().unwrap().to_owned());
            }
            if heard.is_ending() {
                break;
            }
        }
        let wanted: &[&str] = if told { &["so far"] } else { &[] };
        assert_eq!(partials, wanted);
        client.report().ensure_clean().unwrap();
    }
    app.stop().await;
}

pub async fn partials_overtake(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let asked = json!({"enable_streaming_asr": true});
    let mut client = speaker_with(options(&app).init_with(asked)).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let first = take(&mut node).await;
    client.marked_sentence(mark(1), 200).await.unwrap();
    let second = take(&mut node).await;
    node.partial(&second, "so far").await.unwrap();
    let partial = client.next_of("asr_partial").await.unwrap();
    assert_eq!((&partial["utterance_index"], &partial["text"]), (&json!(1), &json!("so far")));
    assert_eq!(partial["is_final"], false);
    node.result(&second, "second").await.unwrap();
    node.result(&first, "first").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    is_result(&client.ending().await.unwrap(), 1);
    finish(app, client).await;
}

pub async fn silence_ends_with_a_word(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let assign = take(&mut node).await;
    let nothing = json!({"success": true, "text_asr": "", "extra": {"reason": "ASR_EMPTY"}});
    node.about(&assign, "job_result", nothing).await.unwrap();
    is_missing(&client.ending().await.unwrap(), 0, "silence_detected");
    finish(app, client).await;
}

pub async fn a_failing_node_is_followed_by_another(on: On) {
    let app = TestApp::start(on, calm()).await;
    let (mut a, mut b) = (node(&app, "a").await, node(&app, "b").await);
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let (first, other) = tokio::select! {
        assign = a.next_of("job_assign") => { a.fail(&assign.unwrap(), "NMT_TIMEOUT").await.unwrap(); ("a", &mut b) }
        assign = b.next_of("job_assign") => { b.fail(&assign.unwrap(), "NMT_TIMEOUT").await.unwrap(); ("b", &mut a) }
    };
    let assign = take(other).await;
    assert_eq!(assign["attempt_id"], 2, "after {first}");
    other.result(&assign, "second time").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn a_node_that_never_answers_ends_by_the_deadline(on: On) {
    let app = TestApp::start(on, hurried()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    let said = Instant::now();
    client.marked_sentence(mark(0), 200).await.unwrap();
    take(&mut node).await;
    let ending = client.ending().await.unwrap();
    assert!(said.elapsed() < Duration::from_millis(3_000 + 250), "{:?}", said.elapsed());
    assert_eq!(ending["type"], "missing_result");
    // The session goes on.
    client.marked_sentence(mark(1), 200).await.unwrap();
    loop {
        let assign = take(&mut node).await;
        node.result(&assign, "yes").await.unwrap();
        if assign["utterance_index"] == 1 {
            break;
        }
    }
    is_result(&client.ending().await.unwrap(), 1);
    finish(app, client).await;
}

pub async fn a_late_result_is_not_told(on: On) {
    let app = TestApp::start(on, hurried()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let assign = take(&mut node).await;
    assert_eq!(client.ending().await.unwrap()["type"], "missing_result");
    node.result(&assign, "late").await.unwrap();
    client.hears_nothing_for(Duration::from_millis(300)).await.unwrap();
    finish(app, client).await;
}

pub async fn a_node_that_vanishes_is_followed_by_another(on: On) {
    let app = TestApp::start(on, hurried()).await;
    let mut client = speaker(&app).await;
    let mut a = node(&app, "a").await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    take(&mut a).await;
    let mut b = node(&app, "b").await;
    a.abort();
    let assign = take(&mut b).await;
    b.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    client.close_session("done").await.unwrap();
    client.next_of("session_close_ack").await.unwrap();
    // The slot on the node that vanished lapses by itself.
    app.stop().await;
}

pub async fn without_a_node_the_ending_says_so_and_the_session_goes_on(on: On) {
    let app = TestApp::start(on, hurried()).await;
    let mut client = speaker(&app).await;
    let said = Instant::now();
    client.marked_sentence(mark(0), 200).await.unwrap();
    let event = client.until(|m| m["event"] == "ERROR").await.unwrap();
    assert_eq!(event["error_code"], "NO_CAPABLE_NODE");
    assert!(event["hint"].as_str().unwrap().contains("semantic(en)"), "{event:?}");
    is_missing(&client.ending().await.unwrap(), 0, "no_capable_node");
    assert!(said.elapsed() < Duration::from_millis(1_300), "{:?}", said.elapsed());
    let _node = worker(&app, "a").await;
    client.marked_sentence(mark(1), 200).await.unwrap();
    is_result(&client.ending().await.unwrap(), 1);
    finish(app, client).await;
}

pub async fn when_all_is_busy_the_ending_says_so(on: On) {
    let mut settings = hurried();
    settings.timing.exec_max_ms = 2_500;
    settings.timing.deadline_ms = 5_000;
    let app = TestApp::start(on, settings).await;
    let mut node = node_with(&app, node_options(&app, "a").max_jobs(1)).await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let assign = take(&mut node).await;
    client.marked_sentence(mark(1), 200).await.unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    is_missing(&client.ending().await.unwrap(), 1, "all_nodes_busy");
    finish(app, client).await;
}

pub async fn a_cancelled_utterance_ends_and_its_node_is_told(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let assign = take(&mut node).await;
    client.cancel(0).await.unwrap();
    is_missing(&client.ending().await.unwrap(), 0, "cancelled");
    let cancel = node.next_of("job_cancel").await.unwrap();
    assert_eq!(cancel["job_id"], assign["job_id"]);
    finish(app, client).await;
}

pub async fn too_much_open_speech_is_refused_with_backpressure(on: On) {
    let mut settings = calm();
    settings.sessions.open_utterances = 2;
    let app = TestApp::start(on, settings).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    client.marked_sentence(mark(1), 200).await.unwrap();
    let assigns = [take(&mut node).await, take(&mut node).await];
    client.say(speech(Codec::Opus, 2, 100)).await.unwrap();
    let refused = client.next_of("error").await.unwrap();
    is_error(&refused, "QUOTA_EXCEEDED");
    assert_eq!(refused["details"]["reason"], "open_utterances");
    let press = client.next_of("backpressure").await.unwrap();
    assert!(press["action"].is_string() && press["resume_after_ms"].is_u64(), "{press:?}");
    for assign in &assigns {
        node.result(assign, "yes").await.unwrap();
    }
    client.endings(2).await.unwrap();
    assert!(metric(&app, "lingua_audio_dropped_bytes_total{reason=\"open_utterances\"}") > 0);
    part(app, client).await;
}

pub async fn a_client_never_learns_who_the_node_is(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "secret-owner").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let assign = take(&mut node).await;
    node.partial(&assign, "so far").await.unwrap();
    node.result(&assign, "yes").await.unwrap();
    loop {
        let message = client.next().await.unwrap();
        assert!(!message.message.to_string().contains("secret-owner"), "{message:?}");
        if message.is_ending() {
            break;
        }
    }
    finish(app, client).await;
}
