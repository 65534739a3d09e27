//! What can be asked of the scheduler on the command line.

use crate::out::remark;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lingua_store::redis::OpenError;

use crate::telemetry::LogFormat;

mod address;
mod audit;
mod duration;
mod operate;
mod serve;
mod token;
mod trust;

pub use address::address;
pub use audit::Audit;
pub(crate) use audit::AuditCheck;
pub use duration::{duration, ms, seconds};
pub use operate::{Call, Explain, JobOf, NodeOrder, Nodes, Sessions};
pub use serve::{ConfigPart, Serve};
pub use token::Token;
pub(crate) use token::{TokenInspect, TokenKey, TokenMint, TokenRevoke};
pub use trust::{Authority, socket_url};

/// The commands of the scheduler itself; the laboratory's are in `lingua-tools`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the scheduler
    Serve(Serve),
    /// Look at the configuration
    Config {
        /// What of it.
        #[command(subcommand)]
        what: ConfigPart,
    },
    /// Make, look at and revoke the tokens that people and nodes show
    Token {
        /// What of it.
        #[command(subcommand)]
        what: Token,
    },
    /// Check the log of who did what
    Audit {
        /// What of it.
        #[command(subcommand)]
        what: Audit,
    },
    /// Ask a scheduler whether it is alive; exit code 0 if so
    Probe(Probe),
    /// List the nodes, or look at one: its state, why it gets no jobs, what would make it useful
    Nodes(Nodes),
    /// Drain a node: it finishes what it has and gets nothing new
    Drain(NodeOrder),
    /// Let a drained or blocked node serve again
    Resume(NodeOrder),
    /// Shut a node out until it is resumed
    Block(NodeOrder),
    /// List the sessions of all instances: who speaks, not what is said
    Sessions(Sessions),
    /// Look at a job: its state, its attempts and how it ended
    Job(JobOf),
    /// Cancel a job
    Cancel(JobOf),
    /// Explain where a job would go, or why nowhere
    Explain(Explain),
}

/// `lingua probe`.
#[derive(Debug, Args)]
pub struct Probe {
    /// The scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Whether it takes work: not while it drains or its store is away
    #[arg(long)]
    pub(crate) ready: bool,
}

/// A share, from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is from 0 to 1".into()),
    }
}

/// Why a command ended badly: one sentence and an exit code.
#[derive(Debug)]
pub struct Failure {
    sentence: String,
    code: u8,
}

impl Failure {
    /// The checked thing failed.
    pub fn failed(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 1 }
    }

    /// The command line asks for what cannot be.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 2 }
    }

    /// The settings are refused.
    pub fn refused(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), code: 78 }
    }

    pub(crate) fn report(self, format: LogFormat) -> ExitCode {
        match format {
            LogFormat::Human => remark!("lingua: {}", self.sentence),
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
