//! `lingua chaos`: breaks everything at random and checks what was promised. The work is the lab's;
//! this finds the program and shows how it goes.

use lingua_server::say;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use lingua_lab::chaos::{self, Figures, Options, Told, check};
use tokio::sync::watch;

use crate::bench::progress::Progress;
use crate::cli::{Chaos, ChaosPart, ChaosRun, Failure};

/// Seconds between two faults, unless it is said otherwise.
const FAULT_EVERY: u64 = 4;

/// How often a line about the work is printed, in seconds.
const LINE_EVERY: u64 = 10;

pub(crate) fn run(options: Chaos) -> Result<(), Failure> {
    match options.part {
        None => chaos_run(&options.run),
        Some(ChaosPart::Check { dir }) => tell(&check::check(&dir)?, None),
        Some(ChaosPart::Nodes { share, slots }) => {
            let chaos::Speakers { dir, first, count, seed, urls } = share.into();
            block_on(1, chaos::nodes(chaos::Nodes { dir, first, count, slots, seed, urls }))
        }
        Some(ChaosPart::Speakers { share }) => block_on(1, chaos::speakers(share.into())),
    }
}

fn chaos_run(options: &ChaosRun) -> Result<(), Failure> {
    let (dir, kept) = directory(options.dir.as_deref())?;
    let wanted = Options {
        program: std::env::current_exe().context("this program has no path")?,
        dir: dir.clone(),
        store: options.store,
        lasts: Duration::from_secs(options.seconds),
        faults: options.faults.unwrap_or((options.seconds / FAULT_EVERY) as u32),
        seed: options.seed.unwrap_or_else(rand::random),
        only: options.only.clone(),
        schedulers: options.schedulers as usize,
        nodes: options.nodes as usize,
        slots: options.slots,
        speakers: options.speakers as usize,
    };
    let progress = Progress::new(options.seconds);
    progress.now(&format!("seed {}, files in {}", wanted.seed, dir.display()));
    let verdict = block_on(2, async {
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.send_replace(true);
            }
            // Kept until then: without a sender nobody would ask to stop.
            std::future::pending::<()>().await;
        });
        chaos::run(&wanted, stopped, &|told| show(&progress, &told)).await
    })?;
    drop(progress);
    if verdict.is_clean() && !kept {
        // Only what this run wrote; a directory that cannot be removed harms nobody.
        let _ = std::fs::remove_dir_all(&dir);
        return tell(&verdict, None);
    }
    tell(&verdict, Some(&dir))
}

fn tell(verdict: &check::Verdict, dir: Option<&Path>) -> Result<(), Failure> {
    say!("{verdict}");
    if let Some(dir) = dir {
        say!("files in {}", dir.display());
    }
    match verdict.violations() {
        0 => Ok(()),
        count => Err(Failure::failed(format!("{count} violations, seed {}", verdict.seed))),
    }
}

fn show(progress: &Progress, told: &Told<'_>) {
    match told {
        Told::Doing(doing) => progress.now(doing),
        Told::Fault(text) => progress.note(text),
        Told::Second(figures) => {
            progress.step();
            let Figures { faults, said, results, missing, open, .. } = figures;
            let line = format!(
                "{faults} faults, {said} said, {results} results, {missing} missing, {open} open"
            );
            progress.every(LINE_EVERY, &line);
        }
    }
}

/// The directory that was asked for, or a new one; and whether it is kept.
fn directory(wanted: Option<&Path>) -> anyhow::Result<(PathBuf, bool)> {
    let Some(dir) = wanted else {
        let name = format!("lingua-chaos-{:08x}", rand::random::<u32>());
        return Ok((std::env::temp_dir().join(name), false));
    };
    let empty = std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
    ensure!(empty, "{} is not empty; name a new directory", dir.display());
    Ok((dir.to_owned(), true))
}

fn block_on<T>(
    threads: usize,
    work: impl Future<Output = anyhow::Result<T>>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    runtime.block_on(work).map_err(Failure::from)
}

impl From<crate::cli::ChaosShare> for chaos::Speakers {
    fn from(share: crate::cli::ChaosShare) -> Self {
        let crate::cli::ChaosShare { dir, first, count, seed, urls } = share;
        Self { dir, first, count, seed, urls }
    }
}
