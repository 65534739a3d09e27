//! A TCP proxy that delays, holds back, cuts and refuses.
//!
//! Stands between a client and a server, or between a primary and its replica. Faults are set while
//! connections run, and from the moment a call returns no byte passes against it: whatever is
//! written is written under the lock that the call has to take.
//!
//! *Upstream* is toward the server, *downstream* toward whoever connected. A black hole holds bytes
//! back rather than throwing them away, as a network does under TCP: connections stay open, nothing
//! arrives, and when it ends everything arrives late and in order. The end of a stream is held back
//! like any byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use crate::ports::loopback;

mod pump;

use pump::{Cut, Pump};

/// More than any test opens; the next ones are closed at once. With both directions full, a
/// connection holds 2 MiB.
const MAX_CONNECTIONS: usize = 4096;

/// Waited after a failed accept, which means that the process is out of file descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A proxy on a free port of 127.0.0.1. Dropping it closes everything.
#[derive(Debug)]
pub struct FaultProxy {
    addr: SocketAddr,
    faults: Arc<Faults>,
    accepting: JoinHandle<()>,
}

/// What is wrong with the wire, as all connections see it.
#[derive(Debug)]
struct Faults {
    wire: watch::Sender<Wire>,
    /// How many bytes may still pass downstream until the connection that has the last of them is
    /// closed.
    cut_after: Mutex<Option<usize>>,
    /// Connections now open.
    open: AtomicUsize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Wire {
    upstream: Way,
    downstream: Way,
    refuse: bool,
    /// A connection lives until this is not the number it began with.
    cuts: u64,
}

/// One direction.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    delay: Duration,
    black_hole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Upstream,
    Downstream,
}

impl FaultProxy {
    /// Listens, and passes everything on to `upstream`.
    pub async fn start(upstream: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(loopback(0)).await?;
        let addr = listener.local_addr()?;
        let wire = watch::Sender::new(Wire::default());
        let faults =
            Arc::new(Faults { wire, cut_after: Mutex::new(None), open: AtomicUsize::new(0) });
        let accepting = tokio::spawn(accept(listener, upstream, Arc::clone(&faults)));
        Ok(Self { addr, faults, accepting })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// `redis://127.0.0.1:PORT/`
    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr)
    }

    /// How many connections are open through it.
    pub fn connections(&self) -> usize {
        self.faults.open.load(Ordering::Relaxed)
    }

    /// Ends all faults: what was held back is delivered, new connections are taken.
    pub fn pass(&self) {
        *self.faults.cut_after() = None;
        self.set(|wire| *wire = Wire { cuts: wire.cuts, ..Wire::default() });
    }

    /// Every byte takes this much longer, each way. Later bytes do not wait for earlier ones to
    /// arrive: it is latency, not bandwidth.
    pub fn delay(&self, delay: Duration) {
        self.set(|wire| {
            wire.upstream.delay = delay;
            wire.downstream.delay = delay;
        });
    }

    /// Only what goes to the server takes longer.
    pub fn delay_upstream(&self, delay: Duration) {
        self.set(|wire| wire.upstream.delay = delay);
    }

    /// Only what comes from the server takes longer.
    pub fn delay_downstream(&self, delay: Duration) {
        self.set(|wire| wire.downstream.delay = delay);
    }

    /// Nothing arrives on either side, and no connection is seen to open or to close.
    pub fn black_hole(&self) {
        self.set(|wire| {
            wire.upstream.black_hole = true;
            wire.downstream.black_hole = true;
        });
    }

    /// Nothing arrives at the server any more: requests are lost before they have an effect.
    pub fn black_hole_upstream(&self) {
        self.set(|wire| wire.upstream.black_hole = true);
    }

    /// Nothing comes from the server any more: requests have their effect and the answer is lost.
    pub fn black_hole_downstream(&self) {
        self.set(|wire| wire.downstream.black_hole = true);
    }

    /// Closes all connections, with what they still had to deliver. New ones are taken.
    pub fn cut(&self) {
        self.set(|wire| wire.cuts += 1);
    }

    /// Lets this many more bytes pass downstream, over all connections, and then closes the one
    /// that had the last of them; zero closes the next one to be answered before its reply begins.
    /// Once only.
    pub fn cut_in_mid_reply(&self, after_bytes: usize) {
        *self.faults.cut_after() = Some(after_bytes);
    }

    /// While `true`, new connections are closed as soon as they are taken. Open ones stay.
    pub fn refuse(&self, refuse: bool) {
        self.set(|wire| wire.refuse = refuse);
    }

    fn set(&self, change: impl FnOnce(&mut Wire)) {
        self.faults.wire.send_modify(change);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // The task owns the set of connections, so they are aborted with it.
        self.accepting.abort();
    }
}

impl Faults {
    fn cut_after(&self) -> MutexGuard<'_, Option<usize>> {
        self.cut_after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the wire is as `wanted`.
    async fn until(&self, wanted: impl FnMut(&Wire) -> bool) {
        let mut wire = self.wire.subscribe();
        wire.wait_for(wanted).await.expect("the sender is in self");
    }
}

impl Wire {
    fn way(&self, direction: Direction) -> Way {
        match direction {
            Direction::Upstream => self.upstream,
            Direction::Downstream => self.downstream,
        }
    }
}

/// Counts a connection for as long as it lives, however it ends.
struct Open<'a>(&'a Faults);

impl<'a> Open<'a> {
    fn new(faults: &'a Faults) -> Self {
        faults.open.fetch_add(1, Ordering::Relaxed);
        Self(faults)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, faults: Arc<Faults>) {
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((client, _)) = client else {
            sleep(ACCEPT_AGAIN_AFTER).await;
            continue;
        };
        let cuts = {
            let wire = faults.wire.borrow();
            if wire.refuse || connections.len() >= MAX_CONNECTIONS {
                continue;
            }
            wire.cuts
        };
        let faults = Arc::clone(&faults);
        connections.spawn(async move {
            let _open = Open::new(&faults);
            tokio::select! {
                () = faults.until(|wire| wire.cuts != cuts) => {}
                () = carry(client, upstream, &faults, cuts) => {}
            }
        });
    }
}

/// Carries one connection until both sides have ended it.
async fn carry(mut client: TcpStream, upstream: SocketAddr, faults: &Faults, cuts: u64) {
    // The server must not see a connection that the black hole has swallowed.
    faults.until(|wire| !wire.upstream.black_hole).await;
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    if client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).is_err() {
        return;
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let pump = |direction| Pump { direction, faults, cuts };
    let (Ok(_) | Err(Cut)) = tokio::try_join!(
        pump(Direction::Upstream).run(from_client, to_server),
        pump(Direction::Downstream).run(from_server, to_client),
    );
}
