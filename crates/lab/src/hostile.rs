//! Clients and nodes that mean no good. Each does one thing for as long as it is held, from addresses
//! of its own, and on loopback only.
//!
//! - `talk`: those who open a session, or a node's socket, and then say what nobody should.
//! - `sockets`: those who only hold or begin connections.
//! - `lies`: nodes that lie, callers who wait or fill what is kept.
//! - `unfinished`: those who begin messages and bodies and do not end them.
//!
//! A new kind is a variant of [`Malice`], a line each in `all` and `about`, and an arm in `act`.

mod lies;
mod sockets;
mod talk;
mod unfinished;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malice {
    /// Asks for much and reads none of it.
    NeverReads,
    /// Sends messages that are right, as fast as it can.
    Floods,
    /// Asks over HTTP, as fast as it can, on several connections.
    Requests,
    /// Sends messages that are as large as can be, and larger ones.
    Giants,
    /// Sends messages that are nested deeper than anything is, and comes back when it is thrown out.
    Nested,
    /// Speaks without a pause and without an end, as fast as it can.
    Endless,
    /// Opens sockets and says nothing, until they are closed.
    ManySockets {
        /// How many.
        count: u32,
    },
    /// Opens sessions from many addresses and says nothing.
    Idle {
        /// How many.
        count: u32,
    },
    /// Sends its headers a byte at a time, on many connections.
    DribblesHeaders {
        /// How many.
        count: u32,
    },
    /// Opens sockets and sends its first message a byte at a time.
    DribblesHandshake {
        /// How many.
        count: u32,
    },
    /// Nodes that say again and again that they have a million slots.
    ManySlots,
    /// Nodes that say again and again that they know 64,000 languages.
    ManyLanguages,
    /// Begins HTTP/2 on many connections and says nothing more.
    Http2 {
        /// How many.
        count: u32,
    },
    /// Opens sockets of nodes that never register and send a heartbeat now and then.
    Unregistered {
        /// How many.
        count: u32,
    },
    /// Sends one message in empty frames without end, as fast as it can.
    EmptyFrames,
    /// Opens sessions and sends the largest message but for its last byte, then only pongs.
    UnfinishedMessages {
        /// How many.
        count: u32,
    },
    /// Sends the largest body but for its last byte.
    UnfinishedBodies {
        /// How many.
        count: u32,
    },
    /// Nodes that register again and again.
    Registers,
    /// Nodes that change what they can do with every message.
    Churns,
    /// Nodes that say they run hundreds of jobs that nobody knows.
    BogusRunning,
    /// Waits for jobs that nobody answers, by way of another instance if there is one.
    LongPolls {
        /// How many.
        count: u32,
    },
    /// Fills what is kept for callers: uploads, and large results.
    FillsKept,
}

impl Malice {
    /// One of each; so many sockets of one that holds them.
    pub fn all(sockets: u32) -> Vec<Malice> {
        let few = sockets.div_ceil(50);
        vec![
            Malice::NeverReads,
            Malice::Floods,
            Malice::Requests,
            Malice::Giants,
            Malice::Nested,
            Malice::Endless,
            Malice::ManySockets { count: sockets },
            Malice::Idle { count: sockets },
            Malice::DribblesHeaders { count: few },
            Malice::DribblesHandshake { count: few },
            Malice::ManySlots,
            Malice::ManyLanguages,
            Malice::Http2 { count: few },
            Malice::Unregistered { count: few },
            Malice::EmptyFrames,
            Malice::UnfinishedMessages { count: few },
            Malice::UnfinishedBodies { count: few },
            Malice::Registers,
            Malice::Churns,
            Malice::BogusRunning,
            Malice::LongPolls { count: few },
            Malice::FillsKept,
        ]
    }

    /// In a few words.
    pub fn name(self) -> &'static str {
        self.about().0
    }

    /// Where it comes from, unless it comes from many addresses.
    fn address(self) -> IpAddr {
        IpAddr::from([127, 0, 0, self.about().1])
    }

    /// Its name, and the last part of its own loopback address. Simulated nodes come from where the
    /// system puts them.
    fn about(self) -> (&'static str, u8) {
        match self {
            Malice::NeverReads => ("never reads", 101),
            Malice::Floods => ("floods a socket", 102),
            Malice::Requests => ("floods with requests", 103),
            Malice::Giants => ("sends giants", 104),
            Malice::Nested => ("nests deeply", 105),
            Malice::Endless => ("speaks without end", 106),
            Malice::ManySockets { .. } => ("opens sockets", 107),
            Malice::Idle { .. } => ("holds idle sessions", 108),
            Malice::DribblesHeaders { .. } => ("dribbles headers", 109),
            Malice::DribblesHandshake { .. } => ("dribbles its opening", 110),
            Malice::ManySlots => ("claims slots", 1),
            Malice::ManyLanguages => ("claims languages", 1),
            Malice::Http2 { .. } => ("begins HTTP/2", 111),
            Malice::Unregistered { .. } => ("never registers", 112),
            Malice::EmptyFrames => ("sends empty frames", 113),
            Malice::UnfinishedMessages { .. } => ("ends no message", 114),
            Malice::UnfinishedBodies { .. } => ("ends no body", 115),
            Malice::Registers => ("registers endlessly", 1),
            Malice::Churns => ("changes abilities", 1),
            Malice::BogusRunning => ("names unknown jobs", 1),
            Malice::LongPolls { .. } => ("waits for jobs", 1),
            Malice::FillsKept => ("fills what is kept", 1),
        }
    }
}

/// One that means no good, on a thread of its own; it ends when it is dropped. It lets all others on
/// this machine go first: who means no good brings a machine of their own, and takes no processor from
/// those they attack.
#[derive(Debug)]
pub struct Hostile {
    /// Gone when this value is.
    _held: oneshot::Sender<()>,
    in_place: watch::Receiver<bool>,
}

impl Hostile {
    /// Lets it loose on the scheduler at the first of these addresses; the last is another instance of
    /// it, or the same.
    pub fn start(malice: Malice, instances: [SocketAddr; 2]) -> anyhow::Result<Self> {
        let all_here = instances.iter().all(|instance| instance.ip().is_loopback());
        anyhow::ensure!(all_here, "only loopback is attacked");
        let (held, mut dropped) = oneshot::channel();
        let (place, in_place) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("hostile".to_owned());
        thread.spawn(move || {
            // Of this thread only; without it the measurement is a little too hard.
            let _ = rustix::process::nice(10);
            runtime.block_on(async {
                tokio::select! {
                    () = again_and_again(malice, instances, &place) => {}
                    _ = &mut dropped => {}
                }
            });
            // Thousands of sockets need not be waited for.
            runtime.shutdown_background();
        })?;
        Ok(Hostile { _held: held, in_place })
    }

    /// Waits until it does what it is there for: until all of its sockets are open, or as many as it
    /// is let.
    pub async fn in_place(&mut self) {
        // A thread that is gone is waited for by nobody.
        let _ = self.in_place.wait_for(|there| *there).await;
    }
}

/// Where one tells that it does what it is there for.
type Place = watch::Sender<bool>;

async fn again_and_again(malice: Malice, instances: [SocketAddr; 2], place: &Place) {
    loop {
        // Whatever throws it out, it comes back.
        let _ = act(malice, instances, place).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn act(
    malice: Malice,
    [target, other]: [SocketAddr; 2],
    place: &Place,
) -> anyhow::Result<()> {
    let from = malice.address();
    match malice {
        Malice::ManySockets { count } => sockets::hold(from, target, count, place).await,
        Malice::Idle { count } => sockets::idle(target, count, place).await,
        Malice::DribblesHeaders { count } => {
            sockets::dribble(from, target, count, false, place).await
        }
        Malice::DribblesHandshake { count } => {
            sockets::dribble(from, target, count, true, place).await
        }
        Malice::Http2 { count } => sockets::http2(from, target, count, place).await,
        Malice::Unregistered { count } => sockets::unregistered(from, target, count, place).await,
        Malice::UnfinishedMessages { count } => {
            unfinished::messages(from, target, count, place).await
        }
        Malice::UnfinishedBodies { count } => unfinished::bodies(from, target, count, place).await,
        Malice::LongPolls { count } => lies::long_polls(target, other, count, place).await,
        _ => {
            place.send_replace(true);
            match malice {
                Malice::EmptyFrames => unfinished::empty_frames(from, target).await,
                Malice::Registers | Malice::Churns | Malice::BogusRunning => {
                    lies::nodes(malice, target).await
                }
                Malice::FillsKept => lies::fill(target).await,
                Malice::Requests => sockets::request(from, target).await,
                Malice::ManySlots | Malice::ManyLanguages => talk::nodes(malice, target).await,
                _ => talk::session(malice, from, target).await,
            }
        }
    }
}
