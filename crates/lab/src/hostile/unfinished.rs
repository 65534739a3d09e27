//! Those who begin messages and bodies and do not end them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Place;
use super::sockets::{connect, opening, upgraded};

/// A little less than a client's message may have by default.
const MESSAGE: u32 = (2 << 20) / 3 * 4;

/// As much as the body of a job may have.
const BODY: usize = 4 << 20;

/// For one to send what it has, if it is read from slowly.
const SENDING: Duration = Duration::from_secs(5);

/// Empty frames that are sent at once.
const FRAMES: usize = 10_000;

/// Opens a session and sends a message in empty frames that has no last one. It reads what it is told, so that
/// nobody misses that.
pub(super) async fn empty_frames(from: IpAddr, target: SocketAddr) -> anyhow::Result<()> {
    let mut stream = upgraded(from, target, "/ws/session").await?;
    stream.write_all(&opening()).await?;
    // The first frame of a text, and frames that continue it, masked with zeros.
    stream.write_all(&[0x01, 0x80, 0, 0, 0, 0]).await?;
    let frames = [0x00, 0x80, 0, 0, 0, 0].repeat(FRAMES);
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        loop {
            writer.write_all(&frames).await?;
        }
    };
    let reading = async {
        let mut told = vec![0; 4_096];
        while reader.read(&mut told).await? > 0 {}
        Ok(())
    };
    tokio::select! {
        ended = sending => ended,
        ended = reading => ended,
    }
}

/// Sends the largest message but for its last byte on many sessions, and answers pings; again where it is
/// closed.
pub(super) async fn messages(
    from: IpAddr,
    target: SocketAddr,
    count: u32,
    place: &Place,
) -> anyhow::Result<()> {
    let mut message = vec![0x81, 0x80 | 127];
    message.extend(u64::from(MESSAGE).to_be_bytes());
    message.extend([0; 4]);
    message.extend(vec![b' '; MESSAGE as usize - 1]);
    let begin = async || -> anyhow::Result<TcpStream> {
        let mut stream = upgraded(from, target, "/ws/session").await?;
        stream.write_all(&opening()).await?;
        Ok(stream)
    };
    hold_many(count, &message, begin, place).await
}

/// Sends the largest body but for its last byte on many connections; again where it is closed.
pub(super) async fn bodies(
    from: IpAddr,
    target: SocketAddr,
    count: u32,
    place: &Place,
) -> anyhow::Result<()> {
    let head = format!(
        "POST /v1/dispatch/f2f HTTP/1.1\r\nhost: {target}\r\ncontent-type: application/json\r\n\
         content-length: {BODY}\r\n\r\n"
    );
    let mut request = head.into_bytes();
    request.extend(vec![b' '; BODY - 1]);
    hold_many(count, &request, async || connect(from, target).await, place).await
}

/// Holds so many connections on which this was sent, each begun again when it is closed.
async fn hold_many(
    count: u32,
    said: &[u8],
    begin: impl AsyncFn() -> anyhow::Result<TcpStream>,
    place: &Place,
) -> anyhow::Result<()> {
    // Where all are as far as they are let; the first to say so counts.
    let hold = async |first: bool| -> anyhow::Result<()> {
        loop {
            let mut stream = begin().await?;
            // One that is not read from is held all the same.
            let _ = timeout(SENDING, stream.write_all(said)).await;
            if first {
                place.send_replace(true);
            }
            let mut told = vec![0; 4_096];
            while let Ok(1..) = stream.read(&mut told).await {}
            sleep(Duration::from_millis(20)).await;
        }
    };
    try_join_all((0..count).map(|n| hold(n + 1 == count))).await.map(drop)
}
