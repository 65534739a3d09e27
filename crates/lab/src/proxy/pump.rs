//! One direction of one connection.
//!
//! A reader stamps what comes in and a writer sends it on when it is due. The queue between them is
//! bounded, so a direction in a black hole takes a little, then nothing more, and its sender feels
//! what it would feel on a dead network.

use std::convert::Infallible;
use std::future::pending;
use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::{Direction, Faults, Wire};

const CHUNK_BYTES: usize = 16 * 1024;
const QUEUED_CHUNKS: usize = 64;

pub(super) struct Pump<'a> {
    pub direction: Direction,
    pub faults: &'a Faults,
    /// The number of cuts under which this connection lives.
    pub cuts: u64,
}

/// A fault closes the whole connection. A peer that goes away does not: what it had sent, and in
/// the end the news of its going, still take their time to the other side.
pub(super) struct Cut;

struct Chunk {
    arrived: Instant,
    bytes: Vec<u8>,
}

impl Pump<'_> {
    /// Passes everything on, the end of the stream last.
    pub async fn run(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> Result<(), Cut> {
        let (queue, chunks) = mpsc::channel(QUEUED_CHUNKS);
        // Only the writer decides when it is over: what was read is still to be delivered, and what
        // cannot be delivered need not be read.
        let reading = async {
            read(from, queue).await;
            pending::<Infallible>().await
        };
        tokio::select! {
            written = self.write(chunks, to) => written,
            never = reading => match never {},
        }
    }

    async fn write(
        &self,
        mut chunks: mpsc::Receiver<Chunk>,
        mut to: WriteHalf<'_>,
    ) -> Result<(), Cut> {
        let mut wire = self.faults.wire.subscribe();
        while let Some(chunk) = chunks.recv().await {
            let mut rest = chunk.bytes.as_slice();
            while !rest.is_empty() {
                self.until_due(chunk.arrived, &mut wire).await;
                if to.writable().await.is_err() {
                    return Ok(());
                }
                match self.try_write(&to, rest)? {
                    Ok(passed) => rest = &rest[passed..],
                    Err(_peer_is_gone) => return Ok(()),
                }
            }
        }
        self.until_due(Instant::now(), &mut wire).await;
        // Fails if the peer is gone already, and then it needs no telling.
        let _ = to.shutdown().await;
        Ok(())
    }

    /// Waits until what arrived then may leave; a change of the faults counts at once.
    async fn until_due(&self, arrived: Instant, wire: &mut watch::Receiver<Wire>) {
        loop {
            let way = wire.borrow_and_update().way(self.direction);
            let due = arrived + way.delay;
            if !way.black_hole && due <= Instant::now() {
                return;
            }
            tokio::select! {
                () = sleep_until(due), if !way.black_hole => return,
                changed = wire.changed() => changed.expect("the faults outlive the connection"),
            }
        }
    }

    /// Writes what may be written now, under the lock that a change of the faults has to take.
    fn try_write(&self, to: &WriteHalf<'_>, bytes: &[u8]) -> Result<io::Result<usize>, Cut> {
        let wire = self.faults.wire.borrow();
        if wire.cuts != self.cuts {
            return Err(Cut);
        }
        if wire.way(self.direction).black_hole {
            return Ok(Ok(0));
        }
        if self.direction == Direction::Upstream {
            return Ok(write_some(to, bytes));
        }
        let mut cut_after = self.faults.cut_after();
        let Some(left) = *cut_after else { return Ok(write_some(to, bytes)) };
        let passed = match write_some(to, &bytes[..bytes.len().min(left)]) {
            Ok(passed) => passed,
            Err(error) => return Ok(Err(error)),
        };
        if passed == left {
            *cut_after = None;
            return Err(Cut);
        }
        *cut_after = Some(left - passed);
        Ok(Ok(passed))
    }
}

/// Ends with the stream. A reset is an end too: what came before it is still delivered.
async fn read(mut from: ReadHalf<'_>, queue: mpsc::Sender<Chunk>) {
    while let Ok(room) = queue.reserve().await {
        let mut bytes = vec![0; CHUNK_BYTES];
        match from.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.truncate(count),
        }
        room.send(Chunk { arrived: Instant::now(), bytes });
    }
}

/// As much as the socket takes, which may be nothing.
fn write_some(to: &WriteHalf<'_>, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match to.try_write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        done => done,
    }
}
