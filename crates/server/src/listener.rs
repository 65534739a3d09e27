//! The accept loop: bounded connections, a limit on slow headers, and an orderly end.
//!
//! `axum::serve` sets no header timeout, so a peer that dribbles its headers would hold a socket for
//! ever; and its graceful end knows nothing of sockets that were upgraded. hyper is set up here
//! instead, for HTTP/1.1 alone: HTTP/2 would need every one of these limits a second time.

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
use hyper::server::conn::http1::Builder;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use lingua_engine::metrics::{CountGuard, Metrics};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tower_layer::Layer;

use crate::config::Limits;
use crate::tls::{Certified, Tls};
use crate::unfinished::{Account, Budget};
use crate::workers::Places;
use addresses::{AddressPermit, Addresses};
use meter::{Allowance, Metered, Written};

/// For requests and sockets under way to end once it stops.
const GRACE: Duration = Duration::from_secs(10);

/// After a failed accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Of one connection, for headers and pieces of bodies on their way. A token and the headers of any
/// browser fit several times.
const HTTP_BUFFER: usize = 32 << 10;

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
    unfinished: Arc<Budget>,
    _place: Arc<(OwnedSemaphorePermit, AddressPermit, CountGuard)>,
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

    /// What it begins to send and has not ended counts here.
    pub(crate) fn account(&self) -> Account {
        self.unfinished.account(self.address)
    }
}

/// What holds for every connection.
pub(crate) struct Terms<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) limits: Arc<Limits>,
    /// Of bytes that are not yet a message, on all listeners together.
    pub(crate) unfinished: Arc<Budget>,
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
    let seats = Arc::new(Semaphore::new(terms.limits.connections));
    let addresses = Addresses::new(terms.limits.connections_per_address);
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
        let Some(permit) = addresses.permit(address) else {
            terms.metrics.limited("connections_per_address");
            tracing::debug!(%address, "too many connections from one address");
            continue;
        };
        // What is written is complete: holding it back would only delay it.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection broke as it began");
            continue;
        }
        let peer = Peer {
            ending: ending.clone(),
            address,
            limits: Arc::clone(&terms.limits),
            certified: None,
            written: Written::default(),
            allowance: Allowance::default(),
            unfinished: Arc::clone(&terms.unfinished),
            _place: Arc::new((place, permit, terms.metrics.connection())),
        };
        let (router, tls) = (router.clone(), terms.tls.clone());
        if places.is_single() {
            tokio::spawn(connection(stream, peer, router, tls));
        } else if let Ok(stream) = stream.into_std() {
            // Registered anew with the runtime of its own thread.
            places.next().spawn(async move {
                match TcpStream::from_std(stream) {
                    Ok(stream) => connection(stream, peer, router, tls).await,
                    Err(error) => tracing::warn!(%error, "a connection was not taken over"),
                }
            });
        }
    }
    drop((socket, ending));
    end.send_replace(true);
    if timeout(GRACE, end.closed()).await.is_err() {
        tracing::warn!("requests or sockets were still under way at the end");
    }
}

/// One connection, from its first byte on.
async fn connection(stream: TcpStream, mut peer: Peer, router: Router, tls: Option<Arc<Tls>>) {
    let stream = Metered::new(stream, peer.written.clone(), peer.allowance.clone());
    let Some(tls) = tls else { return converse(stream, peer, router).await };
    let mut ending = peer.ending.clone();
    // On its own task, so that who is slow delays nobody else.
    let agreed = tokio::select! {
        agreed = tls::agree(&tls, stream) => agreed,
        _ = ending.wait_for(|ending| *ending) => return,
    };
    match agreed {
        Ok((stream, certified)) => {
            peer.certified = certified;
            converse(stream, peer, router).await;
        }
        Err(reason) => {
            tracing::debug!(address = %peer.address, reason, "a connection was not agreed on");
        }
    }
}

/// Answers the requests of one connection, until it ends or becomes a socket.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
    router: Router,
) {
    let first_request = Duration::from_millis(peer.limits.header_timeout_ms);
    // hyper has one time for all requests of a connection; below there is another for the first.
    let next_request = Duration::from_millis(peer.limits.idle_timeout_ms);
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(next_request).max_buf_size(HTTP_BUFFER);
    let mut ending = peer.ending.clone();
    let answers = TowerToHyperService::new(Extension(peer).layer(router));
    let begun = Arc::new(AtomicBool::new(false));
    let service = service_fn({
        let begun = Arc::clone(&begun);
        move |request| {
            begun.store(true, Ordering::Relaxed);
            answers.call(request)
        }
    });
    let mut connection =
        pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let mut answered = pin!(async {
        tokio::select! {
            ended = &mut connection => return ended,
            _ = ending.wait_for(|ending| *ending) => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    });
    let ended = match timeout(first_request, &mut answered).await {
        Ok(ended) => ended,
        Err(_) if begun.load(Ordering::Relaxed) => answered.await,
        Err(_) => return tracing::debug!("a connection asked for nothing in time"),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
