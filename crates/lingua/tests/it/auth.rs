//! Who may do what: every call and every socket, with every kind of token.
//!
//! The calls come from the router itself, so that a new one without a row here fails.

mod sockets;

use sockets::{Line, register};

use crate::process;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{SinkExt, StreamExt};
use process::{Lingua, wait_for};
use ring::signature::Ed25519KeyPair;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream as Socket;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

/// The kinds of tokens.
const KINDS: [&str; 15] = [
    "none",
    "garbage",
    "wrong key",
    "expired",
    "not yet valid",
    "other audience",
    "other issuer",
    "revoked",
    "session",
    "other tenant",
    "node",
    "other node",
    "admin",
    "viewer",
    "metrics",
];

/// Those that are good for nothing.
const BAD: [&str; 8] = [
    "none",
    "garbage",
    "wrong key",
    "expired",
    "not yet valid",
    "other audience",
    "other issuer",
    "revoked",
];

/// A scheduler that asks for tokens, and the keys to make them.
struct Place {
    directory: TempDir,
    lingua: Lingua,
}

impl Place {
    fn start(more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["right", "wrong"] {
            let out = directory.path().to_str().unwrap();
            let (code, said) = process::lingua(&["token", "key", "--name", name, "--out", out]);
            assert_eq!(code, Some(0), "{said}");
        }
        let config = directory.path().join("lingua.toml");
        let key = directory.path().join("right.pub.pem");
        let text = format!(
            "listen = \"127.0.0.1:0\"\n{more}\n[identity]\nkey_files = [{:?}]\nrecheck_ms = 100\nleeway_s = 0\n",
            key.to_str().unwrap()
        );
        std::fs::write(&config, text).unwrap();
        let lingua = Lingua::start(&["--config", config.to_str().unwrap()]);
        let place = Place { directory, lingua };
        // What is revoked is so before anything is asked.
        let admin = place.token("admin");
        let body = json!({"jti": "the-revoked-one"});
        let revoke = call(place.admins(), "POST", "/api/v1/revocations", admin.as_deref(), &body);
        assert_eq!(revoke.status, 200, "{revoke:?}");
        place
    }

    fn address(&self) -> SocketAddr {
        self.lingua.address()
    }

    /// Where administrators are heard.
    fn admins(&self) -> SocketAddr {
        let next = self.lingua.greeting()[2].split("http://").nth(1).unwrap();
        next.split('/').next().unwrap().parse().unwrap()
    }

    fn key(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.key.pem"))
    }

    fn token(&self, kind: &str) -> Option<String> {
        let now = now_s();
        let mut claims = json!({
            "iss": "lingua", "aud": "lingua", "sub": "app", "jti": format!("t-{now}"), "nbf": now - 10,
            "exp": now + 600, "role": "session", "tenant": "acme",
        });
        let mut key = "right";
        let role = |claims: &mut Value, role: &str, subject: &str| {
            claims["role"] = json!(role);
            claims["sub"] = json!(subject);
            claims.as_object_mut().unwrap().remove("tenant");
        };
        match kind {
            "none" => return None,
            "garbage" => return Some("this.is.nothing".to_owned()),
            "wrong key" => key = "wrong",
            "expired" => claims["exp"] = json!(now - 1),
            "not yet valid" => {
                claims["nbf"] = json!(now + 60);
                claims["exp"] = json!(now + 120);
            }
            "other audience" => claims["aud"] = json!("another-platform"),
            "other issuer" => claims["iss"] = json!("another-issuer"),
            "revoked" => claims["jti"] = json!("the-revoked-one"),
            "session" => {}
            "other tenant" => claims["tenant"] = json!("other"),
            "node" => role(&mut claims, "node", "node-1"),
            "other node" => role(&mut claims, "node", "node-2"),
            "admin" | "viewer" | "metrics" => role(&mut claims, kind, "ops"),
            other => panic!("{other}"),
        }
        Some(sign(&self.key(key), &claims))
    }
}

fn now_s() -> u64 {
    lingua_store::Clock::system().now().as_millis() / 1_000
}

/// Signs claims with a key, under the name of the right one.
fn sign(key: &Path, claims: &Value) -> String {
    let typ = format!("lingua-{}+jwt", claims["role"].as_str().unwrap());
    let header = json!({"alg": "EdDSA", "typ": typ, "kid": "right"});
    let write = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let said = format!("{}.{}", write(&header), write(claims));
    let der = PrivatePkcs8KeyDer::from_pem_file(key).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).unwrap();
    let signed = pair.sign(said.as_bytes());
    format!("{said}.{}", URL_SAFE_NO_PAD.encode(signed.as_ref()))
}

#[derive(Debug)]
struct Answer {
    status: u16,
    challenge: bool,
    body: Value,
}

/// One request. Of a stream without end only the head is read.
fn call(to: SocketAddr, method: &str, path: &str, token: Option<&str>, body: &Value) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let shown = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let body = if method == "GET" { String::new() } else { body.to_string() };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {}\r\n{shown}\r\n{body}",
        body.len()
    )
    .unwrap();
    // Not every body is text.
    let mut lines = BufReader::new(stream)
        .split(b'\n')
        .map(|line| String::from_utf8_lossy(&line.unwrap()).trim_end().to_owned());
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let (mut challenge, mut endless) = (false, false);
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let line = line.to_lowercase();
        challenge |= line.starts_with("www-authenticate: bearer");
        endless |= line.starts_with("transfer-encoding: chunked");
    }
    let body = if endless { String::new() } else { lines.collect() };
    Answer { status, challenge, body: serde_json::from_str(&body).unwrap_or_default() }
}

/// A job of the tenant `acme` that has ended, and a piece of its speech.
fn jobs_of_acme(place: &Place) -> (String, String) {
    let (to, token) = (place.address(), place.token("session"));
    let job = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
        "audio_format": "pcm16", "request_id": "r-1"});
    let answer = call(to, "POST", "/v1/dispatch/f2f", token.as_deref(), &job);
    assert_eq!(answer.status, 200, "{answer:?}");
    let kept = call(to, "POST", "/v1/audio", token.as_deref(), &json!("speech"));
    assert_eq!(kept.status, 200, "{kept:?}");
    let reference = kept.body["audio_ref"].as_str().unwrap().trim_start_matches("blob://");
    (answer.body["job_id"].as_str().unwrap().to_owned(), reference.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_with_every_kind_of_token() {
    let place = Place::start("");
    let mut node = Line::open(place.address(), "/ws/node", place.token("node").as_deref()).await;
    node.say(register("node-1", None)).await;
    assert_eq!(node.hear().await["type"], "node_register_ack");
    let (job, speech) = jobs_of_acme(&place);
    let mut rows = 0;
    for (method, path, who) in lingua_server::calls() {
        let real = path
            .replace("{job_id}", &job)
            .replace("{ref}", &speech)
            .replace("{file}", "app.js")
            .replace("{names}", "none");
        // An order that is obeyed must not disturb the node of the other rows.
        let is_order = method == "POST" && path.starts_with("/api/");
        let named = if is_order { "node-9" } else { "node-1" };
        let real = real.replace("{id}", named);
        let real = if path == "/api/v1/explain" { format!("{real}?src=en&tgt=zh") } else { real };
        for kind in KINDS {
            let token = place.token(kind);
            let body = body(path);
            let answer = call(place.address(), &method, &real, token.as_deref(), &body);
            let told = (answer.status, answer.body["error"].as_str().unwrap_or_default());
            let about = format!("{method} {path} ({who}) with {kind}: {answer:?}");
            match expected(&who, kind, &method, path) {
                Expected::Unauthorized => {
                    assert_eq!(told, (401, "UNAUTHORIZED"), "{about}");
                    assert!(answer.challenge, "{about}");
                }
                Expected::Forbidden => assert_eq!(told, (403, "FORBIDDEN"), "{about}"),
                // As if it had never been: the same answer as for one that was made up.
                Expected::Unknown if path == "/v1/audio/{ref}" => {
                    assert_eq!(told, (400, "INVALID_MESSAGE"), "{about}");
                }
                Expected::Unknown => assert_eq!(told, (404, "NOT_FOUND"), "{about}"),
                Expected::Through => {
                    assert!(![401, 403].contains(&answer.status), "{about}");
                    assert!(answer.status < 500, "{about}");
                }
            }
            rows += 1;
        }
    }
    assert!(rows > 30 * KINDS.len(), "{rows}");
}

/// What a call needs; a call that nobody thought of here is refused by the test.
fn body(path: &str) -> Value {
    match path {
        "/v1/dispatch/f2f" => {
            json!({"session_id": "s", "src_lang": "xx", "tgt_lang": "yy", "audio": "AAAA"})
        }
        "/v1/audio" => json!("speech"),
        "/v1/node/register" => {
            json!({"node_id": "node-1", "health": "ready", "semantic_langs": ["en"],
            "nmt_pairs": "any", "tts_langs": [], "max_concurrent_jobs": 1})
        }
        "/v1/node/heartbeat" => json!({"node_id": "node-1"}),
        "/v1/job/ack" => {
            json!({"job_id": "0000000000000000000000000a", "attempt_id": 1, "node_id": "node-1"})
        }
        "/v1/job/done" => {
            json!({"job_id": "0000000000000000000000000a", "attempt_id": 1, "node_id": "node-1",
            "status": "ok"})
        }
        "/v1/job/fail" => {
            json!({"job_id": "0000000000000000000000000a", "attempt_id": 1, "node_id": "node-1",
            "status": "error", "reason": "x"})
        }
        "/api/v1/revocations" => json!({"jti": "nobodys"}),
        "/v1/job/{job_id}"
        | "/v1/audio/{ref}"
        | "/v1/languages"
        | "/v1/node/{id}/jobs"
        | "/v1/node/{id}"
        | "/v1/node/{id}/resume"
        | "/api/v1/nodes"
        | "/api/v1/nodes/{id}"
        | "/api/v1/nodes/{id}/drain"
        | "/api/v1/nodes/{id}/resume"
        | "/api/v1/nodes/{id}/block"
        | "/api/v1/pools"
        | "/api/v1/explain"
        | "/api/v1/stats"
        | "/api/v1/history"
        | "/api/v1/usage"
        | "/api/v1/catalogue"
        | "/api/v1/cluster"
        | "/api/v1/sessions"
        | "/api/v1/sessions/{id}"
        | "/api/v1/sessions/{id}/disconnect"
        | "/api/v1/jobs"
        | "/api/v1/jobs/{job_id}"
        | "/api/v1/jobs/{job_id}/cancel"
        | "/api/v1/nodes/{id}/history"
        | "/api/v1/events"
        | "/health"
        | "/ready"
        | "/metrics"
        | "/openapi.json"
        | "/asyncapi.json"
        | "/"
        | "/dashboard"
        | "/dashboard/{file}"
        | "/cluster"
        | "/models"
        | "/languages"
        | "/compute-power"
        | "/talk"
        | "/talk/{*file}"
        | "/node"
        | "/node/{file}" => Value::Null,
        other if other.starts_with("/internal/v1/") || other.starts_with("/ws/") => Value::Null,
        other => panic!("{other} has no row here: say who may call it"),
    }
}

#[derive(Debug)]
enum Expected {
    Unauthorized,
    Forbidden,
    Unknown,
    Through,
}

fn expected(who: &str, kind: &str, method: &str, path: &str) -> Expected {
    let bad = BAD.contains(&kind);
    // Another tenant's jobs and speech are not there at all.
    let hidden = ["/v1/job/{job_id}", "/v1/audio/{ref}"].contains(&path);
    let role = match kind {
        "other tenant" => "session",
        kind => kind,
    };
    match who {
        // Sockets are asked in their first message, and this is no socket at all.
        "everybody" | "node socket" | "session socket" => Expected::Through,
        // No token opens what instances sign for each other.
        "peers" if path.starts_with("/internal/v1/bodies") => Expected::Forbidden,
        "peers" => Expected::Unknown,
        _ if bad => Expected::Unauthorized,
        // Whatever the router says of these two.
        _ if kind == "viewer" && method != "GET" => Expected::Forbidden,
        _ if kind == "metrics" && path != "/metrics" => Expected::Forbidden,
        _ if !who.split([' ', ',']).any(|word| word == role) => {
            let operators = who.contains("admin") && method == "GET";
            assert!(!(kind == "viewer" && operators), "a viewer reads what an admin reads: {path}");
            Expected::Forbidden
        }
        _ if kind == "other tenant" && hidden => Expected::Unknown,
        _ => Expected::Through,
    }
}

#[test]
fn tokens_come_into_force_and_out_of_it_with_their_keys() {
    let place = Place::start("");
    let admin = place.token("admin");
    let stats = |token: Option<&str>| {
        call(place.address(), "GET", "/api/v1/stats", token, &Value::Null).status
    };
    assert_eq!(stats(admin.as_deref()), 200);
    let config = place.directory.path().join("lingua.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    // What cannot be read changes nothing.
    std::fs::write(&config, "listen = ").unwrap();
    place.lingua.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(stats(admin.as_deref()), 200);
    std::fs::copy(
        place.directory.path().join("wrong.pub.pem"),
        place.directory.path().join("next.pub.pem"),
    )
    .unwrap();
    std::fs::write(&config, text.replace("right.pub", "next.pub")).unwrap();
    place.lingua.signal("HUP");
    wait_for("the old key is gone", || stats(admin.as_deref()) == 401);
}

#[test]
fn administrators_may_have_a_listener_of_their_own() {
    let place = Place::start("admin_listen = \"127.0.0.1:0\"");
    let admins = place.admins();
    assert_ne!(admins, place.address());
    for (method, path, who) in lingua_server::calls() {
        // What instances ask each other is not there for anybody else.
        let asked = path.contains('{') || path == "/api/v1/events" || who == "peers";
        if method != "GET" || asked {
            continue;
        }
        let status =
            |to| call(to, &method, path, place.token("admin").as_deref(), &Value::Null).status;
        let (here, there) = (status(place.address()) != 404, status(admins) != 404);
        let both = ["/health", "/ready", "/openapi.json", "/asyncapi.json"].contains(&path);
        let leads = ["/", "/cluster", "/models", "/languages", "/compute-power"].contains(&path);
        let page = leads || path.starts_with("/dashboard");
        let expected = match who.as_str() {
            _ if both => (true, true),
            who if who.starts_with("admin") => (false, true),
            _ if page => (false, true),
            _ => (true, false),
        };
        assert_eq!((here, there), expected, "{method} {path}");
    }
}
