//! `lingua node`: simulated nodes.

use clap::Args;

use super::{Authority, ms, seconds, share};

#[derive(Debug, Args)]
pub struct Node {
    /// URL of the scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Number of nodes, each with its own connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) count: u32,

    /// Id of a single node, or the prefix of the ids of several
    #[arg(long, default_value = "sim")]
    pub(crate) name: String,

    /// Languages that the node recognises, repairs and speaks, separated by commas. It translates between
    /// all languages
    #[arg(long, value_delimiter = ',', default_value = "en,zh")]
    pub(crate) langs: Vec<String>,

    /// No speech output: text only
    #[arg(long)]
    pub(crate) text_only: bool,

    /// Slots: the number of jobs at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,

    /// Median time for one job
    #[arg(long = "p50", alias = "p50-ms", default_value = "400ms", value_name = "TIME", value_parser = ms(0..=3_600_000))]
    pub(crate) p50_ms: u64,

    /// 99th percentile of the time for one job
    #[arg(long = "p99", alias = "p99-ms", default_value = "1500ms", value_name = "TIME", value_parser = ms(0..=3_600_000))]
    pub(crate) p99_ms: u64,

    /// Fraction of jobs that fail
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) fail: f64,

    /// Fraction of jobs that are rejected as busy
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) reject: f64,

    /// Fraction of jobs whose ack is not sent
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) drop_ack: f64,

    /// Fraction of jobs without a result
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) never_answer: f64,

    /// Fraction of jobs during which the node crashes and reconnects
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) crash: f64,

    /// Behave like older node software without acks
    #[arg(long)]
    pub(crate) old_agent: bool,

    /// Stop after this time [default: on Ctrl-C]
    #[arg(long = "duration", alias = "seconds", value_name = "TIME", value_parser = seconds(0..=86_400))]
    pub(crate) seconds: Option<u64>,

    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
