//! `lingua bench hostile`: how much people who speak notice of somebody who means no good.
//!
//! A crowd speaks to a scheduler of its own, whose nodes answer at once, so that what is measured is
//! the scheduler alone: first undisturbed, then beside one hostile client of each kind, in the same
//! run.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use lingua_lab::speaker::{Happening, Pace, Report, Script, Sentences};
use lingua_lab::{AutoSpeaker, FakeNode, Hostile, Malice, NodeOptions, SpeakerOptions};
use serde::Serialize;

use super::process::{Scheduler, resident_bytes};
use super::progress::Progress;
use crate::cli::{BenchHostile, Failure};

/// What a hostile client may cost the others.
const MOST_MS: f64 = 50.0;

#[derive(Debug, Serialize)]
struct Line {
    beside: &'static str,
    endings: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// How much later than undisturbed.
    p99_moved_ms: f64,
    rss_mib: f64,
}

/// What the crowd met since it was last asked.
type Met = Arc<Mutex<Histogram<u64>>>;

/// Measures and prints.
pub(crate) fn run(options: &BenchHostile) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    let lines = runtime.block_on(measure(options))?;
    print(&lines);
    if let Some(file) = &options.json {
        let json = serde_json::to_vec_pretty(&lines).context("the report is not JSON")?;
        std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))?;
    }
    match lines.iter().find(|line| line.p99_moved_ms > MOST_MS) {
        Some(line) => Err(Failure::failed(format!(
            "beside a client that {} the p99 of others moved by {:.0} ms",
            line.beside, line.p99_moved_ms
        ))),
        None => Ok(()),
    }
}

async fn measure(options: &BenchHostile) -> anyhow::Result<Vec<Line>> {
    let scheduler = Scheduler::start("memory")?;
    let target: SocketAddr = scheduler.address().parse().context("the scheduler's address")?;
    let mut nodes = Vec::new();
    for n in 0..8 {
        let node = NodeOptions::new(format!("ws://{target}/ws/node")).node_id(format!("n-{n}"));
        nodes.push(FakeNode::connect(node.max_jobs(64)).await?);
    }
    let met: Met = Arc::new(Mutex::new(Histogram::new(3)?));
    let mut crowd = Vec::new();
    for n in 0..options.speakers {
        crowd.push(speaker(target, n, Arc::clone(&met)).await?);
    }
    let progress = Progress::new(1 + Malice::ALL.len() as u64);
    let slice = Duration::from_secs(options.seconds);
    let mut lines: Vec<Line> = Vec::new();
    let kinds = std::iter::once(None).chain(Malice::ALL.map(Some));
    for malice in kinds {
        let beside = malice.map_or("nobody", Malice::name);
        progress.now(&format!("beside: {beside}"));
        let hostile = malice.map(|malice| Hostile::start(malice, target));
        // Until it is at its worst.
        tokio::time::sleep(Duration::from_secs(2)).await;
        take(&met);
        tokio::time::sleep(slice).await;
        let met = take(&met);
        let ms = |us: u64| us as f64 / 1_000.0;
        let p99_ms = ms(met.value_at_quantile(0.99));
        lines.push(Line {
            beside,
            endings: met.len(),
            p50_ms: ms(met.value_at_quantile(0.5)),
            p99_ms,
            max_ms: ms(met.max()),
            p99_moved_ms: p99_ms - lines.first().map_or(p99_ms, |alone| alone.p99_ms),
            rss_mib: resident_bytes(scheduler.pid())? as f64 / f64::from(1 << 20),
        });
        drop(hostile);
        progress.step();
    }
    let mut all = Report::default();
    crowd.iter().for_each(AutoSpeaker::stop);
    for speaker in crowd {
        all.add(&speaker.finished().await?);
    }
    all.ensure_clean()?;
    Ok(lines)
}

fn take(met: &Met) -> Histogram<u64> {
    let mut met = met.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let taken = met.clone();
    met.reset();
    taken
}

async fn speaker(target: SocketAddr, n: u32, met: Met) -> anyhow::Result<AutoSpeaker> {
    let script = Script {
        sentences: Sentences::Random {
            count: None,
            speech_ms: 500..=1_500,
            pause_ms: 100..=500,
            speaker: n,
            seed: 1,
        },
        pace: Pace::Times(1.0),
        begin_after: Duration::from_millis(u64::from(n) * 13),
        ..Script::default()
    };
    let options = SpeakerOptions::new(format!("ws://{target}/ws/session"));
    let watcher = move |_, happening: Happening<'_>| {
        if let Happening::Answered(answered) = happening {
            let took = answered.answered_us.saturating_sub(answered.said_us);
            let mut met = met.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A histogram that grows by itself takes any value.
            let _ = met.record(took);
        }
    };
    AutoSpeaker::watched(options, script, watcher).await
}

#[allow(clippy::print_stdout, reason = "the report is what the command is for")]
fn print(lines: &[Line]) {
    println!("from the last word to its ending, in milliseconds, beside a client that");
    println!(
        "  {:<18} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}",
        "", "endings", "p50", "p99", "max", "moved", "RSS MiB"
    );
    for line in lines {
        println!(
            "  {:<18} {:>8} {:>8.2} {:>8.2} {:>8.2} {:>+8.2} {:>9.1}",
            line.beside,
            line.endings,
            line.p50_ms,
            line.p99_ms,
            line.max_ms,
            line.p99_moved_ms,
            line.rss_mib
        );
    }
}
