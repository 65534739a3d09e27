//! Existing clients and existing agents, unchanged, with their habits.

use std::time::Duration;

use lingua_lab::fake_node::ExistingAgent;
use lingua_lab::speech::Codec;
use lingua_lab::{FakeNode, HttpClient, NodeOptions, Speaker, SpeakerOptions};
use serde_json::json;
use tokio::time::Instant;

use super::{
    calm, eventually, finish, hurried, is_error, is_missing, is_result, mark, node_options,
    options, speaker_with, speech,
};
use crate::app::{On, TestApp};

/// An existing agent, which works on a turn only when it is told that the turn ended.
async fn agent(app: &TestApp, id: &str) -> FakeNode {
    agent_with(app, node_options(app, id).existing_agent(ExistingAgent::quick())).await
}

async fn agent_with(app: &TestApp, options: NodeOptions) -> FakeNode {
    let agent = FakeNode::connect(options).await.unwrap();
    app.meets(agent.node_id()).await;
    agent
}

fn existing(app: &TestApp) -> SpeakerOptions {
    options(app).existing_client()
}

/// Says this much without an end, and waits until it is with the scheduler.
async fn says_without_end(client: &mut Speaker, n: u32, ms: u64) {
    client.say(speech(Codec::Opus, n, ms)).await.unwrap();
    client.heartbeat().await.unwrap();
    client.next_of("server_heartbeat").await.unwrap();
}

pub async fn speech_that_a_close_ends_is_answered(on: On) {
    let app = TestApp::start(on, calm()).await;
    let agent = agent(&app, "old").await;
    let mut client = speaker_with(existing(&app)).await;
    says_without_end(&mut client, 0, 400).await;
    client.falls_silent();
    client.close_session("done").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    client.next_of("session_close_ack").await.unwrap();
    client.report().ensure_clean().unwrap();
    assert_eq!((agent.stats().done, agent.stats().kept), (1, 0));
    drop(client);
    eventually("the session is over", || app.engine.sessions.count() == 0).await;
    app.finish().await;
}

pub async fn speech_that_new_languages_end_is_answered(on: On) {
    let app = TestApp::start(on, calm()).await;
    let agent = agent(&app, "old").await;
    let mut client = speaker_with(existing(&app)).await;
    says_without_end(&mut client, 0, 400).await;
    client.set_languages("zh", "en").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    client.marked_sentence(mark(1), 400).await.unwrap();
    is_result(&client.ending().await.unwrap(), 1);
    assert_eq!((agent.stats().done, agent.stats().kept), (2, 0));
    finish(app, client).await;
}

/// Without the word that the turn ended the agent would keep the speech, and the drain would last
/// as long as it may.
pub async fn speech_that_a_drain_ends_is_answered_and_the_drain_is_short(on: On) {
    let app = TestApp::start(on, calm()).await;
    let agent = agent(&app, "old").await;
    let mut client = speaker_with(existing(&app)).await;
    says_without_end(&mut client, 0, 400).await;
    client.falls_silent();
    let began = Instant::now();
    let stopping = tokio::spawn(app.stop());
    is_result(&client.ending().await.unwrap(), 0);
    assert_eq!(client.closed().await.unwrap().code, Some(1001));
    client.report().ensure_clean().unwrap();
    stopping.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(agent.stats().kept, 0);
}

/// The speaker goes on beyond the longest utterance: the agent works on every part once the turn is
/// long enough, and on the last when the turn ends.
pub async fn a_long_turn_comes_back_whole(on: On) {
    let app = TestApp::start(on, calm()).await;
    let habits =
        ExistingAgent { works_from: Duration::from_millis(2_500), ..ExistingAgent::quick() };
    let agent = agent_with(&app, node_options(&app, "old").existing_agent(habits)).await;
    let mut client = speaker_with(existing(&app).max_utterance_ms(1_000)).await;
    for piece in Codec::Opus.pieces(&speech(Codec::Opus, 1, 3_500), 100) {
        client.say(piece).await.unwrap();
    }
    client.end().await.unwrap();
    let endings = client.endings(4).await.unwrap();
    let kinds: Vec<&str> = endings.iter().map(|ending| ending.kind()).collect();
    // What is kept comes back with the part that made the turn long enough.
    assert_eq!(
        kinds,
        ["missing_result", "missing_result", "translation_result", "translation_result"]
    );
    assert_eq!((agent.stats().kept, agent.stats().done), (2, 2));
    super::part(app, client).await;
}

pub async fn a_job_over_http_is_answered(on: On) {
    let app = TestApp::start(on, calm()).await;
    let agent = agent(&app, "old").await;
    let api = HttpClient::new(app.http("")).limit(Duration::from_secs(20));
    let job = |options: serde_json::Value| {
        json!({ "session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
                "options": options })
    };
    let dispatch = async |options: serde_json::Value| {
        let reply = api.post("/v1/dispatch/f2f", &job(options)).await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json().unwrap()
    };
    let done = dispatch(json!({ "wait_ms": 15_000 })).await;
    assert_eq!(done["job"]["state"], "DONE", "{done}");
    // The parts of a turn: the agent waits for the one that ends it.
    let part = dispatch(json!({ "turn_id": "t", "utterance_index": 1 })).await;
    eventually("the agent keeps the first part", || agent.stats().kept == 1).await;
    let last =
        json!({ "turn_id": "t", "utterance_index": 2, "turn_ends": true, "wait_ms": 15_000 });
    assert_eq!(dispatch(last).await["job"]["state"], "DONE");
    let path = format!("/v1/job/{}?wait_ms=15000", part["job_id"].as_str().unwrap());
    let first = api.get(&path).await.unwrap().json().unwrap();
    assert_eq!(first["state"], "DONE", "{first}");
    app.finish().await;
}

/// It speaks on through the drain: one popup, and the close as soon as its last sentence is back.
pub async fn a_drain_is_shown_once_and_ends_with_the_last_result(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = super::node(&app, "a").await;
    let mut client = speaker_with(existing(&app)).await;
    client.marked_sentence(mark(0), 400).await.unwrap();
    let assign = super::take(&mut node).await;
    let stopping = tokio::spawn(app.stop());
    client.next_of("go_away").await.unwrap();
    for _ in 0..30 {
        client.say(speech(Codec::Opus, 1, 100)).await.unwrap();
    }
    is_error(&client.next_of("error").await.unwrap(), "DRAINING");
    client.heartbeat().await.unwrap();
    client.next_of("server_heartbeat").await.unwrap();
    assert_eq!(client.report().popups, 1);
    node.result(&assign, "the last").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    assert_eq!(client.closed().await.unwrap().code, Some(1001));
    assert_eq!(client.report().popups, 1);
    stopping.await.unwrap();
}

pub async fn a_drain_closes_who_has_nothing_open_and_shows_nothing_to_who_comes_back(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = super::node(&app, "a").await;
    // Somebody else keeps the instance draining.
    let mut other = super::speaker(&app).await;
    other.marked_sentence(mark(0), 400).await.unwrap();
    let assign = super::take(&mut node).await;
    let client = speaker_with(existing(&app)).await;
    let mut back = Speaker::unopened_with(existing(&app)).await.unwrap();
    let began = Instant::now();
    let stopping = tokio::spawn(app.stop());
    assert_eq!(client.closed().await.unwrap().code, Some(1001));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(client.report().popups, 0);
    let refused = back.open().await.unwrap_err().downcast::<lingua_lab::ConnectError>().unwrap();
    assert!(
        matches!(&refused, lingua_lab::ConnectError::Closed(closed) if closed.code == Some(1001)),
        "{refused:?}"
    );
    assert_eq!(back.report().popups, 0);
    node.result(&assign, "yes").await.unwrap();
    is_result(&other.ending().await.unwrap(), 0);
    stopping.await.unwrap();
}

/// It shows neither the event nor the absent result, so each kind of failure is an error now and then.
pub async fn failures_are_shown_once_in_a_while(on: On) {
    let app = TestApp::start(on, hurried()).await;
    let mut client = speaker_with(existing(&app)).await;
    for n in 0..3 {
        client.marked_sentence(mark(n), 200).await.unwrap();
        if n == 0 {
            let shown = client.next_of("error").await.unwrap();
            is_error(&shown, "NO_CAPABLE_NODE");
            assert!(shown["trace_id"].as_str().is_some_and(|id| !id.is_empty()), "{shown:?}");
            assert_eq!(shown["details"]["utterance_index"], 0);
        }
        is_missing(&client.ending().await.unwrap(), n.into(), "no_capable_node");
    }
    assert_eq!(client.report().popups, 1);
    // A current client knows the other two.
    let mut current = super::speaker(&app).await;
    current.marked_sentence(mark(0), 200).await.unwrap();
    is_missing(&current.ending().await.unwrap(), 0, "no_capable_node");
    assert_eq!(current.report().popups, 0);
    current.close_session("done").await.unwrap();
    current.next_of("session_close_ack").await.unwrap();
    finish(app, client).await;
}

pub async fn partials_come_unasked(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = super::node(&app, "a").await;
    let mut client = speaker_with(existing(&app)).await;
    client.marked_sentence(mark(0), 400).await.unwrap();
    let assign = super::take(&mut node).await;
    assert_eq!(assign["enable_streaming_asr"], true);
    node.partial(&assign, "good mor").await.unwrap();
    assert_eq!(client.next_of("asr_partial").await.unwrap()["text"], "good mor");
    node.result(&assign, "good morning").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn pieces_of_a_mobile_client_are_one_utterance(on: On) {
    let app = TestApp::start(on, calm()).await;
    let agent = agent(&app, "old").await;
    let client = options(&app).mobile_client().pause_ms(400);
    let mut client = speaker_with(client).await;
    let said = speech(Codec::Pcm16, 1, 1_600);
    assert_eq!(client.mobile_sentence(5, said.clone()).await.unwrap(), 13);
    let ending = client.ending().await.unwrap();
    is_result(&ending, 12);
    let echo = ending.echo().unwrap();
    assert_eq!(echo.digest, lingua_lab::speech::Digest::of(&said), "every piece, in order");
    // The last piece is one that the speaker ended.
    client.mobile_sentence(13, speech(Codec::Pcm16, 2, 400)).await.unwrap();
    client.whole_again(15, speech(Codec::Pcm16, 3, 200), json!({})).await.unwrap();
    let ending = client.ending().await.unwrap();
    is_result(&ending, 15);
    assert_eq!(ending.echo().unwrap().digest.bytes, 600 * 32);
    assert_eq!((agent.stats().received, agent.stats().done), (2, 2));
    super::part(app, client).await;
}

pub async fn pieces_that_something_follows_are_an_utterance(on: On) {
    let app = TestApp::start(on, calm()).await;
    let agent = agent(&app, "old").await;
    let mut client = speaker_with(options(&app).mobile_client()).await;
    client.mobile_sentence(0, speech(Codec::Pcm16, 1, 400)).await.unwrap();
    client.whole_again(2, speech(Codec::Pcm16, 2, 1_200), json!({})).await.unwrap();
    is_result(&client.ending().await.unwrap(), 1);
    is_result(&client.ending().await.unwrap(), 2);
    client.mobile_sentence(3, speech(Codec::Pcm16, 3, 400)).await.unwrap();
    client.close_session("done").await.unwrap();
    is_result(&client.ending().await.unwrap(), 4);
    client.next_of("session_close_ack").await.unwrap();
    assert_eq!(agent.stats().done, 3);
    drop(client);
    eventually("the session is over", || app.engine.sessions.count() == 0).await;
    app.finish().await;
}

pub async fn an_answer_of_nothing_is_silence(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = super::node(&app, "a").await;
    let mut client = speaker_with(existing(&app)).await;
    client.marked_sentence(mark(0), 400).await.unwrap();
    let assign = super::take(&mut node).await;
    let nothing =
        json!({ "success": true, "text_asr": "", "text_translated": "", "tts_audio": "" });
    node.about(&assign, "job_result", nothing).await.unwrap();
    is_missing(&client.ending().await.unwrap(), 0, "silence_detected");
    assert_eq!(client.report().popups, 0, "silence is no failure");
    finish(app, client).await;
}
