//! What operators see of a scheduler beyond its metrics.

use clap::Args;

use crate::telemetry::LogFormat;

#[derive(Debug, Args)]
pub(crate) struct Observing {
    /// How logs are written: for people, or one JSON object per line
    #[arg(long, env = "LINGUA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Human)]
    pub(crate) log_format: LogFormat,
}

impl Default for Observing {
    fn default() -> Self {
        Observing { log_format: LogFormat::Human }
    }
}
