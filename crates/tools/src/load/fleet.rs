//! The nodes of a load run, on a thread of their own.

use anyhow::Context;
use lingua_lab::fake_node::Latency;
use lingua_lab::{Apart, Behaviour, NodeOptions};
use lingua_server::client::Tokens;
use tokio::sync::oneshot;

use super::Way;
use crate::advice::advice_for;
use crate::cli::{Failure, Load};

pub(super) struct Fleet {
    stop: oneshot::Sender<()>,
    nodes: Apart<lingua_lab::FleetStats>,
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
        let nodes = Apart::start("nodes", async move {
            let fleet = match lingua_lab::Fleet::start(wanted).await {
                Ok(fleet) => fleet,
                Err(error) => {
                    // Nobody listens if the command has ended already.
                    let _ = tell.send(Err(error));
                    return lingua_lab::FleetStats::default();
                }
            };
            let _ = tell.send(Ok(()));
            // Also when the command has ended already.
            let _ = stopped.await;
            fleet.close().await
        })?;
        let ready = ready.recv().context("the nodes' thread is gone")?;
        ready.map_err(|error| Failure::failed(format!("{error:#}{}", advice_for(&error))))?;
        Ok(Self { stop, nodes })
    }

    pub async fn finish(self) -> anyhow::Result<lingua_lab::FleetStats> {
        // Fails if they are gone already, and then there is nothing to stop.
        let _ = self.stop.send(());
        self.nodes.finish().await
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
