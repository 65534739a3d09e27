//! `lingua`: the scheduler of a real-time speech translation platform, and its tools.
//!
//! In reading order: [`cli`] (what can be asked for), [`config`] (how it is set up), [`identity`] (who may do what), [`audit`] (who did what), [`tls`] (what is shown and believed), [`app`] (the life of `lingua serve`),
//! [`listener`] with its [`workers`], [`http`], [`ws`] and [`peers`] (the doors), [`wire`] (what is said through them), [`shutdown`], [`reload`],
//! [`otlp`], [`telemetry`], [`bench`], the commands [`probe`], [`top`], [`node`], [`hand_in`], [`speak`], [`load`] and
//! [`chaos`], and [`demo`], which has a part of each.
//!
//! It is a library with a binary of three lines, so that tests and the binary go through one door:
//! [`serve`].

mod cli;
mod config;
mod identity;
mod app;
mod tls;
mod listener;
mod workers;
mod http;
mod ws;
mod peers;
mod wire;
mod shutdown;
mod reload;
pub mod otlp;
mod telemetry;
mod bench;
mod token;
mod audit;
mod probe;
mod top;
mod node;
mod hand_in;
mod speak;
mod load;
mod demo;
mod chaos;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use lingua_engine::Engine;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The load balancer of the demonstration; tests of several instances stand behind it too.
pub use crate::demo::balancer::{Balancer, Health};
/// The calls by method and path, and who may make them.
pub use crate::http::calls;
use crate::telemetry::LogFormat;
/// The description of both sockets.
pub use crate::wire::asyncapi::document as asyncapi;
use crate::workers::Places;

/// The whole command line tool.
pub fn run() -> ExitCode {
    let command = cli::Cli::parse().into_command();
    // Of a scheduler the configuration says how it logs, also that the configuration is refused.
    let settings = match &command {
        cli::Command::Serve(options) => Some(options.settings.asked().load(std::env::vars())),
        _ => None,
    };
    let (level, format) = match (&command, &settings) {
        (_, Some(Ok(loaded))) => (loaded.config.log.level.clone(), loaded.config.log.format),
        (cli::Command::Serve(options), _) => {
            ("info".to_owned(), options.settings.log_format.unwrap_or(LogFormat::Human))
        }
        // What happens in there is shown otherwise.
        (cli::Command::Demo(_) | cli::Command::Top(_), _) => ("error".to_owned(), LogFormat::Human),
        _ => ("info".to_owned(), LogFormat::Human),
    };
    let logs = telemetry::start(&level, format);
    let outcome = match command {
        cli::Command::Serve(options) => match settings {
            Some(Err(problems)) => Err(problems.into()),
            Some(Ok(loaded)) => app::serve(&options, &loaded),
            None => Ok(()),
        },
        cli::Command::Config { what } => config::run(&what),
        cli::Command::Token { what } => token::run(&what),
        cli::Command::Audit { what } => audit::run(&what),
        cli::Command::Demo(options) => demo::run(&options),
        cli::Command::Probe(options) => probe::run(&options),
        cli::Command::Top(options) => top::run(&options),
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
    logs.end();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(format),
    }
}

/// Serves an engine on this socket until `stop` resolves. Then no new work is taken, open jobs end,
/// and after them the connections.
pub async fn serve(socket: TcpListener, engine: Engine, stop: impl Future<Output = ()>) {
    let address = socket.local_addr().map(|address| format!("http://{address}"));
    if let Ok(address) = address
        && let Err(error) =
            engine.join(&address, Arc::new(peers::Peers::new(tls::Trust::Nobody))).await
    {
        tracing::warn!(%error, "this instance stays alone");
    }
    let door = http::Door::new(engine.clone(), identity::Gate::open());
    let limits = Arc::new(config::Config::preset(Default::default()).limits);
    let sockets = Sockets { public: socket, admin: None, tls: None, limits };
    serve_on(sockets, door, engine, &Places::here(), stop).await;
}

/// Where to listen, and how.
struct Sockets {
    public: TcpListener,
    /// Where administrators are heard, if not there.
    admin: Option<TcpListener>,
    /// Spoken on both.
    tls: Option<Arc<tls::Tls>>,
    /// How much anybody may ask for.
    limits: Arc<config::Limits>,
}

/// The same, with connections on these threads, and with another listener for administrators if there
/// is one.
async fn serve_on(
    Sockets { public: socket, admin, tls, limits }: Sockets,
    door: http::Door,
    engine: Engine,
    places: &Places,
    stop: impl Future<Output = ()>,
) {
    let part = if admin.is_some() { http::Part::WithoutAdmin } else { http::Part::All };
    let public = http::router(door.clone(), part);
    let terms = listener::Terms { metrics: engine.metrics(), limits, tls };
    let (ending, _) = watch::channel(false);
    let drained = async {
        stop.await;
        engine.drain();
        engine.end().await;
        ending.send_replace(true);
    };
    let administrators = async {
        let Some(admin) = admin else { return };
        let mut ended = ending.subscribe();
        let ended = async move {
            // One that is gone has ended too.
            let _ = ended.wait_for(|ended| *ended).await;
        };
        let router = http::router(door, http::Part::Admin);
        listener::serve(admin, router, &terms, &Places::here(), ended).await;
    };
    let everybody = listener::serve(socket, public, &terms, places, drained);
    futures_util::future::join(everybody, administrators).await;
}
