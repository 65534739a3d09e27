//! Clients from before `supports`, with the habits of the real ones.

use std::time::Duration;

use lingua_lab::speaker::{Pace, Script};
use lingua_lab::speech::{Codec, Signal};
use lingua_lab::{AutoSpeaker, Speaker, SpeakerOptions};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::desk::{Desk, Line};

const ACK: &str = r#"{"type":"session_init_ack","session_id":"s-1","use_binary_frame":false}"#;

/// Takes the next connection; gives its `session_init` too.
async fn welcome(desk: &Desk) -> (Line, Value) {
    let mut line = desk.accept().await;
    let init = line.next().await;
    line.send(serde_json::from_str(ACK).unwrap()).await;
    (line, init)
}

async fn speaker(desk: &Desk, options: SpeakerOptions) -> (Speaker, Line) {
    let (speaker, (line, _)) = tokio::join!(Speaker::connect(options), welcome(desk));
    (speaker.unwrap(), line)
}

#[tokio::test]
async fn a_browser_names_the_page_and_an_app_names_none() {
    use tokio::io::AsyncReadExt as _;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws/session", listener.local_addr().unwrap());
    let head = async |options: SpeakerOptions| {
        let connecting = tokio::spawn(Speaker::unopened_with(options));
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4_096];
        let mut read = 0;
        while !head[..read].ends_with(b"\r\n\r\n") {
            read += stream.read(&mut head[read..]).await.unwrap();
        }
        connecting.abort();
        String::from_utf8_lossy(&head[..read]).to_lowercase()
    };
    let page = SpeakerOptions::new(&url).existing_client();
    assert!(head(page).await.contains("\r\norigin: http://localhost:9001\r\n"));
    let app = head(SpeakerOptions::new(&url).mobile_client()).await;
    assert!(!app.contains("\r\norigin:"), "{app}");
}

#[tokio::test]
async fn every_error_is_a_popup_and_nothing_else_is() {
    let desk = Desk::open().await;
    let (mut speaker, mut line) = speaker(&desk, desk.options().existing_client()).await;
    for message in [
        json!({ "type": "error", "code": "DRAINING", "message": "" }),
        json!({ "type": "go_away", "deadline_ms": 100, "reason": "" }),
        json!({ "type": "missing_result", "utterance_index": 0, "reason": "job_failed" }),
        json!({ "type": "ui_event", "utterance_index": 1, "event": "ERROR", "status": "error" }),
        json!({ "type": "error", "code": "DRAINING", "message": "" }),
    ] {
        line.send(message).await;
    }
    for _ in 0..5 {
        speaker.next().await.unwrap();
    }
    assert_eq!(speaker.report().popups, 2);
}

#[tokio::test]
async fn asked_to_go_it_stays_and_cut_off_it_comes_back_to_a_new_session() {
    let desk = Desk::open().await;
    let mut options = desk.options().existing_client();
    options.reconnect_after = Duration::from_millis(300);
    let script = Script::random(5, 1_000).pace(Pace::Times(1.0));
    let (speaker, (mut line, _)) =
        tokio::join!(AutoSpeaker::start(options, script), welcome(&desk));
    let speaker = speaker.unwrap();
    line.send(json!({ "type": "go_away", "deadline_ms": 100, "reason": "drain" })).await;
    let left = timeout(Duration::from_millis(400), async { while line.frame().await.is_some() {} });
    assert!(left.await.is_err(), "it left");
    line.close(1008, r#"{"retry_after_ms":30000}"#).await;
    let closed = Instant::now();
    let (_line, init) = welcome(&desk).await;
    let away = closed.elapsed();
    assert!(away >= Duration::from_millis(250) && away < Duration::from_secs(4), "{away:?}");
    assert!(init.get("resume_token").is_none());
    drop(speaker);
}

#[tokio::test]
async fn a_mobile_client_sends_each_200_ms_as_an_utterance_that_it_did_not_end() {
    let desk = Desk::open().await;
    let (speaker, mut line) = speaker(&desk, desk.options().mobile_client()).await;
    let speech = Codec::Pcm16.speech(Signal::Babble, 600, None, 1);
    assert_eq!(speaker.mobile_sentence(4, speech).await.unwrap(), 7);
    for index in 4..7 {
        let message = line.next().await;
        assert_eq!(
            (&message["type"], &message["manual_cut"]),
            (&json!("utterance"), &json!(false))
        );
        assert_eq!(message["utterance_index"], index);
        assert_eq!(message["audio_format"], "pcm16");
        assert_eq!(message["audio"].as_str().unwrap().len(), 6_400_usize.div_ceil(3) * 4);
    }
}

#[tokio::test]
async fn ice_candidates_come_in_bursts() {
    let desk = Desk::open().await;
    let (speaker, mut line) = speaker(&desk, desk.options().existing_client()).await;
    speaker.ice_candidates(25).await.unwrap();
    for _ in 0..25 {
        assert_eq!(line.next().await["type"], "webrtc_ice");
    }
}
