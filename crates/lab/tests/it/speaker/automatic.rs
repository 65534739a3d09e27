use std::time::Duration;

use lingua_lab::AutoSpeaker;
use lingua_lab::speaker::{Ended, Kind, Pace, Script};
use serde_json::json;
use tokio::time::Instant;

use super::desk::{Desk, Echo};

const ALL: usize = usize::MAX;

#[tokio::test]
async fn a_script_is_said_to_its_end_and_the_session_closed() {
    let desk = Desk::open().await;
    for pace in [Pace::Times(20.0), Pace::ClosedLoop] {
        let mut echo = Echo::default();
        let script = Script::random(1, 5).pace(pace);
        let speaking = async {
            AutoSpeaker::start(desk.options(), script).await.unwrap().finished().await.unwrap()
        };
        let (report, _) = tokio::join!(speaking, echo.serve(&desk, ALL));
        report.ensure_clean().unwrap();
        assert_eq!((report.said, report.results), (5, 5), "{pace:?}");
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_anywhere_loses_and_doubles_nothing() {
    let desk = Desk::open().await;
    for frames in [1, 7, 12, 30] {
        let mut echo = Echo::default();
        let script = Script::random(2, 4).pace(Pace::Times(20.0));
        let speaking = async {
            AutoSpeaker::start(desk.options(), script).await.unwrap().finished().await.unwrap()
        };
        let serving = async {
            drop(echo.serve(&desk, frames).await);
            let line = echo.serve(&desk, frames).await;
            line.close(1001, r#"{"retry_after_ms":20}"#).await;
            echo.serve(&desk, ALL).await
        };
        let (report, _) = tokio::join!(speaking, serving);
        report.ensure_clean().unwrap();
        assert_eq!((report.said, report.results, report.connections), (4, 4, 3));
        assert_eq!(report.sessions, 1, "cut after {frames}");
    }
}

#[tokio::test]
async fn one_that_was_superseded_does_not_come_back() {
    let desk = Desk::open().await;
    let script = Script::random(3, 4).pace(Pace::Times(1.0));
    let (speaker, (line, _)) =
        tokio::join!(AutoSpeaker::start(desk.options(), script), desk.welcome(None));
    line.close(4001, "superseded").await;
    let Ended::GivenUp(why) = speaker.unwrap().ended().await else { panic!("it came back") };
    assert!(why.contains("4001"), "{why}");
}

#[tokio::test]
async fn asked_to_wait_it_waits() {
    let desk = Desk::open().await;
    let script = Script::random(4, 4).pace(Pace::Times(20.0));
    let (speaker, (mut line, _)) =
        tokio::join!(AutoSpeaker::start(desk.options(), script), desk.welcome(None));
    line.piece().await;
    line.send(json!({ "type": "backpressure", "action": "PAUSE", "resume_after_ms": 400 })).await;
    let asked = Instant::now();
    let mut longest = Duration::ZERO;
    let mut before = asked;
    while asked.elapsed() < Duration::from_millis(500) {
        line.piece().await;
        longest = longest.max(before.elapsed());
        before = Instant::now();
    }
    assert!(longest > Duration::from_millis(350), "{longest:?}");
    drop(speaker);
}

#[tokio::test]
async fn asked_to_go_away_it_goes_and_resumes_elsewhere() {
    let desk = Desk::open().await;
    let mut echo = Echo::default();
    let script = Script::random(5, 3).pace(Pace::Times(20.0));
    let speaking = async {
        AutoSpeaker::start(desk.options(), script).await.unwrap().finished().await.unwrap()
    };
    let serving = async {
        let mut line = echo.serve(&desk, 5).await;
        line.send(json!({ "type": "go_away", "deadline_ms": 500, "reason": "drain" })).await;
        while line.frame().await.is_some() {}
        echo.serve(&desk, ALL).await
    };
    let (report, _) = tokio::join!(speaking, serving);
    report.ensure_clean().unwrap();
    assert_eq!((report.results, report.connections), (3, 2));
}

#[tokio::test]
async fn stopped_in_the_middle_it_ends_its_sentence_and_waits_for_the_rest() {
    let desk = Desk::open().await;
    let mut echo = Echo::default();
    let script = Script::random(6, 1_000);
    let speaking = async {
        let speaker = AutoSpeaker::start(desk.options(), script).await.unwrap();
        tokio::time::sleep(Duration::from_millis(350)).await;
        speaker.stop();
        speaker.finished().await.unwrap()
    };
    let (report, _) = tokio::join!(speaking, echo.serve(&desk, ALL));
    report.ensure_clean().unwrap();
    assert_eq!((report.said, report.results), (1, 1));
}

#[tokio::test]
async fn a_session_that_was_forgotten_is_named_and_the_script_goes_on() {
    let desk = Desk::open().await;
    // Slow enough for the loss to come before the second sentence.
    let script = Script::random(7, 2).pace(Pace::Times(3.0));
    let speaking = async {
        let speaker = AutoSpeaker::start(desk.options(), script).await.unwrap();
        speaker.finished().await.unwrap()
    };
    let serving = async {
        let (mut line, _) = desk.welcome(None).await;
        while !line.piece().await.is_final {}
        drop(line);
        Echo::default().serve(&desk, ALL).await
    };
    let (report, _) = tokio::join!(speaking, serving);
    assert_eq!((report.sessions, report.count(Kind::Abandoned)), (2, 1), "{report}");
    assert_eq!(report.results, 1);
}

#[tokio::test]
async fn asked_to_stop_after_its_sentence_it_says_its_sentence_to_the_end() {
    let desk = Desk::open().await;
    let mut echo = Echo::default();
    let script = Script::random(8, 1_000).pace(Pace::Times(4.0));
    let speaking = async {
        let speaker = AutoSpeaker::start(desk.options(), script).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        speaker.stop_after_sentence();
        speaker.finished().await.unwrap()
    };
    let (report, _) = tokio::join!(speaking, echo.serve(&desk, ALL));
    report.ensure_clean().unwrap();
    assert_eq!((report.said, report.results), (1, 1));
    let bytes: usize = echo.pieces.values().map(|piece| piece.audio.len()).sum();
    assert!(bytes >= 32_000, "a sentence is at least a second long: {bytes} bytes");
}
