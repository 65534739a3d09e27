use std::net::Ipv4Addr;
use std::time::Duration;

use lingua_lab::speaker::Kind;
use lingua_lab::speech::{Codec, Mark};
use lingua_lab::{ConnectError, Speaker};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::desk::{Desk, Line, result};

async fn opened(desk: &Desk) -> (Speaker, Line) {
    let (speaker, (line, _)) = tokio::join!(Speaker::connect(desk.options()), desk.welcome(None));
    (speaker.unwrap(), line)
}

fn mark(sentence: u32) -> Mark {
    Mark { speaker: 1, sentence }
}

#[tokio::test]
async fn a_sentence_goes_out_in_pieces_and_its_result_is_recognised() {
    let desk = Desk::open().await;
    let (mut speaker, mut line) = opened(&desk).await;
    assert_eq!((speaker.session_id(), speaker.ack().next_index), ("s-1", Some(0)));
    speaker.marked_sentence(mark(0), 250).await.unwrap();
    let mut audio = Vec::new();
    for seq in 0..4 {
        let piece = line.piece().await;
        assert_eq!((piece.seq, piece.is_final), (seq, seq == 3));
        audio.extend(piece.audio);
    }
    assert_eq!(audio, speaker.speech(mark(0), 250));
    assert_eq!(speaker.open_sentences(), 1);
    line.send(json!({ "type": "ui_event", "utterance_index": 0, "event": "DISPATCHED" })).await;
    line.send(result(0, &audio)).await;
    let ending = speaker.ending().await.unwrap();
    assert_eq!(ending.echo().unwrap().mark, Some(mark(0)));
    speaker.report().ensure_clean().unwrap();

    line.send(json!({ "type": "missing_result", "utterance_index": 0, "reason": "x" })).await;
    speaker.next_of("missing_result").await.unwrap();
    assert_eq!(speaker.report().count(Kind::Doubled), 1);
}

#[tokio::test]
async fn an_existing_client_speaks_json() {
    let desk = Desk::open().await;
    let options = desk.options().existing_client();
    let (speaker, (mut line, init)) = tokio::join!(Speaker::connect(options), async {
        let mut line = desk.accept().await;
        let init = line.next().await;
        line.send(json!({ "type": "session_init_ack", "session_id": "s-1" })).await;
        (line, init)
    });
    let speaker = speaker.unwrap();
    assert!(init.get("supports").is_none());
    speaker.say(&b"abc"[..]).await.unwrap();
    speaker.end().await.unwrap();
    assert_eq!(line.next().await["payload"], "YWJj");
    assert_eq!(line.next().await["is_final"], true);
    assert_eq!(speaker.unacknowledged(), 0);
}

#[tokio::test]
async fn a_refusal_and_a_close_have_their_codes() {
    let desk = Desk::open().await;
    let refuse = async {
        let mut line = desk.accept().await;
        line.next().await;
        line.send(json!({ "type": "error", "code": "INVALID_LANGUAGE", "message": "xx" })).await;
    };
    let error = tokio::join!(Speaker::connect(desk.options()), refuse).0.unwrap_err();
    let Some(ConnectError::Refused { code, .. }) = error.downcast_ref() else {
        panic!("{error:#}")
    };
    assert_eq!(code, "INVALID_LANGUAGE");
    let close = async { desk.accept().await.close(1013, "later").await };
    let error = tokio::join!(Speaker::connect(desk.options()), close).0.unwrap_err();
    let Some(ConnectError::Closed(closed)) = error.downcast_ref() else { panic!("{error:#}") };
    assert_eq!(closed.code, Some(1013));
}

#[tokio::test]
async fn after_a_sudden_end_only_what_is_not_acknowledged_goes_again() {
    let desk = Desk::open().await;
    let (mut speaker, mut line) = opened(&desk).await;
    for audio in ["aa", "bb", "cc"] {
        speaker.say(audio).await.unwrap();
    }
    line.send(json!({ "type": "audio_ack", "session_id": "s-1", "seq": 0 })).await;
    line.send(json!({ "type": "missing_result", "utterance_index": 0, "reason": "x" })).await;
    speaker.ending().await.unwrap();
    speaker.abort().await;
    for _ in 0..3 {
        line.piece().await;
    }
    assert_eq!(line.frame().await, None, "no close frame");

    let (ack, (mut line, init)) = tokio::join!(speaker.resume(), desk.welcome(Some(true)));
    assert_eq!(ack.unwrap().recovered, Some(true));
    assert_eq!((&init["resume_token"], &init["last_index"]), (&json!("R-1"), &json!(0)));
    assert_eq!((line.piece().await.seq, line.piece().await.seq), (1, 2));
    assert_eq!(speaker.end().await.unwrap(), 3);

    speaker.reset().await;
    line.piece().await;
    let frame = line.frame().await;
    assert!(frame.is_none(), "{frame:?}");
    let (ack, (mut line, _)) = tokio::join!(speaker.resume_silently(), desk.welcome(Some(false)));
    assert_eq!(ack.unwrap().recovered, Some(false));
    assert_eq!(speaker.say("dd").await.unwrap(), 0, "another session counts anew");
    assert_eq!(line.piece().await.audio, b"dd");
}

#[tokio::test]
async fn one_that_stops_reading_can_still_speak_and_read_again() {
    let desk = Desk::open().await;
    let (mut speaker, mut line) = opened(&desk).await;
    speaker.stop_reading().await.unwrap();
    line.send(json!({ "type": "server_heartbeat" })).await;
    speaker.hears_nothing_for(Duration::from_millis(100)).await.unwrap();
    speaker.heartbeat().await.unwrap();
    assert_eq!(line.next().await["type"], "client_heartbeat");
    speaker.read_again().await.unwrap();
    speaker.next_of("server_heartbeat").await.unwrap();
}

#[tokio::test]
async fn every_control_message_names_the_session() {
    let desk = Desk::open().await;
    let (speaker, mut line) = opened(&desk).await;
    speaker.finalize().await.unwrap();
    speaker.set_languages("de", "fr").await.unwrap();
    speaker.cancel(3).await.unwrap();
    speaker.tts_started("g").await.unwrap();
    speaker.tts_ended("g").await.unwrap();
    speaker.whole(7, "aa", json!({ "tgt_lang": "ja" })).await.unwrap();
    speaker.close_session("enough").await.unwrap();
    for kind in [
        "finalize",
        "set_languages",
        "cancel",
        "tts_started",
        "tts_play_ended",
        "utterance",
        "session_close",
    ] {
        let message = line.next().await;
        assert_eq!((&message["type"], &message["session_id"]), (&json!(kind), &json!("s-1")));
    }
    speaker.send_text("no json").await.unwrap();
    assert_eq!(line.frame().await, Some(Message::text("no json")));
    let closing = async { assert!(matches!(line.frame().await, Some(Message::Close(_)))) };
    let (closed, ()) = tokio::join!(speaker.close(1000, ""), closing);
    closed.unwrap();
    assert!(!speaker.is_connected());
}

#[tokio::test]
async fn it_comes_from_the_address_it_is_told_to() {
    let desk = Desk::open().await;
    let options = desk.options().from_address(Ipv4Addr::new(127, 0, 0, 9)).codec(Codec::Opus);
    let (speaker, line) = tokio::join!(Speaker::unopened_with(options), desk.accept());
    speaker.unwrap();
    assert_eq!(line.peer.ip(), Ipv4Addr::new(127, 0, 0, 9));
}
