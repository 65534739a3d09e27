//! The life of `lingua serve`: open the store, listen, serve until told to stop.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use lingua_core::InstanceId;
use lingua_engine::Engine;
use lingua_engine::chance::Chance;
use lingua_engine::cluster::{JoinError, understands_all};
use lingua_engine::secret::Secret;
use lingua_store::memory::MemoryStore;
use lingua_store::{Backend, Clock, Instance, redis};
use tokio::net::TcpListener;

use crate::cli::{Failure, Serve};
use crate::config::{Config, Loaded};
use crate::peers::Peers;
use crate::shutdown::Signals;
use crate::workers::Workers;

/// Runs the scheduler until a signal ends it.
pub(crate) fn serve(options: Serve) -> Result<(), Failure> {
    let loaded = options.settings.asked().load(std::env::vars())?;
    let Loaded { config, strangers, .. } = &loaded;
    for stranger in strangers {
        tracing::warn!("{stranger}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    runtime.block_on(async {
        let store = open_store(&store_url(config)?, redis::Options::default()).await?;
        let listen = config.main.listen;
        let loopback = listen.ip().is_loopback();
        if !loopback && !config.main.insecure {
            return Err(Failure::refused(format!(
                "{listen} can be reached from outside, and this version asks nobody who they are; listen \
                 on 127.0.0.1, or say --insecure if the network itself keeps strangers out"
            )));
        }
        let socket = TcpListener::bind(listen).await.map_err(|error| {
            Failure::failed(format!(
                "cannot listen on {listen}: {error}; choose another address with --listen"
            ))
        })?;
        let address = socket.local_addr().context("the listener has no address")?;
        understands_all(&store).await.map_err(not_joined)?;
        let engine = start_engine(store, config).await?;
        let advertise = config.main.advertise.as_ref();
        let advertised = advertise.cloned().unwrap_or_else(|| format!("http://{address}"));
        engine.join(&advertised, Arc::new(Peers::new())).await.map_err(not_joined)?;
        if address.ip().is_unspecified() && advertise.is_none() && is_shared(config) {
            tracing::warn!(
                advertised,
                "other instances cannot reach this one there; say --advertise http://HOST:PORT"
            );
        }
        if options.with_parent {
            end_with_stdin();
        }
        // Before the greeting: whoever has read it may already send a signal.
        let signals = Signals::listen();
        greet(address, loopback, engine.store());
        let workers = Workers::start(threads(config))?;
        let stop = signals.stop(engine.clone());
        crate::serve_on(socket, engine, &workers.places(), stop).await;
        workers.end();
        Ok(())
    })
}

/// Threads for connections.
fn threads(config: &Config) -> usize {
    const MOST: usize = 8;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match config.main.threads {
        0 => (processors / 2).clamp(1, MOST),
        threads => usize::from(threads),
    }
}

/// Where state is kept, from the file that has it if there is one.
fn store_url(config: &Config) -> Result<String, Failure> {
    let Some(file) = &config.main.store_file else {
        return Ok(config.main.store.reveal().to_owned());
    };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::refused(format!("store_file: {}: {error}", file.display())))?;
    match text.lines().next().map(str::trim) {
        Some(url) if !url.is_empty() => Ok(url.to_owned()),
        _ => Err(Failure::refused(format!("store_file: {} is empty", file.display()))),
    }
}

/// Whether other instances may share the store.
fn is_shared(config: &Config) -> bool {
    config.main.store_file.is_some() || config.main.store.reveal() != "memory"
}

fn not_joined(error: JoinError) -> Failure {
    match error {
        JoinError::Taken { .. } | JoinError::Apart { .. } => Failure::refused(error.to_string()),
        JoinError::Store(_) => Failure::failed(error.to_string()),
    }
}

/// Whoever started this process is gone when its end of the pipe is: nobody is left to drain for.
fn end_with_stdin() {
    std::thread::spawn(|| {
        // What is written there means nothing, and a failure means the end as well.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}

/// An engine with its clockwork running.
pub(crate) async fn start_engine(store: Backend, config: &Config) -> Result<Engine, Failure> {
    let chance = Chance;
    let id = match &config.main.instance_id {
        Some(id) => id.clone(),
        None => InstanceId::new(format!("lingua-{:08x}", chance.bits() as u32))
            .expect("hexadecimal is within an id's letters"),
    };
    let instance = Instance { id, boot: chance.bits() };
    let secret = Secret::agree(&store, chance).await.map_err(|error| {
        Failure::failed(format!("the instances could not agree on a secret: {error}"))
    })?;
    Ok(Engine::start(store, instance, config.settings(), secret))
}

/// The only place that names a backend.
pub(crate) async fn open_store(url: &str, options: redis::Options) -> Result<Backend, Failure> {
    match url {
        "memory" => Ok(MemoryStore::open(Clock::system())),
        url => Ok(redis::open(url, options).await?),
    }
}

/// Three lines: what it listens on, which store it uses, where to look next.
fn greet(address: std::net::SocketAddr, loopback: bool, store: &Backend) {
    let who =
        if loopback { "this machine only, no token asked" } else { "INSECURE: no token asked" };
    let version = env!("CARGO_PKG_VERSION");
    // Nobody need be there to read it.
    let _ = writeln!(
        std::io::stdout(),
        "lingua {version} listens on http://{address} ({who})\nstore: {}\n\
         next: open http://{address}/dashboard, or lingua --help",
        store.description
    );
}
