//! `lingua bench dashboard`: whether a job notices how many people look at the dashboard.
//!
//! Callers hand jobs in at a steady pace; in every other phase a hundred pages are open: each follows
//! the stream and asks for the nodes as the page does. Both kinds of phases alternate in one run, so
//! that what else the machine does falls on both.
//!
//! Browsers run elsewhere, so what pages do with the news must not look like something that the
//! scheduler does: they have a thread that runs only while nobody else wants its processor, and the
//! scheduler has a processor to itself. A low priority is not enough: a thread that has just begun to
//! run may keep its processor for milliseconds, whoever waits.

use lingua_server::say;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::caller::{Caller, get, job};
use super::dispatch::connect_nodes;
use super::process::{cpu_time, keep_to, only_when_idle, start_scheduler};
use super::progress::Progress;
use super::write_json;
use crate::cli::{BenchDashboard, Failure, runtime};

/// What readers may cost a job, in per cent of its p99.
const MOST_PERCENT: f64 = 5.0;

/// Jobs under way at the same time, and how long each caller pauses between two.
const CALLERS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(5);

/// How often a page asks for the nodes.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// A kind of phase.
#[derive(Debug, Serialize)]
struct Line {
    pages: u32,
    jobs: u64,
    /// The median of the rounds, so that a second in which the machine did something else counts
    /// for no more than it is.
    p50_us: f64,
    p99_us: f64,
    /// Processor seconds of the scheduler in a second.
    cpu: f64,
    /// Bytes that pages read in a second.
    read_per_second: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    alone: Line,
    watched: Line,
    /// By how many per cent the p99 moved: the median of the rounds, each compared with itself.
    p99_moved_percent: f64,
    /// The same of each round.
    rounds: Vec<f64>,
}

/// Measures and prints.
pub(crate) fn run(options: &BenchDashboard) -> Result<(), Failure> {
    let runtime = runtime()?;
    let report = runtime.block_on(measure(options))?;
    print(&report);
    write_json(options.json.as_deref(), &report)?;
    if report.p99_moved_percent > MOST_PERCENT {
        return Err(Failure::failed(format!(
            "beside {} open pages the p99 of a job moved by {:.1} %",
            report.watched.pages, report.p99_moved_percent
        )));
    }
    Ok(())
}

/// What the phases of one kind met.
#[derive(Default)]
struct Met {
    jobs: u64,
    /// Of each round.
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    cpu: Duration,
    read: u64,
}

async fn measure(options: &BenchDashboard) -> anyhow::Result<Report> {
    let scheduler = start_scheduler("memory").await?;
    let address = scheduler.address();
    let nodes = connect_nodes(options.nodes, 8, &[address]).await?;
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
        keep_to(scheduler.pid(), 0)?;
        keep_to(std::process::id(), 1)?;
    }
    phase(address, Duration::from_secs(2)).await?;
    let progress = Progress::new(u64::from(options.rounds) * 2);
    let (mut alone, mut watched) = (Met::default(), Met::default());
    let slice = Duration::from_secs(options.seconds);
    for round in 0..options.rounds {
        // The order changes, so that neither kind is always the later one.
        let order = if round % 2 == 0 { [0, options.pages] } else { [options.pages, 0] };
        for pages in order {
            progress.now(&format!("round {}, {pages} pages", round + 1));
            let open = Pages::open(address, pages)?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            let (cpu, read) = (cpu_time(scheduler.pid())?, open.read());
            let latency = phase(address, slice).await?;
            let met = if pages == 0 { &mut alone } else { &mut watched };
            met.cpu += cpu_time(scheduler.pid())? - cpu;
            met.read += open.read() - read;
            met.jobs += latency.len();
            met.p50_us.push(latency.value_at_quantile(0.5) as f64);
            met.p99_us.push(latency.value_at_quantile(0.99) as f64);
            if open.lost.load(Ordering::Relaxed) > 0 {
                bail!("some pages were let go");
            }
            progress.step();
        }
    }
    drop(nodes);
    let seconds = f64::from(options.rounds) * options.seconds as f64;
    let line = |pages: u32, met: &Met| Line {
        pages,
        jobs: met.jobs,
        p50_us: median(&met.p50_us),
        p99_us: median(&met.p99_us),
        cpu: met.cpu.as_secs_f64() / seconds,
        read_per_second: met.read as f64 / seconds,
    };
    let pairs = alone.p99_us.iter().zip(&watched.p99_us);
    let rounds: Vec<f64> = pairs.map(|(from, to)| (to - from) / from * 100.0).collect();
    let (alone, watched) = (line(0, &alone), line(options.pages, &watched));
    Ok(Report { p99_moved_percent: median(&rounds), rounds, alone, watched })
}

/// The middle one, or what lies between the two that are.
fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// Jobs at a steady pace for so long: how long each took, in microseconds.
async fn phase(address: SocketAddr, lasting: Duration) -> anyhow::Result<Histogram<u64>> {
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for i in 0..CALLERS {
        let (over, request) = (Arc::clone(&over), job(address, i, 300));
        callers.spawn(async move {
            let mut caller = Caller::connect(address).await?;
            let mut latency = Histogram::<u64>::new(3)?;
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                if !caller.call(&request).await?.starts_with(b"HTTP/1.1 200") {
                    bail!("a job did not come back");
                }
                latency.record(u64::try_from(began.elapsed().as_micros())?)?;
                tokio::time::sleep(PAUSE).await;
            }
            anyhow::Ok(latency)
        });
    }
    tokio::time::sleep(lasting).await;
    over.store(true, Ordering::Relaxed);
    let mut latency = Histogram::new(3)?;
    while let Some(caller) = callers.join_next().await {
        latency.add(caller??)?;
    }
    Ok(latency)
}

/// Open pages; they close when this is dropped.
struct Pages {
    read: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
    /// Dropped to end the thread.
    _close: oneshot::Sender<()>,
}

impl Pages {
    fn open(address: SocketAddr, count: u32) -> anyhow::Result<Self> {
        let (close, closed) = oneshot::channel::<()>();
        let (read, lost) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let pages = Pages { read: Arc::clone(&read), lost: Arc::clone(&lost), _close: close };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let _ = ready.send(only_when_idle());
            runtime.block_on(async move {
                let mut all = JoinSet::new();
                for page in 0..count {
                    let begin = ASK_EVERY * page / count;
                    all.spawn(counted(follow(address, Arc::clone(&read)), Arc::clone(&lost)));
                    all.spawn(counted(ask(address, begin, Arc::clone(&read)), Arc::clone(&lost)));
                }
                let _ = closed.await;
            });
        });
        is_ready.recv().context("the pages' thread is gone")??;
        Ok(pages)
    }

    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// A page's work has no end of its own: one that ends was let go.
async fn counted(work: impl Future<Output = anyhow::Result<()>>, lost: Arc<AtomicU64>) {
    let _ = work.await;
    lost.fetch_add(1, Ordering::Relaxed);
}

async fn follow(address: SocketAddr, read: Arc<AtomicU64>) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&get(address, "/api/v1/events")).await?;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let bytes = stream.read(&mut buffer).await?;
        if bytes == 0 {
            bail!("the stream ended");
        }
        read.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

async fn ask(address: SocketAddr, begin: Duration, read: Arc<AtomicU64>) -> anyhow::Result<()> {
    let request = get(address, "/api/v1/nodes?limit=100");
    tokio::time::sleep(begin).await;
    // As in a browser, the connection stays for the next time.
    let mut caller = Caller::connect(address).await?;
    loop {
        let answer = caller.call(&request).await?;
        read.fetch_add(answer.len() as u64, Ordering::Relaxed);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn print(report: &Report) {
    say!(
        "{:>6} {:>9} {:>9} {:>9} {:>8} {:>11}",
        "pages",
        "jobs",
        "p50 us",
        "p99 us",
        "cpu",
        "KiB/s read"
    );
    for line in [&report.alone, &report.watched] {
        say!(
            "{:>6} {:>9} {:>9.0} {:>9.0} {:>8.3} {:>11.1}",
            line.pages,
            line.jobs,
            line.p50_us,
            line.p99_us,
            line.cpu,
            line.read_per_second / 1024.0
        );
    }
    let (least, most) = report
        .rounds
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), moved| (least.min(*moved), most.max(*moved)));
    say!("p99 moved by {:+.1} % (rounds: {least:+.1} to {most:+.1} %)", report.p99_moved_percent);
}
