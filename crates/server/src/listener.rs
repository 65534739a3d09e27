//! The accept loop: bounded connections, a limit on slow headers, and an orderly end.
//!
//! `axum::serve` sets no header timeout, so a peer that dribbles its headers would hold a socket for
//! ever; and its graceful end knows nothing of sockets that were upgraded. hyper is set up here
//! instead.

mod addresses;
mod meter;
mod tls;

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use lingua_engine::metrics::{Held, Metrics};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tower_layer::Layer;

use crate::config::Limits;
use crate::tls::{Certified, Tls};
use crate::workers::Places;
use addresses::{Addresses, Seat};
use meter::{Allowance, Metered, Written};

/// For requests and sockets under way to end once it stops.
const GRACE: Duration = Duration::from_secs(10);

/// After a failed accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a connection knows of itself. Every request brings it along; a socket keeps it for its
/// life, and with it its place among the connections.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Turns true when sockets are to say goodbye. The accept loop waits until nobody holds one.
    pub(crate) ending: watch::Receiver<bool>,
    /// From where it comes.
    pub(crate) address: IpAddr,
    /// How much it may ask for.
    pub(crate) limits: Arc<Limits>,
    /// Whose certificate was shown, of those that mean something here.
    pub(crate) certified: Option<Arc<Certified>>,
    written: Written,
    allowance: Allowance,
    _place: Arc<(OwnedSemaphorePermit, Seat, Held)>,
}

impl Peer {
    /// Bytes written to the connection so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.bytes()
    }

    /// Nobody knows who it is: it may send so much, and loses the connection if it sends more.
    pub(crate) fn is_stranger(&self, bytes: u64) {
        self.allowance.only(bytes);
    }

    /// It may send as much as it likes, as far as this connection is asked.
    pub(crate) fn is_known(&self) {
        self.allowance.all();
    }
}

/// What holds for every connection.
pub(crate) struct Terms<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) limits: Arc<Limits>,
    /// Spoken, if there is a certificate.
    pub(crate) tls: Option<Arc<Tls>>,
}

/// Serves until `stop` resolves, then lets what is under way end: requests by their answer, sockets
/// by a close. With `tls` nothing else is spoken.
pub(crate) async fn serve(
    socket: TcpListener,
    router: Router,
    terms: &Terms<'_>,
    places: &Places,
    stop: impl Future<Output = ()>,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    // hyper has one time for all requests of a connection; `converse` has another for the first.
    let idle_timeout = Duration::from_millis(terms.limits.idle_timeout_ms);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(idle_timeout);
    let seats = Arc::new(Semaphore::new(terms.limits.connections));
    let addresses = Addresses::new(terms.limits.connections_per_address);
    let graceful = GracefulShutdown::new();
    let (end, ending) = watch::channel(false);
    tokio::pin!(stop);
    loop {
        let place = tokio::select! {
            place = Arc::clone(&seats).acquire_owned() => place.expect("never closed"),
            () = &mut stop => break,
        };
        let (stream, from) = tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let address = from.ip().to_canonical();
        let Some(seat) = addresses.seat(address) else {
            terms.metrics.limited("connections_per_address");
            tracing::debug!(%address, "too many connections from one address");
            continue;
        };
        // What is written is complete: holding it back would only delay it.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection broke as it began");
            continue;
        }
        let place = Arc::new((place, seat, terms.metrics.connection()));
        let (written, allowance) = (Written::default(), Allowance::default());
        let mut peer = Peer {
            ending: ending.clone(),
            address,
            limits: Arc::clone(&terms.limits),
            certified: None,
            written: written.clone(),
            allowance: allowance.clone(),
            _place: place,
        };
        let (router, tls) = (router.clone(), terms.tls.clone());
        let (builder, watcher) = (builder.clone(), graceful.watcher());
        let connection = async move |stream: TcpStream| {
            let stream = Metered::new(stream, written, allowance);
            let Some(tls) = tls else {
                return converse(stream, peer, router, builder, watcher).await;
            };
            let mut ending = peer.ending.clone();
            // On its own task, so that who is slow delays nobody else.
            let agreed = tokio::select! {
                agreed = tls::agree(&tls, stream) => agreed,
                _ = ending.wait_for(|ending| *ending) => return,
            };
            match agreed {
                Ok((stream, certified)) => {
                    peer.certified = certified;
                    converse(stream, peer, router, builder, watcher).await;
                }
                Err(reason) => tracing::debug!(%address, reason, "a connection was not agreed on"),
            }
        };
        if places.is_single() {
            tokio::spawn(connection(stream));
        } else if let Ok(stream) = stream.into_std() {
            // Registered anew with the runtime of its own thread.
            places.next().spawn(async move {
                match TcpStream::from_std(stream) {
                    Ok(stream) => connection(stream).await,
                    Err(error) => tracing::warn!(%error, "a connection was not taken over"),
                }
            });
        }
    }
    drop((socket, ending));
    end.send_replace(true);
    let ended = futures_util::future::join(graceful.shutdown(), end.closed());
    if timeout(GRACE, ended).await.is_err() {
        tracing::warn!("requests or sockets were still under way at the end");
    }
}

/// Answers the requests of one connection, until it ends or becomes a socket.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
    router: Router,
    builder: Builder<TokioExecutor>,
    watcher: Watcher,
) {
    let first_request = Duration::from_millis(peer.limits.header_timeout_ms);
    let answers = TowerToHyperService::new(Extension(peer).layer(router));
    let begun = Arc::new(AtomicBool::new(false));
    let service = service_fn({
        let begun = Arc::clone(&begun);
        move |request| {
            begun.store(true, Ordering::Relaxed);
            answers.call(request)
        }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(watcher.watch(connection.into_owned()));
    let ended = match timeout(first_request, &mut connection).await {
        Ok(ended) => ended,
        Err(_) if begun.load(Ordering::Relaxed) => connection.await,
        Err(_) => return tracing::debug!("a connection asked for nothing in time"),
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended early");
    }
}
