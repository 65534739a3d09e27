//! Clients that mean no good, or are merely slow.

use std::time::Duration;

use lingua_lab::speech::Codec;
use lingua_lab::{Behaviour, FakeNode};
use serde_json::json;
use tokio::time::Instant;

use super::{
    calm, eventually, finish, is_result, mark, node_options, options, speaker, speaker_with,
    speech, worker,
};
use crate::app::{On, TestApp};

pub async fn a_flood_is_slowed_down_and_loses_nothing(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker(&app).await;
    let began = Instant::now();
    for _ in 0..900 {
        client.heartbeat().await.unwrap();
    }
    client.marked_sentence(mark(0), 200).await.unwrap();
    let slow = client.next_of("backpressure").await.unwrap();
    assert_eq!(slow["action"], "SLOW_DOWN");
    is_result(&client.ending().await.unwrap(), 0);
    // 400 at once, the rest at 200 a second.
    assert!(began.elapsed() > Duration::from_millis(2_000), "{:?}", began.elapsed());
    finish(app, client).await;
}

pub async fn who_reads_nothing_is_let_go_and_delays_nobody(on: On) {
    let app = TestApp::start(on, calm()).await;
    let behaviour = Behaviour { tts_audio_bytes: 600_000, ..Behaviour::default() };
    let _node =
        FakeNode::connect(node_options(&app, "a").max_jobs(16).behaviour(behaviour)).await.unwrap();
    app.meets("a").await;
    let stuck = speaker_with(options(&app).without("resume")).await;
    stuck.stop_reading().await.unwrap();
    for n in 0..20 {
        stuck.whole(n, speech(Codec::Opus, 1, 100), json!({})).await.unwrap();
    }
    let mut healthy = speaker(&app).await;
    for n in 0..5 {
        healthy.marked_sentence(mark(n), 100).await.unwrap();
        is_result(&healthy.ending().await.unwrap(), n.into());
    }
    eventually("it is let go", || app.engine.sessions.count() == 1).await;
    drop(stuck);
    finish(app, healthy).await;
}

pub async fn a_message_too_large_ends_the_connection(on: On) {
    let app = TestApp::start(on, calm()).await;
    let client = speaker_with(options(&app).without("resume")).await;
    // It may be closed before all of it is written.
    let _ = client.send_text("x".repeat(4 << 20)).await;
    assert_eq!(client.closed().await.unwrap().code, Some(1009));
    eventually("the session is over", || app.engine.sessions.count() == 0).await;
    app.finish().await;
}
