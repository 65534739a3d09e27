//! Those who hold connections, and those who begin many.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::Place;
use crate::speaker::sockets::address_of;

/// For as long sockets are held, if nobody closes them.
const HELD: Duration = Duration::from_secs(60);

/// Idle sessions of one address.
const PER_ADDRESS: u32 = 100;

/// Connections on which requests are made.
const ASKING: usize = 16;

/// Opens sockets, as many as it is let, and says nothing.
pub(super) async fn hold(
    from: IpAddr,
    target: SocketAddr,
    count: u32,
    place: &Place,
) -> anyhow::Result<()> {
    let mut held = Vec::new();
    for _ in 0..count {
        let Ok(stream) = upgraded(from, target, "/ws/session").await else { break };
        held.push(stream);
    }
    place.send_replace(true);
    sleep(HELD).await;
    Ok(())
}

/// The preface of HTTP/2 and empty settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Begins HTTP/2 on as many connections as it is let, and again where it is closed.
pub(super) async fn http2(
    from: IpAddr,
    target: SocketAddr,
    count: u32,
    place: &Place,
) -> anyhow::Result<()> {
    let begin = async || -> anyhow::Result<TcpStream> {
        let mut stream = connect(from, target).await?;
        stream.write_all(HTTP2).await?;
        Ok(stream)
    };
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(begin().await?);
    }
    place.send_replace(true);
    loop {
        for stream in &mut streams {
            if is_closed(stream) {
                *stream = begin().await?;
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Opens sockets of nodes, sends a heartbeat on each now and then and never registers; again where it is
/// closed.
pub(super) async fn unregistered(
    from: IpAddr,
    target: SocketAddr,
    count: u32,
    place: &Place,
) -> anyhow::Result<()> {
    let heartbeat = frame(json!({ "type": "node_heartbeat" }).to_string().as_bytes());
    let mut streams = Vec::new();
    for _ in 0..count {
        let Ok(stream) = upgraded(from, target, "/ws/node").await else { break };
        streams.push(stream);
    }
    place.send_replace(true);
    loop {
        for stream in &mut streams {
            if is_closed(stream) || stream.write_all(&heartbeat).await.is_err() {
                *stream = upgraded(from, target, "/ws/node").await?;
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Reads and forgets what came; whether it was the end.
fn is_closed(stream: &TcpStream) -> bool {
    let mut answer = [0; 4_096];
    loop {
        match stream.try_read(&mut answer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// The message that opens a session.
pub(super) fn opening() -> Vec<u8> {
    let init = json!({ "type": "session_init", "client_version": "1", "platform": "web",
                       "src_lang": "en", "tgt_lang": "zh" });
    frame(init.to_string().as_bytes())
}

/// Opens sessions and says nothing more: they stay until somebody misses a sign of life.
pub(super) async fn idle(target: SocketAddr, count: u32, place: &Place) -> anyhow::Result<()> {
    let opening = opening();
    let mut held = Vec::new();
    for n in 0..count {
        // 127.1.0.2 and up, where nobody else is.
        let own = address_of(n, PER_ADDRESS).to_bits() | (1 << 16);
        let from = Ipv4Addr::from_bits(own).into();
        let mut stream = upgraded(from, target, "/ws/session").await?;
        stream.write_all(&opening).await?;
        held.push(stream);
    }
    place.send_replace(true);
    sleep(HELD).await;
    Ok(())
}

/// Asks for what costs the scheduler something, the next as soon as there is an answer.
pub(super) async fn request(from: IpAddr, target: SocketAddr) -> anyhow::Result<()> {
    let body = json!({ "session_id": "s", "src_lang": "xx", "tgt_lang": "yy", "audio": "AAAA" });
    let body = body.to_string();
    let asked = format!(
        "POST /v1/dispatch/f2f HTTP/1.1\r\nhost: {target}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = async || -> anyhow::Result<()> {
        let mut stream = connect(from, target).await?;
        let mut answer = vec![0; 4_096];
        loop {
            stream.write_all(asked.as_bytes()).await?;
            anyhow::ensure!(stream.read(&mut answer).await? > 0, "closed");
        }
    };
    join_all((0..ASKING).map(|_| ask())).await.into_iter().collect()
}

/// Sends its headers, or once the socket is open its first message, a byte at a time.
pub(super) async fn dribble(
    from: IpAddr,
    target: SocketAddr,
    count: u32,
    upgrade: bool,
    place: &Place,
) -> anyhow::Result<()> {
    let begin = async || match upgrade {
        true => upgraded(from, target, "/ws/session").await,
        false => connect(from, target).await,
    };
    let head = match upgrade {
        true => frame(&[b' '; 60_000]),
        false => b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: ".to_vec(),
    };
    // Each with how far it is.
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push((begin().await?, 0));
    }
    place.send_replace(true);
    loop {
        for (stream, at) in &mut streams {
            let byte = [*head.get(*at).unwrap_or(&b'a')];
            *at += 1;
            // Whether it was closed is seen when it is read.
            let mut answer = [0; 512];
            let ended = matches!(stream.try_read(&mut answer), Ok(0));
            if ended || stream.write_all(&byte).await.is_err() {
                (*stream, *at) = (begin().await?, 0);
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

pub(super) async fn connect(from: IpAddr, target: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(target).await.context("not taken")
}

/// A socket on which nothing was said yet.
pub(super) async fn upgraded(
    from: IpAddr,
    target: SocketAddr,
    path: &str,
) -> anyhow::Result<TcpStream> {
    let mut stream = connect(from, target).await?;
    let upgrade = format!(
        "GET {path} HTTP/1.1\r\nhost: {target}\r\nconnection: Upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await?;
    let answered = timeout(Duration::from_secs(10), stream.read(&mut [0; 1_024])).await??;
    anyhow::ensure!(answered > 0, "closed");
    Ok(stream)
}

/// A text message as a client sends it, masked with zeros.
pub(super) fn frame(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u16::try_from(text.len()) {
        Ok(length @ 0..126) => frame.push(0x80 | u8::try_from(length).unwrap_or(0)),
        length => {
            frame.push(0x80 | 126);
            frame.extend(length.unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text);
    frame
}
