//! Nodes that lie, and callers who wait or fill what is kept: each costs the store or the memory of others.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Malice, Place};
use crate::{FakeNode, HttpClient, NodeOptions, ScriptedNode};

/// Nodes that lie at the same time.
const NODES: u32 = 4;

/// Unknown jobs in one list, as many as a node has slots at most.
const NAMED: usize = 256;

/// Slots of a node whose jobs are waited for, and jobs that it answers to be trusted with them.
const SLOTS: u32 = 256;
const EARNED: usize = 16;

/// For a job to get to its node.
const HANDED_IN: Duration = Duration::from_secs(3);

/// Bytes of one upload, and of one result.
const LARGE: usize = 2 << 20;

/// Uploads at the same time.
const UPLOADS: usize = 4;

/// A node that gets none of the jobs that others hand in.
async fn private(name: &str, target: SocketAddr) -> anyhow::Result<ScriptedNode> {
    let options = NodeOptions::new(format!("ws://{target}/ws/node")).node_id(name);
    FakeNode::scripted(NodeOptions { accept_public_jobs: false, ..options.max_jobs(SLOTS) }).await
}

/// Nodes that say one thing again and again.
pub(super) async fn nodes(malice: Malice, target: SocketAddr) -> anyhow::Result<()> {
    join_all((0..NODES).map(|n| node(malice, n, target))).await.into_iter().collect()
}

async fn node(malice: Malice, n: u32, target: SocketAddr) -> anyhow::Result<()> {
    let mut node = private(&format!("liar-{n}"), target).await?;
    for n in 0u64.. {
        match malice {
            Malice::Registers => {
                // Refused once it was too often; so it says the same again, until it is shown the door.
                let _ = node.register().await;
                if node.is_closed() {
                    break;
                }
                continue;
            }
            Malice::Churns => node.heartbeat(json!({ "max_concurrent_jobs": 1 + n % 200 })).await?,
            _ => node.heartbeat(json!({ "running": unknown_jobs() })).await?,
        }
        // Its answer, after what it is told to stop.
        while node.next().await?["type"] == "job_cancel" {}
    }
    Ok(())
}

/// Jobs that nobody ever handed in, another list each time.
fn unknown_jobs() -> Value {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let unknown = |_| {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        json!({ "job_id": format!("{n:026}"), "attempt_id": 1 })
    };
    (0..NAMED).map(unknown).collect()
}

fn job(node: &str, n: usize) -> Value {
    json!({ "session_id": format!("waits-{n}"), "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
            "options": { "preferred_node_id": node, "strict": true } })
}

/// Hands in jobs that nobody answers, and waits for each of them through another instance.
pub(super) async fn long_polls(
    target: SocketAddr,
    other: SocketAddr,
    count: u32,
    place: &Place,
) -> anyhow::Result<()> {
    let mut node = private("sits-on-jobs", target).await?;
    let client = HttpClient::new(format!("http://{target}"));
    let mut jobs = Vec::new();
    for n in 0..EARNED + count.min(SLOTS) as usize {
        let request = job("sits-on-jobs", n);
        let handed_in = join(client.post("/v1/dispatch/f2f", &request), node.next_of("job_assign"));
        // As many as its node is trusted with.
        let Ok((handed_in, assign)) = timeout(HANDED_IN, handed_in).await else { break };
        let assign = assign?.message;
        node.ack(&assign).await?;
        if n < EARNED {
            node.result(&assign, "well done").await?;
        } else {
            jobs.push(handed_in?.ok()?["job_id"].as_str().unwrap_or_default().to_owned());
        }
    }
    place.send_replace(true);
    let poll = async |job: &String| -> anyhow::Result<()> {
        let client = HttpClient::new(format!("http://{other}"));
        loop {
            let answer = client.get(&format!("/v1/job/{job}?wait_ms=5000")).await?;
            anyhow::ensure!(answer.ok()?["state"] != "FAILED", "its time is over");
        }
    };
    join_all(jobs.iter().map(poll)).await.into_iter().collect()
}

/// Uploads audio and gets large results, as much as it is let.
pub(super) async fn fill(target: SocketAddr) -> anyhow::Result<()> {
    let mut node = private("talks-much", target).await?;
    let client = HttpClient::new(format!("http://{target}"));
    let answers = async {
        let large = "x".repeat(LARGE / 2);
        loop {
            let assign = node.next_of("job_assign").await?;
            node.ack(&assign).await?;
            node.result(&assign, &large).await?;
        }
    };
    let asks = async {
        for n in 0.. {
            // One that is refused is no reason to stop.
            let _ = client.post("/v1/dispatch/f2f", &job("talks-much", n)).await?;
        }
        Ok(())
    };
    let uploads = async || -> anyhow::Result<()> {
        loop {
            let audio = vec![0; LARGE];
            client.post_bytes("/v1/audio", "application/octet-stream", audio).await?;
        }
    };
    tokio::select! {
        done = answers => done,
        done = asks => done,
        done = join_all((0..UPLOADS).map(|_| uploads())) => done.into_iter().collect(),
    }
}
