//! The commands with which an operator looks at a running scheduler and gives it orders.

use clap::Args;

use super::Authority;

/// Which scheduler, and how its answer is printed.
#[derive(Debug, Args)]
pub struct Call {
    /// The scheduler; the token is read from LINGUA_TOKEN, or from the first line of the file LINGUA_TOKEN_FILE
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Print the scheduler's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `lingua nodes [ID]`
#[derive(Debug, Args)]
pub struct Nodes {
    /// Show one node, with why it gets no jobs and what would make it useful
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Only nodes in this state: ready, registering, degraded, draining or offline
    #[arg(long, conflicts_with = "id")]
    pub(crate) state: Option<String>,

    /// Only nodes that translate from this language
    #[arg(long, conflicts_with = "id")]
    pub(crate) src: Option<String>,

    /// Only nodes that translate into this language
    #[arg(long, conflicts_with = "id")]
    pub(crate) tgt: Option<String>,

    /// Only nodes of this instance
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    pub(crate) instance: Option<String>,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua drain|resume|block ID`
#[derive(Debug, Args)]
pub struct NodeOrder {
    /// Id of the node
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua sessions [ID]`
#[derive(Debug, Args)]
pub struct Sessions {
    /// Show one session
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Only sessions of this tenant
    #[arg(long)]
    pub(crate) tenant: Option<String>,

    /// Only sessions whose client is connected (true), or is not (false)
    #[arg(long, value_name = "BOOL", conflicts_with = "id")]
    pub(crate) connected: Option<bool>,

    /// Only sessions in which this language may be spoken
    #[arg(long, conflicts_with = "id")]
    pub(crate) src: Option<String>,

    /// Only sessions that are translated into this language; with --src, in this direction
    #[arg(long, conflicts_with = "id")]
    pub(crate) tgt: Option<String>,

    /// Only sessions of this instance
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    pub(crate) instance: Option<String>,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua disconnect ID`
#[derive(Debug, Args)]
pub struct SessionOrder {
    /// The session
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Its tenant; needed if sessions of two tenants have this id
    #[arg(long)]
    pub(crate) tenant: Option<String>,

    #[command(flatten)]
    pub(crate) call: Call,
}

const JOBS_EXAMPLES: &str = "\
Examples:
  lingua jobs --state open                   jobs that have not ended
  lingua jobs --state FAILED --node gpu-7    failed jobs with an attempt on this node
  lingua jobs --src en --tgt zh --code JOB_TIMEOUT
  lingua jobs --json --limit 1000 | jq -r '.jobs[].job_id'";

/// `lingua jobs`
#[derive(Debug, Args)]
#[command(after_help = JOBS_EXAMPLES)]
pub struct Jobs {
    /// open, ended, or a state such as WAITING, ACKED, DONE, FAILED or CANCELLED
    #[arg(long)]
    pub(crate) state: Option<String>,

    /// Only jobs in which this language may be spoken
    #[arg(long)]
    pub(crate) src: Option<String>,

    /// Only jobs that are translated into this language; with --src, in this direction
    #[arg(long)]
    pub(crate) tgt: Option<String>,

    /// Only jobs of this tenant
    #[arg(long)]
    pub(crate) tenant: Option<String>,

    /// Only jobs of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Only jobs with an attempt on this node
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,

    /// Only jobs that ended with this code; ok for a result, empty for none
    #[arg(long)]
    pub(crate) code: Option<String>,

    /// Only jobs of this instance
    #[arg(long, value_name = "ID")]
    pub(crate) instance: Option<String>,

    /// At most this many jobs, the newest first
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua job ID` and `lingua cancel ID`
#[derive(Debug, Args)]
pub struct JobOf {
    /// The job's id, or the id that its node logs
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua explain`
#[derive(Debug, Args)]
pub struct Explain {
    /// Source language
    #[arg(long)]
    pub(crate) src: String,

    /// Target language
    #[arg(long)]
    pub(crate) tgt: String,

    /// A text translation is enough: no speech synthesis is needed
    #[arg(long)]
    pub(crate) text: bool,

    /// The tenant of the job
    #[arg(long)]
    pub(crate) tenant: Option<String>,

    /// Say also whether this node could take a job that names it
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,

    #[command(flatten)]
    pub(crate) call: Call,
}
