//! `lingua`: the scheduler of a real-time speech translation platform, and its tools.
//!
//! In reading order: [`cli`] (what can be asked for), [`config`] (how it is set up), [`app`] (the life of `lingua serve`),
//! [`listener`] with its [`workers`], [`http`], [`ws`] and [`peers`] (the doors), [`wire`] (what is said through them), [`shutdown`],
//! [`telemetry`], [`bench`], the commands [`probe`], [`node`], [`hand_in`], [`speak`], [`load`] and
//! [`chaos`], and [`demo`], which has a part of each.
//!
//! It is a library with a binary of three lines, so that tests and the binary go through one door:
//! [`serve`].

mod cli;
mod config;
mod app;
mod listener;
mod workers;
mod http;
mod ws;
mod peers;
mod wire;
mod shutdown;
mod telemetry;
mod bench;
mod probe;
mod node;
mod hand_in;
mod speak;
mod load;
mod demo;
mod chaos;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use lingua_engine::Engine;
use tokio::net::TcpListener;

/// The load balancer of the demonstration; tests of several instances stand behind it too.
pub use crate::demo::balancer::{Balancer, Health};
use crate::workers::Places;

/// The whole command line tool.
pub fn run() -> ExitCode {
    let command = cli::Cli::parse().into_command();
    telemetry::start(match command {
        // What happens in there is shown otherwise.
        cli::Command::Demo(_) => "error",
        _ => "info",
    });
    let outcome = match command {
        cli::Command::Serve(options) => app::serve(options),
        cli::Command::Config { what } => config::run(&what),
        cli::Command::Demo(options) => demo::run(&options),
        cli::Command::Probe(options) => probe::run(&options),
        cli::Command::Node(options) => node::run(&options),
        cli::Command::Dispatch(options) => hand_in::run(&options),
        cli::Command::Speak(options) => speak::run(&options),
        cli::Command::Load(options) => load::run(&options),
        cli::Command::Chaos(options) => chaos::run(*options),
        cli::Command::Bench { what: cli::Bench::Store(options) } => bench::store::run(&options),
        cli::Command::Bench { what: cli::Bench::Dispatch(options) } => {
            bench::dispatch::run(&options)
        }
        cli::Command::Bench { what: cli::Bench::Sessions(options) } => {
            bench::sessions::run(&options)
        }
        cli::Command::Bench { what: cli::Bench::Hostile(options) } => bench::hostile::run(&options),
        cli::Command::Bench { what: cli::Bench::Dashboard(options) } => {
            bench::dashboard::run(&options)
        }
        cli::Command::Bench { what: cli::Bench::BareSockets } => bench::sessions::bare(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Serves an engine on this socket until `stop` resolves. Then no new work is taken, open jobs end,
/// and after them the connections.
pub async fn serve(socket: TcpListener, engine: Engine, stop: impl Future<Output = ()>) {
    let address = socket.local_addr().map(|address| format!("http://{address}"));
    if let Ok(address) = address
        && let Err(error) = engine.join(&address, Arc::new(peers::Peers::new())).await
    {
        tracing::warn!(%error, "this instance stays alone");
    }
    serve_on(socket, engine, &Places::here(), stop).await;
}

/// The same, with connections on these threads.
async fn serve_on(
    socket: TcpListener,
    engine: Engine,
    places: &Places,
    stop: impl Future<Output = ()>,
) {
    let router = http::router(engine.clone());
    let drained = async {
        stop.await;
        engine.drain();
        engine.end().await;
    };
    listener::serve(socket, router, places, drained).await;
}
