//! What choosing a node costs in fleets of 10, 1,000 and 100,000, beside each other in one run:
//! `cargo bench -p lingua-core --bench choosing`. The ratios to the smallest fleet are what counts;
//! they are steadier than the times.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for people at a terminal")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lingua_core::eligibility::{Need, Route, Standing};
use lingua_core::fleet::select::{SelectPolicy, Selector, Wish};
use lingua_core::fleet::{Fleet, NodeEntry, ProfileVersion};
use lingua_core::inventory::{Asks, Inventory, Model, Requirements};
use lingua_core::lang::LangSet;
use lingua_core::node::{Declaration, NodeProfile};
use lingua_core::{Lang, NodeId, TenantId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const SIZES: [usize; 3] = [10, 1_000, 100_000];
const SLOTS: usize = 4;
const ROUNDS: usize = 15;
const JOBS: usize = 10_000;
/// Beside `en` and `zh`, which every node has; each subset of them makes another kind of node.
const OTHERS: [&str; 17] = [
    "ar", "cs", "da", "de", "el", "es", "fi", "fr", "hi", "it", "ja", "ko", "nl", "pl", "pt", "ru",
    "sv",
];

fn main() {
    for (kinds, text) in [(1, "all alike"), (200, "200 kinds"), (1 << 17, "each its own kind")] {
        println!("\n{text:<32}{:>12}{:>12}{:>12}  ratio", "10", "1,000", "100,000");
        let mut fleets = SIZES.map(|size| Bench::new(size, kinds));
        row("choose", Of::Least, &mut fleets, |bench| bench.per_job(Bench::choose));
        for (text, percent) in [("8 running", 0), ("80 % busy", 80)] {
            for bench in &mut fleets {
                bench.fill((bench.nodes.len() * SLOTS * percent / 100).max(8));
            }
            let text = format!("choose, place, free: {text}");
            row(&text, Of::Least, &mut fleets, |bench| bench.per_job(Bench::turn_over));
        }
        fleets.iter_mut().for_each(|bench| bench.fill(0));
        row("first use of a pair", Of::Middle, &mut fleets, Bench::first_use);
        row("node leaves", Of::Least, &mut fleets, |bench| bench.each_node(false));
        row("node joins", Of::Least, &mut fleets, |bench| bench.each_node(true));
        drop(fleets);
        let mut fleets = SIZES.map(|size| Bench::with_models(size, kinds));
        row("choose by a model's name", Of::Least, &mut fleets, |bench| {
            bench.per_job(Bench::choose)
        });
    }
}

/// Which of the times of all rounds counts: the least, because what else the machine does only adds to
/// it, or the middle one where the rounds do different work.
#[derive(Clone, Copy)]
enum Of {
    Least,
    Middle,
}

/// Prints a time in nanoseconds. Rounds of the fleets alternate, so that what disturbs one disturbs all.
fn row(text: &str, of: Of, fleets: &mut [Bench; 3], mut measure: impl FnMut(&mut Bench) -> f64) {
    let mut times = [[0.0; ROUNDS]; 3];
    for round in 0..ROUNDS {
        for (times, bench) in times.iter_mut().zip(fleets.iter_mut()) {
            times[round] = measure(bench);
        }
    }
    let [small, middle, large] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[if matches!(of, Of::Least) { 0 } else { ROUNDS / 2 }]
    });
    println!("{text:<32}{small:>12.0}{middle:>12.0}{large:>12.0}  {:.2}", large / small);
}

struct Bench {
    fleet: Fleet,
    nodes: Vec<(NodeId, NodeEntry)>,
    running: VecDeque<NodeId>,
    need: Need,
    rng: StdRng,
    asked: usize,
}

impl Bench {
    fn new(size: usize, kinds: usize) -> Self {
        Bench::of(size, |n| entry(n % kinds, false), Asks::NONE)
    }

    /// One node in ten has the model that every job asks for.
    fn with_models(size: usize, kinds: usize) -> Self {
        let models = vec!["whisper@3".parse().unwrap()];
        let asks = Asks::new(Requirements { models, ..Requirements::default() });
        Bench::of(size, |n| entry(n % kinds, n % 10 == 0), asks)
    }

    fn of(size: usize, entry: impl Fn(usize) -> NodeEntry, asks: Asks) -> Self {
        let nodes: Vec<(NodeId, NodeEntry)> =
            (0..size).map(|n| (NodeId::new(format!("node-{n:06}")).unwrap(), entry(n))).collect();
        let mut fleet = Fleet::default();
        for (id, entry) in &nodes {
            // As from the wire: no two nodes share a name or a profile in memory.
            fleet.put(NodeId::new(id.as_str()).unwrap(), entry.clone());
        }
        let (running, need) = (VecDeque::new(), Need { asks, ..need("en", "zh") });
        let rng = StdRng::seed_from_u64(1);
        let mut bench = Bench { fleet, nodes, running, need, rng, asked: 0 };
        (0..1_000).for_each(|_| drop(bench.choose()));
        bench
    }

    fn choose(&mut self) -> NodeId {
        let (need, policy) = (self.need.clone(), SelectPolicy::default());
        let mut selector = Selector::new(need, Wish::default(), policy, self.rng.next_u64());
        black_box(selector.next(&mut self.fleet)).expect("never all busy").node
    }

    fn place(&mut self) {
        let node = self.choose();
        take_slot(&mut self.fleet, &node);
        self.running.push_back(node);
    }

    fn free(&mut self) {
        // The oldest or the next to it, so that jobs do not end in the order they began.
        let at = (self.rng.next_u64() as usize % 2).min(self.running.len() - 1);
        let node = self.running.swap_remove_front(at).expect("one runs");
        free_slot(&mut self.fleet, &node);
    }

    fn turn_over(&mut self) {
        self.place();
        self.free();
    }

    fn fill(&mut self, wanted: usize) {
        while self.running.len() < wanted {
            self.place();
        }
        while self.running.len() > wanted {
            self.free();
        }
    }

    fn per_job<T>(&mut self, job: impl Fn(&mut Self) -> T) -> f64 {
        timed(|| (0..JOBS).for_each(|_| drop(black_box(job(self))))).as_nanos() as f64 / JOBS as f64
    }

    /// Asks for another pair each time.
    fn first_use(&mut self) -> f64 {
        let (from, into) = (self.asked / OTHERS.len(), self.asked % OTHERS.len());
        self.asked += 1;
        let (need, chance) = (need(OTHERS[from], OTHERS[into]), self.rng.next_u64());
        let mut selector = Selector::new(need, Wish::default(), SelectPolicy::default(), chance);
        timed(|| drop(black_box(selector.next(&mut self.fleet)))).as_nanos() as f64
    }

    /// A tenth of the nodes, at most a thousand, leave, or come back.
    fn each_node(&mut self, join: bool) -> f64 {
        let some = self.nodes.len().div_ceil(10).min(1_000);
        let step = self.nodes.len() / some;
        let Bench { fleet, nodes, .. } = self;
        let chosen: Vec<_> = nodes.iter().step_by(step).take(some).cloned().collect();
        if join {
            for (id, _) in &chosen {
                fleet.remove(id);
            }
            let spent = timed(|| chosen.into_iter().for_each(|(id, entry)| fleet.put(id, entry)));
            return spent.as_nanos() as f64 / some as f64;
        }
        let spent = timed(|| chosen.iter().for_each(|(id, _)| assert!(fleet.remove(id))));
        chosen.into_iter().for_each(|(id, entry)| fleet.put(id, entry));
        spent.as_nanos() as f64 / some as f64
    }
}

#[allow(clippy::disallowed_methods, reason = "measures the real time of this machine")]
fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn need(src: &str, tgt: &str) -> Need {
    Need {
        route: Route::Directed(Lang::new(src).unwrap(), Lang::new(tgt).unwrap()),
        speech: false,
        typed: false,
        asks: Asks::NONE,
        tenant: TenantId::new("t").unwrap(),
        named: false,
    }
}

fn entry(kind: usize, has_model: bool) -> NodeEntry {
    let others = (0..OTHERS.len()).filter(|bit| kind >> bit & 1 == 1 || kind == 0);
    let tags = ["en", "zh"].into_iter().chain(others.map(|bit| OTHERS[bit]));
    let semantic = LangSet::new(tags.map(|tag| Lang::new(tag).unwrap())).unwrap();
    let max_slots = SLOTS as u32;
    let model = Model {
        id: "whisper".parse().unwrap(),
        version: Some("3.1".parse().unwrap()),
        kind: None,
        langs: LangSet::default(),
        loaded: true,
    };
    let inventory = Inventory { models: has_model.then(|| vec![model]), ..Inventory::default() };
    let declared = Declaration { semantic, max_slots, inventory, ..Declaration::default() };
    NodeEntry {
        profile: Arc::new(NodeProfile::from_declaration(declared).unwrap()),
        version: ProfileVersion::new(1),
        standing: Standing::READY,
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
