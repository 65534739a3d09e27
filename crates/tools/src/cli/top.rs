//! The command that shows in a terminal how everything stands.

use clap::Args;

use super::Authority;

const TOP_EXAMPLES: &str = "\
Examples:
  lingua top                                 all instances, as the dashboard shows them
  lingua top --once                          the same as plain text, once; also into a pipe
  lingua top --json | jq .health             what /api/v1/stats answers

Keys: 1-5, tab and arrows change the view, j and k scroll, s sorts, ? shows all keys, q ends.
NO_COLOR, if it is set, leaves colours out: signs and words say the same. LINGUA_TOKEN, or the first
line of the file LINGUA_TOKEN_FILE, is shown to the scheduler; it is no option, since others see those.";

#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub struct Top {
    /// Any of the schedulers: each knows of all
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Print it once as plain text; without it too if standard output is no terminal
    #[arg(long)]
    pub(crate) once: bool,

    /// Print what the scheduler says once, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
