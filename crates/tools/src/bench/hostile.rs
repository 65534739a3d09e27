//! `lingua bench hostile`: how much people who speak notice of somebody who means no good.
//!
//! A crowd speaks to a scheduler of its own, whose nodes answer at once, so that what is measured is
//! the scheduler alone: first undisturbed, then beside one hostile client of each kind, in the same
//! run. Undisturbed again at the end, so that a machine that got busier is not taken for malice.

use lingua_server::say;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use lingua_lab::crowd::{Conversations, Judgement};
use lingua_lab::speaker::{Pace, Script, Sentences, sockets};
use lingua_lab::{
    Conversation, Crowd, Fleet, Hostile, Malice, Meter, NodeOptions, RedisServer, SchedulerProcess,
    SpeakerOptions,
};
use serde::Serialize;

use super::process::{cpu_time, resident_bytes, start_scheduler};
use super::progress::Progress;
use super::write_json;
use crate::cli::{BenchHostile, Failure, runtime};

/// For a hostile client to have all its sockets.
const SET_UP: Duration = Duration::from_secs(120);

/// And for it to be at its worst.
const WORST: Duration = Duration::from_secs(2);

/// How long speakers may take to leave.
const LEAVE_LIMIT: Duration = Duration::from_secs(110);

/// Connections of the crowd and the nodes, and of those who are hostile beside their held sockets.
const OTHERS: u64 = 500;

#[derive(Debug, Serialize)]
struct Line {
    beside: &'static str,
    endings: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// How much later than undisturbed.
    p99_moved_ms: f64,
    /// The most that was seen.
    rss_mib: f64,
    /// The scheduler's, of one processor.
    cpu_percent: f64,
    /// What Redis did for the scheduler, if the store is one.
    redis_commands_per_s: Option<f64>,
}

impl Line {
    /// Which bound it misses.
    fn missed(&self, options: &BenchHostile) -> Option<String> {
        let (moved, most) = (self.p99_moved_ms, options.most_moved_ms as f64);
        if self.endings == 0 {
            return Some("nobody was answered".to_owned());
        }
        if moved > most {
            return Some(format!("the p99 of others moved by {moved:.0} ms, more than {most} ms"));
        }
        let (rss, most) = (self.rss_mib, options.most_rss_mib as f64);
        (rss > most).then(|| format!("the scheduler had {rss:.0} MiB, more than {most} MiB"))
    }
}

/// Measures and prints.
pub(crate) fn run(options: &BenchHostile) -> Result<(), Failure> {
    let runtime = runtime()?;
    let lines = runtime.block_on(measure(options))?;
    print(&lines);
    write_json(options.json.as_deref(), &lines)?;
    let missed = lines.iter().find_map(|line| Some((line.beside, line.missed(options)?)));
    match missed {
        Some((beside, what)) => {
            Err(Failure::failed(format!("beside a client that {beside}: {what}")))
        }
        None => Ok(()),
    }
}

async fn measure(options: &BenchHostile) -> anyhow::Result<Vec<Line>> {
    // The scheduler has as many sockets, and inherits the limit.
    sockets::make_room_for(u64::from(options.sockets) + u64::from(options.speakers) + OTHERS)?;
    let redis = if options.redis { Some(RedisServer::start().await?) } else { None };
    let store = redis.as_ref().map_or_else(|| "memory".to_owned(), RedisServer::url);
    let scheduler = start_scheduler(&store).await?;
    let target = scheduler.address();
    // Whoever waits for a job of another instance needs one.
    let other = if options.redis { Some(start_scheduler(&store).await?) } else { None };
    let instances = [target, other.as_ref().map_or(target, SchedulerProcess::address)];
    let node = |n: u32| {
        let node = NodeOptions::new(format!("ws://{target}/ws/node"));
        node.node_id(format!("n-{n}")).max_jobs(64)
    };
    let _nodes = Fleet::start((0..8).map(node)).await?;
    let meter = Meter::default();
    let seats = (0..options.speakers).map(|n| seat(target, n));
    let crowd = Crowd::start(seats, &meter, Judgement::Strict);
    let kinds = Malice::all(options.sockets);
    let progress = Progress::new(2 + kinds.len() as u64);
    let slice = Duration::from_secs(options.seconds);
    let mut lines: Vec<Line> = Vec::new();
    for malice in std::iter::once(None).chain(kinds.into_iter().map(Some)).chain([None]) {
        let beside = malice.map_or("is not there", Malice::name);
        progress.now(&format!("beside one that {beside}"));
        let mut hostile = malice.map(|malice| Hostile::start(malice, instances)).transpose()?;
        if let Some(hostile) = &mut hostile {
            let set_up = tokio::time::timeout(SET_UP, hostile.in_place()).await;
            set_up.with_context(|| format!("one that {beside} did not come that far"))?;
        }
        tokio::time::sleep(WORST.min(slice)).await;
        meter.take();
        let before = Spent::by(&scheduler, redis.as_ref()).await?;
        let rss = most_resident(scheduler.pid(), slice).await?;
        let spent = Spent::by(&scheduler, redis.as_ref()).await?.since(&before);
        let met = meter.take();
        let p99_ms = met.p99;
        lines.push(Line {
            beside,
            endings: met.count,
            p50_ms: met.p50,
            p99_ms,
            max_ms: met.max,
            p99_moved_ms: p99_ms - lines.first().map_or(p99_ms, |alone| alone.p99_ms),
            rss_mib: rss as f64 / f64::from(1 << 20),
            cpu_percent: spent.cpu.as_secs_f64() * 100.0 / slice.as_secs_f64(),
            redis_commands_per_s: redis
                .is_some()
                .then(|| spent.commands as f64 / slice.as_secs_f64()),
        });
        drop(hostile);
        progress.step();
    }
    let told = crowd.leave(LEAVE_LIMIT).await;
    if let Some((why, count)) = told.failed.iter().next() {
        bail!("{count} speakers did not speak to their end: {why}");
    }
    told.report.ensure_clean()?;
    Ok(lines)
}

/// What the scheduler and its store have spent so far.
struct Spent {
    cpu: Duration,
    commands: u64,
}

impl Spent {
    async fn by(scheduler: &SchedulerProcess, redis: Option<&RedisServer>) -> anyhow::Result<Self> {
        let commands = match redis {
            Some(redis) => {
                let count = redis.info("stats", "total_commands_processed").await?;
                count.and_then(|count| count.parse().ok()).context("Redis counts no commands")?
            }
            None => 0,
        };
        Ok(Spent { cpu: cpu_time(scheduler.pid())?, commands })
    }

    fn since(&self, before: &Spent) -> Spent {
        Spent { cpu: self.cpu - before.cpu, commands: self.commands - before.commands }
    }
}

/// The most memory that a process has in so long a time, looked at ten times a second.
async fn most_resident(pid: u32, time: Duration) -> anyhow::Result<u64> {
    let end = tokio::time::Instant::now() + time;
    let mut most = 0;
    while tokio::time::Instant::now() < end {
        most = most.max(resident_bytes(pid)?);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(most)
}

fn seat(target: SocketAddr, n: u32) -> Conversations {
    let script = Script {
        sentences: Sentences::Random {
            count: None,
            speech_ms: 500..=1_500,
            pause_ms: 100..=500,
            speaker: n,
            seed: 1,
        },
        pace: Pace::Times(1.0),
        ..Script::default()
    };
    let begin_after = Duration::from_millis(u64::from(n) * 13);
    let speaker = SpeakerOptions::new(format!("ws://{target}/ws/session"));
    Conversation { begin_after, speaker, script }.alone()
}

fn print(lines: &[Line]) {
    say!("from the last word to its ending, in milliseconds, beside a client that");
    say!(
        "  {:<20} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6} {:>9}",
        "",
        "endings",
        "p50",
        "p99",
        "max",
        "moved",
        "RSS MiB",
        "CPU %",
        "Redis /s"
    );
    for line in lines {
        let commands = line.redis_commands_per_s.map_or("-".to_owned(), |n| format!("{n:.0}"));
        say!(
            "  {:<20} {:>8} {:>8.2} {:>8.2} {:>8.2} {:>+8.2} {:>9.1} {:>6.1} {commands:>9}",
            line.beside,
            line.endings,
            line.p50_ms,
            line.p99_ms,
            line.max_ms,
            line.p99_moved_ms,
            line.rss_mib,
            line.cpu_percent
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_is_missed_is_told() {
        let options = BenchHostile {
            speakers: 1,
            seconds: 1,
            sockets: 1,
            most_moved_ms: 50,
            most_rss_mib: 100,
            redis: false,
            json: None,
        };
        let line = |endings, p99_moved_ms, rss_mib| Line {
            beside: "floods",
            endings,
            p50_ms: 1.0,
            p99_ms: 2.0,
            max_ms: 3.0,
            p99_moved_ms,
            rss_mib,
            cpu_percent: 1.0,
            redis_commands_per_s: None,
        };
        assert_eq!(line(9, 50.0, 100.0).missed(&options), None);
        for (line, why) in [
            (line(0, 0.0, 1.0), "nobody was answered"),
            (line(9, 50.1, 1.0), "more than 50 ms"),
            (line(9, 0.0, 100.1), "more than 100 MiB"),
        ] {
            let missed = line.missed(&options).unwrap_or_default();
            assert!(missed.contains(why), "{missed}");
        }
    }
}
