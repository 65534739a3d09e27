//! What choosing a node and reserving a slot on it cost as the fleet grows.

use lingua_server::say;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use lingua_core::eligibility::{Need, Route, Standing};
use lingua_core::fleet::select::{SelectPolicy, Selector, Wish};
use lingua_core::fleet::{Fleet, NodeEntry};
use lingua_core::job_key::{JobKey, Origin};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, Health, NodeProfile};
use lingua_core::{Lang, LeaseToken, NodeId, SessionKey};
use lingua_lab::RedisServer;
use lingua_store::nodes::{Claim, ProfileVersion, Registration, Vitals};
use lingua_store::slots::{self, Reserve};
use lingua_store::{Backend, Instance, redis};
use rand::Rng;
use rand::seq::SliceRandom;
use serde::Serialize;
use tokio::time::Instant;

use super::progress::Progress;
use lingua_server::open_store;

/// Choices of one measurement; the fleets take turns, so that a noisy moment hits all.
const CHOICES: u32 = 2_000;
const ROUNDS: u32 = 15;

/// One line of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    store: &'static str,
    nodes: u32,
    choose_ns: f64,
    choose_and_reserve_ns: f64,
    /// To the smallest fleet.
    ratio: f64,
    /// Fetching what any choice among so many must fetch, and nothing else.
    fetch_ns: f64,
    /// The ratio if the fleet's size cost nothing beyond that.
    least_ratio: f64,
}

struct Bench {
    fleet: Fleet,
    store: Backend,
    version: ProfileVersion,
    need: Need,
    session: SessionKey,
    nodes: u32,
    far: Option<FarMemory>,
    choosing: Vec<Duration>,
    both: Vec<Duration>,
    fetching: Vec<Duration>,
    _redis: Option<RedisServer>,
}

/// Measures fleets of these sizes on one kind of store.
pub(crate) async fn measure(
    store: &'static str,
    sizes: &[u32],
    progress: &Progress,
) -> anyhow::Result<Vec<Line>> {
    let mut benches = Vec::new();
    for nodes in sizes {
        progress.now(&format!("{store}, a fleet of {nodes}"));
        benches.push(Bench::prepare(store, *nodes).await?);
        progress.step();
    }
    for _ in 0..ROUNDS {
        for bench in &mut benches {
            bench.round().await?;
        }
    }
    // By itself, so that neither takes the other's room close to the processor.
    for _ in 0..ROUNDS {
        for bench in &mut benches {
            bench.fetch_round();
        }
    }
    // The median round: one that was disturbed counts for nothing.
    let median = |rounds: &mut Vec<Duration>| {
        rounds.sort_unstable();
        rounds[rounds.len() / 2].as_nanos() as f64 / f64::from(CHOICES)
    };
    let mut lines = Vec::new();
    for (bench, nodes) in benches.iter_mut().zip(sizes) {
        let (choose_ns, both) = (median(&mut bench.choosing), median(&mut bench.both));
        let fetch_ns = median(&mut bench.fetching);
        let first = lines.first().map_or(both, |line: &Line| line.choose_and_reserve_ns);
        let first_fetch = lines.first().map_or(fetch_ns, |line: &Line| line.fetch_ns);
        lines.push(Line {
            store,
            nodes: *nodes,
            choose_ns,
            choose_and_reserve_ns: both,
            ratio: both / first,
            fetch_ns,
            least_ratio: (first + fetch_ns - first_fetch) / first,
        });
    }
    Ok(lines)
}

impl Bench {
    async fn prepare(store: &'static str, nodes: u32) -> anyhow::Result<Self> {
        let server = if store == "redis" { Some(RedisServer::start().await?) } else { None };
        let url = server.as_ref().map_or_else(|| "memory".to_owned(), RedisServer::url);
        let patient =
            redis::Options { response_timeout: Duration::from_secs(10), ..Default::default() };
        let store = open_store(&url, patient).await.map_err(|_| anyhow::anyhow!("no store"))?;
        let langs = LangSet::new([Lang::new("en")?, Lang::new("zh")?])?;
        let profile = NodeProfile::from_declaration(Declaration {
            semantic: langs.clone(),
            tts: Some(langs),
            max_slots: 16,
            ..Declaration::default()
        })?;
        let version = ProfileVersion::of(&profile);
        let registration = Registration {
            claim: Claim::Newest,
            owner: Instance { id: "bench".parse()?, boot: 1 },
            profile: profile.clone(),
            vitals: Vitals {
                max: 16,
                health: Health::Ready,
                overloaded: false,
                fresh_for: Duration::from_secs(3600),
            },
            known: false,
        };
        let profile = Arc::new(profile);
        let mut fleet = Fleet::default();
        for i in 0..nodes {
            let id = NodeId::new(format!("node-{i}"))?;
            store.nodes.put(&id, &registration).await?;
            let entry = NodeEntry {
                profile: Arc::clone(&profile),
                version: crate::bench::core_version(version),
                standing: Standing::READY,
            };
            fleet.put(id, entry);
        }
        let need = Need {
            route: Route::Directed(Lang::new("en")?, Lang::new("zh")?),
            speech: true,
            typed: false,
            asks: lingua_core::inventory::Asks::NONE,
            tenant: "default".parse()?,
            named: false,
        };
        let session = SessionKey::new("default".parse()?, "bench".parse()?);
        Ok(Bench {
            fleet,
            store,
            version,
            need,
            session,
            nodes,
            far: None,
            choosing: Vec::new(),
            both: Vec::new(),
            fetching: Vec::new(),
            _redis: server,
        })
    }

    async fn round(&mut self) -> anyhow::Result<()> {
        let mut chance = rand::rng();
        let began = Instant::now();
        for _ in 0..CHOICES {
            let node = self.choose(chance.next_u64())?;
            free_slot(&mut self.fleet, &node);
        }
        self.choosing.push(began.elapsed());
        let key = JobKey {
            session: &self.session,
            origin: Origin::Unnamed(1),
            job_type: "f2f",
            route: self.need.route,
            features: &[],
        };
        let job = key.job_id();
        let mut spent = Duration::ZERO;
        for _ in 0..CHOICES {
            let nonce = u128::from(chance.next_u64()) << 64 | u128::from(chance.next_u64());
            let token = LeaseToken { job, attempt: 1, nonce };
            let began = Instant::now();
            let node = self.choose(chance.next_u64())?;
            let wish = slots::Wish {
                node: &node,
                token,
                version: self.version,
                models: &[],
                lease: Duration::from_secs(3),
            };
            let reserved = self.store.slots.reserve(&wish).await?;
            spent += began.elapsed();
            if !matches!(reserved, Reserve::Granted { .. }) {
                bail!("a free slot was refused: {reserved:?}");
            }
            self.store.slots.release(&node, token).await?;
            free_slot(&mut self.fleet, &node);
        }
        self.both.push(spent);
        Ok(())
    }

    fn fetch_round(&mut self) {
        let far = self.far.get_or_insert_with(|| FarMemory::of(self.nodes));
        let mut chance = rand::rng();
        let began = Instant::now();
        for _ in 0..CHOICES {
            far.fetch(chance.next_u64());
        }
        self.fetching.push(began.elapsed());
    }

    fn choose(&mut self, bits: u64) -> anyhow::Result<NodeId> {
        let mut selector =
            Selector::new(self.need.clone(), Wish::default(), SelectPolicy::default(), bits);
        let candidate = selector.next(&mut self.fleet).context("nobody is able")?;
        take_slot(&mut self.fleet, &candidate.node);
        Ok(candidate.node)
    }
}

/// What no choice among very many nodes can do without, as lean as it can be laid out: whom the draw
/// met, and of that node a line with its name, a line with its record and a line with its leases,
/// each found through the one before it.
struct FarMemory {
    drawn: Vec<u32>,
    lines: [Vec<MemoryLine>; 3],
}

/// Where the node is in the next of them, and what is changed there.
#[repr(align(64))]
struct MemoryLine {
    next: u32,
    changed: u32,
}

impl FarMemory {
    fn of(nodes: u32) -> Self {
        let order = || {
            let mut order: Vec<u32> = (0..nodes).collect();
            order.shuffle(&mut rand::rng());
            order
        };
        let lines = || order().into_iter().map(|next| MemoryLine { next, changed: 0 }).collect();
        FarMemory { drawn: order(), lines: [lines(), lines(), lines()] }
    }

    fn fetch(&mut self, bits: u64) {
        let mut node = self.drawn[bits as usize % self.drawn.len()];
        for lines in &mut self.lines {
            let line = &mut lines[node as usize];
            line.changed = line.changed.wrapping_add(1);
            node = line.next;
        }
        std::hint::black_box(node);
    }
}

pub(crate) fn print(lines: &[Line]) {
    say!(
        "\n{:<8} {:>8} {:>10} {:>18} {:>6} {:>9} {:>6}",
        "store",
        "nodes",
        "choose ns",
        "choose+reserve ns",
        "ratio",
        "fetch ns",
        "least"
    );
    for line in lines {
        say!(
            "{:<8} {:>8} {:>10.0} {:>18.0} {:>6.2} {:>9.0} {:>6.2}",
            line.store,
            line.nodes,
            line.choose_ns,
            line.choose_and_reserve_ns,
            line.ratio,
            line.fetch_ns,
            line.least_ratio
        );
    }
}

/// A job took a slot of the node.
fn take_slot(fleet: &mut Fleet, node: &NodeId) {
    let (used, max) = usage(fleet, node);
    fleet.set_usage(node, used + 1, max);
}

/// A job gave a slot of the node back.
fn free_slot(fleet: &mut Fleet, node: &NodeId) {
    let (used, max) = usage(fleet, node);
    fleet.set_usage(node, used.saturating_sub(1), max);
}

fn usage(fleet: &Fleet, node: &NodeId) -> (u32, u32) {
    fleet.get(node).map_or((0, 0), |node| (node.used(), node.max()))
}
