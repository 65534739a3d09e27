//! The scheduler's end of the socket, moved by hand.

use std::time::Duration;

use futures_util::{FutureExt, SinkExt, StreamExt};
use lingua_lab::fake_node::NodeStats;
use lingua_lab::{FakeNode, NodeOptions, ScriptedNode};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

pub const SOON: Duration = Duration::from_secs(5);
pub const A_WHILE: Duration = Duration::from_millis(100);

/// Where nodes connect.
pub struct Desk {
    listener: TcpListener,
}

/// One node's connection.
pub struct Line {
    socket: WebSocketStream<TcpStream>,
    /// What it registered with.
    pub register: Value,
}

impl Desk {
    pub async fn open() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn options(&self) -> NodeOptions {
        let url = format!("ws://{}/ws/node", self.listener.local_addr().unwrap());
        NodeOptions::new(url).node_id("node-1")
    }

    /// Takes the next connection as it is.
    pub async fn accept(&self) -> Line {
        let accepted = timeout(SOON, self.listener.accept()).await.expect("no node came");
        let stream = accepted.unwrap().0;
        stream.set_nodelay(true).unwrap();
        let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        Line { socket, register: Value::Null }
    }

    /// Takes the next connection and its registration, and answers it with `answer`.
    pub async fn answer(&self, answer: Value) -> Line {
        let mut line = self.accept().await;
        line.register = line.next().await;
        line.send(answer).await;
        line
    }

    /// Takes the next connection and accepts its registration.
    pub async fn welcome(&self) -> Line {
        self.answer(register_ack()).await
    }

    pub async fn automatic(&self, options: NodeOptions) -> (FakeNode, Line) {
        let (node, line) = tokio::join!(FakeNode::connect(options), self.welcome());
        (node.unwrap(), line)
    }

    pub async fn scripted(&self, options: NodeOptions) -> (ScriptedNode, Line) {
        let (node, line) = tokio::join!(FakeNode::scripted(options), self.welcome());
        (node.unwrap(), line)
    }
}

pub fn register_ack() -> Value {
    json!({ "type": "node_register_ack", "node_id": "node-1", "message": "registered",
            "status": "ready", "heartbeat_interval_ms": 60_000, "epoch": 3 })
}

pub fn assign(job_id: &str, attempt_id: u64) -> Value {
    json!({ "type": "job_assign", "job_id": job_id, "attempt_id": attempt_id,
            "session_id": format!("s-{job_id}"), "utterance_index": 7, "src_lang": "en",
            "tgt_lang": "zh", "pipeline": { "use_asr": true }, "audio": "AAAA",
            "audio_format": "pcm16", "sample_rate": 16000, "trace_id": "t-1", "turn_id": "turn-1",
            "lease_token": "L-1" })
}

impl Line {
    pub async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    pub async fn send_frame(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// All at once, in one write.
    pub async fn send_together(&mut self, messages: Vec<Value>) {
        for message in messages {
            self.socket.feed(Message::text(message.to_string())).await.unwrap();
        }
        self.socket.flush().await.unwrap();
    }

    pub async fn cancel(&mut self, job_id: &str, attempt_id: u64) {
        self.send(json!({ "type": "job_cancel", "job_id": job_id, "attempt_id": attempt_id }))
            .await;
    }

    /// The next frame that is no ping or pong; `None` when the connection has ended.
    pub async fn frame(&mut self) -> Option<Message> {
        loop {
            match timeout(SOON, self.socket.next()).await.expect("nothing came from the node")? {
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(frame) => return Some(frame),
                Err(_) => return None,
            }
        }
    }

    /// Pings the node and takes its answer.
    pub async fn ping(&mut self) {
        self.send_frame(Message::Ping("?".into())).await;
        let pong = timeout(SOON, self.socket.next()).await.expect("no pong");
        assert_eq!(pong.unwrap().unwrap(), Message::Pong("?".into()));
    }

    pub async fn next(&mut self) -> Value {
        match self.frame().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?} instead of a message"),
        }
    }

    /// The types of the next messages.
    pub async fn kinds<const N: usize>(&mut self) -> [String; N] {
        let mut kinds = [const { String::new() }; N];
        for kind in &mut kinds {
            *kind = self.next().await["type"].as_str().unwrap().to_owned();
        }
        kinds
    }

    pub async fn is_silent(&mut self) {
        let heard = timeout(A_WHILE, self.frame()).await;
        assert!(heard.is_err(), "{heard:?} came");
    }

    /// The code of the node's close; `None` if the connection ended without one.
    pub async fn close_code(&mut self) -> Option<u16> {
        match self.frame().await {
            None => None,
            Some(Message::Close(frame)) => Some(frame.map_or(1005, |frame| frame.code.into())),
            Some(other) => panic!("{other:?} instead of the end"),
        }
    }

    pub async fn close(mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        self.socket.close(Some(frame)).await.unwrap();
        // Until the answer is here, so that it does not meet a closed port.
        while self.frame().await.is_some() {}
    }

    /// Whether a frame is here already.
    pub fn has_frame(&mut self) -> bool {
        self.socket.next().now_or_never().is_some()
    }
}

/// Waits until the node's counts are as wanted.
pub async fn until(node: &FakeNode, wanted: impl Fn(NodeStats) -> bool) {
    let met = async {
        while !wanted(node.stats()) {
            sleep(Duration::from_millis(2)).await;
        }
    };
    if timeout(SOON, met).await.is_err() {
        panic!("{:?} {:?}", node.stats(), node.last_error());
    }
}
