//! `lingua node`: simulated nodes.

use clap::Args;

use super::{Authority, ms, seconds, share};

#[derive(Debug, Args)]
pub struct Node {
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

    /// Median of the time for one job
    #[arg(long = "p50", alias = "p50-ms", default_value = "400ms", value_name = "TIME", value_parser = ms(0..=3_600_000))]
    pub(crate) p50_ms: u64,

    /// 99th percentile of it
    #[arg(long = "p99", alias = "p99-ms", default_value = "1500ms", value_name = "TIME", value_parser = ms(0..=3_600_000))]
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

    /// Stop after so long; without it, on Ctrl-C
    #[arg(long = "duration", alias = "seconds", value_name = "TIME", value_parser = seconds(0..=86_400))]
    pub(crate) seconds: Option<u64>,

    /// Repeats the same run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
