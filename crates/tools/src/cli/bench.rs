//! `lingua bench`: measurements.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ms, seconds};

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Lifecycle of a job (create, reserve, commit, finish) on each store
    Store(BenchStore),
    /// Jobs end to end over real sockets, and the cost of node selection by fleet size
    Dispatch(BenchDispatch),
    /// Memory of idle and speaking sessions, compared with bare sockets
    Sessions(BenchSessions),
    /// Effect of hostile clients on speakers
    Hostile(BenchHostile),
    /// Effect of open dashboards on the latency of jobs
    Dashboard(BenchDashboard),
    /// Server of bare sockets: the baseline of other benchmarks
    #[command(hide = true)]
    BareSockets,
}

#[derive(Debug, Args)]
pub struct BenchSessions {
    /// Number of open sockets
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    pub(crate) sockets: u32,

    /// Number of sockets that speak
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) speaking: u32,

    /// Length of the speech of each
    #[arg(long = "speech", alias = "speech-ms", default_value = "3s", value_name = "TIME", value_parser = ms(100..=9_000))]
    pub(crate) speech_ms: u64,

    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchDashboard {
    /// Number of open dashboards
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) pages: u32,

    /// Number of nodes
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) nodes: u32,

    /// Length of one phase; snapshots come every five seconds
    #[arg(long = "duration", alias = "seconds", default_value = "6s", value_name = "TIME", value_parser = seconds(1..=600))]
    pub(crate) seconds: u64,

    /// Number of phases with open dashboards, and of phases without
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchHostile {
    /// Number of speakers
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) speakers: u32,

    /// Length of the measurement for each kind of hostile client
    #[arg(long = "duration", alias = "seconds", default_value = "10s", value_name = "TIME", value_parser = seconds(1..=600))]
    pub(crate) seconds: u64,

    /// Sockets of the client that holds as many as it can
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) sockets: u32,

    /// Largest allowed change of the speakers' 99th percentile latency
    #[arg(long = "most-moved", alias = "most-moved-ms", default_value = "50ms", value_name = "TIME", value_parser = ms(0..=60_000))]
    pub(crate) most_moved_ms: u64,

    /// Largest allowed memory of the scheduler
    #[arg(long, default_value_t = 1_024, value_name = "MIB")]
    pub(crate) most_rss_mib: u64,

    /// Use a private redis-server as the store, and count the calls to it
    #[arg(long)]
    pub(crate) redis: bool,

    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchDispatch {
    /// Measure only this store [default: memory, a file store in a directory of its own, and a private redis-server]
    #[arg(long, value_parser = ["memory", "file", "redis"])]
    pub(crate) only: Option<String>,

    /// Numbers of jobs in flight, one measurement for each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 512], value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Vec<u32>,

    /// Length of each measurement
    #[arg(long = "duration", alias = "seconds", default_value = "3s", value_name = "TIME", value_parser = seconds(1..=600))]
    pub(crate) seconds: u64,

    /// Number of simulated nodes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) nodes: u32,

    /// Slots per node
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,

    /// Bytes of audio per job
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) audio_bytes: u32,

    /// Fleet sizes for the cost of node selection; the first is the baseline
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000, 100_000], value_parser = clap::value_parser!(u32).range(1..=200_000))]
    pub(crate) fleet: Vec<u32>,

    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchStore {
    /// Measure only this store: memory, file:DIR or a Redis URL [default: memory, a file store in a directory of its own,
    /// and a private redis-server]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Numbers of jobs in flight, one measurement for each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 512], value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Vec<u32>,

    /// Length of each measurement
    #[arg(long = "duration", alias = "seconds", default_value = "3s", value_name = "TIME", value_parser = seconds(1..=600))]
    pub(crate) seconds: u64,

    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
