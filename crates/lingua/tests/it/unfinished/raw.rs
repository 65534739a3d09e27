//! A scheduler that asks for tokens, in the clear or behind TLS, and raw sockets to it.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::process::Lingua;
use crate::tls_lab::{House, Tunnel};

const PATIENCE: Duration = Duration::from_secs(20);

pub(super) const CONTINUATION: u8 = 0;
pub(super) const TEXT: u8 = 1;
pub(super) const PING: u8 = 9;

/// As large as a client's message may be by default.
pub(super) const MESSAGE: usize = (2 << 20) / 3 * 4;

/// What the scheduler speaks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Speaks {
    Clear,
    Tls,
}

/// A scheduler that asks for tokens.
pub(super) struct Place {
    pub(super) house: House,
    server: Lingua,
    /// Where it is spoken to without TLS.
    tunnel: Option<Tunnel>,
    admin: String,
}

impl Place {
    pub(super) async fn start(speaks: Speaks, limits: &str) -> Self {
        let house = House::new().asking_for_tokens();
        let limits = format!("[limits]\n{limits}\n");
        house.configure("threads = 1", &limits);
        if speaks == Speaks::Clear {
            let key = house.path("k.pub.pem").display().to_string();
            let text = format!(
                "listen = \"127.0.0.1:0\"\nthreads = 1\n{limits}[identity]\nkey_files = [{key:?}]\n"
            );
            house.write("lingua.toml", &text);
        }
        let server = house.start();
        let tunnel = match speaks {
            Speaks::Clear => None,
            Speaks::Tls => Some(Tunnel::open(&house.client(), server.address()).await),
        };
        let admin = house.token("admin", "ops", &[]);
        Place { house, server, tunnel, admin }
    }

    pub(super) fn address(&self) -> SocketAddr {
        let tunnel = self.tunnel.as_ref().map(|tunnel| tunnel.http());
        tunnel.map_or(self.server.address(), |url| url["http://".len()..].parse().unwrap())
    }

    pub(super) fn token(&self, tenant: &str) -> String {
        self.house.token("session", "app", &["--tenant", tenant])
    }

    /// A socket that was agreed on and has not said anything.
    pub(super) async fn socket(&self, path: &str, token: Option<&str>) -> TcpStream {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}\r\n",
            token.unwrap_or_default()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{answer}");
        stream
    }

    /// A session of this token's tenant.
    pub(super) async fn session(&self, token: &str) -> TcpStream {
        let mut stream = self.socket("/ws/session", Some(token)).await;
        let init = json!({"type": "session_init", "client_version": "1", "platform": "test",
            "src_lang": "en", "tgt_lang": "zh"});
        stream.write_all(&frame(TEXT, true, init.to_string().as_bytes())).await.unwrap();
        let ack = next(&mut stream).await;
        assert_eq!(ack["type"], "session_init_ack", "{ack}");
        stream
    }

    /// Says something of these many bytes and waits for the answer.
    pub(super) async fn is_heard(&self, stream: &mut TcpStream, bytes: usize) {
        stream.write_all(&frame(TEXT, true, &heartbeat(bytes))).await.unwrap();
        let answer = next(stream).await;
        assert_eq!(answer["code"], "INVALID_SESSION", "it was read whole: {answer}");
    }

    /// The value of a metric without labels, or with these.
    pub(super) async fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
            self.admin
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// A close waits a moment for the peer's own, and what was begun waits with it.
    pub(super) async fn holds_nothing(&self) {
        for _ in 0..100 {
            if self.metric("lingua_unfinished_bytes").await == 0.0 {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("something is held for messages that nobody sends any more");
    }

    pub(super) fn resident_mib(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().split(' ').next().unwrap().parse::<f64>().unwrap() / 1_024.0
    }

    /// Processor time that the scheduler has used.
    pub(super) fn spent(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.server.pid())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }
}

/// A message that is refused, and says so, of about so many bytes.
pub(super) fn heartbeat(bytes: usize) -> Vec<u8> {
    let more = "x".repeat(bytes);
    json!({"type": "client_heartbeat", "session_id": "no-such-session", "more": more})
        .to_string()
        .into_bytes()
}

/// A frame as a client sends it, masked with zeros.
pub(super) fn frame(opcode: u8, is_final: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![opcode | if is_final { 0x80 } else { 0 }];
    match payload.len() {
        length @ ..126 => frame.push(0x80 | length as u8),
        length @ ..65_536 => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// The head of an answer.
pub(super) async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8(head).unwrap().to_lowercase().replacen("http", "HTTP", 1)
}

/// The next message; a close as `{"close": code}`, an end without one as `{"close": null}`.
pub(super) async fn next(stream: &mut (impl AsyncRead + Unpin)) -> Value {
    let read = async {
        loop {
            let Ok(first) = stream.read_u16().await else { return json!({ "close": null }) };
            let length = match first & 0x7f {
                126 => usize::from(stream.read_u16().await.unwrap()),
                127 => stream.read_u64().await.unwrap() as usize,
                short => usize::from(short),
            };
            let mut payload = vec![0; length];
            stream.read_exact(&mut payload).await.unwrap();
            match (first >> 8) & 0xf {
                0x1 => return serde_json::from_slice(&payload).unwrap(),
                0x8 => {
                    let code = u16::from_be_bytes([payload[0], payload[1]]);
                    let reason = String::from_utf8_lossy(&payload[2..]).into_owned();
                    return json!({ "close": code, "reason": reason });
                }
                _ => {}
            }
        }
    };
    timeout(PATIENCE, read).await.unwrap()
}

/// How it is closed, whatever is said before.
pub(super) async fn closed(stream: &mut (impl AsyncRead + Unpin)) -> Value {
    loop {
        let message = next(stream).await;
        if message.get("close").is_some() {
            return message["close"].clone();
        }
    }
}
