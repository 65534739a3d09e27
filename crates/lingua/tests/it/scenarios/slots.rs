//! A node never gets more than it can do, and no free slot is overlooked.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::LeaseToken;
use lingua_core::job::JobState;
use lingua_core::link::SlowStart;
use lingua_engine::chance::Chance;
use lingua_lab::{Behaviour, FakeNode};
use lingua_store::slots::{Reserve, Wish};
use serde_json::json;
use tokio::time::Instant;

use super::{calm, connect, id, options, report, scripted, take, until_used, view};
use crate::app::jobs::{code, done, is, job, refused};
use crate::app::{On, TestApp};

pub async fn jobs_that_race_for_the_last_slot_get_it_one_by_one(on: On) {
    let app = TestApp::start(on, calm()).await;
    let behaviour = Behaviour::taking_ms(3);
    let node =
        FakeNode::connect(options(&app, "a").max_jobs(1).behaviour(behaviour)).await.unwrap();
    app.meets("a").await;
    let jobs: Vec<_> = (0..40).map(|_| job().submit(&app)).collect();
    for job in &jobs {
        done(job).await;
    }
    let stats = node.stats();
    assert_eq!((stats.done, stats.breaches, stats.highest_running), (40, 0, 1));
    app.finish().await;
}

/// The other dispatcher is the store itself: this instance sees a slot that is not free any more.
pub async fn two_dispatchers_never_both_get_the_last_slot(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(1)).await;
    let record = app.engine.store().nodes.get(&id("a")).await.unwrap().unwrap();
    let (mut ours, mut theirs) = (0, 0);
    for round in 0..30u64 {
        let token =
            LeaseToken { job: job().spec(&app).id, attempt: 1, nonce: Chance::system().nonce() };
        let slots = Arc::clone(&app.engine.store().slots);
        let other = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(round * 20)).await;
            let lease = Duration::from_secs(5);
            let node = id("a");
            let wish = Wish { node: &node, token, version: record.version, models: &[], lease };
            slots.reserve(&wish).await.unwrap()
        });
        let job = job().submit(&app);
        match other.await.unwrap() {
            Reserve::Granted { .. } => {
                theirs += 1;
                is(&job, JobState::Waiting).await;
                assert_eq!(app.used("a").await, 1);
                assert!(app.engine.store().slots.release(&id("a"), token).await.unwrap());
            }
            Reserve::Full { used, max } => {
                ours += 1;
                assert_eq!((used, max), (1, 1));
            }
            other => panic!("{other:?}"),
        }
        let assign = node.next_of("job_assign").await.unwrap();
        assert_eq!(app.used("a").await, 1);
        node.result(&assign, "x").await.unwrap();
        done(&job).await;
        until_used(&app, "a", 0).await;
    }
    assert_eq!(ours + theirs, 30);
    app.finish().await;
}

pub async fn when_all_is_full_a_job_waits_and_then_is_told_when_to_try_again(on: On) {
    let app = TestApp::start(on, {
        let mut settings = calm();
        settings.timing.queue_max_ms = 300;
        settings
    })
    .await;
    let mut node = connect(&app, options(&app, "a").max_jobs(1)).await;
    let running = job().submit(&app);
    let assign = take(&mut node).await;
    let began = Instant::now();
    let refusal = refused(&job().submit(&app)).await;
    assert_eq!(refusal.code_text(), "ALL_NODES_BUSY");
    assert!(refusal.retry_after_ms.is_some());
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    node.result(&assign, "x").await.unwrap();
    done(&running).await;
    app.finish().await;
}

/// Looking again would take 125 ms on average.
pub async fn a_slot_that_comes_free_wakes_who_waits_for_it(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(1)).await;
    let mut found = Vec::new();
    let mut running = job().submit(&app);
    let mut assign = take(&mut node).await;
    for _ in 0..15 {
        let waiting = job().submit(&app);
        is(&waiting, JobState::Waiting).await;
        node.result(&assign, "x").await.unwrap();
        assign = take(&mut node).await;
        done(&running).await;
        running = waiting;
        found.push(running.view().attempts[0].source);
    }
    node.result(&assign, "x").await.unwrap();
    done(&running).await;
    // Now and then who waits looks for itself, and may be quicker.
    let handed = found.iter().filter(|source| **source == "handed").count();
    assert!(handed > found.len() / 2, "{found:?}");
    app.finish().await;
}

pub async fn those_in_line_go_by_their_deadlines(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(1)).await;
    let running = job().submit(&app);
    let assign = take(&mut node).await;
    let mut waiting = Vec::new();
    for (index, deadline_ms) in [(3, 30_000), (1, 10_000), (2, 20_000)] {
        let job = job().index(index).deadline_ms(deadline_ms).submit(&app);
        is(&job, JobState::Waiting).await;
        waiting.push(job);
    }
    node.result(&assign, "x").await.unwrap();
    done(&running).await;
    for index in 1..4 {
        let assign = node.next_of("job_assign").await.unwrap();
        assert_eq!(assign["utterance_index"], index);
        node.result(&assign, "x").await.unwrap();
    }
    for job in &waiting {
        done(job).await;
    }
    app.finish().await;
}

pub async fn a_node_that_joins_takes_those_who_wait(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut full = connect(&app, options(&app, "full").max_jobs(1)).await;
    let running = job().submit(&app);
    let assign = take(&mut full).await;
    let waiting = job().submit(&app);
    is(&waiting, JobState::Waiting).await;
    let mut fresh = scripted(&app, "fresh").await;
    let next = take(&mut fresh).await;
    fresh.result(&next, "fresh").await.unwrap();
    assert_eq!(done(&waiting).await, "fresh");
    full.result(&assign, "x").await.unwrap();
    done(&running).await;
    app.finish().await;
}

pub async fn a_maximum_lowered_below_what_runs_takes_nothing_new(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(3)).await;
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push((job().submit(&app), take(&mut node).await));
    }
    until_used(&app, "a", 3).await;
    let listed: Vec<_> = running.iter().map(|(_, assign)| super::running(assign)).collect();
    report(&app, &mut node, json!({ "max_concurrent_jobs": 1, "running": listed })).await;
    assert_eq!(view(&app, "a").open_slots, 1);
    // The store hears of it right after.
    let stored = || async { app.engine.store().nodes.get(&id("a")).await.unwrap().unwrap().max };
    while stored().await != 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let waiting = job().submit(&app);
    is(&waiting, JobState::Waiting).await;
    for (ended, (job, assign)) in running.into_iter().enumerate() {
        assert_ne!(waiting.view().state, JobState::Dispatched, "{ended} of 3 have ended");
        node.result(&assign, "x").await.unwrap();
        done(&job).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let assign = take(&mut node).await;
    node.result(&assign, "room").await.unwrap();
    assert_eq!(done(&waiting).await, "room");
    app.finish().await;
}

pub async fn an_ability_lost_while_jobs_run_stops_new_ones_only(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let running = job().submit(&app);
    let assign = take(&mut node).await;
    let lost = json!({ "running": [super::running(&assign)],
        "language_capabilities": { "semantic_languages": ["zh"] } });
    report(&app, &mut node, lost).await;
    let refusal = refused(&job().submit(&app)).await;
    assert_eq!(refusal.code_text(), "NO_CAPABLE_NODE");
    assert!(refusal.detail.contains("semantic(en)"), "{}", refusal.detail);
    // It loses its last one, too.
    let nothing = json!({ "running": [super::running(&assign)],
        "language_capabilities": { "semantic_languages": [] } });
    report(&app, &mut node, nothing).await;
    assert_eq!(code(&job().pair("zh", "en").submit(&app)).await, "NO_CAPABLE_NODE");
    node.result(&assign, "still").await.unwrap();
    assert_eq!(done(&running).await, "still");
    let types = json!({ "language_capabilities": { "semantic_languages": ["en", "zh"] },
        "capability_by_type": [{ "type": "NMT", "ready": false }] });
    report(&app, &mut node, types).await;
    assert_eq!(code(&job().submit(&app)).await, "NO_CAPABLE_NODE");
    report(&app, &mut node, json!({ "capability_by_type": [] })).await;
    let job = job().submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "back").await.unwrap();
    assert_eq!(done(&job).await, "back");
    app.finish().await;
}

/// Trust orders the choice; it keeps no slot from a job that has nowhere else to go.
pub async fn a_fresh_node_fills_all_its_slots_when_no_other_is_free(on: On) {
    let mut settings = calm();
    settings.slow_start = SlowStart::All;
    settings.timing.queue_max_ms = 300;
    let app = TestApp::start(on, settings).await;
    let mut node = connect(&app, options(&app, "a").max_jobs(4)).await;
    assert_eq!((view(&app, "a").open_slots, view(&app, "a").declared_slots), (4, 4));
    let jobs: Vec<_> = (0..4).map(|_| job().submit(&app)).collect();
    let mut assigns = Vec::new();
    for _ in 0..4 {
        assigns.push(take(&mut node).await);
    }
    let refusal = refused(&job().submit(&app)).await;
    assert_eq!(refusal.code_text(), "ALL_NODES_BUSY");
    assert_eq!(refusal.detail, "every able node is full");
    for assign in &assigns {
        node.result(assign, "x").await.unwrap();
    }
    for job in &jobs {
        done(job).await;
    }
    app.finish().await;
}

pub async fn an_overloaded_node_is_asked_only_when_no_other_is_free(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut hot = scripted(&app, "hot").await;
    let mut well = connect(&app, options(&app, "well").max_jobs(1)).await;
    for field in ["cpu_percent", "gpu_percent", "mem_percent"] {
        report(&app, &mut hot, json!({ "resource_usage": { field: 97.5 } })).await;
        assert!(view(&app, "hot").overloaded, "{field}");
        let why = view(&app, "hot").why_idle;
        assert!(why.iter().any(|why| why.contains("when no other node is free")), "{why:?}");
        let first = job().submit(&app);
        let assign = take(&mut well).await;
        let second = job().submit(&app);
        let overflow = take(&mut hot).await;
        assert_eq!(second.view().attempts[0].source, "spared");
        for (node, assign) in [(&hot, &overflow), (&well, &assign)] {
            node.result(assign, "x").await.unwrap();
        }
        done(&first).await;
        done(&second).await;
        until_used(&app, "well", 0).await;
        report(&app, &mut hot, json!({ "resource_usage": { field: 92.0 } })).await;
        assert!(view(&app, "hot").overloaded, "{field} is lower, and not yet clearly");
        report(&app, &mut hot, json!({ "resource_usage": { field: 90.0 } })).await;
        assert!(!view(&app, "hot").overloaded, "{field}");
    }
    app.finish().await;
}
