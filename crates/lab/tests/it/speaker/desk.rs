//! The scheduler's end of the session socket: moved by hand, or echoing by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use lingua_lab::SpeakerOptions;
use lingua_lab::speech::{Codec, Digest, Mark};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

pub const SOON: Duration = Duration::from_secs(5);

/// Where speakers connect.
pub struct Desk {
    listener: TcpListener,
}

/// One speaker's connection.
pub struct Line {
    socket: WebSocketStream<TcpStream>,
    pub peer: std::net::SocketAddr,
}

/// A piece of speech in a binary frame, taken apart by hand.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    pub seq: u32,
    pub is_final: bool,
    pub audio: Vec<u8>,
}

impl Desk {
    pub async fn open() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn options(&self) -> SpeakerOptions {
        let url = format!("ws://{}/ws/session", self.listener.local_addr().unwrap());
        SpeakerOptions::new(url).codec(Codec::Pcm16)
    }

    pub async fn accept(&self) -> Line {
        let accepted = timeout(SOON, self.listener.accept()).await.expect("no speaker came");
        let (stream, peer) = accepted.unwrap();
        Line { socket: tokio_tungstenite::accept_async(stream).await.unwrap(), peer }
    }

    /// Takes the next connection and answers its `session_init`.
    pub async fn welcome(&self, recovered: Option<bool>) -> (Line, Value) {
        let mut line = self.accept().await;
        let init = line.next().await;
        line.send(ack(recovered)).await;
        (line, init)
    }
}

/// Of a session that was not recovered, it is another one.
pub fn ack(recovered: Option<bool>) -> Value {
    let session = if recovered == Some(false) { "s-2" } else { "s-1" };
    json!({ "type": "session_init_ack", "session_id": session, "message": "", "trace_id": "t",
            "protocol_version": "1.0", "use_binary_frame": true, "negotiated_codec": "pcm16",
            "resume_token": "R-1", "recovered": recovered, "next_index": 0 })
}

pub fn result(index: u64, audio: &[u8]) -> Value {
    let digest = Digest::of(audio);
    let mark = Mark::find(audio).map(|mark| mark.to_string());
    json!({ "type": "translation_result", "session_id": "s-1", "utterance_index": index,
            "text_asr": "", "extra": { "lab": { "mark": mark, "bytes": digest.bytes,
            "hash": format!("{:016x}", digest.hash()) } } })
}

pub fn piece(frame: &[u8]) -> Piece {
    let word = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
    let name_len = usize::from(frame[1]);
    let (is_final, start) = match frame[0] {
        1 => (frame[10] == 1, 12),
        2 => (true, 10),
        other => panic!("frame {other:#x}"),
    };
    assert!([&b"s-1"[..], b"s-2"].contains(&&frame[start..start + name_len]));
    Piece { seq: word(2), is_final, audio: frame[start + name_len..].to_vec() }
}

impl Line {
    pub async fn send(&mut self, message: Value) {
        // One that is gone does not hear it, and the test will see that.
        let _ = self.socket.send(Message::text(message.to_string())).await;
    }

    /// The next frame that is no ping or pong; `None` when the connection has ended.
    pub async fn frame(&mut self) -> Option<Message> {
        loop {
            match timeout(SOON, self.socket.next()).await.expect("nothing came")? {
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(frame) => return Some(frame),
                Err(_) => return None,
            }
        }
    }

    pub async fn next(&mut self) -> Value {
        match self.frame().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?} instead of a message"),
        }
    }

    pub async fn piece(&mut self) -> Piece {
        match self.frame().await {
            Some(Message::Binary(frame)) => piece(&frame),
            other => panic!("{other:?} instead of audio"),
        }
    }

    pub async fn close(mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        let _ = self.socket.close(Some(frame)).await;
        while self.frame().await.is_some() {}
    }
}

/// A scheduler and node in one: answers what it is told, and remembers it over connections.
#[derive(Default)]
pub struct Echo {
    /// Every piece that ever came, by number.
    pub pieces: BTreeMap<u32, Piece>,
    taken: Option<u32>,
    index: u64,
    buffer: Vec<u8>,
    /// Endings that may not have arrived.
    unheard: Vec<Value>,
}

impl Echo {
    /// Serves one connection until it has taken so many frames, or to its end.
    pub async fn serve(&mut self, desk: &Desk, frames: usize) -> Line {
        let (mut line, init) = desk.welcome(Some(self.taken.is_some())).await;
        let seen = init["last_index"].as_u64();
        for ending in &self.unheard {
            if seen.is_none_or(|seen| ending["utterance_index"].as_u64().unwrap() > seen) {
                line.send(ending.clone()).await;
            }
        }
        for _ in 0..frames {
            match line.frame().await {
                Some(Message::Binary(frame)) => {
                    if let Some(ending) = self.take(piece(&frame)) {
                        line.send(json!({ "type": "audio_ack", "seq": self.taken })).await;
                        line.send(ending).await;
                    }
                }
                Some(Message::Text(text)) if text.contains("session_close") => {
                    line.send(json!({ "type": "session_close_ack" })).await;
                }
                Some(_) => {}
                None => break,
            }
        }
        line
    }

    fn take(&mut self, piece: Piece) -> Option<Value> {
        if self.taken.is_some_and(|taken| piece.seq <= taken) {
            assert_eq!(self.pieces[&piece.seq], piece, "the same number is the same piece");
            return None;
        }
        assert_eq!(piece.seq, self.taken.map_or(0, |taken| taken + 1), "none is left out");
        self.taken = Some(piece.seq);
        self.buffer.extend_from_slice(&piece.audio);
        let is_final = piece.is_final;
        self.pieces.insert(piece.seq, piece);
        is_final.then(|| {
            let ending = result(self.index, &std::mem::take(&mut self.buffer));
            self.index += 1;
            self.unheard.push(ending.clone());
            ending
        })
    }
}
