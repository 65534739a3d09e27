//! `lingua`: the scheduler of a real-time speech translation platform, and its tools.
//!
//! In reading order: [`cli`] (what can be asked for), [`app`] (the life of `lingua serve`),
//! [`listener`] and [`http`] (the edge), [`shutdown`], [`telemetry`], [`bench`].

mod cli;
mod app;
mod listener;
mod http;
mod shutdown;
mod telemetry;
mod bench;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    telemetry::start();
    let outcome = match cli.into_command() {
        cli::Command::Serve(options) => app::serve(options),
        cli::Command::Bench { what: cli::Bench::Store(options) } => bench::store::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
