//! Which node a job goes to, when it has a wish.

use std::time::Duration;

use lingua_core::TurnId;
use lingua_core::fleet::RankRule;
use lingua_core::job::JobState;
use serde_json::json;

use super::{calm, connect, eventually, options, scripted, take, view};
use crate::app::jobs::{code, done, is, job, refused};
use crate::app::{On, TestApp};

fn impatient() -> lingua_engine::Settings {
    let mut settings = calm();
    settings.timing.queue_max_ms = 300;
    settings
}

pub async fn the_preferred_node_gets_the_job(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut wanted = scripted(&app, "wanted").await;
    let _others = [scripted(&app, "b").await, scripted(&app, "c").await];
    for _ in 0..5 {
        let job = job().prefer("wanted").submit(&app);
        let assign = take(&mut wanted).await;
        wanted.result(&assign, "mine").await.unwrap();
        assert_eq!(done(&job).await, "mine");
        assert_eq!(job.view().attempts[0].source, "preferred");
    }
    app.finish().await;
}

pub async fn a_preferred_node_that_is_full_is_passed_over(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut full = connect(&app, options(&app, "full").max_jobs(1)).await;
    let mut other = scripted(&app, "other").await;
    let blocker = job().only("full").submit(&app);
    let blocking = take(&mut full).await;
    let job = job().prefer("full").submit(&app);
    let assign = take(&mut other).await;
    other.result(&assign, "other").await.unwrap();
    assert_eq!(done(&job).await, "other");
    let notes = job.view().notes.join("; ");
    assert!(notes.contains("preferred node passed over"), "{notes}");
    full.result(&blocking, "x").await.unwrap();
    done(&blocker).await;
    app.finish().await;
}

pub async fn a_preferred_node_that_is_unable_or_unknown_is_passed_over(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _unable = connect(&app, options(&app, "unable").languages(&["de"])).await;
    let mut other = scripted(&app, "other").await;
    for (wish, says) in [("unable", "not able"), ("nobody", "unknown")] {
        let job = job().prefer(wish).submit(&app);
        let assign = take(&mut other).await;
        other.result(&assign, "other").await.unwrap();
        assert_eq!(done(&job).await, "other");
        let notes = job.view().notes.join("; ");
        assert!(notes.contains(says), "{notes}");
    }
    app.finish().await;
}

pub async fn a_strict_wish_for_a_node_that_is_full_waits_and_then_fails(on: On) {
    let app = TestApp::start(on, impatient()).await;
    let mut full = connect(&app, options(&app, "full").max_jobs(1)).await;
    let mut other = scripted(&app, "other").await;
    let blocker = job().only("full").submit(&app);
    let blocking = take(&mut full).await;
    let refusal = refused(&job().only("full").submit(&app)).await;
    assert_eq!(refusal.code_text(), "PREFERRED_NODE_BUSY");
    assert!(refusal.retry_after_ms.is_some());
    other.hears_nothing_for(Duration::from_millis(20)).await.unwrap();
    full.result(&blocking, "x").await.unwrap();
    done(&blocker).await;
    app.finish().await;
}

pub async fn a_strict_wish_waits_for_its_node_and_no_other(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut full = connect(&app, options(&app, "full").max_jobs(1)).await;
    let _other = scripted(&app, "other").await;
    let blocker = job().only("full").submit(&app);
    let blocking = take(&mut full).await;
    let job = job().only("full").submit(&app);
    is(&job, JobState::Waiting).await;
    full.result(&blocking, "x").await.unwrap();
    done(&blocker).await;
    let assign = take(&mut full).await;
    full.result(&assign, "patient").await.unwrap();
    assert_eq!(done(&job).await, "patient");
    app.finish().await;
}

pub async fn a_strict_wish_for_a_node_that_is_unable_or_unknown_fails_at_once(on: On) {
    let app = TestApp::start(on, calm()).await;
    let _unable = connect(&app, options(&app, "unable").languages(&["de"])).await;
    let mut other = scripted(&app, "other").await;
    for wish in ["unable", "nobody"] {
        assert_eq!(code(&job().only(wish).submit(&app)).await, "PREFERRED_NODE_NOT_CAPABLE");
    }
    other.hears_nothing_for(Duration::from_millis(20)).await.unwrap();
    app.finish().await;
}

pub async fn a_strict_wish_ends_with_the_failure_of_its_node(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut wanted = scripted(&app, "wanted").await;
    let _other = scripted(&app, "other").await;
    let job = job().only("wanted").submit(&app);
    let assign = take(&mut wanted).await;
    wanted.fail(&assign, "ASR_CRASHED").await.unwrap();
    assert_eq!(code(&job).await, "ASR_CRASHED");
    app.finish().await;
}

pub async fn a_private_node_takes_only_jobs_that_name_it(on: On) {
    let app = TestApp::start(on, calm()).await;
    let private = lingua_lab::NodeOptions { accept_public_jobs: false, ..options(&app, "mine") };
    let mut node = connect(&app, private).await;
    assert_eq!(code(&job().submit(&app)).await, "NO_CAPABLE_NODE");
    let job = job().only("mine").submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "mine").await.unwrap();
    assert_eq!(done(&job).await, "mine");
    app.finish().await;
}

pub async fn the_cheapest_node_gets_the_job_while_it_has_a_free_slot(on: On) {
    let mut settings = calm();
    settings.select.rank = RankRule::Cheapest;
    settings.avoid_last = false;
    let app = TestApp::start(on, settings).await;
    let costing = |name: &str, cost: f64| {
        let fields = json!({ "cost": cost, "region": "eu-west" });
        options(&app, name).register_with(fields).max_jobs(3)
    };
    let mut cheap = connect(&app, costing("cheap", 0.001)).await;
    let mut dear = connect(&app, costing("dear", 0.002)).await;
    let profile = view(&app, "cheap").profile;
    assert_eq!(
        (profile.cost_micros, profile.region.as_ref().unwrap().as_str()),
        (1_000, "eu-west")
    );
    let mut jobs = Vec::new();
    for n in 0..4 {
        let job = job().index(n).submit(&app);
        let assign = take(if n < 3 { &mut cheap } else { &mut dear }).await;
        jobs.push((job, assign));
    }
    for (n, (job, assign)) in jobs.iter().enumerate() {
        let node = if n < 3 { &mut cheap } else { &mut dear };
        node.result(assign, "said").await.unwrap();
        assert_eq!(done(job).await, "said");
    }
    app.finish().await;
}

pub async fn directions_are_not_mixed_up(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").pairs(&[("zh", "en")])).await;
    assert_eq!(code(&job().pair("en", "zh").submit(&app)).await, "NO_CAPABLE_NODE");
    let job = job().pair("zh", "en").submit(&app);
    let assign = take(&mut node).await;
    assert_eq!((&assign["src_lang"], &assign["tgt_lang"]), (&"zh".into(), &"en".into()));
    node.result(&assign, "right").await.unwrap();
    assert_eq!(done(&job).await, "right");
    app.finish().await;
}

pub async fn the_parts_of_a_turn_prefer_one_node(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(scripted(&app, name).await);
    }
    let first = job().session("s").turn("t").submit(&app);
    let (bound, _) = first.dispatched().await.unwrap();
    // The binding is written right behind the dispatch.
    let turn = TurnId::new("t").unwrap();
    let turns = &app.engine.store().turns;
    while turns.node(&first.session, &turn).await.unwrap().as_ref() != Some(&bound) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for index in 1..4 {
        let part = job().session("s").turn("t").index(index).submit(&app);
        assert_eq!(part.dispatched().await.unwrap().0, bound);
        part.cancel("seen");
        crate::app::jobs::ended(&part).await;
    }
    first.cancel("seen");
    crate::app::jobs::ended(&first).await;
    super::until_used(&app, bound.as_str(), 0).await;
    // The bound node is gone: another one takes over.
    nodes.retain(|node| node.node_id() != bound.as_str());
    eventually("it is gone", || !view(&app, bound.as_str()).connected).await;
    let part = job().session("s").turn("t").index(4).submit(&app);
    assert_ne!(part.dispatched().await.unwrap().0, bound);
    part.cancel("seen");
    crate::app::jobs::ended(&part).await;
    app.finish().await;
}

pub async fn without_a_voice_who_does_not_insist_gets_text(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mute = json!({ "language_capabilities": { "tts_languages": [] } });
    let mut node = connect(&app, options(&app, "mute").register_with(mute)).await;
    assert_eq!(code(&job().spoken().submit(&app)).await, "NO_CAPABLE_NODE");
    let text = job().spoken().or_text().submit(&app);
    let assign = take(&mut node).await;
    assert_eq!(assign["pipeline"]["use_tts"], false, "{assign}");
    node.result(&assign, "written").await.unwrap();
    assert_eq!(done(&text).await, "written");
    assert!(text.view().notes.iter().any(|note| note.contains("text")), "{:?}", text.view().notes);
    // With a voice it is spoken.
    let mut speaks = connect(&app, options(&app, "speaks")).await;
    let spoken = job().spoken().or_text().submit(&app);
    let assign = take(&mut speaks).await;
    speaks.result(&assign, "said").await.unwrap();
    assert_eq!(done(&spoken).await, "said");
    app.finish().await;
}
