//! The whole command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lingua_server::{Command as Product, Serve};

/// The control plane of a real-time speech translation platform.
///
/// Without a command it is `lingua serve`.
#[derive(Debug, Parser)]
#[command(name = "lingua", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Product(Product),

    #[cfg(feature = "tools")]
    #[command(flatten)]
    Tool(lingua_tools::Command),

    #[cfg(not(feature = "tools"))]
    #[command(external_subcommand)]
    Other(Vec<std::ffi::OsString>),
}

impl Cli {
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            None => lingua_server::run(Product::Serve(self.serve)),
            Some(Command::Product(command)) => lingua_server::run(command),
            #[cfg(feature = "tools")]
            Some(Command::Tool(command)) => lingua_tools::run(command),
            #[cfg(not(feature = "tools"))]
            Some(Command::Other(words)) => {
                lingua_server::run_logged("info", || Err(absent::command(&words)))
            }
        }
    }
}

/// Commands that are not in this build.
#[cfg(not(feature = "tools"))]
mod absent {
    use std::ffi::OsString;

    use lingua_server::Failure;

    /// What the feature `tools` adds.
    const TOOLS: [&str; 8] = ["demo", "top", "node", "dispatch", "speak", "load", "chaos", "bench"];

    /// Why there is no such command, and where to find it.
    pub(super) fn command(words: &[OsString]) -> Failure {
        let name = words.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        Failure::usage(match TOOLS.contains(&name.as_ref()) {
            true => format!(
                "this build has no {name}: it was made without the feature \"tools\". A build with it has the \
                 command: cargo build --release --package lingua"
            ),
            false => format!("there is no command {name}; lingua --help lists those of this build"),
        })
    }
}
