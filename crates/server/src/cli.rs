//! What can be asked of the scheduler on the command line.

use clap::{Args, Subcommand};

mod audit;
mod duration;
mod operate;
mod serve;
mod token;
mod trust;

pub use crate::address::address;
pub use crate::failure::Failure;
pub use audit::Audit;
pub(crate) use audit::AuditCheck;
pub use duration::{duration, ms, seconds};
pub use operate::{Call, Explain, JobOf, Jobs, NodeOrder, Nodes, SessionOrder, Sessions};
pub use serve::{ConfigPart, Serve};
pub use token::Token;
pub(crate) use token::{TokenInspect, TokenKey, TokenMint, TokenRevoke};
pub use trust::{Authority, socket_url};

/// The commands of the scheduler itself; the laboratory's are in `lingua-tools`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the scheduler (the default command)
    Serve(Serve),
    /// Validate and print the configuration
    Config {
        /// Which action.
        #[command(subcommand)]
        what: ConfigPart,
    },
    /// Create, inspect and revoke authentication tokens
    Token {
        /// Which action.
        #[command(subcommand)]
        what: Token,
    },
    /// Verify the audit log
    Audit {
        /// Which action.
        #[command(subcommand)]
        what: Audit,
    },
    /// Check the health of a scheduler; exit code 0 if it is alive
    Probe(Probe),
    /// List the nodes, or show one: its state, why it gets no jobs, what would make it useful
    Nodes(Nodes),
    /// Drain a node: it finishes its jobs and gets no new ones
    Drain(NodeOrder),
    /// Return a drained or blocked node to service
    Resume(NodeOrder),
    /// Block a node: its connection is closed, and it cannot register until it is resumed
    Block(NodeOrder),
    /// List the sessions of all instances, or show one
    Sessions(Sessions),
    /// Disconnect a session: its open jobs are cancelled, and its client is told not to reconnect
    Disconnect(SessionOrder),
    /// List the jobs of all instances: open ones, and those that ended within the last hour
    Jobs(Jobs),
    /// Show a job: its state, its attempts and how it ended
    Job(JobOf),
    /// Cancel a job
    Cancel(JobOf),
    /// Explain how many nodes could take a job, and why the others could not
    Explain(Explain),
}

/// `lingua probe`.
#[derive(Debug, Args)]
pub struct Probe {
    /// URL of the scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Check readiness instead: not ready while it drains or the store is unreachable
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
