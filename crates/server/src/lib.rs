//! The scheduler of a real-time speech translation platform: the edge around the engine, and `serve`.
//!
//! In reading order: [`cli`] (what can be asked for), [`config`] (how it is set up), [`site`] (names of web pages and hosts), [`permissions`] (who can read its secrets), [`identity`] (who may do what), [`audit`] (who did what), [`tls`] (what is shown and believed), [`app`] (the life of `lingua serve`), [`cluster_key`] (what instances share),
//! [`listener`] with its [`workers`] and the budget of what is [`unfinished`], [`http`], [`ws`] and [`peers`] (the doors), [`wire`] (what is said through them), [`shutdown`], [`reload`],
//! [`otlp`], [`telemetry`], and the commands [`token`], [`probe`] and [`mod@operate`], which write with [`out`] and [`human`]. [`client`] is for programs that call a scheduler.
//!
//! It is a library, so that tests and the binary (`crates/lingua`) go through one door: [`serve`].

mod cli;
mod site;
mod config;
mod permissions;
mod identity;
mod app;
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
pub mod out;
pub mod client;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use lingua_engine::Engine;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use crate::app::{open_store, start_embedded};
pub use crate::cli::{Command, Failure, Serve};
/// The calls by method and path, and who may make them.
pub use crate::http::calls;
use crate::peers::Peers;
use crate::telemetry::LogFormat;
use crate::tls::Trust;
/// The description of both sockets.
pub use crate::wire::asyncapi::document as asyncapi;
use crate::workers::Places;

/// Runs a command of the scheduler.
pub fn run(command: Command) -> ExitCode {
    let options = match command {
        Command::Serve(options) => options,
        Command::Config { what } => return run_logged("info", || config::run(&what)),
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

/// Serves an engine on this socket until `stop` resolves. Then no new work is taken, open jobs end,
/// and after them the connections.
pub async fn serve(socket: TcpListener, engine: Engine, stop: impl Future<Output = ()>) {
    let address = socket.local_addr().map(|address| format!("http://{address}"));
    if let Ok(address) = address
        && let Err(error) =
            engine.join(&address, Arc::new(Peers::new(Trust::Nobody, engine.asker()))).await
    {
        tracing::warn!(%error, "this instance stays alone");
    }
    let listens = socket.local_addr().map(|address| address.ip());
    let gate = identity::Gate::open(listens.ok());
    let door = http::Door::new(engine.clone(), gate, Trust::Nobody);
    let door = door.behind(&socket, &None, false);
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
    let unfinished = unfinished::Budget::new(&limits, engine.metrics());
    let terms = listener::Terms { metrics: engine.metrics(), limits, unfinished, tls };
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
