//! The life of `lingua serve`: open the store, listen, serve until told to stop.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use lingua_core::InstanceId;
use lingua_engine::chance::Chance;
use lingua_engine::cluster::{JoinError, understands_all};
use lingua_engine::secret::Secret;
use lingua_engine::{Engine, Settings};
use lingua_store::memory::MemoryStore;
use lingua_store::{Backend, Clock, Instance, redis};
use tokio::net::TcpListener;

use crate::cli::{Failure, Profile, Serve};
use crate::peers::Peers;
use crate::shutdown::Signals;
use crate::workers::Workers;

/// Runs the scheduler until a signal ends it.
pub(crate) fn serve(options: Serve) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    runtime.block_on(async {
        let store = open_store(&options.store, redis::Options::default()).await?;
        let loopback = options.listen.ip().is_loopback();
        if !loopback && !options.insecure {
            return Err(Failure::refused(format!(
                "{} can be reached from outside, and this version asks nobody who they are; listen \
                 on 127.0.0.1, or say --insecure if the network itself keeps strangers out",
                options.listen
            )));
        }
        let socket = TcpListener::bind(options.listen).await.map_err(|error| {
            Failure::failed(format!(
                "cannot listen on {}: {error}; choose another address with --listen",
                options.listen
            ))
        })?;
        let address = socket.local_addr().context("the listener has no address")?;
        understands_all(&store).await.map_err(not_joined)?;
        let engine = start_engine(store, &options).await?;
        let advertised = options.advertise.clone().unwrap_or_else(|| format!("http://{address}"));
        engine.join(&advertised, Arc::new(Peers::new())).await.map_err(not_joined)?;
        if address.ip().is_unspecified() && options.advertise.is_none() && options.store != "memory"
        {
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
        let workers = Workers::start(options.threads())?;
        let stop = signals.stop(engine.clone());
        crate::serve_on(socket, engine, &workers.places(), stop).await;
        workers.end();
        Ok(())
    })
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
pub(crate) async fn start_engine(store: Backend, options: &Serve) -> Result<Engine, Failure> {
    let chance = Chance;
    let id = match &options.instance_id {
        Some(id) => id.clone(),
        None => InstanceId::new(format!("lingua-{:08x}", chance.bits() as u32))
            .expect("hexadecimal is within an id's letters"),
    };
    let instance = Instance { id, boot: chance.bits() };
    let settings = match options.profile {
        Profile::Stable => Settings::stable(),
        Profile::Fast => Settings::fast(),
    };
    let secret = Secret::agree(&store, chance).await.map_err(|error| {
        Failure::failed(format!("the instances could not agree on a secret: {error}"))
    })?;
    Ok(Engine::start(store, instance, settings, secret))
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
