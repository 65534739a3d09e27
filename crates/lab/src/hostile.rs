//! Clients that mean no good. Each does one thing for as long as it is held, from an address of its
//! own, and on loopback only.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::speech::{Codec, Signal};
use crate::{Speaker, SpeakerOptions};

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malice {
    /// Asks for much and reads none of it.
    NeverReads,
    /// Sends messages that are right, as fast as it can.
    Floods,
    /// Sends messages that mean nothing, and comes back when it is thrown out.
    Garbage,
    /// Opens sockets and says nothing.
    ManySockets {
        /// How many.
        count: usize,
    },
    /// Sends its headers a byte at a time, on many connections.
    Dribbles {
        /// How many.
        count: usize,
    },
}

impl Malice {
    /// One of each.
    pub const ALL: [Malice; 5] = [
        Malice::NeverReads,
        Malice::Floods,
        Malice::Garbage,
        Malice::ManySockets { count: 5_000 },
        Malice::Dribbles { count: 200 },
    ];

    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Malice::NeverReads => "never reads",
            Malice::Floods => "floods",
            Malice::Garbage => "sends garbage",
            Malice::ManySockets { .. } => "opens sockets",
            Malice::Dribbles { .. } => "dribbles headers",
        }
    }

    fn address(self) -> IpAddr {
        let last = match self {
            Malice::NeverReads => 101,
            Malice::Floods => 102,
            Malice::Garbage => 103,
            Malice::ManySockets { .. } => 104,
            Malice::Dribbles { .. } => 105,
        };
        IpAddr::from([127, 0, 0, last])
    }
}

/// A client that means no good; it ends when it is dropped.
#[derive(Debug)]
pub struct Hostile(JoinHandle<()>);

impl Drop for Hostile {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Hostile {
    /// Lets it loose on the scheduler at this address.
    pub fn start(malice: Malice, target: SocketAddr) -> Self {
        Hostile(tokio::spawn(async move {
            loop {
                // Whatever throws it out, it comes back.
                let _ = act(malice, target).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }))
    }
}

async fn act(malice: Malice, target: SocketAddr) -> anyhow::Result<()> {
    anyhow::ensure!(target.ip().is_loopback(), "only loopback is attacked");
    let options = SpeakerOptions::new(format!("ws://{target}/ws/session"))
        .from_address(malice.address())
        .patience(Duration::from_secs(60));
    match malice {
        Malice::NeverReads => {
            let speaker = Speaker::connect(options).await?;
            speaker.stop_reading().await?;
            for n in 0..100_000 {
                let audio = Codec::Opus.speech(Signal::Babble, 100, None, n);
                speaker.whole(n, audio, json!({})).await?;
            }
        }
        Malice::Floods => {
            let speaker = Speaker::connect(options).await?;
            loop {
                speaker.heartbeat().await?;
            }
        }
        Malice::Garbage => {
            let speaker = Speaker::unopened_with(options).await?;
            let garbage = "[".repeat(60_000);
            loop {
                speaker.send_text(garbage.clone()).await?;
            }
        }
        Malice::ManySockets { count } => {
            let mut held = Vec::new();
            for _ in 0..count {
                held.push(connect(malice, target).await?);
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        Malice::Dribbles { count } => dribble(malice, target, count).await?,
    }
    Ok(())
}

async fn connect(malice: Malice, target: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(malice.address(), 0))?;
    let mut stream = socket.connect(target).await.context("not taken")?;
    if matches!(malice, Malice::ManySockets { .. }) {
        let upgrade = format!(
            "GET /ws/session HTTP/1.1\r\nhost: {target}\r\nconnection: Upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(upgrade.as_bytes()).await?;
    }
    Ok(stream)
}

async fn dribble(malice: Malice, target: SocketAddr, count: usize) -> anyhow::Result<()> {
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(connect(malice, target).await?);
    }
    let head = b"GET /health HTTP/1.1\r\nhost: x\r\nx-slow: ";
    for n in 0..100_000 {
        let byte = [*head.get(n).unwrap_or(&b'a')];
        for stream in &mut streams {
            if stream.write_all(&byte).await.is_err() {
                *stream = connect(malice, target).await?;
            }
            // What is answered is not wanted, but must not pile up.
            let mut answer = [0; 512];
            let _ = stream.try_read(&mut answer);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
