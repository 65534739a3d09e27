//! The scheduler of a real-time speech translation platform: the edge around the engine, and `serve`.
//!
//! In reading order: [`cli`] (what can be asked for) with [`failure`] and [`address`](mod@address), [`config`] with [`config_command`] (how it is set up), [`site`] (names of web pages and hosts), [`permissions`] (who can read its secrets), [`identity`] (who may do what), [`audit`] (who did what), [`tls`] (what is shown and believed), [`app`] (the life of `lingua serve`), [`serving`] (an engine on its sockets), [`cluster_key`] (what instances share), [`catalogue`] (which services exist),
//! [`listener`] with its [`workers`] and the budget of what is [`unfinished`], [`http`], [`ws`] and [`peers`] (the doors), [`wire`] (what is said through them), [`shutdown`], [`reload`],
//! [`otlp`], [`telemetry`], and the commands [`token`], [`probe`] and [`mod@operate`], which run on a [`runtime`] and write with [`out`] and [`human`]. [`client`] is for programs that call a scheduler.
//!
//! It is a library, so that tests and the binary (`crates/lingua`) go through one door: [`serve`].

mod cli;
mod failure;
mod address;
mod site;
mod config;
mod config_command;
mod permissions;
mod identity;
mod app;
mod serving;
mod catalogue;
mod cluster_key;
mod tls;
mod listener;
mod workers;
mod unfinished;
mod http;
mod ws;
mod peers;
mod wire;
mod shutdown;
mod systemd;
mod reload;
pub mod otlp;
mod telemetry;
mod token;
mod audit;
mod probe;
mod operate;
mod human;
mod runtime;
pub mod out;
pub mod client;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

use std::process::ExitCode;

pub use crate::app::{open_store, start_embedded};
pub use crate::cli::{Command, Failure, Serve};
/// The calls by method and path, and who may make them.
pub use crate::http::calls;
pub use crate::serving::{serve, serve_with};
use crate::telemetry::LogFormat;
/// The description of both sockets.
pub use crate::wire::asyncapi::document as asyncapi;

/// Runs a command of the scheduler.
pub fn run(command: Command) -> ExitCode {
    let options = match command {
        Command::Serve(options) => options,
        Command::Config { what } => return run_logged("info", || config_command::run(&what)),
        Command::Token { what } => return run_logged("info", || token::run(&what)),
        Command::Audit { what } => return run_logged("info", || audit::run(&what)),
        Command::Probe(options) => return run_logged("info", || probe::run(&options)),
        command => return run_logged("info", || operate(&command)),
    };
    // The configuration says how it logs, also that the configuration is refused.
    let settings = options.settings.asked().load(std::env::vars());
    let (level, format) = match &settings {
        Ok(loaded) => (loaded.config.log.level.clone(), loaded.config.log.format),
        Err(_) => ("info".to_owned(), options.settings.log_format.unwrap_or(LogFormat::Human)),
    };
    logged(&level, format, || app::serve(&options, &settings?))
}

/// Runs a command of an operator.
fn operate(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Nodes(options) => operate::nodes(options),
        Command::Drain(options) => operate::order(options, "drain"),
        Command::Resume(options) => operate::order(options, "resume"),
        Command::Block(options) => operate::order(options, "block"),
        Command::Sessions(options) => operate::sessions(options),
        Command::Disconnect(options) => operate::disconnect(options),
        Command::Jobs(options) => operate::jobs(options),
        Command::Job(options) => operate::job(options),
        Command::Cancel(options) => operate::cancel(options),
        Command::Explain(options) => operate::explain(options),
        _ => Err(Failure::usage("this command calls no scheduler")),
    }
}

/// Runs a command that logs for people, as much as `level` says.
pub fn run_logged(level: &str, command: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    logged(level, LogFormat::Human, command)
}

fn logged(
    level: &str,
    format: LogFormat,
    command: impl FnOnce() -> Result<(), Failure>,
) -> ExitCode {
    let logs = telemetry::start(level, format);
    let outcome = command();
    logs.end();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(format),
    }
}
