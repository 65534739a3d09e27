//! `lingua dispatch`: one job.

use std::path::PathBuf;

use clap::Args;

use super::{Authority, ms};

#[derive(Debug, Args)]
pub struct Dispatch {
    /// URL of the scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// Source language
    #[arg(long, default_value = "en")]
    pub(crate) src: String,

    /// Target language
    #[arg(long, default_value = "zh")]
    pub(crate) tgt: String,

    /// Audio file [default: one second of silence]
    #[arg(long, value_name = "FILE")]
    pub(crate) audio: Option<PathBuf>,

    /// Format of the audio: opus, pcm16 or wav
    #[arg(long, default_value = "pcm16")]
    pub(crate) format: String,

    /// Session id of the job
    #[arg(long, default_value = "shell")]
    pub(crate) session: String,

    /// Ask for text only, without speech output
    #[arg(long)]
    pub(crate) text: bool,

    /// Preferred node: try it first
    #[arg(long, value_name = "NODE")]
    pub(crate) prefer: Option<String>,

    /// Use the preferred node only
    #[arg(long, requires = "prefer")]
    pub(crate) strict: bool,

    /// Idempotency key: the same id again returns the same job
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,

    /// Deadline of the job
    #[arg(long = "deadline", alias = "deadline-ms", value_name = "TIME", value_parser = ms(1..=86_400_000))]
    pub(crate) deadline_ms: Option<u64>,

    /// Print the whole job as JSON at the end
    #[arg(long)]
    pub(crate) json: bool,
}
