//! `lingua bench store`: the life of a job on each store, beside the ceiling of the same server.

use lingua_server::say;
use std::time::Duration;

use anyhow::Context;
use lingua_lab::RedisServer;
use lingua_store::Location;
use lingua_store::redis::Options;
use lingua_store::redis::ceiling::{self, Ceiling};
use serde::Serialize;

use super::lives::{CALLS, DEADLINE, Fleet, Measured, SHORT_DEADLINE, measure_ceiling};
use super::progress::Progress;
use super::write_json;
use crate::cli::{BenchStore, Failure, runtime};
use lingua_server::open_store;

/// One line of the report.
#[derive(Debug, Serialize)]
struct Line {
    store: String,
    in_flight: u32,
    jobs_per_second: f64,
    calls_per_job: u32,
    calls_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Calls per second of the cheapest scripts on the same server in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    ceiling_calls_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_per_call: Option<f64>,
}

/// Measures and prints.
pub(crate) fn run(options: &BenchStore) -> Result<(), Failure> {
    // One thread, as one core of a scheduler: the server under test has the other.
    let runtime = runtime()?;
    let lines = runtime.block_on(measure(options))?;
    print(&lines);
    write_json(options.json.as_deref(), &lines)?;
    Ok(())
}

async fn measure(options: &BenchStore) -> Result<Vec<Line>, Failure> {
    let mut private = None;
    let urls = match &options.store {
        Some(url) => vec![url.clone()],
        None => {
            let server = RedisServer::start().await?;
            let directory = tempfile::tempdir().context("no directory for the file store")?;
            let file = format!("file:{}", directory.path().display());
            let urls = vec!["memory".to_owned(), file, server.url()];
            private = Some((server, directory));
            urls
        }
    };
    let progress = Progress::new((urls.len() * options.in_flight.len()) as u64);
    let mut lines = Vec::new();
    for url in &urls {
        let store = open_store(url, patient()).await?;
        let location = Location::of(url);
        let (fleet, ceiling) = match location.is_shared() {
            false => (Fleet::register(store, SHORT_DEADLINE).await?, None),
            true => {
                let ceiling = Ceiling::open(url, &patient()).await?;
                (Fleet::register(store, DEADLINE).await?, Some(ceiling))
            }
        };
        for in_flight in &options.in_flight {
            let shown = match location {
                Location::Process => "memory",
                Location::Directory(_) => "file",
                Location::Machine | Location::Network { .. } => "redis",
            };
            progress.now(&format!("{shown}, {in_flight} in flight, {} s", options.seconds));
            lines.push(one(shown, &fleet, ceiling.as_ref(), *in_flight, options.seconds).await?);
            progress.step();
        }
        fleet.leave().await?;
    }
    drop(private);
    Ok(lines)
}

/// A bench drives the server as hard as it can, so answers may take their time.
fn patient() -> Options {
    Options { response_timeout: Duration::from_secs(10), ..Options::default() }
}

/// Rounds of one measurement: store and ceiling take turns, so that a noisy moment hits both.
const ROUNDS: u32 = 6;

async fn one(
    store: &str,
    fleet: &Fleet,
    ceiling: Option<&Ceiling>,
    in_flight: u32,
    seconds: u64,
) -> anyhow::Result<Line> {
    let slice = Duration::from_secs(seconds) / ROUNDS;
    let mut measured: Option<Measured> = None;
    let mut limit: Option<Measured> = None;
    for _ in 0..ROUNDS {
        add(&mut measured, fleet.measure(in_flight, slice).await?)?;
        if let Some(ceiling) = ceiling {
            add(&mut limit, measure_ceiling(ceiling, in_flight, slice).await?)?;
        }
    }
    let measured = measured.context("nothing was measured")?;
    let calls_per_second = measured.lives_per_second() * f64::from(CALLS);
    let limit = limit.map(|m| m.lives_per_second() * f64::from(ceiling::CALLS));
    Ok(Line {
        store: store.to_owned(),
        in_flight,
        jobs_per_second: measured.lives_per_second(),
        calls_per_job: CALLS,
        calls_per_second,
        p50_us: measured.micros(0.5),
        p99_us: measured.micros(0.99),
        ceiling_calls_per_second: limit,
        ratio_per_call: limit.map(|limit| calls_per_second / limit),
    })
}

fn add(sum: &mut Option<Measured>, more: Measured) -> anyhow::Result<()> {
    match sum {
        None => *sum = Some(more),
        Some(sum) => {
            sum.lives += more.lives;
            sum.elapsed += more.elapsed;
            sum.latency.add(more.latency)?;
        }
    }
    Ok(())
}

fn print(lines: &[Line]) {
    say!(
        "{:<8} {:>9} {:>10} {:>6} {:>11} {:>9} {:>9} {:>12} {:>6}",
        "store",
        "in flight",
        "jobs/s",
        "calls",
        "calls/s",
        "p50 us",
        "p99 us",
        "ceiling",
        "ratio"
    );
    for line in lines {
        let optional = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        say!(
            "{:<8} {:>9} {:>10.0} {:>6} {:>11.0} {:>9.1} {:>9.1} {:>12} {:>6}",
            line.store,
            line.in_flight,
            line.jobs_per_second,
            line.calls_per_job,
            line.calls_per_second,
            line.p50_us,
            line.p99_us,
            optional(line.ceiling_calls_per_second, 0),
            optional(line.ratio_per_call, 2),
        );
    }
}
