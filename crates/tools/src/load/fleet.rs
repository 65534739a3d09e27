//! The nodes of a load run, on a thread of their own.

use anyhow::Context;
use lingua_lab::fake_node::{Latency, NodeStats};
use lingua_lab::{Behaviour, FakeNode, NodeOptions};
use serde::Serialize;
use tokio::sync::oneshot;

use super::{Way, on_its_own};
use crate::cli::{Failure, Load};
use lingua_server::client::Tokens;

use crate::advice::advice_for;

/// What the nodes did.
#[derive(Debug, Default, Serialize)]
pub(super) struct Told {
    pub nodes: u32,
    pub jobs: u64,
    pub done: u64,
    /// The most jobs that one node ever had at once.
    pub highest_running: u64,
    /// Jobs given to a node that was full.
    pub breaches: u64,
    pub duplicates: u64,
    pub errors: u64,
}

pub(super) struct Fleet {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<anyhow::Result<Told>>,
}

impl Fleet {
    /// Returns when all are registered.
    pub fn start(options: &Load, way: &Way, tokens: &Tokens) -> Result<Self, Failure> {
        let names: Vec<String> =
            (0..options.nodes).map(|number| format!("load-{number}")).collect();
        let shown = tokens.of_nodes(&names)?;
        let wanted = names.into_iter().zip(shown).zip(0..).map(|((name, token), number)| {
            let node = node(options, way, number).node_id(name);
            match token {
                Some(token) => node.bearer(&token),
                None => node,
            }
        });
        let wanted: Vec<_> = wanted.collect();
        let (stop, stopped) = oneshot::channel();
        let (tell, ready) = std::sync::mpsc::sync_channel(1);
        let thread = on_its_own("nodes", async move {
            let mut nodes = Vec::new();
            for options in wanted {
                match FakeNode::connect(options).await {
                    Ok(node) => nodes.push(node),
                    Err(error) => {
                        // Nobody listens if the command has ended already.
                        let _ = tell.send(Err(error));
                        return Told::default();
                    }
                }
            }
            let _ = tell.send(Ok(()));
            // Also when the command has ended already.
            let _ = stopped.await;
            let told = Told::of(&nodes);
            futures_util::future::join_all(nodes.into_iter().map(FakeNode::close)).await;
            told
        });
        let ready = ready.recv().context("the nodes' thread is gone")?;
        ready.map_err(|error| Failure::failed(format!("{error:#}{}", advice_for(&error))))?;
        Ok(Self { stop, thread })
    }

    pub fn finish(self) -> anyhow::Result<Told> {
        // Fails if they are gone already, and then there is nothing to stop.
        let _ = self.stop.send(());
        self.thread.join().map_err(|_| anyhow::anyhow!("a node panicked"))?
    }
}

impl Told {
    fn of(nodes: &[FakeNode]) -> Self {
        let stats: Vec<NodeStats> = nodes.iter().map(FakeNode::stats).collect();
        let sum = |of: fn(&NodeStats) -> u64| stats.iter().map(of).sum();
        Self {
            nodes: nodes.len() as u32,
            jobs: sum(|node| node.received),
            done: sum(|node| node.done),
            highest_running: stats.iter().map(|node| node.highest_running).max().unwrap_or(0),
            breaches: sum(|node| node.breaches),
            duplicates: sum(|node| node.duplicates),
            errors: sum(|node| node.errors),
        }
    }
}

fn node(options: &Load, way: &Way, number: u32) -> NodeOptions {
    let (p50_ms, p99_ms) = (options.node_p50_ms, options.node_p99_ms);
    let latency = match p99_ms > p50_ms && p50_ms > 0 {
        true => Latency::Spread { p50_ms, p99_ms },
        false => Latency::Fixed { ms: p50_ms },
    };
    NodeOptions {
        url: format!("{}/ws/node", way.base),
        tls: way.tls.clone(),
        max_concurrent_jobs: Some(options.slots),
        reconnect: true,
        behaviour: Behaviour {
            latency,
            partials: true,
            tts_audio_bytes: options.tts_bytes as usize,
            seed: options.seed.wrapping_add(u64::from(number)),
            ..Behaviour::default()
        },
        read_buffer_bytes: 16 << 10,
        ..NodeOptions::default()
    }
}
