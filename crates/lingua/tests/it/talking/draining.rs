//! The scheduler stops.

use std::time::Duration;

use lingua_lab::Speaker;
use lingua_lab::speech::Codec;

use super::{calm, is_result, mark, node, options, speaker, speech, take};
use crate::app::{On, TestApp};

pub async fn a_drain_ends_what_was_said_and_closes(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = super::speaker_with(options(&app).without("resume")).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let first = take(&mut node).await;
    client.say(speech(Codec::Opus, 1, 200)).await.unwrap();
    client.falls_silent();
    let engine = app.engine.clone();
    super::eventually("the speech arrived", || engine.sessions.count() == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let stopping = tokio::spawn(app.stop());
    let away = client.next_of("go_away").await.unwrap();
    assert!(away["deadline_ms"].is_u64() && away["reason"].is_string(), "{away:?}");
    let second = take(&mut node).await;
    node.result(&second, "second").await.unwrap();
    node.result(&first, "first").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    is_result(&client.ending().await.unwrap(), 1);
    let closed = client.closed().await.unwrap();
    assert_eq!(closed.code, Some(1001));
    assert!(closed.reason.contains("retry_after_ms"), "{closed:?}");
    client.report().ensure_clean().unwrap();
    stopping.await.unwrap();
}

pub async fn a_draining_instance_opens_nothing(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let assign = take(&mut node).await;
    let late = Speaker::unopened_with(options(&app)).await.unwrap();
    let stopping = tokio::spawn(app.stop());
    client.next_of("go_away").await.unwrap();
    let mut late = late;
    let refused = format!("{:#}", late.open().await.unwrap_err());
    assert!(refused.contains("DRAINING"), "{refused}");
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    stopping.await.unwrap();
}

pub async fn a_drained_session_goes_on_elsewhere(on: On) {
    let other = TestApp::start(on, calm()).await;
    let app = TestApp::over(other.engine.store().clone(), "test-2", calm()).await;
    let (_a, _b) = (super::worker(&app, "a").await, super::worker(&other, "b").await);
    let mut client = speaker(&app).await;
    let id = client.session_id().to_owned();
    client.marked_sentence(mark(0), 200).await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    // In the middle of a sentence, which is not cut in two for it.
    let pieces = Codec::Opus.pieces(&speech(Codec::Opus, 1, 400), 200);
    client.say(pieces[0].clone()).await.unwrap();
    client.heartbeat().await.unwrap();
    client.next_of("server_heartbeat").await.unwrap();
    app.stop().await;
    assert_eq!(client.closed().await.unwrap().code, Some(1001));
    client.options_mut().url = other.ws("/ws/session");
    let ack = client.resume().await.unwrap();
    assert_eq!((ack.recovered, ack.session_id.as_str()), (Some(true), id.as_str()));
    assert_eq!(ack.next_index, Some(1));
    client.say_last(pieces[1].clone()).await.unwrap();
    is_result(&client.ending().await.unwrap(), 1);
    super::finish(other, client).await;
}

/// The client goes at once, as it is asked to, and its translation comes before it is there.
pub async fn what_ends_between_two_instances_is_heard_at_the_second(on: On) {
    let other = TestApp::start(on, calm()).await;
    let app = TestApp::over(other.engine.store().clone(), "test-2", calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let assign = take(&mut node).await;
    client.next_of("audio_ack").await.unwrap();
    let url = other.ws("/ws/session");
    let stopping = tokio::spawn(app.stop());
    client.next_of("go_away").await.unwrap();
    client.close(1000, "").await.unwrap();
    node.result(&assign, "first").await.unwrap();
    node.next_of("result_ack").await.unwrap();
    client.options_mut().url = url;
    let ack = client.resume().await.unwrap();
    assert_eq!(ack.recovered, Some(true));
    is_result(&client.ending().await.unwrap(), 0);
    stopping.await.unwrap();
    super::finish(other, client).await;
}
