//! What is started for one case, and how it is broken.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use lingua_lab::{
    Balancer, Behaviour, FaultProxy, Fleet, Launch, NodeOptions, RedisServer, SchedulerProcess,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::bench::process::program;
use crate::cli::{Agents, Case, Restarts};

/// For a drain; a little more than a scheduler allows itself.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// For all nodes to be registered again.
const BACK_LIMIT: Duration = Duration::from_secs(120);

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Dropped in this order: what stands on something goes before it.
pub(super) struct World {
    fleet: Fleet,
    /// Between the nodes and the schedulers.
    wire: Option<FaultProxy>,
    balancer: Option<Balancer>,
    schedulers: Vec<SchedulerProcess>,
    /// The URL of their store.
    store: String,
    _redis: Option<RedisServer>,
    _directory: Option<TempDir>,
    /// Where speakers connect.
    front: SocketAddr,
    /// How many nodes are on the scheduler that is killed.
    on_first: u64,
}

impl World {
    pub async fn start(options: &Restarts, case: Case, agents: Agents) -> anyhow::Result<Self> {
        let (count, redis) = match case {
            Case::KillOne => (2, Some(RedisServer::start().await?)),
            _ => (1, None),
        };
        let directory = match case {
            Case::KillFile | Case::DrainFile => Some(tempfile::tempdir()?),
            _ => None,
        };
        let store = match (&redis, &directory) {
            (Some(redis), _) => redis.url(),
            (None, Some(directory)) => format!("file:{}", directory.path().display()),
            (None, None) => "memory".to_owned(),
        };
        let mut schedulers = Vec::new();
        for _ in 0..count {
            schedulers.push(serve("127.0.0.1:0", &store).await?);
        }
        let addresses: Vec<_> = schedulers.iter().map(SchedulerProcess::address).collect();
        let balancer = match case {
            Case::KillOne => {
                let socket = TcpListener::bind("127.0.0.1:0").await?;
                Some(Balancer::start(socket, &addresses).await?)
            }
            _ => None,
        };
        let front = balancer.as_ref().map_or(addresses[0], Balancer::address);
        let wire = match case {
            Case::Lines => Some(FaultProxy::start(front).await?),
            _ => None,
        };
        let door = wire.as_ref().map_or(front, FaultProxy::addr);
        let nodes = (0..options.nodes).map(|n| node(options, agents, door, n));
        let fleet = Fleet::start(nodes).await?;
        let on_first = balancer.as_ref().and_then(|one| one.connections().first().copied());
        let on_first = on_first.unwrap_or(options.nodes as usize) as u64;
        Ok(World {
            fleet,
            wire,
            balancer,
            schedulers,
            store,
            _redis: redis,
            _directory: directory,
            front,
            on_first,
        })
    }

    pub fn session_url(&self) -> String {
        format!("ws://{}/ws/session", self.front)
    }

    /// Breaks what the case is about, and waits until all nodes are registered again.
    pub async fn hurt(&mut self, case: Case) -> anyhow::Result<()> {
        let before = self.fleet.stats().connections;
        match case {
            Case::Kill | Case::KillFile => {
                self.schedulers[0].process.kill().await;
                self.restart().await?;
            }
            Case::Drain | Case::DrainFile => {
                let ended = self.schedulers[0].end(DRAIN_LIMIT).await?;
                if !ended.success() {
                    bail!("the scheduler drained and ended {ended}");
                }
                self.restart().await?;
            }
            Case::KillOne => self.schedulers[0].process.kill().await,
            Case::Lines => self.wire.iter().for_each(FaultProxy::cut),
        }
        self.until_back(before + self.on_first).await
    }

    /// On the same address, as a supervisor does.
    async fn restart(&mut self) -> anyhow::Result<()> {
        let address = self.schedulers[0].address().to_string();
        self.schedulers[0] = serve(&address, &self.store).await?;
        Ok(())
    }

    async fn until_back(&self, connections: u64) -> anyhow::Result<()> {
        let give_up_at = Instant::now() + BACK_LIMIT;
        let all = self.fleet.nodes().len();
        loop {
            let connected = self.fleet.connected();
            if connected == all && self.fleet.stats().connections >= connections {
                return Ok(());
            }
            if Instant::now() > give_up_at {
                let why = self.fleet.nodes().iter().find_map(|node| node.last_error());
                let why = why.unwrap_or_default();
                bail!("{connected} of {all} nodes are back after {BACK_LIMIT:?}; {why}");
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Ends all of it; nothing of it is kept.
    pub async fn end(self) {
        let World { fleet, wire, balancer, mut schedulers, _redis, _directory, .. } = self;
        fleet.close().await;
        drop((wire, balancer));
        for scheduler in &mut schedulers {
            scheduler.process.kill().await;
        }
    }
}

async fn serve(listen: &str, store: &str) -> anyhow::Result<SchedulerProcess> {
    let started = Launch::serve(program()?, listen, store).start_scheduler().await;
    started.with_context(|| format!("a scheduler on {listen}"))
}

fn node(options: &Restarts, agents: Agents, door: SocketAddr, n: u32) -> NodeOptions {
    let node = NodeOptions::new(format!("ws://{door}/ws/node"))
        .node_id(format!("restarts-{n}"))
        .max_jobs(options.slots)
        .behaviour(Behaviour::taking_ms(options.job.as_millis() as u64))
        .reconnecting();
    match agents {
        Agents::Current => node,
        // An existing agent tells no number of slots; here it does, so that both kinds have as many.
        Agents::Existing => {
            node.old_agent().register_with(json!({ "max_concurrent_jobs": options.slots }))
        }
    }
}
