//! Faults that people notice, and none at all.

use std::time::Duration;

use lingua_lab::speaker::{Script, Sentences};
use lingua_lab::{AutoSpeaker, Behaviour, FakeNode, Speaker, SpeakerOptions};

use crate::alerting::line::{FailingConnection, opening};
use crate::alerting::stage::{Act, Stage, lenient, node, one_in, options, plain, settings};
use crate::app::{On, TestApp};

/// A speaker that says a short sentence somewhat more than once a second.
pub async fn speaker(app: &TestApp) -> AutoSpeaker {
    let sentences = Sentences::Random {
        count: None,
        speech_ms: 300..=300,
        pause_ms: 500..=500,
        speaker: 1,
        seed: 1,
    };
    let options = SpeakerOptions::new(app.ws("/ws/session"));
    AutoSpeaker::start(options, Script { sentences, ..Script::default() }).await.unwrap()
}

pub async fn all_is_well(mut stage: Stage) {
    let app = TestApp::start(On::FarMemory, settings()).await;
    let here = node(app.address, "here", 20).await;
    let there = node(app.of_nodes().address, "there", 20).await;
    app.meets("there").await;
    let speaker = speaker(&app).await;
    let work = stage.clone();
    let targets = [app.address, app.of_nodes().address];
    let (_, ()) = tokio::join!(stage.is_healthy(&targets), work.work(Act::Healed, &app, 5, plain));
    assert!(here.stats().acked > 0 && there.stats().acked > 0, "nobody worked");
    speaker.stop();
    let report = speaker.finished().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    app.finish().await;
}

pub async fn a_session_falls_over(mut stage: Stage) {
    let app = TestApp::start(On::Memory, settings()).await;
    let _node = node(app.address, "n", 5).await;
    stage.is_healthy(&[app.address]).await;
    app.engine.sessions.open(opening(), FailingConnection::new()).await.unwrap();
    stage.until(Act::Over).await;
    app.finish().await;
}

pub async fn one_job_in_ten_fails(mut stage: Stage) {
    let mut settings = lenient();
    settings.timing.max_attempts = 1;
    let app = TestApp::start(On::Memory, settings).await;
    let _good = node(app.address, "good", 5).await;
    let mut bad = options(app.address, "bad", 5);
    bad.accept_public_jobs = false;
    bad.behaviour.fail = 1.0;
    let _bad = FakeNode::connect(bad).await.unwrap();
    stage.is_healthy(&[app.address]).await;
    let some_to_it = one_in(10, |job| job.only("bad"));
    stage.work(Act::Ill, &app, 10, some_to_it).await;
    stage.work(Act::Healed, &app, 10, plain).await;
    app.finish().await;
}

pub async fn every_job_fails(mut stage: Stage) {
    let app = TestApp::start(On::Memory, lenient()).await;
    let node = node(app.address, "n", 5).await;
    stage.is_healthy(&[app.address]).await;
    node.set_behaviour(Behaviour { fail: 1.0, ..Behaviour::taking_ms(5) }).await.unwrap();
    stage.work(Act::Ill, &app, 5, plain).await;
    node.set_behaviour(Behaviour::taking_ms(5)).await.unwrap();
    stage.work(Act::Healed, &app, 20, plain).await;
    app.finish().await;
}

/// Every sentence takes eleven seconds, one after the other without a pause.
pub async fn sentences_take_long(mut stage: Stage) {
    let app = TestApp::start(On::Memory, settings()).await;
    let slow = options(app.address, "n", 11_000).max_jobs(64);
    let node = FakeNode::connect(slow).await.unwrap();
    stage.is_healthy(&[app.address]).await;
    let speaker = speaker(&app).await;
    stage.until(Act::Healed).await;
    node.set_behaviour(Behaviour::taking_ms(20)).await.unwrap();
    speaker.stop();
    let report = speaker.finished().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    stage.until(Act::Over).await;
    app.finish().await;
}

pub async fn there_is_no_room(mut stage: Stage) {
    let mut settings = settings();
    settings.sessions.total = 1;
    let app = TestApp::start(On::Memory, settings).await;
    let _node = node(app.address, "n", 5).await;
    let connect = || Speaker::connect(SpeakerOptions::new(app.ws("/ws/session")));
    let first = connect().await.unwrap();
    stage.is_healthy(&[app.address]).await;
    let refused = |_| async { assert!(connect().await.is_err(), "there is room") };
    stage.keep(Act::Ill, Duration::from_millis(300), refused).await;
    drop(first);
    stage.until(Act::Over).await;
    app.finish().await;
}
