//! Keys of a scheduler that asks for tokens, tokens made with them, and calls that show them.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test binaries")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{SinkExt, StreamExt};
use ring::signature::Ed25519KeyPair;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream as Socket;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

/// A directory with a pair of keys.
pub struct Keys {
    pub directory: TempDir,
}

impl Keys {
    pub fn make() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().to_str().unwrap();
        let (code, said) =
            crate::process::lingua(&["token", "key", "--name", "right", "--out", out]);
        assert_eq!(code, Some(0), "{said}");
        Keys { directory }
    }

    /// A configuration that asks for tokens, with this at its top and at its end.
    pub fn config(&self, top: &str, more: &str) -> PathBuf {
        let config = self.directory.path().join("lingua.toml");
        let key = self.directory.path().join("right.pub.pem");
        let text = format!(
            "listen = \"127.0.0.1:0\"\n{top}\n[identity]\nkey_files = [{:?}]\nrecheck_ms = 100\nleeway_s = 0\n{more}\n",
            key.to_str().unwrap()
        );
        std::fs::write(&config, text).unwrap();
        config
    }

    pub fn session(&self, tenant: &str, jti: &str) -> String {
        self.sign(&json!({"role": "session", "sub": "app", "jti": jti, "tenant": tenant}))
    }

    pub fn session_of(&self, tenant: &str, subject: &str, jti: &str) -> String {
        self.sign(&json!({"role": "session", "sub": subject, "jti": jti, "tenant": tenant}))
    }

    /// Good for a moment only.
    pub fn short_session(&self, tenant: &str, jti: &str, seconds: u64) -> String {
        let exp = lingua_store::Clock::system().now().as_millis() / 1_000 + seconds;
        self.sign(
            &json!({"role": "session", "sub": "app", "jti": jti, "tenant": tenant, "exp": exp}),
        )
    }

    pub fn node(&self, node: &str, jti: &str) -> String {
        self.sign(&json!({"role": "node", "sub": node, "jti": jti}))
    }

    pub fn admin(&self, subject: &str, jti: &str) -> String {
        self.sign(&json!({"role": "admin", "sub": subject, "jti": jti}))
    }

    pub fn viewer(&self, subject: &str, jti: &str) -> String {
        self.sign(&json!({"role": "viewer", "sub": subject, "jti": jti}))
    }

    fn sign(&self, said: &Value) -> String {
        let now = lingua_store::Clock::system().now().as_millis() / 1_000;
        let mut claims =
            json!({"iss": "lingua", "aud": "lingua", "nbf": now - 10, "exp": now + 600});
        claims.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        let typ = format!("lingua-{}+jwt", claims["role"].as_str().unwrap());
        let header = json!({"alg": "EdDSA", "typ": typ, "kid": "right"});
        let write = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let said = format!("{}.{}", write(&header), write(&claims));
        let key = self.directory.path().join("right.key.pem");
        let der = PrivatePkcs8KeyDer::from_pem_file(key).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).unwrap();
        format!("{said}.{}", URL_SAFE_NO_PAD.encode(pair.sign(said.as_bytes()).as_ref()))
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// All of it, head and body.
    pub text: String,
    pub body: Value,
}

/// One request.
pub fn call(to: SocketAddr, method: &str, path: &str, token: Option<&str>, body: &Value) -> Answer {
    let body = if method == "GET" { String::new() } else { body.to_string() };
    raw(to, method, path, token, body.as_bytes())
}

/// One request with these bytes.
pub fn raw(to: SocketAddr, method: &str, path: &str, token: Option<&str>, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let shown = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {length}\r\n{shown}\r\n"
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    // One that was refused before it was read may be cut short.
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Answer { status, body: serde_json::from_str(body).unwrap_or_default(), text }
}

/// The end of a socket, and everything that was heard on it.
pub struct Line {
    socket: WebSocketStream<Socket>,
    pub heard: String,
}

impl Line {
    pub async fn open(to: SocketAddr, path: &str, token: Option<&str>) -> Self {
        let mut request = format!("ws://{to}{path}").into_client_request().unwrap();
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        let stream = Socket::connect(to).await.unwrap();
        let socket = client_async(request, stream).await.unwrap().0;
        Line { socket, heard: String::new() }
    }

    pub async fn say(&mut self, message: &Value) {
        self.say_text(message.to_string()).await;
    }

    pub async fn say_text(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).await.unwrap();
    }

    /// The next message; a close as `{"close": code, "reason": text}`.
    pub async fn hear(&mut self) -> Value {
        loop {
            let heard = tokio::time::timeout(Duration::from_secs(20), self.socket.next()).await;
            match heard.unwrap() {
                Some(Ok(Message::Text(text))) => {
                    self.heard.push_str(&text);
                    self.heard.push('\n');
                    let message: Value = serde_json::from_str(&text).unwrap();
                    if message["type"] != "heartbeat_ack" {
                        return message;
                    }
                }
                Some(Ok(Message::Close(Some(frame)))) => {
                    self.heard.push_str(frame.reason.as_str());
                    return json!({"close": u16::from(frame.code), "reason": frame.reason.as_str()});
                }
                Some(Ok(_)) => {}
                other => return json!({"close": null, "reason": format!("{other:?}")}),
            }
        }
    }

    /// The next message of this type.
    pub async fn hear_a(&mut self, kind: &str) -> Value {
        loop {
            let message = self.hear().await;
            if message["type"] == kind {
                return message;
            }
            assert!(message.get("close").is_none(), "waiting for {kind}: {message}");
        }
    }
}
