//! `lingua load`: thousands of speakers and nodes, and a check of every sentence.
//!
//! The scheduler is a process of its own, so that its processor time and memory are its own too.
//! Speakers live on one thread of this process and nodes on another, each with a runtime of its own:
//! what the ones do never delays the clock of the others, other than through the processors they all
//! share. Both write down moments on one clock of the machine, so a sentence's way to a node's socket
//! and the result's way back are measured apart from the node's own time.
//!
//! In reading order: `crowd` the speakers, `fleet` the nodes, `machine` what it costs, `report` what is told, `picture`
//! what is drawn; `restarts` the other kind of run.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use lingua_lab::speaker::sockets;
use lingua_lab::{Meter, RedisServer, SchedulerProcess};
use lingua_server::client::count;
use rustls::ClientConfig;
use tokio::time::{Instant, interval, sleep_until};

use crate::bench::process::start_scheduler;
use crate::bench::progress::Progress;
use crate::bench::write_json;
use crate::cli::{Failure, Load, LoadPart, runtime};
use crate::speak::session_url;
use lingua_server::client::{Tokens, tokens_of_environment};

mod crowd;
mod fleet;
mod machine;
mod picture;
mod report;
mod restarts;

use crowd::Crowd;
use fleet::Fleet;
use machine::Usage;
use report::Report;

/// Speakers that begin in a second, unless it is said otherwise.
const BEGIN_PER_SECOND: u32 = 200;

/// How often a line about the work is printed, in seconds.
const LINE_EVERY: u64 = 5;

/// Measures, prints and writes.
pub(crate) fn run(options: &Load) -> Result<(), Failure> {
    if let Some(LoadPart::Restarts(options)) = &options.part {
        return restarts::run(options);
    }
    let runtime = runtime()?;
    let report = runtime.block_on(measure(options))?;
    report.print();
    write_json(options.json.as_deref(), &report)?;
    if let Some(file) = &options.svg {
        let svg = picture::draw(&report.seconds, &report.title());
        std::fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))?;
    }
    match report.failure() {
        Some(why) => Err(Failure::failed(why)),
        None => Ok(()),
    }
}

async fn measure(options: &Load) -> Result<Report, Failure> {
    // A scheduler of our own asks for none.
    let tokens = match options.url {
        Some(_) => tokens_of_environment()?,
        None => Tokens::default(),
    };
    let speakers = tokens.of_sessions()?;
    // The scheduler has one socket for each of ours, and inherits the limit.
    sockets::make_room_for(u64::from(options.sessions) + u64::from(options.nodes))?;
    let redis = match options.store.as_str() {
        "redis" if options.url.is_none() => Some(RedisServer::start().await?),
        _ => None,
    };
    let (scheduler, way) = match &options.url {
        Some(url) => {
            let tls = options.authority.of_socket(url)?;
            (None, Way { base: loopback(url)?, tls })
        }
        None => {
            let store = redis.as_ref().map_or_else(|| options.store.clone(), RedisServer::url);
            let scheduler = start_scheduler(&store).await?;
            let base = format!("ws://{}", scheduler.address());
            (Some(scheduler), Way { base, tls: None })
        }
    };
    let pid = scheduler.as_ref().map(SchedulerProcess::pid);
    let redis_pid = redis.as_ref().and_then(RedisServer::pid);
    let ramp = Duration::from_secs(
        options.ramp_s.unwrap_or_else(|| u64::from(options.sessions.div_ceil(BEGIN_PER_SECOND))),
    );
    let seconds = ramp.as_secs() + options.duration_s;
    let progress = Progress::new(seconds);
    progress
        .now(&format!("{} nodes, then {} speakers over {ramp:?}", options.nodes, options.sessions));
    let fleet = Fleet::start(options, &way, &tokens)?;
    let before = Usage::now(pid, redis_pid)?;

    let meter = Meter::start(ramp);
    let crowd = Crowd::start(options, &way, speakers.as_deref(), ramp, &meter)?;
    let began = Instant::now();
    let mut watch = Watch { began, seconds, meter: &meter, progress: &progress };
    let all_began = watch.until(began + ramp).await;
    let steady = Usage::now(pid, redis_pid)?;
    let finished = all_began && watch.until(began + Duration::from_secs(seconds)).await;
    let after = Usage::now(pid, redis_pid)?;

    meter.stop();
    progress.now("waiting for what is open");
    let told = crowd.finish().await?;
    let end = Usage::now(pid, redis_pid)?;
    let nodes = fleet.finish().await?;
    Ok(Report::new(options, &meter, told, nodes, &[before, steady, after, end], !finished))
}

/// Shows how it goes, second by second.
struct Watch<'a> {
    began: Instant,
    seconds: u64,
    meter: &'a Meter,
    progress: &'a Progress,
}

impl Watch<'_> {
    /// Waits until then; `false` if it was interrupted.
    async fn until(&mut self, end: Instant) -> bool {
        let mut ticks = interval(Duration::from_secs(1));
        ticks.tick().await;
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        loop {
            tokio::select! {
                () = sleep_until(end) => return true,
                _ = &mut interrupted => {
                    quit_on_the_next_interrupt();
                    return false;
                }
                _ = ticks.tick() => {
                    self.progress.step();
                    let second = self.began.elapsed().as_secs();
                    if second.is_multiple_of(LINE_EVERY) {
                        let line = line(self.meter);
                        self.progress.now(&format!("{second}/{} s: {line}", self.seconds));
                    }
                }
            }
        }
    }
}

/// How it goes, in a line.
fn line(meter: &Meter) -> String {
    let (counts, last) = (meter.counts(), meter.last_second());
    format!(
        "{} sessions, {} sentences back, {} missing, p99 to the node {:.1} ms, to the speaker {:.1} ms",
        count(counts.opened),
        count(counts.answered),
        count(counts.missing),
        last.to_node_ms.p99,
        last.to_speaker_ms.p99,
    )
}

fn quit_on_the_next_interrupt() {
    tokio::spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(1);
        }
    });
}

/// The way to the scheduler: `ws://host:port` or `wss://host:port`, and whom to believe there.
struct Way {
    base: String,
    tls: Option<Arc<ClientConfig>>,
}

/// Where the sockets of a scheduler on this machine are; any other is refused.
fn loopback(url: &str) -> Result<String, Failure> {
    let base = session_url(url)?.trim_end_matches("/ws/session").to_owned();
    let host = base.split_once("://").map_or("", |(_, host)| host);
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_matches(['[', ']']);
    let here = name == "localhost"
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if here { Ok(base) } else { Err(Failure::usage(format!("{name} is not this machine"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loaded() {
        for url in
            ["http://127.0.0.1:5010", "wss://localhost:1", "https://[::1]:5", "http://127.9.9.9"]
        {
            assert!(loopback(url).is_ok(), "{url}");
        }
        for url in ["http://10.0.0.1:5010", "http://example.com", "http://0.0.0.0:1", "nonsense"] {
            assert!(loopback(url).is_err(), "{url}");
        }
    }
}
