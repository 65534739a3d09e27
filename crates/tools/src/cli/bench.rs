//! `lingua bench`: measurements.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ms, seconds};

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// The life of a job (create, reserve, commit, finish) on each store
    Store(BenchStore),
    /// Jobs end to end over real sockets, and what choosing costs as the fleet grows
    Dispatch(BenchDispatch),
    /// The memory of idle and speaking sessions, beside bare sockets
    Sessions(BenchSessions),
    /// What people who speak notice of clients that mean no good
    Hostile(BenchHostile),
    /// Whether a job notices how many people look at the dashboard
    Dashboard(BenchDashboard),
    /// A server of bare sockets, which other benches are compared with
    #[command(hide = true)]
    BareSockets,
}

#[derive(Debug, Args)]
pub struct BenchSessions {
    /// Sockets open at the same time
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    pub(crate) sockets: u32,

    /// How many of them speak
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) speaking: u32,

    /// How long each of them speaks
    #[arg(long = "speech", alias = "speech-ms", default_value = "3s", value_name = "TIME", value_parser = ms(100..=9_000))]
    pub(crate) speech_ms: u64,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchDashboard {
    /// Pages open at the same time
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) pages: u32,

    /// Nodes in the fleet
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) nodes: u32,

    /// How long one phase is; a snapshot comes every five seconds
    #[arg(long = "duration", alias = "seconds", default_value = "6s", value_name = "TIME", value_parser = seconds(1..=600))]
    pub(crate) seconds: u64,

    /// Phases with pages, and as many without
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchHostile {
    /// People who speak
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) speakers: u32,

    /// How long beside each kind of hostile client
    #[arg(long = "duration", alias = "seconds", default_value = "10s", value_name = "TIME", value_parser = seconds(1..=600))]
    pub(crate) seconds: u64,

    /// Sockets of one that holds as many as it can
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) sockets: u32,

    /// By how much the p99 of those who speak may move
    #[arg(long = "most-moved", alias = "most-moved-ms", default_value = "50ms", value_name = "TIME", value_parser = ms(0..=60_000))]
    pub(crate) most_moved_ms: u64,

    /// The most memory that the scheduler may have meanwhile
    #[arg(long, default_value_t = 1_024, value_name = "MIB")]
    pub(crate) most_rss_mib: u64,

    /// Keep state in a private redis-server, and count what is asked of it
    #[arg(long)]
    pub(crate) redis: bool,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchDispatch {
    /// Measure only on this store. Without it: memory, and a private redis-server
    #[arg(long, value_parser = ["memory", "redis"])]
    pub(crate) only: Option<String>,

    /// Jobs in flight at the same time, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 512], value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Vec<u32>,

    /// How long each measurement is
    #[arg(long = "duration", alias = "seconds", default_value = "3s", value_name = "TIME", value_parser = seconds(1..=600))]
    pub(crate) seconds: u64,

    /// Simulated nodes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) nodes: u32,

    /// Slots of each
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,

    /// Bytes of audio of each job
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) audio_bytes: u32,

    /// Fleet sizes for the cost of choosing; the first is what the others are compared with
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000, 100_000], value_parser = clap::value_parser!(u32).range(1..=200_000))]
    pub(crate) fleet: Vec<u32>,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchStore {
    /// Measure only this store (memory or a Redis URL). Without it: memory, and a private
    /// redis-server started for the run
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Jobs in flight at the same time, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 512], value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Vec<u32>,

    /// How long each measurement is
    #[arg(long = "duration", alias = "seconds", default_value = "3s", value_name = "TIME", value_parser = seconds(1..=600))]
    pub(crate) seconds: u64,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
