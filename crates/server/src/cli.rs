//! What can be asked for on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use lingua_store::redis::OpenError;

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
    /// Measure a part of the system against a ceiling in the same run
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen; beyond loopback only with --insecure
    #[arg(long, env = "LINGUA_LISTEN", default_value = "127.0.0.1:5010")]
    pub(crate) listen: SocketAddr,

    /// Where state is kept: memory, redis://host:port/db, rediss://…,
    /// redis+sentinel://h1:p1,h2:p2/primary-name or redis+cluster://h1:p1,h2:p2
    #[arg(
        long,
        env = "LINGUA_STORE",
        default_value = "memory",
        value_name = "URL",
        hide_env_values = true
    )]
    pub(crate) store: String,

    /// Listen beyond loopback although nobody is asked who they are
    #[arg(long, env = "LINGUA_INSECURE")]
    pub(crate) insecure: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The life of a job (create, reserve, commit, finish) on each store
    Store(BenchStore),
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

    /// The settings are refused.
    pub(crate) fn refused(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 78 }
    }

    #[allow(clippy::print_stderr, reason = "the one place that tells a person why it ended")]
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("lingua: {}", self.sentence);
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
