use std::collections::BTreeMap;

use lingua_engine::snapshot::view::{
    Failure, Finding, InstanceView, Latency, NodeCounts, Pair, Quantiles, Severity, Supply, Work,
};

use super::super::news::{Abilities, Node, Session, Slots};
use super::*;

const STARVED: &str = "12 jobs for en->zh wait and no slot is free.";

/// One that has something of everything.
fn snapshot(at_ms: u64, boot: &str) -> Snapshot {
    let pair = |src: &str, tgt: &str, free, waiting, supply| Pair {
        src: src.into(),
        tgt: tgt.into(),
        nodes: 3,
        ready: 2,
        speaking: 2,
        slots: 8,
        free,
        not_open: 0,
        waiting,
        supply,
    };
    let instance = |id: &str, missing| InstanceView {
        id: id.into(),
        boot: boot.into(),
        address: format!("http://{id}:5010"),
        version: "0.1.0".into(),
        started_ms: at_ms - 90_000,
        last_seen_ms: at_ms - 1_000,
        missing,
        nodes: 7,
        sessions: 20,
        open_jobs: 5,
        waiting: 12,
        inbox: 2_345,
        leads: vec!["deadlines".into(), "snapshot".into()],
        ..InstanceView::default()
    };
    let quantiles = Quantiles { count: 40, p50_ms: 1.25, p95_ms: 420.0, p99_ms: 1_500.0 };
    let ended = BTreeMap::from([("ok".to_owned(), 60), ("JOB_TIMEOUT".to_owned(), 2)]);
    Snapshot {
        at_ms,
        interval_ms: 5_000,
        leader: "eu-1".into(),
        instances: vec![instance("eu-1", false), instance("eu-2", true)],
        nodes: NodeCounts { total: 7, ready: 6, slots: 48, used: 31, ..NodeCounts::default() },
        work: Work {
            open_jobs: 5,
            waiting: 12,
            sessions: 40,
            connected: 38,
            ended_per_s: 12.4,
            ended,
            ..Work::default()
        },
        latency: Latency { dispatch: quantiles, job: quantiles, sentence: quantiles },
        pairs: vec![
            pair("de", "en", 6, 0, Supply::Good),
            pair("en", "de", 1, 0, Supply::Tight),
            pair("en", "zh", 0, 12, Supply::Starved),
            pair("ko", "zh", 0, 0, Supply::Unserved),
        ],
        failures: vec![Failure {
            at_ms: at_ms - 3_000,
            job_id: "7m2k9x4c0v8b3n5q1w6e2r7t4y".into(),
            instance: "eu-1".into(),
            code: "JOB_TIMEOUT".into(),
            direction: "en->zh".into(),
            node_id: Some("gpu-3".into()),
            attempts: 2,
        }],
        ..Snapshot::default()
    }
}

pub(crate) fn stats(at_ms: u64, boot: &str) -> Stats {
    let finding = |code: &str, severity, text: &str| Finding {
        code: code.into(),
        severity,
        subject: None,
        nodes: Vec::new(),
        count: None,
        text: text.into(),
    };
    Stats {
        now_ms: at_ms,
        instance: "eu-1".into(),
        store: "embedded (memory)".into(),
        store_up: true,
        stale: false,
        health: Severity::Critical,
        findings: vec![
            finding("pair_starved", Severity::Critical, STARVED),
            finding("breaker_open", Severity::Warning, "1 node failed too often."),
        ],
        snapshot: Some(snapshot(at_ms, boot)),
    }
}

/// A state that has heard everything.
pub(crate) fn full(now_ms: u64) -> State {
    let mut state = State::new("http://127.0.0.1:5010");
    for back in (0..8).rev() {
        let at = now_ms - back * 5_000;
        state.hear(at, News::Stats(Box::new(stats(at, "b1"))));
    }
    let node = |id: &str, state: &str, used, why: &[&str]| Node {
        node_id: id.into(),
        state: state.into(),
        instance: if id == "gpu-2" { "eu-2" } else { "eu-1" }.into(),
        order: "serve".into(),
        breaker: if state == "degraded" { "open" } else { "closed" }.into(),
        slots: Slots { open: 8, used },
        latency_ms: Some(412.0),
        done: 1_234,
        failed: 5,
        abilities: Abilities {
            semantic_langs: vec!["en".into(), "zh".into()],
            tts_langs: vec!["en".into()],
        },
        why_idle: why.iter().map(|why| (*why).to_owned()).collect(),
    };
    let nodes = vec![
        node("gpu-1", "ready", 3, &[]),
        node("gpu-2", "ready", 8, &["all its open slots are taken"]),
        node("gpu-3", "degraded", 0, &["it failed too often and gets no jobs for 1 s"]),
    ];
    state.hear(now_ms, News::Nodes(Ok(Nodes { nodes, total: 7 })));
    let session = |id: &str, instance: &str, connected| Session {
        session_id: id.into(),
        instance: instance.into(),
        direction: "en->zh".into(),
        connected,
        utterances: 17,
        since_ms: now_ms - 60_000,
    };
    let sessions = vec![session("s-1", "eu-1", true), session("s-2", "eu-2", false)];
    let silent = vec!["eu-3".into()];
    state.hear(now_ms, News::Sessions(Ok(Sessions { sessions, total: 1_234, silent })));
    state
}

#[test]
fn a_scheduler_that_was_away_and_restarted_is_said_to_have() {
    let mut state = State::new("http://h");
    assert_eq!(state.link, Link::Waiting);
    state.hear(100_000, News::Stats(Box::new(stats(100_000, "b1"))));
    assert_eq!((&state.link, state.notice()), (&Link::Live, None), "the first time is no news");
    state.hear(101_000, News::Away { why: "refused".into(), again_ms: 500 });
    assert!(matches!(&state.link, Link::Away { again_at_ms: 101_500, .. }));
    assert!(state.snapshot().is_some(), "the last figures stay");
    state.hear(105_000, News::Stats(Box::new(stats(105_000, "b1"))));
    assert_eq!(state.notice(), Some("Connected again."));
    state.hear(106_000, News::Away { why: "refused".into(), again_ms: 500 });
    state.hear(110_000, News::Stats(Box::new(stats(110_000, "b2"))));
    assert_eq!(state.notice(), Some("Connected again: the scheduler has restarted."));
    state.now_ms += NOTICE_MS;
    assert_eq!(state.notice(), None);
}

#[test]
fn another_instance_behind_a_balancer_is_no_restart() {
    let mut state = State::new("http://h");
    state.hear(100_000, News::Stats(Box::new(stats(100_000, "b1"))));
    let mut other = stats(105_000, "b9");
    other.instance = "eu-2".into();
    state.hear(105_000, News::Stats(Box::new(other)));
    assert_eq!(state.notice(), None);
}

#[test]
fn points_are_kept_once_and_in_order_and_not_for_ever() {
    let mut state = State::new("http://h");
    for at in [200_000, 200_000, 205_000] {
        state.hear(at, News::Stats(Box::new(stats(at, "b1"))));
    }
    let before =
        (1..=400).map(|n| Point::of(stats(100_000 + n * 250, "b").snapshot.as_ref().unwrap()));
    state.hear(205_000, News::History(before.collect()));
    let times: Vec<u64> = state.points.iter().map(|point| point.at_ms).collect();
    assert_eq!(times.len(), HISTORY);
    assert!(times.is_sorted_by(|a, b| a < b));
    assert_eq!(times.last(), Some(&205_000));
    assert_eq!(state.minute().first().map(|point| point.at_ms), Some(145_250));
}

#[test]
fn keys_change_what_is_looked_at() {
    let mut state = full(1_000_000);
    assert!(state.press(Press::Previous, 10, 0));
    assert_eq!(state.view, View::Instances);
    assert!(state.press(Press::Next, 10, 0));
    assert_eq!(state.view, View::Overview);
    state.press(Press::Go(2), 10, 0);
    assert_eq!(state.view, View::Nodes);
    state.press(Press::Go(9), 10, 0);
    assert_eq!(state.view, View::Nodes, "there is no tenth");
    state.press(Press::Sort, 10, 0);
    assert_eq!(state.look().order, 1);
    for _ in 0..4 {
        state.press(Press::Sort, 10, 0);
    }
    assert_eq!(state.look().order, 0, "round and round");
    state.press(Press::Help, 10, 0);
    assert!(state.help);
    state.press(Press::Escape, 10, 0);
    assert!(!state.help);
    assert!(!state.press(Press::Quit, 10, 0));
}

#[test]
fn scrolling_ends_where_the_list_does() {
    let mut state = full(1_000_000);
    state.press(Press::PageDown, 10, 15);
    assert_eq!(state.look().scroll, 9, "one line stays to find the place again");
    state.press(Press::PageDown, 10, 15);
    assert_eq!(state.look().scroll, 15);
    state.press(Press::Down, 10, 15);
    assert_eq!(state.look().scroll, 15);
    // The list became shorter meanwhile.
    state.press(Press::Up, 10, 4);
    assert_eq!(state.look().scroll, 3);
    state.press(Press::Top, 10, 15);
    state.press(Press::Up, 10, 15);
    assert_eq!(state.look().scroll, 0);
    state.press(Press::Bottom, 10, 15);
    assert_eq!(state.look().scroll, 15);
}
