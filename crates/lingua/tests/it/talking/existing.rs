//! Existing clients and existing agents, unchanged, with their habits.

use std::time::Duration;

use lingua_lab::fake_node::ExistingAgent;
use lingua_lab::speech::Codec;
use lingua_lab::{FakeNode, HttpClient, NodeOptions, Speaker, SpeakerOptions};
use serde_json::json;
use tokio::time::Instant;

use super::{
    calm, eventually, finish, is_result, mark, node_options, options, speaker_with, speech,
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
    let pieces = Codec::Opus.pieces(&speech(Codec::Opus, 1, 3_500), 100);
    for (part, pieces) in pieces.chunks(10).enumerate() {
        for piece in pieces {
            client.say(piece.clone()).await.unwrap();
        }
        // The piece behind a part cuts it, so the agent has those before.
        eventually("the agent has the part before", || agent.stats().received >= part as u64).await;
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
