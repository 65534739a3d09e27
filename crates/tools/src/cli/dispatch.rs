//! `lingua dispatch`: one job.

use std::path::PathBuf;

use clap::Args;

use super::{Authority, ms};

#[derive(Debug, Args)]
pub struct Dispatch {
    /// The scheduler
    #[arg(long, env = "LINGUA_URL", default_value = "http://127.0.0.1:5010", value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) authority: Authority,

    /// From this language
    #[arg(long, default_value = "en")]
    pub(crate) src: String,

    /// Into this one
    #[arg(long, default_value = "zh")]
    pub(crate) tgt: String,

    /// A file with the audio; without it, a second of silence
    #[arg(long, value_name = "FILE")]
    pub(crate) audio: Option<PathBuf>,

    /// What the audio is: opus, pcm16 or wav
    #[arg(long, default_value = "pcm16")]
    pub(crate) format: String,

    /// The conversation it belongs to
    #[arg(long, default_value = "shell")]
    pub(crate) session: String,

    /// The answer need not be spoken
    #[arg(long)]
    pub(crate) text: bool,

    /// Try this node first
    #[arg(long, value_name = "NODE")]
    pub(crate) prefer: Option<String>,

    /// Try no other
    #[arg(long, requires = "prefer")]
    pub(crate) strict: bool,

    /// The same id again is the same job
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,

    /// Give up after so long
    #[arg(long = "deadline", alias = "deadline-ms", value_name = "TIME", value_parser = ms(1..=86_400_000))]
    pub(crate) deadline_ms: Option<u64>,

    /// Print the job's whole view as JSON at the end
    #[arg(long)]
    pub(crate) json: bool,
}
