//! The accept loop: bounded connections, a limit on slow headers, and an orderly end.
//!
//! `axum::serve` sets no header timeout, so a peer that dribbles its headers would hold a socket for
//! ever; hyper is set up here instead.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Sockets open at the same time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 10_000;

/// For a request's headers to arrive, also of an idle kept-alive connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// For requests under way to end once it stops.
const GRACE: Duration = Duration::from_secs(10);

/// After a failed accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` resolves, then lets requests under way end.
pub(crate) async fn serve(socket: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place.expect("never closed"),
            () = &mut stop => break,
        };
        let stream = tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = watched.await {
                tracing::debug!(error, "a connection ended early");
            }
            drop(place);
        });
    }
    drop(socket);
    if timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way at the end");
    }
}
