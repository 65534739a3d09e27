//! What TLS costs, beside the same without it in the same run.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and this one tells"
)]

use crate::process;
use crate::tls_lab;

use std::net::SocketAddr;
use std::time::Duration;

use lingua_lab::{Speaker, SpeakerOptions};
use process::Lingua;
use tls_lab::House;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

const ROUNDS: u32 = 10;
const CONNECTIONS: u32 = 20;
const MESSAGES: u32 = 100;

const ASKED: &[u8] = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// A connection, a request and its answer.
async fn ask(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) {
    stream.write_all(ASKED).await.unwrap();
    let mut answer = Vec::new();
    // How the end comes is not the matter here.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

async fn speaker(url: String, house: &House) -> Speaker {
    let tls = Some(house.client().config());
    let options = SpeakerOptions { tls, ..SpeakerOptions::new(url) };
    Speaker::connect(options.patience(Duration::from_secs(30))).await.unwrap()
}

/// The times of messages and their answers.
async fn talk(speaker: &mut Speaker, took: &mut Vec<Duration>) {
    for _ in 0..MESSAGES {
        let began = Instant::now();
        speaker.heartbeat().await.unwrap();
        speaker.next_of("server_heartbeat").await.unwrap();
        took.push(began.elapsed());
    }
}

/// The one in the middle, which a busy machine changes least.
fn middle(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// A loose bound: what is wrong beyond it is no matter of a busy machine.
#[tokio::test(flavor = "multi_thread")]
async fn tls_costs_a_handshake_and_little_more() {
    let house = House::new();
    let limits = "[limits]\nsession_messages_per_s = 100000";
    house.configure("threads = 1", limits);
    house.write("plain.toml", &format!("listen = \"127.0.0.1:0\"\nthreads = 1\n{limits}\n"));
    let server = house.start();
    let plain = Lingua::start(&["--config", house.path("plain.toml").to_str().unwrap()]);
    let client = house.client().without_memory();
    let (with, without): (SocketAddr, SocketAddr) = (server.address(), plain.address());
    let mut secret = speaker(format!("wss://{with}/ws/session"), &house).await;
    let mut open = speaker(format!("ws://{without}/ws/session"), &house).await;
    let mut took: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for _ in 0..CONNECTIONS {
            let began = Instant::now();
            ask(TcpStream::connect(without).await.unwrap()).await;
            took[0].push(began.elapsed());
            let began = Instant::now();
            ask(client.connect(with).await.unwrap()).await;
            took[1].push(began.elapsed());
        }
        talk(&mut open, &mut took[2]).await;
        talk(&mut secret, &mut took[3]).await;
    }
    let [plain, tls, open, secret] = took.map(middle);
    let times = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    println!("a connection and its first request: {plain:?}, with TLS {tls:?}");
    println!("a message and its answer: {open:?}, with TLS {secret:?}");
    assert!(times(tls, plain) < 50.0, "{tls:?} against {plain:?}");
    assert!(times(secret, open) < 4.0, "{secret:?} against {open:?}");
}
