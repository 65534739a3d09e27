//! `lingua sim`: lives through simulated worlds, and shows those that broke a promise.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::Context;
use lingua_server::say;
use lingua_sim::regressions::Regression;
use lingua_sim::{Broken, Options, Plan, Verdict, run_plan, shrink, story};
use serde::Serialize;
use tokio::time::Instant;

use crate::bench::progress::Progress;
use crate::cli::{Failure, Sim};

/// Verdicts that wait to be counted.
const WAITING: usize = 64;

/// How often a line about the work is printed where there is no terminal, in worlds.
const LINE_EVERY: u64 = 100;

/// Broken worlds that are shown; all are counted.
const MAX_SHOWN: usize = 20;

/// What all worlds together came to.
#[derive(Default, Serialize)]
struct Figures {
    first_seed: u64,
    worlds: u64,
    seconds: f64,
    worlds_per_second: f64,
    simulated_hours: f64,
    /// Simulated time for one of ours.
    times_faster: f64,
    faults: BTreeMap<&'static str, u64>,
    said: u64,
    jobs: u64,
    results: u64,
    missing: BTreeMap<String, u64>,
    broken_worlds: u64,
    broken: Vec<BrokenWorld>,
}

/// A world that broke a promise, with as few faults as it takes.
#[derive(Serialize)]
struct BrokenWorld {
    seed: u64,
    /// The line of the regression test.
    line: String,
    broken: Vec<Broken>,
}

pub(crate) fn run(options: Sim) -> Result<(), Failure> {
    let seeds = options.seeds.from..options.seeds.to;
    let progress = Progress::new(seeds.end - seeds.start);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.map_or(cores, |threads| threads as usize);
    let mut figures = Figures { first_seed: seeds.start, ..Figures::default() };
    let (began, next) = (Instant::now(), AtomicU64::new(seeds.start));
    std::thread::scope(|scope| {
        let (sender, verdicts) = sync_channel(WAITING);
        for _ in 0..threads {
            let (sender, next, seeds, options) = (sender.clone(), &next, &seeds, &options);
            scope.spawn(move || {
                let seed = || next.fetch_add(1, Ordering::Relaxed);
                for seed in std::iter::repeat_with(seed).take_while(|seed| seeds.contains(seed)) {
                    if sender.send(live(seed, options)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for lived in verdicts {
            figures.add(&lived.verdict, began.elapsed());
            figures.show(lived, &progress);
            progress.step();
            progress.every(LINE_EVERY, &figures.line());
        }
    });
    drop(progress);
    if let Some(file) = &options.json {
        let text = serde_json::to_vec_pretty(&figures).context("the figures are no JSON")?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    say!("{}", figures.line());
    match figures.broken_worlds {
        0 => Ok(()),
        count => Err(Failure::failed(format!("{count} worlds broke a promise"))),
    }
}

/// A world that was lived through; shrunk, if it broke a promise.
struct Lived {
    plan: Plan,
    verdict: Verdict,
    /// Its faults, by their places in the plan of the seed.
    faults: Vec<usize>,
}

fn live(seed: u64, options: &Sim) -> Lived {
    let whole = Plan::of(seed);
    let all = || (0..whole.faults.len()).collect();
    let faults: Vec<usize> = options.faults.clone().unwrap_or_else(all);
    let plan = whole.with_faults(&faults);
    let verdict = run_plan(&plan, &Options { keep_trace: options.trace });
    if verdict.is_clean() || options.trace {
        return Lived { plan, verdict, faults };
    }
    let shrunk = shrink::shrink(&plan, verdict);
    let faults: Vec<usize> = shrunk.kept.iter().map(|at| faults[*at]).collect();
    Lived { plan: whole.with_faults(&faults), verdict: shrunk.verdict, faults }
}

impl Figures {
    fn add(&mut self, verdict: &Verdict, took: Duration) {
        self.worlds += 1;
        self.simulated_hours += verdict.lasted.as_secs_f64() / 3_600.0;
        self.said += verdict.said;
        self.jobs += verdict.jobs;
        self.results += verdict.results;
        for (kind, count) in &verdict.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (reason, count) in &verdict.missing {
            *self.missing.entry(reason.clone()).or_default() += count;
        }
        self.seconds = took.as_secs_f64();
        self.worlds_per_second = self.worlds as f64 / self.seconds.max(1e-3);
        self.times_faster = self.simulated_hours * 3_600.0 / self.seconds.max(1e-3);
    }

    /// Shows what was asked for, and what was broken.
    fn show(&mut self, lived: Lived, progress: &Progress) {
        let Lived { plan, verdict, faults } = lived;
        verdict.trace.iter().for_each(|line| say!("{line}"));
        if verdict.is_clean() {
            return;
        }
        self.broken_worlds += 1;
        if self.broken.len() == MAX_SHOWN {
            return;
        }
        let line = Regression { seed: verdict.seed, faults }.line();
        progress.note(&story::page(&plan, &verdict));
        progress.note(&format!("for crates/sim/regressions.txt:\n{line}\n"));
        self.broken.push(BrokenWorld { seed: verdict.seed, line, broken: verdict.broken });
    }

    fn line(&self) -> String {
        let faults: u64 = self.faults.values().sum();
        format!(
            "{} worlds, {:.0} a second, {:.1} simulated hours ({:.0} times as fast), {faults} faults, {} sentences, {} broken",
            self.worlds,
            self.worlds_per_second,
            self.simulated_hours,
            self.times_faster,
            self.said,
            self.broken_worlds
        )
    }
}
