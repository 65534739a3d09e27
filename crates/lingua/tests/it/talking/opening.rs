//! How a session begins, and what is wrong is answered.

use std::time::Duration;

use lingua_lab::{HttpClient, Speaker};
use serde_json::json;

use super::{
    calm, eventually, finish, is_error, is_result, options, speaker, speaker_with, worker,
};
use crate::app::{On, TestApp};

pub async fn an_existing_client_is_served_as_ever(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker_with(options(&app).existing_client()).await;
    let ack = client.ack().message.clone();
    assert_eq!(ack["type"], "session_init_ack");
    assert_eq!(ack["protocol_version"], "1.0");
    assert_eq!(ack["use_binary_frame"], false);
    assert_eq!(
        (&ack["negotiated_codec"], &ack["negotiated_audio_format"]),
        (&json!("opus"), &json!("opus"))
    );
    assert_eq!(
        (&ack["negotiated_sample_rate"], &ack["negotiated_channel_count"]),
        (&json!(16000), &json!(1))
    );
    assert!(ack.get("resume_token").is_none() && ack.get("recovered").is_none());
    client.marked_sentence(super::mark(1), 600).await.unwrap();
    let events: Vec<String> = {
        let mut events = Vec::new();
        loop {
            let message = client.next().await.unwrap();
            if message.kind() == "ui_event" {
                events.push(message["event"].as_str().unwrap().to_owned());
            }
            if message.is_ending() {
                is_result(&message, 0);
                assert!(message["text_asr"].is_string() && message["text_translated"].is_string());
                assert!(message["tts_audio"].is_string() && message["tts_format"].is_string());
                break events;
            }
        }
    };
    for wanted in ["INPUT_STARTED", "INPUT_ENDED", "DISPATCHED", "ASR_FINAL", "NMT_DONE"] {
        assert!(events.iter().any(|event| event == wanted), "{wanted} is not in {events:?}");
    }
    finish(app, client).await;
}

pub async fn a_current_client_gets_what_it_asked_for(on: On) {
    let app = TestApp::start(on, calm()).await;
    let client = speaker_with(options(&app).init_with(json!({"trace_id": "my-trace"}))).await;
    let ack = client.ack().message.clone();
    assert_eq!((&ack["use_binary_frame"], &ack["trace_id"]), (&json!(true), &json!("my-trace")));
    assert_eq!(ack["next_index"], 0);
    assert!(ack["resume_token"].is_string() && ack["heartbeat_interval_ms"].is_u64(), "{ack}");
    assert!(ack.get("recovered").is_none(), "it had no session before: {ack}");
    finish(app, client).await;
}

pub async fn nothing_is_heard_before_the_session_is_open(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut client = Speaker::unopened_with(options(&app)).await.unwrap();
    client.send(json!({"type": "audio_chunk", "seq": 0, "is_final": true})).await.unwrap();
    is_error(&client.next().await.unwrap(), "INVALID_MESSAGE");
    client.send_binary(vec![1, 2, 3]).await.unwrap();
    is_error(&client.next().await.unwrap(), "INVALID_MESSAGE");
    client.send_text("{").await.unwrap();
    is_error(&client.next().await.unwrap(), "INVALID_MESSAGE");
    for (field, value, code) in [
        ("src_lang", json!(null), "INVALID_MESSAGE"),
        ("src_lang", json!("!!"), "INVALID_LANGUAGE"),
        ("tgt_lang", json!("auto"), "INVALID_LANGUAGE"),
        ("codec", json!("mp3"), "INVALID_MESSAGE"),
        ("tenant_id", json!("no spaces please"), "INVALID_MESSAGE"),
    ] {
        let mut init = json!({
            "type": "session_init", "client_version": "1", "platform": "test",
            "src_lang": "en", "tgt_lang": "zh",
        });
        init[field] = value;
        client.send(init).await.unwrap();
        let answer = client.next().await.unwrap();
        is_error(&answer, code);
        assert!(answer["message"].as_str().unwrap().contains(field), "{answer:?}");
    }
    client.open().await.unwrap();
    finish(app, client).await;
}

pub async fn a_second_opening_is_an_error_and_the_session_goes_on(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker(&app).await;
    client
        .send(json!({"type": "session_init", "client_version": "1", "platform": "test",
            "src_lang": "en", "tgt_lang": "zh"}))
        .await
        .unwrap();
    is_error(&client.next().await.unwrap(), "INVALID_MESSAGE");
    client.marked_sentence(super::mark(1), 300).await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn another_sessions_id_is_refused(on: On) {
    let app = TestApp::start(on, calm()).await;
    let other = speaker(&app).await;
    let mut client = speaker(&app).await;
    for kind in ["finalize", "session_close", "tts_started", "client_heartbeat"] {
        client.send(json!({"type": kind, "session_id": other.session_id()})).await.unwrap();
        is_error(&client.next().await.unwrap(), "INVALID_SESSION");
    }
    client
        .send(json!({"type": "audio_chunk", "session_id": "s-0", "seq": 0, "is_final": true, "payload": "AAAA"}))
        .await
        .unwrap();
    is_error(&client.next().await.unwrap(), "INVALID_SESSION");
    drop(other);
    client.close_session("done").await.unwrap();
    client.next_of("session_close_ack").await.unwrap();
    app.stop().await;
}

pub async fn what_cannot_be_is_answered_and_the_session_goes_on(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = speaker(&app).await;
    let id = client.session_id().to_owned();
    for (text, code) in [
        ("nonsense".to_owned(), "INVALID_MESSAGE"),
        ("[]".to_owned(), "INVALID_MESSAGE"),
        ("{\"type\":7}".to_owned(), "INVALID_MESSAGE"),
        ("{\"type\":\"sing\"}".to_owned(), "UNSUPPORTED_MESSAGE"),
        (json!({"type": "audio_chunk", "session_id": id, "seq": -1, "is_final": false}).to_string(), "INVALID_MESSAGE"),
        (json!({"type": "audio_chunk", "session_id": id, "seq": 0, "is_final": false, "payload": "?"}).to_string(), "INVALID_MESSAGE"),
        (json!({"type": "set_languages", "session_id": id, "src_lang": "??", "tgt_lang": "zh"}).to_string(), "INVALID_LANGUAGE"),
        (json!({"type": "cancel", "session_id": id, "utterance_index": 99}).to_string(), "NOT_FOUND"),
    ] {
        client.send_text(text.clone()).await.unwrap();
        let answer = client.next().await.unwrap();
        is_error(&answer, code);
    }
    client.send_binary(vec![9, 9, 9]).await.unwrap();
    is_error(&client.next().await.unwrap(), "INVALID_MESSAGE");
    client.marked_sentence(super::mark(1), 300).await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    finish(app, client).await;
}

pub async fn who_keeps_on_with_nonsense_is_shown_the_door(on: On) {
    let app = TestApp::start(on, calm()).await;
    let client = speaker_with(options(&app).without("resume")).await;
    for _ in 0..20 {
        client.send_text("nonsense").await.unwrap();
    }
    assert_eq!(client.closed().await.unwrap().code, Some(1008));
    eventually("the session is over", || app.engine.sessions.count() == 0).await;
    app.finish().await;
}

pub async fn rooms_are_not_served_yet(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut client = speaker(&app).await;
    // More of them than nonsense would be borne.
    for _ in 0..15 {
        for kind in ["room_create", "room_join"] {
            client.about_session(kind, json!({})).await.unwrap();
            let answer = client.next().await.unwrap();
            assert_eq!(
                (answer.kind(), &answer["code"]),
                ("room_error", &json!("UNSUPPORTED_MESSAGE"))
            );
        }
    }
    finish(app, client).await;
}

/// A browser finds its candidates all at once.
pub async fn signalling_between_browsers_is_passed_over(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _node = worker(&app, "a").await;
    let mut client = Speaker::unopened_with(options(&app).existing_client()).await.unwrap();
    client.ice_candidates(25).await.unwrap();
    client.open().await.unwrap();
    client.ice_candidates(50).await.unwrap();
    client.about_session("webrtc_offer", json!({ "to": "peer", "sdp": {} })).await.unwrap();
    client.marked_sentence(super::mark(1), 400).await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    assert_eq!(client.report().popups, 0);
    finish(app, client).await;
}

pub async fn bounds_of_the_clients_own_clocks_are_held(on: On) {
    let app = TestApp::start(on, calm()).await;
    for wrong in [json!({"pause_ms": 1}), json!({"max_utterance_ms": 999_999})] {
        let refused = Speaker::connect(options(&app).init_with(wrong.clone())).await.unwrap_err();
        let text = format!("{refused:#}");
        assert!(text.contains("INVALID_MESSAGE") && text.contains("must be from"), "{text}");
    }
    app.finish().await;
}

pub async fn who_never_opens_is_shown_the_door(on: On) {
    let app = TestApp::start(on, calm()).await;
    let client = Speaker::unopened_with(options(&app)).await.unwrap();
    client.ping(vec![1]).await.unwrap();
    let closed = client.closed_within(Duration::from_secs(20)).await.unwrap();
    assert_eq!(closed.code, Some(4002), "{closed:?}");
    app.finish().await;
}

pub async fn a_tenant_has_so_many_sessions_and_no_more(on: On) {
    let mut settings = calm();
    settings.sessions.per_tenant = 2;
    let app = TestApp::start(on, settings).await;
    let tenant = |id: &str| options(&app).init_with(json!({"tenant_id": id}));
    let one = speaker_with(tenant("one")).await;
    let two = speaker_with(tenant("one")).await;
    let refused = format!("{:#}", Speaker::connect(tenant("one")).await.unwrap_err());
    assert!(refused.contains("QUOTA_EXCEEDED"), "{refused}");
    let other = speaker_with(tenant("other")).await;
    one.close_session("done").await.unwrap();
    one.closed().await.unwrap();
    eventually("its place is free", || app.engine.sessions.count() == 2).await;
    let three = speaker_with(tenant("one")).await;
    drop((two, other, three));
    app.stop().await;
}

pub async fn signs_of_life_are_answered(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut client = speaker(&app).await;
    client.about_session("client_heartbeat", json!({"timestamp": 42})).await.unwrap();
    let answer = client.next().await.unwrap();
    assert_eq!((answer.kind(), &answer["timestamp"]), ("server_heartbeat", &json!(42)));
    assert_eq!(answer["session_id"], client.session_id());
    finish(app, client).await;
}

pub async fn a_close_is_answered_after_the_last_ending(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = super::node(&app, "a").await;
    let mut client = speaker(&app).await;
    // Not even ended: what was said so far is still translated.
    client.say(super::speech(super::Codec::Opus, 1, 300)).await.unwrap();
    client.falls_silent();
    client.close_session("done").await.unwrap();
    let assign = super::take(&mut node).await;
    node.result(&assign, "last").await.unwrap();
    is_result(&client.ending().await.unwrap(), 0);
    client.next_of("session_close_ack").await.unwrap();
    assert_eq!(client.closed().await.unwrap().code, Some(1000));
    app.finish().await;
}

pub async fn a_plain_request_is_told_that_this_is_a_socket(on: On) {
    let app = TestApp::start(on, calm()).await;
    let answer = HttpClient::new(app.http("")).get("/ws/session").await.unwrap();
    assert_eq!(answer.status, 400);
    app.finish().await;
}
