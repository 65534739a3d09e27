//! An engine on its sockets, from the first connection to the last.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use lingua_engine::Engine;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::catalogue::CatalogueCache;
use crate::config::{Config, Limits};
use crate::http::{self, Door};
use crate::identity::Authenticator;
use crate::listener;
use crate::peers::Peers;
use crate::tls::{Tls, Trust};
use crate::unfinished::Budget;
use crate::workers::Places;

/// Serves an engine on this socket until `stop` resolves. Then no new work is taken, open jobs end,
/// and after them the connections.
pub async fn serve(socket: TcpListener, engine: Engine, stop: impl Future<Output = ()>) {
    serve_with(None, socket, engine, stop).await;
}

/// The same with a catalogue of services in a file.
pub async fn serve_with(
    catalogue: Option<&Path>,
    socket: TcpListener,
    engine: Engine,
    stop: impl Future<Output = ()>,
) {
    let catalogue = catalogue.map_or_else(CatalogueCache::default, |file| {
        CatalogueCache::start_file(file.to_owned(), &engine)
    });
    let address = socket.local_addr().map(|address| format!("http://{address}"));
    if let Ok(address) = address
        && let Err(error) =
            engine.join(&address, Arc::new(Peers::new(Trust::Nobody, engine.asker()))).await
    {
        tracing::warn!(%error, "this instance stays alone");
    }
    let listens = socket.local_addr().map(|address| address.ip());
    let authenticator = Authenticator::open(listens.ok());
    let door = Door::new(engine.clone(), authenticator, Arc::default(), Trust::Nobody);
    let door = door.with_catalogue(catalogue).behind(&socket, &None, false);
    let limits = Arc::new(Config::preset(Default::default()).limits);
    let sockets = Sockets { public: socket, admin: None, tls: None, limits };
    serve_on(sockets, door, engine, &Places::here(), stop).await;
}

/// Where to listen, and how.
pub(crate) struct Sockets {
    pub(crate) public: TcpListener,
    /// Where administrators are heard, if not there.
    pub(crate) admin: Option<TcpListener>,
    /// Spoken on both.
    pub(crate) tls: Option<Arc<Tls>>,
    /// How much anybody may ask for.
    pub(crate) limits: Arc<Limits>,
}

/// The same, with connections on these threads, and with another listener for administrators if there
/// is one.
pub(crate) async fn serve_on(
    Sockets { public: socket, admin, tls, limits }: Sockets,
    door: Door,
    engine: Engine,
    places: &Places,
    stop: impl Future<Output = ()>,
) {
    let part = if admin.is_some() { http::Part::WithoutAdmin } else { http::Part::All };
    let public = http::router(door.clone(), part);
    let unfinished = Budget::new(&limits, engine.metrics());
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
