//! A client goes away and comes back, here or elsewhere.

use std::time::Duration;

use lingua_lab::speech::Codec;
use serde_json::json;

use super::{
    audio_of, calm, eventually, finish, is_result, mark, metric, node, node_options, node_with,
    options, speaker, speaker_with, speech, take, worker,
};
use crate::app::{On, TestApp};

pub async fn missed_endings_are_told_again(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    let first = take(&mut node).await;
    node.result(&first, "seen").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    client.marked_sentence(mark(1), 200).await.unwrap();
    let second = take(&mut node).await;
    client.reset().await;
    node.result(&second, "unseen").await.unwrap();
    eventually("it is known", || app.engine.jobs.open_jobs().is_empty()).await;
    let ack = client.resume().await.unwrap();
    assert_eq!((ack.recovered, ack.next_index), (Some(true), Some(2)));
    let ending = client.ending().await.unwrap();
    is_result(&ending, 1);
    assert_eq!(ending["text_translated"], "unseen");
    finish(app, client).await;
}

pub async fn speech_is_acknowledged_when_a_node_has_it(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker(&app).await;
    client.say(speech(Codec::Opus, 1, 200)).await.unwrap();
    let last = client.end().await.unwrap();
    let assign = node.next_of("job_assign").await.unwrap().message;
    let early = client.next_of_within("audio_ack", Duration::from_millis(300)).await;
    assert!(early.is_err(), "no node has it yet");
    node.ack(&assign).await.unwrap();
    assert_eq!(client.next_of("audio_ack").await.unwrap()["seq"], last);
    assert_eq!(client.unacknowledged(), 0);
    node.result(&assign, "yes").await.unwrap();
    client.ending().await.unwrap();
    finish(app, client).await;
}

pub async fn speech_sent_again_is_joined_without_doubling(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node_with(&app, node_options(&app, "a").without("binary_audio")).await;
    let mut client = speaker(&app).await;
    let said = speech(Codec::Opus, 1, 1_000);
    let pieces = Codec::Opus.pieces(&said, 100);
    for piece in &pieces[..6] {
        client.say(piece.clone()).await.unwrap();
    }
    client.reset().await;
    // The client sends again everything that was not acknowledged, which is all of it.
    client.resume().await.unwrap();
    for piece in &pieces[6..] {
        client.say(piece.clone()).await.unwrap();
    }
    client.end().await.unwrap();
    let assign = take(&mut node).await;
    assert_eq!(audio_of(&mut node, &assign).await, said, "each byte once");
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn an_unfinished_sentence_goes_on_after_the_resume(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node_with(&app, node_options(&app, "a").without("binary_audio")).await;
    let mut client = speaker_with(options(&app).pause_ms(300)).await;
    let said = speech(Codec::Opus, 1, 600);
    let pieces = Codec::Opus.pieces(&said, 300);
    client.say(pieces[0].clone()).await.unwrap();
    client.reset().await;
    // Longer than the pause: the network interrupted it, not the speaker.
    node.hears_nothing_for(Duration::from_millis(700)).await.unwrap();
    client.resume().await.unwrap();
    client.say_last(pieces[1].clone()).await.unwrap();
    let assign = take(&mut node).await;
    assert_eq!(audio_of(&mut node, &assign).await, said);
    node.result(&assign, "yes").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn the_older_socket_is_told_that_it_is_superseded(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut first = speaker(&app).await;
    first.marked_sentence(mark(0), 200).await.unwrap();
    is_result(&first.ending().await.unwrap(), 0);
    let mut second = first.second().await.unwrap();
    assert_eq!(first.closed().await.unwrap().code, Some(4001));
    assert_eq!(second.ack().recovered, Some(true));
    assert_eq!(second.session_id(), first.session_id());
    second.marked_sentence(mark(1), 200).await.unwrap();
    is_result(&second.ending().await.unwrap(), 1);
    assert_eq!(app.engine.sessions.count(), 1);
    second.close_session("done").await.unwrap();
    second.next_of("session_close_ack").await.unwrap();
    app.finish().await;
}

pub async fn a_token_that_means_nothing_opens_a_new_session(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut one = speaker(&app).await;
    let (token, id) = (one.ack().resume_token.clone().unwrap(), one.session_id().to_owned());
    one.close_session("done").await.unwrap();
    one.next_of("session_close_ack").await.unwrap();
    eventually("it is over", || app.engine.sessions.count() == 0).await;
    let forged = format!("{id}.00000000000000000000000000000000");
    for token in [token.as_str(), forged.as_str(), "nonsense"] {
        let fields = json!({"resume_token": token, "last_index": 3});
        let client = speaker_with(options(&app).init_with(fields)).await;
        assert_eq!(client.ack().recovered, Some(false), "{token}");
        assert_eq!(client.ack().next_index, Some(0));
        assert_ne!(client.session_id(), id);
    }
    app.stop().await;
}

pub async fn after_the_window_the_session_is_gone(on: On) {
    let mut settings = calm();
    settings.timing.resume_window_ms = 300;
    let app = TestApp::start(on, settings).await;
    let mut client = speaker(&app).await;
    let id = client.session_id().to_owned();
    client.say(speech(Codec::Opus, 1, 200)).await.unwrap();
    eventually("it is there", || app.engine.sessions.count() == 1).await;
    client.reset().await;
    eventually("it is gone", || app.engine.sessions.count() == 0).await;
    assert!(metric(&app, "lingua_audio_dropped_bytes_total{reason=\"abandoned\"}") > 0);
    let ack = client.resume().await.unwrap();
    assert_eq!(ack.recovered, Some(false));
    assert_ne!(ack.session_id, id);
    app.stop().await;
}

pub async fn a_client_that_cannot_come_back_leaves_only_what_it_finished(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = node(&app, "a").await;
    let mut client = speaker_with(options(&app).existing_client()).await;
    client.marked_sentence(mark(0), 200).await.unwrap();
    client.say(speech(Codec::Opus, 1, 200)).await.unwrap();
    let assign = node.next_of("job_assign").await.unwrap().message;
    client.reset().await;
    // What it asked for is still done; what it left unfinished is nobody's.
    node.ack(&assign).await.unwrap();
    node.result(&assign, "unheard").await.unwrap();
    node.next_of("result_ack").await.unwrap();
    node.hears_nothing_for(Duration::from_millis(300)).await.unwrap();
    eventually("it is over", || app.engine.sessions.count() == 0).await;
    app.finish().await;
}

pub async fn another_instance_goes_on_with_the_session(on: On) {
    let app = TestApp::start(on, calm()).await;
    let other = TestApp::over(app.engine.store().clone(), "test-2", calm()).await;
    let _node = worker(&other, "b").await;
    let mut client = speaker(&app).await;
    let id = client.session_id().to_owned();
    let pieces = Codec::Opus.pieces(&speech(Codec::Opus, 1, 400), 200);
    client.say(pieces[0].clone()).await.unwrap();
    eventually("it is there", || app.engine.sessions.count() == 1).await;
    client.reset().await;
    client.options_mut().url = other.ws("/ws/session");
    let ack = client.resume().await.unwrap();
    assert_eq!((ack.recovered, ack.session_id.as_str()), (Some(true), id.as_str()));
    client.say_last(pieces[1].clone()).await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    // The instance before learns of it and lets go.
    eventually("the older owner is gone", || app.engine.sessions.count() == 0).await;
    client.report().ensure_clean().unwrap();
    client.close_session("done").await.unwrap();
    client.next_of("session_close_ack").await.unwrap();
    other.finish().await;
    app.finish().await;
}

pub async fn a_session_goes_there_and_back_again(on: On) {
    let app = TestApp::start(on, calm()).await;
    let other = TestApp::over(app.engine.store().clone(), "test-2", calm()).await;
    let (_a, _b) = (worker(&app, "a").await, worker(&other, "b").await);
    let mut client = speaker(&app).await;
    let id = client.session_id().to_owned();
    for (n, there) in [&app, &other, &app, &other].into_iter().enumerate() {
        client.reset().await;
        client.options_mut().url = there.ws("/ws/session");
        let ack = client.resume().await.unwrap();
        assert_eq!((ack.recovered, ack.session_id.as_str()), (Some(true), id.as_str()), "{n}");
        client.marked_sentence(mark(n as u32), 200).await.unwrap();
        is_result(&client.ending().await.unwrap(), n as u64);
    }
    client.report().ensure_clean().unwrap();
    client.close_session("done").await.unwrap();
    client.next_of("session_close_ack").await.unwrap();
    eventually("all owners are gone", || {
        app.engine.sessions.count() + other.engine.sessions.count() == 0
    })
    .await;
    other.finish().await;
    app.finish().await;
}

pub async fn a_token_is_good_for_the_next_line_and_no_more(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut client = speaker(&app).await;
    let (first, id) = (client.ack().resume_token.clone().unwrap(), client.session_id().to_owned());
    for _ in 0..2 {
        client.reset().await;
        let ack = client.resume().await.unwrap();
        assert_eq!(ack.recovered, Some(true));
        assert_ne!(ack.resume_token.as_ref(), Some(&first), "every line has its own");
    }
    // The first token is two lines old: whoever comes with it is not the client.
    let thief = speaker_with(options(&app).init_with(json!({"resume_token": first}))).await;
    assert_eq!(thief.ack().recovered, Some(false));
    assert_ne!(thief.session_id(), id);
    client.heartbeat().await.unwrap();
    client.next_of("server_heartbeat").await.unwrap();
    drop(thief);
    app.stop().await;
}
