//! Everything that is there: the store, the schedulers, the processes of nodes and speakers, and the
//! wires between them.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::options::{NODES_EACH, Options, SPEAKERS_EACH};
use super::plan::Wire;
use super::servers::Servers;
use super::{DRAIN_LIMIT, MANIFEST, STORY};
use crate::ports::loopback;
use crate::process::{Launch, Process, SchedulerProcess, StartError};
use crate::{FaultProxy, HttpClient, Journal};

/// A scheduler that was killed keeps its name in the store for some seconds, and is refused as long.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The exit code of a scheduler whose name is taken.
const REFUSED: i32 = 78;

/// The exit code of a scheduler whose store cannot be reached.
const NO_STORE: i32 = 69;

pub(super) struct World {
    pub options: Options,
    pub story: Journal,
    pub servers: Mutex<Servers>,
    schedulers: Vec<Scheduler>,
    /// By process, then by scheduler.
    speaker_wires: Vec<Vec<FaultProxy>>,
    node_wires: Vec<Vec<FaultProxy>>,
    pub nodes: Vec<Mutex<Process>>,
    pub speakers: Vec<Mutex<Process>>,
}

struct Scheduler {
    address: SocketAddr,
    store_url: String,
    /// Between it and the store, where the store has one address.
    store_wire: Option<FaultProxy>,
    /// Between the others and it.
    peer_wire: FaultProxy,
    life: Mutex<Life>,
}

/// One scheduler's processes, one after the other.
struct Life {
    process: Option<SchedulerProcess>,
    /// How many names it has had.
    names: u32,
}

impl World {
    /// Starts the store and the schedulers.
    pub async fn start(options: &Options) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&options.dir)
            .with_context(|| format!("cannot make {}", options.dir.display()))?;
        let story = Journal::append(&options.dir.join(STORY))?;
        let servers = Servers::start(options.store).await?;
        // Held until all proxies have ports of their own, or one of them would get this one.
        let mut held = Vec::new();
        let mut schedulers = Vec::new();
        for _ in 0..options.schedulers {
            let port = TcpListener::bind(loopback(0))?;
            let address = port.local_addr()?;
            held.push(port);
            let store_wire = match servers.single() {
                Some(server) => Some(FaultProxy::start(server.addr()).await?),
                None => None,
            };
            let store_url = store_wire.as_ref().map_or_else(|| servers.url(), FaultProxy::url);
            let peer_wire = FaultProxy::start(address).await?;
            let life = Mutex::new(Life { process: None, names: 0 });
            schedulers.push(Scheduler { address, store_url, store_wire, peer_wire, life });
        }
        let fan = async |processes: usize| {
            let mut all = Vec::new();
            for _ in 0..processes {
                let mut wires = Vec::new();
                for scheduler in &schedulers {
                    wires.push(FaultProxy::start(scheduler.address).await?);
                }
                all.push(wires);
            }
            anyhow::Ok(all)
        };
        let speaker_wires = fan(options.speaker_processes()).await?;
        let node_wires = fan(options.node_processes()).await?;
        let world = Self {
            options: options.clone(),
            story,
            servers: Mutex::new(servers),
            schedulers,
            speaker_wires,
            node_wires,
            nodes: Vec::new(),
            speakers: Vec::new(),
        };
        world.write_manifest()?;
        drop(held);
        for index in 0..world.schedulers.len() {
            world.start_scheduler(index, true).await?;
        }
        Ok(world)
    }

    /// What the checker has to know of the run.
    fn write_manifest(&self) -> anyhow::Result<()> {
        let mut ways = BTreeMap::new();
        for wires in self.speaker_wires.iter().chain(&self.node_wires) {
            for (scheduler, wire) in wires.iter().enumerate() {
                ways.insert(wire.port().to_string(), scheduler);
            }
        }
        let options = &self.options;
        let manifest = json!({
            "store": options.store.word(), "seed": options.seed,
            "lasts_ms": options.lasts.as_millis() as u64, "schedulers": options.schedulers,
            "nodes": options.nodes, "slots": options.slots, "speakers": options.speakers,
            "ways": ways,
        });
        std::fs::write(options.dir.join(MANIFEST), serde_json::to_vec_pretty(&manifest)?)?;
        Ok(())
    }

    /// Starts the processes of nodes, then those of speakers.
    pub async fn start_clients(&mut self) -> anyhow::Result<()> {
        for process in 0..self.options.node_processes() {
            let started = self.node_process(process)?;
            self.nodes.push(Mutex::new(started));
        }
        for process in 0..self.options.speaker_processes() {
            let first = process * SPEAKERS_EACH;
            let count = SPEAKERS_EACH.min(self.options.speakers - first);
            let urls = urls(&self.speaker_wires[process], "session");
            let started = self.client("speakers", process, first, count, urls)?;
            self.speakers.push(Mutex::new(started));
        }
        Ok(())
    }

    pub fn node_process(&self, process: usize) -> anyhow::Result<Process> {
        let first = process * NODES_EACH;
        let count = NODES_EACH.min(self.options.nodes - first);
        let urls = urls(&self.node_wires[process], "node");
        self.client("nodes", process, first, count, urls)
    }

    fn client(
        &self,
        what: &str,
        process: usize,
        first: usize,
        count: usize,
        urls: Vec<String>,
    ) -> anyhow::Result<Process> {
        let options = &self.options;
        let mut arguments = vec!["chaos".to_owned(), what.to_owned()];
        let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        add("dir", options.dir.display().to_string());
        add("first", first.to_string());
        add("count", count.to_string());
        add("seed", options.seed.to_string());
        if what == "nodes" {
            add("slots", options.slots.to_string());
        }
        urls.into_iter().for_each(|url| add("url", url));
        let name = format!("{what}-{process}");
        let log = options.dir.join(format!("{name}.log"));
        Launch::new(&options.program, arguments).named(name).logging_to(log).start()
    }

    /// Starts a scheduler that does not run, and waits until it takes connections.
    pub async fn start_scheduler(&self, index: usize, new_name: bool) -> anyhow::Result<()> {
        let scheduler = &self.schedulers[index];
        let mut life = scheduler.life.lock().await;
        if new_name {
            life.names += 1;
        }
        let name = format!("chaos-{index}-{}", life.names);
        let give_up_at = Instant::now() + START_LIMIT;
        let arguments = [
            "serve",
            "--listen",
            &scheduler.address.to_string(),
            "--store",
            &scheduler.store_url,
            "--instance-id",
            &name,
            "--advertise",
            &format!("http://{}", scheduler.peer_wire.addr()),
        ]
        .map(str::to_owned);
        let log = format!("scheduler-{index}");
        let launch = Launch::new(&self.options.program, arguments)
            .logging_to(self.options.dir.join(format!("{log}.log")))
            .named(log);
        loop {
            let refused = match launch.start_scheduler().await {
                Ok(process) => {
                    let pid = process.process.id();
                    let fields = json!({ "scheduler": index, "name": name, "pid": pid });
                    self.story.write("started", fields);
                    life.process = Some(process);
                    return Ok(());
                }
                Err(StartError::Ended(ended)) => ended,
                Err(error) => return Err(error).with_context(|| format!("scheduler {index}")),
            };
            // Its name is still its predecessor's, or its store is away: a supervisor tries again.
            if !matches!(refused.code(), Some(REFUSED | NO_STORE | 1))
                || Instant::now() > give_up_at
            {
                bail!("scheduler {index} ended with {refused} at its start; see its log");
            }
            self.story.write("refused", json!({ "scheduler": index, "code": refused.code() }));
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Kills a scheduler.
    pub async fn kill_scheduler(&self, index: usize) {
        if let Some(mut process) = self.schedulers[index].life.lock().await.process.take() {
            process.process.kill().await;
        }
    }

    pub async fn signal_scheduler(&self, index: usize, signal: Signal) -> anyhow::Result<()> {
        let life = self.schedulers[index].life.lock().await;
        life.process.as_ref().context("it does not run")?.process.signal(signal)
    }

    /// Has a scheduler end by itself, and writes down how it did.
    pub async fn drain_scheduler(&self, index: usize) -> anyhow::Result<()> {
        let mut life = self.schedulers[index].life.lock().await;
        let Some(mut scheduler) = life.process.take() else { return Ok(()) };
        let process = &mut scheduler.process;
        process.signal(Signal::TERM)?;
        self.story.write("drain", json!({ "scheduler": index }));
        let ended = process.wait(DRAIN_LIMIT + Duration::from_secs(5)).await;
        let code = ended.and_then(|status| status.code());
        let fields = json!({ "scheduler": index, "code": code, "ended": ended.is_some() });
        self.story.write("drained", fields);
        process.kill().await;
        Ok(())
    }

    /// Writes down schedulers that ended although nobody asked them to, and starts them again.
    pub async fn look_after_schedulers(&self) -> anyhow::Result<()> {
        for index in 0..self.schedulers.len() {
            // Held by whoever does something to it.
            let Ok(mut life) = self.schedulers[index].life.try_lock() else { continue };
            let Some(ended) = life.process.as_mut().and_then(|one| one.process.ended()) else {
                continue;
            };
            let fields = json!({ "scheduler": index, "status": ended.to_string() });
            self.story.write("died", fields);
            life.process = None;
            drop(life);
            self.start_scheduler(index, true).await?;
        }
        Ok(())
    }

    /// Starts a scheduler that does not run.
    pub async fn ensure_scheduler(&self, index: usize) -> anyhow::Result<()> {
        let runs = self.schedulers[index].life.lock().await.process.is_some();
        if runs { Ok(()) } else { self.start_scheduler(index, true).await }
    }

    /// Keeps what the schedulers say of themselves, for people who look for the cause of something.
    /// The checker reads none of it.
    pub async fn keep_views(&self) {
        for (index, scheduler) in self.schedulers.iter().enumerate() {
            let client = HttpClient::new(format!("http://{}", scheduler.address));
            for (path, file) in [("/api/v1/nodes", "nodes.json"), ("/metrics", "metrics.txt")] {
                if let Ok(reply) = client.get(path).await {
                    let file = self.options.dir.join(format!("scheduler-{index}-{file}"));
                    let _ = std::fs::write(file, &reply.body);
                }
            }
        }
    }

    pub fn wire(&self, wire: Wire) -> Option<&FaultProxy> {
        match wire {
            Wire::Speakers { process, scheduler } => {
                self.speaker_wires.get(process)?.get(scheduler)
            }
            Wire::Nodes { process, scheduler } => self.node_wires.get(process)?.get(scheduler),
            Wire::Store { scheduler } => self.schedulers.get(scheduler)?.store_wire.as_ref(),
            Wire::Peers { scheduler } => self.schedulers.get(scheduler).map(|one| &one.peer_wire),
        }
    }

    /// Makes everything whole: wires pass, what was stopped goes on, what was killed is back.
    pub async fn heal(&self) -> anyhow::Result<()> {
        self.speaker_wires.iter().chain(&self.node_wires).flatten().for_each(FaultProxy::pass);
        for scheduler in &self.schedulers {
            scheduler.peer_wire.pass();
            scheduler.store_wire.iter().for_each(FaultProxy::pass);
        }
        self.servers.lock().await.heal_all().await?;
        for index in 0..self.schedulers.len() {
            self.ensure_scheduler(index).await?;
            self.signal_scheduler(index, Signal::CONT).await?;
        }
        for process in self.nodes.iter().chain(&self.speakers) {
            process.lock().await.signal(Signal::CONT)?;
        }
        Ok(())
    }
}

fn urls(wires: &[FaultProxy], door: &str) -> Vec<String> {
    wires.iter().map(|wire| format!("ws://{}/ws/{door}", wire.addr())).collect()
}

/// Where the files of a run are.
pub(super) fn node_file(dir: &std::path::Path, node: usize) -> PathBuf {
    dir.join(format!("node-{node:02}.jsonl"))
}

pub(super) fn speaker_file(dir: &std::path::Path, speaker: usize) -> PathBuf {
    dir.join(format!("speaker-{speaker:03}.jsonl"))
}
