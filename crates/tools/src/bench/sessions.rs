//! `lingua bench sessions`: what one session costs in memory, beside a bare socket in the same run.
//!
//! Three processes: a server that does nothing but accept WebSockets, a scheduler, and this one with
//! the clients. Both servers are this very program with the same allocator and the same read buffer,
//! so that what differs is what a session is made of.

use lingua_server::say;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use lingua_lab::speech::{Codec, Mark, Signal};
use lingua_lab::{Fleet, Launch, NodeOptions, SchedulerProcess};
use serde::Serialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::process::{program, resident_bytes};
use super::progress::Progress;
use super::write_json;
use crate::cli::{BenchSessions, Failure, runtime};

/// Sockets that are opened at the same time.
const OPENING: usize = 64;

/// Sockets from one loopback address.
const PER_ADDRESS: usize = 4_000;

/// Memory that is not in use is given back at once: what the allocator would keep for later is no part
/// of what a session costs.
const PURGE: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "0");

/// For the allocator and the kernel to come to rest before memory is read.
const REST: Duration = Duration::from_secs(2);

/// What a bare socket and a session may cost.
const MOST_RATIO: f64 = 2.0;
const MOST_SPEAKING: f64 = 64.0 * 1024.0;

#[derive(Debug, Serialize)]
struct Report {
    sockets: usize,
    speaking: usize,
    /// Bytes of one bare socket.
    bare: f64,
    /// Bytes of one idle session, of an existing client and of one that can resume.
    idle_existing: f64,
    idle_current: f64,
    /// Idle sessions as multiples of a bare socket.
    ratio_existing: f64,
    ratio_current: f64,
    /// Bytes of speech of one speaking session, and what it costs beyond its idle cost and that.
    speech: usize,
    speaking_beyond: f64,
    /// The same after all endings were told.
    after_beyond: f64,
}

type Socket = WebSocketStream<TcpStream>;

/// Measures and prints.
pub(crate) fn run(options: &BenchSessions) -> Result<(), Failure> {
    let runtime = runtime()?;
    let report = runtime.block_on(measure(options))?;
    print(&report);
    write_json(options.json.as_deref(), &report)?;
    let worst = report.ratio_existing.max(report.ratio_current);
    if worst > MOST_RATIO {
        return Err(Failure::failed(format!("an idle session costs {worst:.2} bare sockets")));
    }
    if report.speaking_beyond > MOST_SPEAKING {
        return Err(Failure::failed("a speaking session costs more than 64 KiB and its speech"));
    }
    Ok(())
}

/// A server of bare sockets, until it is killed.
pub(crate) fn bare() -> Result<(), Failure> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let socket = TcpListener::bind("127.0.0.1:0").await.context("no port")?;
        let address = socket.local_addr().context("no address")?;
        super::process::greet(address);
        axum::serve(socket, Router::new().route("/ws", get(hold))).await.context("the server")?;
        Ok(())
    })
}

/// Makes a WebSocket of a request in the way of the scheduler, and reads whatever comes on it.
async fn hold(mut request: Request) -> Response {
    let Some(key) = request.headers().get(header::SEC_WEBSOCKET_KEY) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("base64");
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(stream) = upgrade.await else { return };
        let config = WebSocketConfig::default().read_buffer_size(4 << 10);
        let stream = TokioIo::new(stream);
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        while socket.next().await.is_some() {}
    });
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
}

async fn measure(options: &BenchSessions) -> anyhow::Result<Report> {
    let count = options.sockets as usize;
    let speakers = (options.speaking as usize).min(count);
    let progress = Progress::new(5);
    let bare = {
        progress.now("bare sockets");
        let server = start(Launch::new(program()?, ["bench", "bare-sockets"])).await?;
        let before = resident_bytes(server.pid())?;
        let sockets = open_all(&server, "/ws", count, None).await?;
        let bytes = growth(&server, before, sockets.len()).await?;
        progress.step();
        bytes
    };
    let idle_existing = {
        progress.now("sessions of existing clients");
        let server = start(Launch::serve(program()?, "127.0.0.1:0", "memory")).await?;
        let before = resident_bytes(server.pid())?;
        let init = init(&[]);
        let sockets = open_all(&server, "/ws/session", count, Some(&init)).await?;
        let bytes = growth(&server, before, sockets.len()).await?;
        progress.step();
        bytes
    };
    progress.now("sessions of current clients");
    let server = start(Launch::serve(program()?, "127.0.0.1:0", "memory")).await?;
    let _nodes = nodes(server.address()).await?;
    let before = resident_bytes(server.pid())?;
    let init = init(&["binary", "audio_ack", "resume", "events"]);
    let mut sockets = open_all(&server, "/ws/session", count, Some(&init)).await?;
    let idle_current = growth(&server, before, sockets.len()).await?;
    progress.step();
    progress.now("speech that is not cut yet");
    let mark = Mark { speaker: 1, sentence: 1 };
    let speech = Codec::Pcm16.speech(Signal::Babble, options.speech_ms, Some(mark), 1);
    let before = resident_bytes(server.pid())?;
    let speaking = &mut sockets[..speakers];
    let pieces = Codec::Pcm16.pieces(&speech, 100);
    for (seq, piece) in pieces.iter().enumerate() {
        for (socket, id) in &mut *speaking {
            socket.send(frame(id, seq, piece)).await?;
        }
    }
    let beyond = |bytes: f64| bytes - speech.len() as f64;
    let speaking_beyond = beyond(growth(&server, before, speaking.len()).await?);
    progress.step();
    progress.now("after the endings");
    for (socket, id) in &mut *speaking {
        let message = json!({"type": "finalize", "session_id": id}).to_string();
        socket.send(Message::text(message)).await?;
    }
    for (socket, _) in &mut *speaking {
        ending(socket).await?;
    }
    let after_beyond = growth(&server, before, speaking.len()).await?;
    progress.step();
    Ok(Report {
        sockets: count,
        speaking: speakers,
        bare,
        idle_existing,
        idle_current,
        ratio_existing: idle_existing / bare,
        ratio_current: idle_current / bare,
        speech: speech.len(),
        speaking_beyond,
        after_beyond,
    })
}

/// Starts a server whose memory is measured.
async fn start(launch: Launch) -> anyhow::Result<SchedulerProcess> {
    let (name, value) = PURGE;
    Ok(launch.with_env(name, value).start_scheduler().await?)
}

async fn growth(server: &SchedulerProcess, before: u64, count: usize) -> anyhow::Result<f64> {
    tokio::time::sleep(REST).await;
    let after = resident_bytes(server.pid())?;
    Ok(after.saturating_sub(before) as f64 / count as f64)
}

async fn nodes(address: SocketAddr) -> anyhow::Result<Fleet> {
    let node = |n: u32| {
        let options = NodeOptions::new(format!("ws://{address}/ws/node"));
        options.node_id(format!("bench-{n}")).max_jobs(64)
    };
    Fleet::start((0..4).map(node)).await
}

fn init(supports: &[&str]) -> String {
    let mut init = json!({
        "type": "session_init", "client_version": "bench", "platform": "bench",
        "src_lang": "en", "tgt_lang": "zh",
    });
    if !supports.is_empty() {
        init["supports"] = json!(supports);
        init["codec"] = json!("pcm16");
        init["pause_ms"] = json!(30_000);
    }
    init.to_string()
}

/// Opens so many sockets, and with `init` a session on each; with the sessions' ids.
async fn open_all(
    server: &SchedulerProcess,
    path: &str,
    count: usize,
    init: Option<&str>,
) -> anyhow::Result<Vec<(Socket, String)>> {
    let address = server.address();
    let url = format!("ws://{address}{path}");
    let opening = (0..count).map(|n| open(address, &url, n, init));
    let opened: Vec<anyhow::Result<(Socket, String)>> =
        futures_util::stream::iter(opening).buffer_unordered(OPENING).collect().await;
    opened.into_iter().collect()
}

async fn open(
    address: SocketAddr,
    url: &str,
    n: usize,
    init: Option<&str>,
) -> anyhow::Result<(Socket, String)> {
    let socket = TcpSocket::new_v4().context("no more sockets")?;
    // One address has only so many ports, and may open only so many connections.
    let from = u8::try_from(2 + n / PER_ADDRESS).context("too many sockets")?;
    socket.bind(SocketAddr::from(([127, 0, 0, from], 0)))?;
    let stream = socket.connect(address).await.context("the server takes no more")?;
    let config = WebSocketConfig::default().read_buffer_size(1 << 10).write_buffer_size(0);
    let (mut socket, _) =
        tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await?;
    let Some(init) = init else { return Ok((socket, String::new())) };
    socket.send(Message::text(init)).await?;
    let ack = text(&mut socket).await?;
    let ack: serde_json::Value = serde_json::from_str(&ack)?;
    match ack["session_id"].as_str() {
        Some(id) => Ok((socket, id.to_owned())),
        None => bail!("the scheduler said {ack}"),
    }
}

async fn text(socket: &mut Socket) -> anyhow::Result<String> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
            Some(Ok(_)) => {}
            other => bail!("instead of a message: {other:?}"),
        }
    }
}

async fn ending(socket: &mut Socket) -> anyhow::Result<()> {
    loop {
        let message = text(socket).await?;
        if message.contains("\"translation_result\"") {
            return Ok(());
        }
        if message.contains("\"missing_result\"") {
            bail!("no translation: {message}");
        }
    }
}

/// A piece of speech as a binary frame.
fn frame(session: &str, seq: usize, audio: &[u8]) -> Message {
    let mut frame = vec![1, u8::try_from(session.len()).unwrap_or(0)];
    frame.extend_from_slice(&u32::try_from(seq).unwrap_or(0).to_le_bytes());
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(session.as_bytes());
    frame.extend_from_slice(audio);
    Message::binary(frame)
}

fn print(report: &Report) {
    say!("memory of one, in bytes, with {} open ({} speaking)", report.sockets, report.speaking);
    say!("  bare socket                      {:>9.0}", report.bare);
    for (name, bytes, ratio) in [
        ("idle session, existing client", report.idle_existing, report.ratio_existing),
        ("idle session, current client", report.idle_current, report.ratio_current),
    ] {
        say!("  {name:<32} {bytes:>9.0}   {ratio:.2} x bare");
    }
    say!("  speaking, beyond its {:>6} of speech {:>6.0}", report.speech, report.speaking_beyond);
    say!("  after its ending, beyond idle    {:>9.0}", report.after_beyond);
}
