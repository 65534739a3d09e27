//! Logs: to standard error, `LINGUA_LOG` says how much.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging, as much as this unless `LINGUA_LOG` says otherwise. Results of commands go to
/// standard output, logs never do.
pub(crate) fn start(unless_said: &str) {
    let filter =
        EnvFilter::try_from_env("LINGUA_LOG").unwrap_or_else(|_| EnvFilter::new(unless_said));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        .init();
}
