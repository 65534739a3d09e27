//! What can be asked for on the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use lingua_store::redis::OpenError;

use crate::telemetry::LogFormat;

mod audit;
mod chaos;
mod demo;
mod serve;
mod speakers;
mod token;
mod top;
mod trust;

pub(crate) use audit::{Audit, AuditCheck};
pub(crate) use chaos::{Chaos, Part as ChaosPart, Run as ChaosRun, Share as ChaosShare};
pub(crate) use demo::Demo;
pub(crate) use serve::{ConfigPart, Serve};
pub(crate) use speakers::{Load, Speak};
pub(crate) use token::{Token, TokenInspect, TokenKey, TokenMint, TokenRevoke};
pub(crate) use top::Top;
pub(crate) use trust::{Authority, socket_url};

/// The control plane of a real-time speech translation platform.
///
/// Without a command it is `lingua serve`.
#[derive(Debug, Parser)]
#[command(name = "lingua", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    serve: Serve,
}

impl Cli {
    /// What is asked for; without a command, to serve.
    pub(crate) fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the scheduler
    Serve(Serve),
    /// Look at the configuration
    Config {
        #[command(subcommand)]
        what: ConfigPart,
    },
    /// Make, look at and revoke the tokens that people and nodes show
    Token {
        #[command(subcommand)]
        what: Token,
    },
    /// Check the log of who did what
    Audit {
        #[command(subcommand)]
        what: Audit,
    },
    /// Show the whole system on this machine: schedulers, nodes, speakers, and faults on request
    Demo(Demo),
    /// Show in the terminal how everything stands, and follow it
    Top(Top),
    /// Run simulated nodes over the real socket
    Node(Node),
    /// Ask a scheduler whether it is alive; exit code 0 if so
    Probe(Probe),
    /// Hand in one job and watch it to its end
    Dispatch(Dispatch),
    /// Speak to the scheduler as a client does, and print what comes back
    Speak(Speak),
    /// Let thousands of speakers and nodes talk, and check every sentence
    Load(Box<Load>),
    /// Break everything at random and check that every promise is kept
    Chaos(Box<Chaos>),
    /// Measure a part of the system against a ceiling in the same run
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// The scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Whether it takes work: not while it drains or its store is away
    #[arg(long)]
    pub(crate) ready: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Node {
    /// The scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// How many nodes, each with a connection of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) count: u32,

    /// The name of a single node, or what the names of several begin with
    #[arg(long, default_value = "sim")]
    pub(crate) name: String,

    /// Languages that it hears, repairs, translates and speaks, with commas between them
    #[arg(long, value_delimiter = ',', default_value = "en,zh")]
    pub(crate) langs: Vec<String>,

    /// Speaks nothing: text only
    #[arg(long)]
    pub(crate) text_only: bool,

    /// Jobs at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,

    /// Median of the time for one job, in ms
    #[arg(long, default_value_t = 400)]
    pub(crate) p50_ms: u64,

    /// 99th percentile of it
    #[arg(long, default_value_t = 1_500)]
    pub(crate) p99_ms: u64,

    /// Share of jobs that fail
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) fail: f64,

    /// Share of jobs that are refused as busy
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) reject: f64,

    /// Share of jobs whose ack is never sent
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) drop_ack: f64,

    /// Share of jobs that are never answered
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) never_answer: f64,

    /// Share of jobs during which the node crashes and comes back
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) crash: f64,

    /// Speak as agents did before acks
    #[arg(long)]
    pub(crate) old_agent: bool,

    /// Stop after so many seconds; without it, on Ctrl-C
    #[arg(long)]
    pub(crate) seconds: Option<u64>,

    /// Repeats the same run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is from 0 to 1".into()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Dispatch {
    /// The scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// From this language
    #[arg(long, default_value = "en")]
    pub(crate) src: String,

    /// Into this one
    #[arg(long, default_value = "zh")]
    pub(crate) tgt: String,

    /// A file with the audio; without it, a second of silence
    #[arg(long, value_name = "FILE")]
    pub(crate) audio: Option<PathBuf>,

    /// What the audio is: opus, pcm16 or wav
    #[arg(long, default_value = "pcm16")]
    pub(crate) format: String,

    /// The conversation it belongs to
    #[arg(long, default_value = "shell")]
    pub(crate) session: String,

    /// The answer need not be spoken
    #[arg(long)]
    pub(crate) text: bool,

    /// Try this node first
    #[arg(long, value_name = "NODE")]
    pub(crate) prefer: Option<String>,

    /// Try no other
    #[arg(long, requires = "prefer")]
    pub(crate) strict: bool,

    /// The same id again is the same job
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,

    /// Give up after so many milliseconds
    #[arg(long)]
    pub(crate) deadline_ms: Option<u64>,

    /// Print the job's whole view as JSON at the end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
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
pub(crate) struct BenchSessions {
    /// Sockets open at the same time
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    pub(crate) sockets: u32,

    /// How many of them speak
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) speaking: u32,

    /// How long each of them speaks, in milliseconds
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(100..=9_000))]
    pub(crate) speech_ms: u64,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchDashboard {
    /// Pages open at the same time
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) pages: u32,

    /// Nodes in the fleet
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) nodes: u32,

    /// Seconds of one phase; a snapshot comes every five
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,

    /// Phases with pages, and as many without
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchHostile {
    /// People who speak
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) speakers: u32,

    /// Seconds beside each kind of hostile client
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,

    /// Sockets of one that holds as many as it can
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) sockets: u32,

    /// By how many milliseconds the p99 of those who speak may move
    #[arg(long, default_value_t = 50, value_name = "MS")]
    pub(crate) most_moved_ms: u64,

    /// The most memory that the scheduler may have meanwhile
    #[arg(long, default_value_t = 1_024, value_name = "MIB")]
    pub(crate) most_rss_mib: u64,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchDispatch {
    /// Measure only on this store. Without it: memory, and a private redis-server
    #[arg(long, value_parser = ["memory", "redis"])]
    pub(crate) only: Option<String>,

    /// Jobs in flight at the same time, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 512], value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Vec<u32>,

    /// Seconds per measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
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
pub(crate) struct BenchStore {
    /// Measure only this store (memory or a Redis URL). Without it: memory, and a private
    /// redis-server started for the run
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Jobs in flight at the same time, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 512], value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Vec<u32>,

    /// Seconds per measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,

    /// Write the report to this file as JSON as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Why a command ended badly: one sentence and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    sentence: String,
    code: u8,
}

impl Failure {
    /// The checked thing failed.
    pub(crate) fn failed(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 1 }
    }

    /// The command line asks for what cannot be.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 2 }
    }

    /// The settings are refused.
    pub(crate) fn refused(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 78 }
    }

    #[allow(clippy::print_stderr, reason = "the one place that tells a person why it ended")]
    pub(crate) fn report(self, format: LogFormat) -> ExitCode {
        match format {
            LogFormat::Human => eprintln!("lingua: {}", self.sentence),
            LogFormat::Json => tracing::error!(exit_code = self.code, "{}", self.sentence),
        }
        ExitCode::from(self.code)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Failure { sentence: error.to_string(), code: error.exit_code() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::failed(format!("{error:#}"))
    }
}
