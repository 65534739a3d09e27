//! The commands with which an operator looks at a running scheduler and tells it what to do.

use clap::Args;

use super::Authority;

/// Which scheduler, and how its answer is printed.
#[derive(Debug, Args)]
pub struct Call {
    /// The scheduler; LINGUA_TOKEN, or the first line of the file LINGUA_TOKEN_FILE, is shown to it
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Print what the scheduler answers, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `lingua nodes [ID]`
#[derive(Debug, Args)]
pub struct Nodes {
    /// One node, with why it gets no jobs and what would make it useful
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua drain|resume|block ID`
#[derive(Debug, Args)]
pub struct NodeOrder {
    /// The node
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua sessions`
#[derive(Debug, Args)]
pub struct Sessions {
    /// Only those of this instance
    #[arg(long, value_name = "ID")]
    pub(crate) instance: Option<String>,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua job ID` and `lingua cancel ID`
#[derive(Debug, Args)]
pub struct JobOf {
    /// The job, as the answer to the hand-in named it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) call: Call,
}

/// `lingua explain`
#[derive(Debug, Args)]
pub struct Explain {
    /// From this language
    #[arg(long)]
    pub(crate) src: String,

    /// Into this one
    #[arg(long)]
    pub(crate) tgt: String,

    /// The translation need not be spoken
    #[arg(long)]
    pub(crate) text: bool,

    /// Whose job it would be
    #[arg(long)]
    pub(crate) tenant: Option<String>,

    /// Say also how this node stands to a job that names it
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,

    #[command(flatten)]
    pub(crate) call: Call,
}
