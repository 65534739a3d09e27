//! Nobody is chosen more often than chance has it, and nobody hears too much of one conversation.

use crate::app;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use app::{On, TestApp, quick};
use lingua_engine::Settings;
use lingua_lab::{FakeNode, HttpClient, NodeOptions};
use serde_json::json;

const NODES: usize = 50;
const JOBS: u32 = 20_000;
/// Jobs of the session at the same time.
const AT_ONCE: usize = 8;

/// The 99th percentile of chi-square with 49 degrees of freedom.
const CHI_SQUARE_AT_ONE_PERCENT: f64 = 74.92;

async fn equal_nodes(app: &TestApp) -> Vec<FakeNode> {
    let mut nodes = Vec::new();
    for i in 0..NODES {
        let node = NodeOptions {
            url: app.ws("/ws/node"),
            node_id: Some(format!("n-{i}")),
            max_concurrent_jobs: Some(64),
            ..NodeOptions::default()
        };
        nodes.push(FakeNode::connect(node).await.unwrap());
    }
    nodes
}

/// How many of one session's jobs each node got.
async fn shares(app: &TestApp, nodes: &[FakeNode], jobs: u32) -> Vec<u64> {
    let before: Vec<u64> = nodes.iter().map(|node| node.stats().received).collect();
    let left = Arc::new(AtomicU32::new(jobs));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let client = HttpClient::new(app.http("")).limit(Duration::from_secs(20));
        let left = Arc::clone(&left);
        callers.spawn(async move {
            let job = json!({
                "session_id": "one-conversation", "src_lang": "en", "tgt_lang": "zh",
                "audio": "AAAA", "options": {"wait_ms": 15_000},
            });
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
            {
                let reply = client.post("/v1/dispatch/f2f", &job).await.unwrap();
                assert_eq!(reply.ok().unwrap()["job"]["state"], "DONE");
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    let received = nodes.iter().map(|node| node.stats().received);
    received.zip(before).map(|(now, before)| now - before).collect()
}

fn chi_square(shares: &[u64]) -> f64 {
    let expected = shares.iter().sum::<u64>() as f64 / shares.len() as f64;
    shares.iter().map(|share| (*share as f64 - expected).powi(2) / expected).sum()
}

fn settings() -> Settings {
    let mut settings = quick();
    settings.avoid_last = false;
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_nodes_get_equal_shares_of_one_conversation() {
    let _turn = crate::app::heavy_turn().await;
    let app = TestApp::start(On::Memory, settings()).await;
    let nodes = equal_nodes(&app).await;
    // Fair dice fail one time in a hundred, and three times in a row one time in a million.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let shares = shares(&app, &nodes, JOBS).await;
        assert_eq!(shares.iter().sum::<u64>(), u64::from(JOBS));
        seen.push(chi_square(&shares));
        if seen.last().is_some_and(|chi| *chi < CHI_SQUARE_AT_ONE_PERCENT) {
            break;
        }
    }
    let fair = seen.iter().any(|chi| *chi < CHI_SQUARE_AT_ONE_PERCENT);
    assert!(fair, "three times in a row not fair: {seen:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_more_of_a_conversation_than_the_cap() {
    let _turn = crate::app::heavy_turn().await;
    let mut settings = settings();
    settings.select.exposure_cap_percent = 4;
    let app = TestApp::start(On::Memory, settings).await;
    let nodes = equal_nodes(&app).await;
    let shares = shares(&app, &nodes, 4_000).await;
    let most = *shares.iter().max().unwrap();
    // Jobs under way when a node reaches the cap are the slack.
    assert!(most <= 4_000 * 4 / 100 + AT_ONCE as u64, "{most} of 4000: {shares:?}");
    app.finish().await;
}
