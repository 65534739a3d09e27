//! The command that breaks things.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lingua_lab::chaos::{Kind, Store};

use super::seconds;

const EXAMPLES: &str = "\
Examples:
  lingua chaos                                    three minutes on one private redis-server
  lingua chaos --store cluster --duration 30m     half an hour on a Redis Cluster of six
  lingua chaos --seed 42 --dir /tmp/run           repeat the faults of a run, and keep the files there
  lingua chaos --only kill-scheduler --faults 20 --duration 400s
  lingua chaos check /tmp/run                     check the files of a run again

Faults: kill-scheduler stop-scheduler drain-scheduler kill-nodes stop-nodes stop-speakers cut
cut-mid-message partition delay flushall script-flush kill-store stop-store; with Sentinel and Cluster
failover; with Sentinel kill-sentinel stop-sentinel.

Needs redis-server. All processes run on free ports of this machine and end with the command, also on
Ctrl-C. Exit code 0 if every guarantee held; otherwise 1, and the files are kept.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Chaos {
    #[command(subcommand)]
    pub(crate) part: Option<Part>,

    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Topology of the store: standalone, sentinel (1 primary, 2 replicas, 3 Sentinels) or cluster
    /// (3 primaries, 3 replicas)
    #[arg(long, default_value = "standalone")]
    pub(crate) store: Store,

    /// How long faults are injected. Start, recovery and the last endings take a minute or two more
    #[arg(long = "duration", alias = "seconds", default_value = "3m", value_name = "TIME", value_parser = seconds(20..=86_400))]
    pub(crate) seconds: u64,

    /// Number of faults [default: one every four seconds]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) faults: Option<u32>,

    /// Seed that repeats the faults of an earlier run [default: a new one, which is printed]
    #[arg(long)]
    pub(crate) seed: Option<u64>,

    /// Inject only these faults
    #[arg(long, value_delimiter = ',', value_name = "FAULT,…")]
    pub(crate) only: Vec<Kind>,

    /// Number of schedulers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16))]
    pub(crate) schedulers: u32,

    /// Number of simulated nodes, three per process
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub(crate) nodes: u32,

    /// Slots per node
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) slots: u32,

    /// Number of speakers that can resume, fifty per process
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub(crate) speakers: u32,

    /// Keep all recorded files in this directory, which must be new or empty
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Part {
    /// Check the files of an earlier run
    Check {
        /// Directory of the run
        dir: PathBuf,
    },
    /// Some nodes of a run
    #[command(hide = true)]
    Nodes {
        #[command(flatten)]
        share: Share,
        #[arg(long)]
        slots: u32,
    },
    /// Some speakers of a run
    #[command(hide = true)]
    Speakers {
        #[command(flatten)]
        share: Share,
    },
}

#[derive(Debug, Args)]
pub struct Share {
    #[arg(long)]
    pub(crate) dir: PathBuf,
    #[arg(long)]
    pub(crate) first: usize,
    #[arg(long)]
    pub(crate) count: usize,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long = "url", required = true)]
    pub(crate) urls: Vec<String>,
}
