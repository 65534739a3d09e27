//! The command that shows in a terminal how everything stands.

use clap::Args;

use super::Authority;

const TOP_EXAMPLES: &str = "\
Examples:
  lingua top                                 all instances, as the dashboard shows them
  lingua top --once                          print it once as plain text, for example into a pipe
  lingua top --json | jq .health             the response of /api/v1/stats

Keys: 1-5, tab and arrows change the view, j and k scroll, s sorts, ? shows all keys, q quits.
NO_COLOR disables colours. The token is read from LINGUA_TOKEN, or from the first line of the file
LINGUA_TOKEN_FILE; there is no flag for it, because other users can see command lines.";

#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub struct Top {
    /// URL of any scheduler; each reports all instances
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Print once as plain text; the default if standard output is not a terminal
    #[arg(long)]
    pub(crate) once: bool,

    /// Print the response of the scheduler once, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
