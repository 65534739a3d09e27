//! No node ever gets more than it can do, by the nodes' own count, whatever fails.

use crate::app;
use crate::process;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use app::forwarder::Forwarder;
use app::{On, TestApp, quick, wait_until};
use lingua_core::NodeId;
use lingua_lab::fake_node::Latency;
use lingua_lab::{Behaviour, FakeNode, HttpClient, NodeOptions, RedisServer};
use lingua_store::redis;
use process::Lingua;
use serde_json::json;

const NODES: u64 = 64;
const SLOTS: u32 = 3;
const DISPATCHERS: usize = 8;
/// Requests of one dispatcher at the same time: together more than there are slots.
const AT_ONCE: usize = 32;
/// By then also a job is over whose instance was killed and whose node never answers.
const DEADLINE_MS: u64 = 10_000;
const LASTING: Duration = Duration::from_secs(20);

/// Everything that can go wrong with a node goes wrong now and then.
fn unreliable(seed: u64) -> Behaviour {
    Behaviour {
        latency: Latency::Uniform { min_ms: 0, max_ms: 40 },
        fail: 0.02,
        reject: 0.01,
        drop_ack: 0.005,
        never_answer: 0.002,
        crash: 0.001,
        crash_pause: Duration::from_millis(200),
        seed,
        ..Behaviour::default()
    }
}

async fn fleet(address: SocketAddr) -> Vec<FakeNode> {
    let mut nodes = Vec::new();
    for i in 0..NODES {
        let node = NodeOptions {
            url: format!("ws://{address}/ws/node"),
            node_id: Some(format!("n-{i}")),
            max_concurrent_jobs: Some(SLOTS),
            report_running: true,
            reconnect: true,
            behaviour: unreliable(i),
            ..NodeOptions::default()
        };
        nodes.push(FakeNode::connect(node).await.unwrap());
    }
    nodes
}

/// Dispatches at full speed until told to stop: how many were done, and how many were not.
async fn dispatch(address: SocketAddr, over: Arc<AtomicBool>) -> (u64, u64) {
    let (done, other) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut callers = tokio::task::JoinSet::new();
    for i in 0..DISPATCHERS * AT_ONCE {
        let (over, done, other) = (Arc::clone(&over), Arc::clone(&done), Arc::clone(&other));
        callers.spawn(async move {
            let client =
                HttpClient::new(format!("http://{address}")).limit(Duration::from_secs(20));
            let job = json!({
                "session_id": format!("s-{i}"), "src_lang": "en", "tgt_lang": "zh",
                "audio": "AAAA", "options": {"wait_ms": 15_000, "deadline_ms": DEADLINE_MS},
            });
            while !over.load(Ordering::Relaxed) {
                let state = match client.post("/v1/dispatch/f2f", &job).await {
                    Ok(reply) => reply.json().unwrap_or_default()["job"]["state"] == "DONE",
                    // The instance behind the connection was killed.
                    Err(_) => false,
                };
                let count = if state { &done } else { &other };
                count.fetch_add(1, Ordering::Relaxed);
                if !state {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
    }
    while callers.join_next().await.is_some() {}
    (done.load(Ordering::Relaxed), other.load(Ordering::Relaxed))
}

/// Lets them work for so long, and on until they have done so many jobs more: a busy machine takes its
/// time.
async fn work(nodes: &[FakeNode], time: Duration, jobs: u64) {
    let done = || nodes.iter().map(|node| node.stats().done).sum::<u64>();
    let before = done();
    tokio::time::sleep(time).await;
    let enough = wait_until(Duration::from_secs(120), || done() > before + jobs).await;
    assert!(enough, "only {} jobs were done", done() - before);
}

fn assert_never_above_the_limit(nodes: &[FakeNode]) {
    for node in nodes {
        let stats = node.stats();
        assert_eq!(
            stats.breaches,
            0,
            "{} was given more than it can do: {stats:?}",
            node.node_id()
        );
        assert!(stats.highest_running <= u64::from(SLOTS), "{}: {stats:?}", node.node_id());
        assert_eq!(stats.duplicates, 0, "{}: {stats:?}", node.node_id());
    }
    let crashes: u64 = nodes.iter().map(|node| node.stats().crashes).sum();
    let busiest = nodes.iter().map(|node| node.stats().highest_running).max();
    assert!(crashes > 0, "nothing crashed: the run shows nothing");
    assert_eq!(busiest, Some(u64::from(SLOTS)), "nobody was full: the run shows nothing");
}

async fn one_scheduler(on: On) {
    let mut settings = quick();
    settings.breaker.failures = 20;
    let app = TestApp::start(on, settings).await;
    let nodes = fleet(app.address).await;
    let over = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(dispatch(app.address, Arc::clone(&over)));
    work(&nodes, LASTING, 1_500).await;
    over.store(true, Ordering::Relaxed);
    let (done, other) = load.await.unwrap();
    assert!(done > 1_000, "only {done} jobs were done, {other} were not");
    assert_never_above_the_limit(&nodes);
    // What crashed nodes had is left to lapse, and lapses.
    let free = || app.engine.node_views().iter().all(|node| node.used_slots == 0);
    assert!(wait_until(Duration::from_secs(30), free).await, "slots are still taken");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_gets_more_than_it_can_do_on_the_embedded_store() {
    let _turn = crate::app::heavy_turn().await;
    one_scheduler(On::Memory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_gets_more_than_it_can_do_with_the_store_in_a_directory() {
    let _turn = crate::app::heavy_turn().await;
    one_scheduler(On::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_gets_more_than_it_can_do_on_redis() {
    let _turn = crate::app::heavy_turn().await;
    one_scheduler(On::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_gets_more_than_it_can_do_when_one_of_two_schedulers_is_killed() {
    let _turn = crate::app::heavy_turn().await;
    let server = RedisServer::start().await.unwrap();
    let url = server.url();
    let start = || Lingua::start(&["serve", "--listen", "127.0.0.1:0", "--store", &url]);
    let (first, second) = (start(), start());
    let front = Forwarder::start(vec![first.address(), second.address()]).await;
    let nodes = fleet(front.address).await;
    let over = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(dispatch(front.address, Arc::clone(&over)));
    work(&nodes, LASTING / 2, 500).await;
    first.signal("KILL");
    work(&nodes, LASTING / 2, 500).await;
    over.store(true, Ordering::Relaxed);
    load.await.unwrap();
    assert_never_above_the_limit(&nodes);
    // With the last lease over, none is left: nobody holds what the killed one gave out.
    let store = redis::open(&url, redis::Options::default()).await.unwrap();
    for i in 0..NODES {
        let node = NodeId::new(format!("n-{i}")).unwrap();
        let mut used = u32::MAX;
        for _ in 0..400 {
            used = store.slots.usage(&node).await.unwrap().used();
            if used == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(used, 0, "a lease is left on {node}");
    }
}
