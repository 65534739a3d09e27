//! `[log]`.

use super::section;
use crate::telemetry::LogFormat;

section! {
    /// Logs, on standard error.
    "log.": Log in log {
        /// Log level or filter, such as "info" or "warn,lingua_engine=debug".
        level: String = "info".to_owned() => reloads;
        /// "human", or "json" for one object per line.
        format: LogFormat = LogFormat::Human;
    }
}
