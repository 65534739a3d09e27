//! The life of `lingua serve`: open the store, listen, serve until told to stop.

use anyhow::Context;
use lingua_engine::Engine;
use lingua_store::memory::MemoryStore;
use lingua_store::{Backend, Clock, redis};
use tokio::net::TcpListener;

use crate::cli::{Failure, Serve};
use crate::shutdown::Signals;
use crate::{http, listener};

/// Runs the scheduler until a signal ends it.
pub(crate) fn serve(options: Serve) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
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
        let engine = Engine::new(store);
        // Before the greeting: whoever has read it may already send a signal.
        let signals = Signals::listen();
        greet(address, loopback, engine.store());
        listener::serve(socket, http::router(engine.clone()), signals.stop(engine)).await;
        Ok(())
    })
}

/// The only place that names a backend.
pub(crate) async fn open_store(url: &str, options: redis::Options) -> Result<Backend, Failure> {
    match url {
        "memory" => Ok(MemoryStore::open(Clock::system())),
        url => Ok(redis::open(url, options).await?),
    }
}

/// Three lines: what it listens on, which store it uses, where to look next.
#[allow(clippy::print_stdout, reason = "for the person who started it")]
fn greet(address: std::net::SocketAddr, loopback: bool, store: &Backend) {
    let who =
        if loopback { "this machine only, no token asked" } else { "INSECURE: no token asked" };
    println!("lingua {} listens on http://{address} ({who})", env!("CARGO_PKG_VERSION"));
    println!("store: {}", store.description);
    println!("next: curl http://{address}/ready, or lingua --help");
}
