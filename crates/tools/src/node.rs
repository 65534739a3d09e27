//! `lingua node`: simulated nodes over the real socket.

use lingua_server::say;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use lingua_lab::fake_node::Latency;
use lingua_lab::{Behaviour, FakeNode, NodeOptions};
use lingua_server::client::count;
use rustls::ClientConfig;

use crate::cli::{Failure, Node, socket_url};
use lingua_server::client::tokens_of_environment;

use crate::advice::advice_for;

/// How often a line about the work is printed.
const REPORT: Duration = Duration::from_secs(2);

/// Runs until it is interrupted or its time is over.
pub(crate) fn run(options: &Node) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    runtime.block_on(work(options))
}

async fn work(options: &Node) -> Result<(), Failure> {
    let names: Vec<String> = (0..options.count).map(|i| name(options, i)).collect();
    let tokens = tokens_of_environment()?.of_nodes(&names)?;
    let tls = options.authority.of_socket(&options.url)?;
    let mut nodes = Vec::new();
    for (i, (name, token)) in (0..).zip(names.into_iter().zip(tokens)) {
        let mut wanted = node(options, name, i, &tls)?;
        if let Some(token) = token {
            wanted = wanted.bearer(&token);
        }
        let connected = FakeNode::connect(wanted).await;
        nodes.push(
            connected
                .map_err(|error| Failure::failed(format!("{error:#}{}", advice_for(&error))))?,
        );
    }
    let first = nodes.first().context("at least one node")?.node_id();
    match options.count {
        1 => say!("node {first} is registered with {}", options.url),
        count => say!("{count} nodes, {first} and so on, are registered with {}", options.url),
    }
    let end = async {
        match options.seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(end);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let mut before = String::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(REPORT) => {
                let now = line(&nodes);
                if now != before {
                    say!("{now}");
                    before = now;
                }
                let gone = nodes.iter().all(|node| !node.is_connected());
                if let Some(why) = nodes.first().and_then(FakeNode::last_error).filter(|_| gone) {
                    say!("not connected: {why}");
                }
            }
            () = &mut end => break,
            _ = &mut interrupted => break,
        }
    }
    say!("{}", line(&nodes));
    futures_util::future::join_all(nodes.into_iter().map(FakeNode::close)).await;
    Ok(())
}

fn line(nodes: &[FakeNode]) -> String {
    let sum = |of: fn(&lingua_lab::fake_node::NodeStats) -> u64| -> u64 {
        nodes.iter().map(|node| of(&node.stats())).sum()
    };
    format!(
        "running {}, done {}, failed {}, rejected {}, cancelled {}, over the limit {}",
        sum(|stats| stats.running),
        count(sum(|stats| stats.done)),
        sum(|stats| stats.failed),
        sum(|stats| stats.rejected),
        sum(|stats| stats.cancelled),
        sum(|stats| stats.breaches),
    )
}

fn name(options: &Node, i: u32) -> String {
    match options.count {
        1 => options.name.clone(),
        _ => format!("{}-{i}", options.name),
    }
}

fn node(
    options: &Node,
    name: String,
    i: u32,
    tls: &Option<Arc<ClientConfig>>,
) -> Result<NodeOptions, Failure> {
    let langs = options.langs.clone();
    let behaviour = Behaviour {
        latency: match options.p99_ms > options.p50_ms && options.p50_ms > 0 {
            true => Latency::Spread { p50_ms: options.p50_ms, p99_ms: options.p99_ms },
            false => Latency::Fixed { ms: options.p50_ms },
        },
        fail: options.fail,
        reject: options.reject,
        drop_ack: options.drop_ack,
        never_answer: options.never_answer,
        crash: options.crash,
        readable: true,
        seed: options.seed.wrapping_add(u64::from(i)),
        ..Behaviour::default()
    };
    Ok(NodeOptions {
        url: socket_url(&options.url, "/ws/node")?,
        tls: tls.clone(),
        node_id: Some(name),
        asr_languages: langs.clone(),
        semantic_languages: langs.clone(),
        tts_languages: if options.text_only { Vec::new() } else { langs },
        max_concurrent_jobs: Some(options.slots),
        old_agent: options.old_agent,
        reconnect: true,
        behaviour,
        ..NodeOptions::default()
    })
}
