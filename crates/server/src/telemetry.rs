//! Logs: to standard error, `LINGUA_LOG` says how much.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging. Results of commands go to standard output, logs never do.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("LINGUA_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        .init();
}
