//! `lingua bench dispatch`: jobs end to end over real sockets, and what choosing costs as the fleet
//! grows.
//!
//! The scheduler is a process of its own, and so is Redis; nodes and callers live in this one. A job
//! is handed in over HTTP, goes to a node over its socket, is acked and answered there, and the
//! caller has the result. Beside it, in the same run, the same callers ask `/health`, which costs the
//! scheduler an HTTP request and nothing else: the floor under any job.

use lingua_server::say;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::bail;
use hdrhistogram::Histogram;
use lingua_lab::{Fleet, HttpClient, NodeOptions, RedisServer, SchedulerProcess};
use serde::Serialize;
use tokio::time::Instant;

use super::caller::{Caller, get, is_done, job};
use super::choosing;
use super::process::{cpu_time, start_scheduler};
use super::progress::Progress;
use super::write_json;
use crate::cli::{BenchDispatch, Failure, runtime};

/// Jobs in flight where there are two instances.
const SEVERAL_IN_FLIGHT: u32 = 64;

/// One line of the report.
#[derive(Debug, Serialize)]
struct Line {
    store: &'static str,
    in_flight: u32,
    jobs_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    errors: u64,
    /// Processor seconds for a thousand jobs.
    scheduler_cpu_per_1000: f64,
    redis_cpu_per_1000: Option<f64>,
    /// The same scheduler's processor seconds for a thousand requests that do nothing.
    floor_cpu_per_1000: f64,
    redis_scripts_per_job: Option<f64>,
}

/// The whole report.
#[derive(Debug, Serialize)]
struct Report {
    jobs: Vec<Line>,
    choosing: Vec<choosing::Line>,
}

/// Measures and prints.
pub(crate) fn run(options: &BenchDispatch) -> Result<(), Failure> {
    let runtime = runtime()?;
    let report = runtime.block_on(measure(options))?;
    print(&report);
    write_json(options.json.as_deref(), &report)?;
    let errors: u64 = report.jobs.iter().map(|line| line.errors).sum();
    if errors > 0 {
        return Err(Failure::failed(format!("{errors} jobs did not come back")));
    }
    Ok(())
}

async fn measure(options: &BenchDispatch) -> anyhow::Result<Report> {
    let stores: &[&'static str] = match options.only.as_deref() {
        Some("memory") => &["memory"],
        Some("file") => &["file"],
        Some("redis") => &["redis"],
        _ => &["memory", "file", "redis"],
    };
    let steps = stores.len() * options.in_flight.len() + stores.len() * options.fleet.len();
    let progress = Progress::new(steps as u64);
    let mut jobs = Vec::new();
    for store in stores {
        let redis = if *store == "redis" { Some(RedisServer::start().await?) } else { None };
        let directory = if *store == "file" { Some(tempfile::tempdir()?) } else { None };
        let url = match (&redis, &directory) {
            (Some(redis), _) => redis.url(),
            (None, Some(directory)) => format!("file:{}", directory.path().display()),
            (None, None) => "memory".to_owned(),
        };
        let scheduler = start_scheduler(&url).await?;
        let nodes = connect_nodes(options.nodes, options.slots, &[scheduler.address()]).await?;
        for in_flight in &options.in_flight {
            progress.now(&format!("{store}, {in_flight} in flight, {} s", options.seconds));
            let redis = redis.as_ref();
            let here = Place { callers: &[&scheduler], others: &[], redis };
            jobs.push(one(store, options, &here, *in_flight).await?);
            progress.step();
        }
        check(&nodes)?;
        drop((nodes, scheduler));
        if let Some(redis) = &redis {
            progress.now("redis, the nodes on another instance");
            jobs.push(far(options, redis).await?);
            progress.now("redis, nodes and callers on two instances");
            jobs.push(two(options, redis).await?);
        }
    }
    let mut lines = Vec::new();
    for store in stores {
        lines.extend(choosing::measure(store, &options.fleet, &progress).await?);
    }
    Ok(Report { jobs, choosing: lines })
}

/// What is measured: who is asked, who works for them too, and on what.
struct Place<'a> {
    callers: &'a [&'a SchedulerProcess],
    others: &'a [&'a SchedulerProcess],
    redis: Option<&'a RedisServer>,
}

/// The same with the nodes on one instance and the callers on another.
async fn far(options: &BenchDispatch, redis: &RedisServer) -> anyhow::Result<Line> {
    let near = start_scheduler(&redis.url()).await?;
    let there = start_scheduler(&redis.url()).await?;
    let nodes = connect_nodes(options.nodes, options.slots, &[there.address()]).await?;
    until_met(&near, options).await?;
    let place = Place { callers: &[&near], others: &[&there], redis: Some(redis) };
    let line = one("far", options, &place, SEVERAL_IN_FLIGHT).await?;
    check(&nodes)?;
    Ok(line)
}

/// The same with half of the nodes and half of the callers on each of two instances: every second
/// job goes over the other one.
async fn two(options: &BenchDispatch, redis: &RedisServer) -> anyhow::Result<Line> {
    let one_of = start_scheduler(&redis.url()).await?;
    let other = start_scheduler(&redis.url()).await?;
    let both = [&one_of, &other];
    let nodes =
        connect_nodes(options.nodes, options.slots, &both.map(SchedulerProcess::address)).await?;
    for scheduler in both {
        until_met(scheduler, options).await?;
    }
    let place = Place { callers: &both, others: &[], redis: Some(redis) };
    let line = one("two", options, &place, SEVERAL_IN_FLIGHT).await?;
    check(&nodes)?;
    Ok(line)
}

/// Waits until an instance has heard of the nodes of others.
async fn until_met(scheduler: &SchedulerProcess, options: &BenchDispatch) -> anyhow::Result<()> {
    let client = HttpClient::new(format!("http://{}", scheduler.address()));
    let ready = Instant::now() + Duration::from_secs(10);
    loop {
        let nodes = client.get("/api/v1/nodes?limit=1").await?.json()?;
        if nodes["total"] == options.nodes {
            return Ok(());
        }
        if Instant::now() > ready {
            bail!("the one instance never heard of the nodes of the other");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn check(nodes: &Fleet) -> anyhow::Result<()> {
    let breaches = nodes.stats().breaches;
    if breaches > 0 {
        bail!("nodes were given more than they can do, {breaches} times");
    }
    Ok(())
}

/// Connects so many nodes, to one instance after the other.
pub(super) async fn connect_nodes(
    count: u32,
    slots: u32,
    to: &[SocketAddr],
) -> anyhow::Result<Fleet> {
    let node = |i: u32| NodeOptions {
        read_buffer_bytes: 16 << 10,
        ..NodeOptions::new(format!("ws://{}/ws/node", to[i as usize % to.len()]))
            .node_id(format!("bench-{i}"))
            .max_jobs(slots)
    };
    Fleet::start((0..count).map(node)).await
}

async fn one(
    store: &'static str,
    options: &BenchDispatch,
    place: &Place<'_>,
    in_flight: u32,
) -> anyhow::Result<Line> {
    let Place { callers, others, redis } = *place;
    let addresses: Vec<SocketAddr> = callers.iter().map(|scheduler| scheduler.address()).collect();
    let cpu_of = |all: &[&SchedulerProcess]| -> anyhow::Result<Duration> {
        all.iter().map(|scheduler| cpu_time(scheduler.pid())).sum()
    };
    let all_cpu = || -> anyhow::Result<Duration> { Ok(cpu_of(callers)? + cpu_of(others)?) };
    let slice = Duration::from_secs(options.seconds);
    let floor_from = cpu_of(callers)?;
    let floor = drive(&addresses, in_flight, slice / 3, |_| get(addresses[0], "/health")).await?;
    let floor_cpu = cpu_of(callers)? - floor_from;
    let job = |i| job(addresses[0], i, options.audio_bytes);
    // Nodes are trusted slowly; the first jobs open their slots.
    drive(&addresses, in_flight, Duration::from_millis(500), job).await?;
    let from = all_cpu()?;
    let redis_from = redis_time(redis)?;
    let calls_from = commands(redis).await?;
    let measured = drive(&addresses, in_flight, slice, job).await?;
    let cpu = all_cpu()? - from;
    let redis_to = redis_time(redis)?;
    let calls_to = commands(redis).await?;
    let redis_cpu = redis_from.zip(redis_to).map(|(from, to)| to - from);
    let count = measured.done as f64;
    let per_1000 = |cpu: Duration| cpu.as_secs_f64() * 1000.0 / count.max(1.0);
    Ok(Line {
        store,
        in_flight,
        jobs_per_second: count / measured.elapsed.as_secs_f64(),
        p50_us: measured.latency.value_at_quantile(0.5) as f64,
        p99_us: measured.latency.value_at_quantile(0.99) as f64,
        errors: measured.errors,
        scheduler_cpu_per_1000: per_1000(cpu),
        redis_cpu_per_1000: redis_cpu.map(per_1000),
        floor_cpu_per_1000: floor_cpu.as_secs_f64() * 1000.0 / (floor.done as f64).max(1.0),
        redis_scripts_per_job: calls_from
            .zip(calls_to)
            .map(|(from, to)| (to - from) as f64 / count),
    })
}

fn redis_time(redis: Option<&RedisServer>) -> anyhow::Result<Option<Duration>> {
    redis.and_then(RedisServer::pid).map(cpu_time).transpose()
}

/// Commands that the server has executed for clients, scripts counted as one.
async fn commands(redis: Option<&RedisServer>) -> anyhow::Result<Option<u64>> {
    let Some(redis) = redis else { return Ok(None) };
    let stats = redis.command(&["INFO", "commandstats"]).await?;
    Ok(Some(stats.text().lines().filter_map(calls_of).sum()))
}

/// Calls of what clients send for jobs: scripts, and the few plain commands outside of them.
fn calls_of(line: &str) -> Option<u64> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    matches!(name, "evalsha" | "eval").then_some(())?;
    let calls = rest.strip_prefix("calls=")?.split(',').next()?;
    calls.parse().ok()
}

struct Measured {
    done: u64,
    errors: u64,
    elapsed: Duration,
    latency: Histogram<u64>,
}

/// Sends the same request over and over on `in_flight` connections.
async fn drive(
    addresses: &[SocketAddr],
    in_flight: u32,
    lasting: Duration,
    request: impl Fn(u32) -> Vec<u8>,
) -> anyhow::Result<Measured> {
    let over = Arc::new(AtomicBool::new(false));
    let errors = Arc::new(AtomicU64::new(0));
    let mut callers = tokio::task::JoinSet::new();
    let began = Instant::now();
    for i in 0..in_flight {
        let (over, errors) = (Arc::clone(&over), Arc::clone(&errors));
        let address = addresses[i as usize % addresses.len()];
        let request = request(i);
        callers.spawn(async move { call(address, &request, &over, &errors).await });
    }
    tokio::time::sleep(lasting).await;
    over.store(true, Ordering::Relaxed);
    let mut latency = Histogram::new(3)?;
    let mut done = 0;
    while let Some(caller) = callers.join_next().await {
        let (count, histogram) = caller??;
        done += count;
        latency.add(histogram)?;
    }
    let elapsed = began.elapsed();
    Ok(Measured { done, errors: errors.load(Ordering::Relaxed), elapsed, latency })
}

async fn call(
    address: SocketAddr,
    request: &[u8],
    over: &AtomicBool,
    errors: &AtomicU64,
) -> anyhow::Result<(u64, Histogram<u64>)> {
    let mut caller = Caller::connect(address).await?;
    let mut latency = Histogram::new(3)?;
    let mut done = 0;
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answer = caller.call(request).await?;
        if is_done(answer) {
            done += 1;
        } else if errors.fetch_add(1, Ordering::Relaxed) == 0 {
            // Its first line alone: what follows may hold what was said.
            let head = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
            let status = String::from_utf8_lossy(head);
            tracing::error!(reason = &*status, "a job did not come back");
        }
        latency.record(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX))?;
    }
    Ok((done, latency))
}

fn print(report: &Report) {
    say!(
        "{:<8} {:>9} {:>8} {:>9} {:>9} {:>6} {:>12} {:>9} {:>9} {:>9} {:>9}",
        "store",
        "in flight",
        "jobs/s",
        "p50 us",
        "p99 us",
        "errors",
        "cpu-s/1000",
        "redis",
        "sum",
        "floor",
        "scripts/job"
    );
    for line in &report.jobs {
        let redis = line.redis_cpu_per_1000.unwrap_or(0.0);
        say!(
            "{:<8} {:>9} {:>8.0} {:>9.0} {:>9.0} {:>6} {:>12.4} {:>9.4} {:>9.4} {:>9.4} {:>9}",
            line.store,
            line.in_flight,
            line.jobs_per_second,
            line.p50_us,
            line.p99_us,
            line.errors,
            line.scheduler_cpu_per_1000,
            redis,
            line.scheduler_cpu_per_1000 + redis,
            line.floor_cpu_per_1000,
            line.redis_scripts_per_job
                .map_or_else(|| "-".to_owned(), |calls| format!("{calls:.2}")),
        );
    }
    choosing::print(&report.choosing);
}
