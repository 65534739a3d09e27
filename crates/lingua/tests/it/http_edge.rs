//! What holds for every call: the name of a request, the forms of a refusal, compression, other pages, and words.

use crate::app::http::{Api, calm, job, node};
use crate::app::{On, TestApp};
use crate::gated::Keys;
use crate::process::{Lingua, Log, wait_for};

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

/// An answer as it came.
struct Told {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Told {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// One request with these headers beside `host`.
fn ask(to: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Told {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(": ")) {
        let known = headers.entry(name.to_lowercase()).or_default();
        *known = if known.is_empty() { value.to_owned() } else { format!("{known}, {value}") };
    }
    Told { status, headers, body: answer[end + 4..].to_vec() }
}

fn start(settings: &[(&str, &str)]) -> (Lingua, Log) {
    Lingua::logged(&["serve", "--listen", "127.0.0.1:0"], settings)
}

/// A path of this route.
pub fn real(path: &str) -> String {
    path.replace("{job_id}", "0123456789abcdefghjkmnpqrs")
        .replace("{id}", "node-1")
        .replace("{ref}", "x")
        .replace("{names}", "x")
        .replace("{file}", "app.js")
        .replace("{*file}", "app.js")
}

#[test]
fn a_method_that_a_path_does_not_take_has_a_code_and_is_told_what_it_takes() {
    let (lingua, _log) = start(&[]);
    let mut methods: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (method, path, _) in lingua_server::calls() {
        methods.entry(path).or_default().push(method);
    }
    assert!(methods.len() > 35, "{methods:?}");
    for (path, methods) in methods {
        for method in ["PUT", "PATCH", "OPTIONS", "BREW"] {
            let told = ask(lingua.address(), method, &real(path), &[], "");
            let about = format!("{method} {path}: {}", told.json());
            assert_eq!(
                (told.status, &told.json()["error"]),
                (405, &json!("METHOD_NOT_ALLOWED")),
                "{about}"
            );
            let allowed: Vec<&str> = told.header("allow").split(',').map(str::trim).collect();
            assert!(
                methods.iter().all(|one| allowed.contains(&one.as_str())),
                "{about}: {allowed:?}"
            );
            assert!(!allowed.contains(&method), "{about}");
        }
    }
    // A node that asks with HEAD would lose a job.
    let told = ask(lingua.address(), "HEAD", "/v1/node/node-1/jobs", &[], "");
    assert_eq!((told.status, told.header("allow")), (405, "GET"));
}

#[test]
fn every_answer_names_its_request_and_so_does_every_log_line_about_it() {
    let (lingua, log) = start(&[("LINGUA_LOG", "debug"), ("LINGUA_LOG_FORMAT", "json")]);
    let to = lingua.address();
    let named = |name: &str, method: &str, path: &str, body: &str| {
        ask(to, method, path, &[&format!("x-request-id: {name}")], body)
    };
    let refused = named("mine-1", "POST", "/v1/dispatch/f2f", "{");
    assert_eq!((refused.status, refused.header("x-request-id")), (400, "mine-1"));
    assert_eq!(refused.json()["x_request_id"], "mine-1");
    let revoked = named("mine-2", "POST", "/api/v1/revocations", "{\"jti\": \"one\"}");
    assert_eq!((revoked.status, revoked.header("x-request-id")), (200, "mine-2"));
    assert!(revoked.json().get("x_request_id").is_none(), "a good answer is as it was");
    for path in ["/health", "/nowhere", "/dashboard", "/metrics", "/openapi.json"] {
        assert_eq!(named("a.b_c-9", "GET", path, "").header("x-request-id"), "a.b_c-9", "{path}");
        let made = ask(to, "GET", path, &[], "").header("x-request-id").to_owned();
        assert!(
            made.len() == 32 && made.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{path}: {made}"
        );
        let replaced = named("two words", "GET", path, "").header("x-request-id").to_owned();
        assert!(replaced.len() == 32 && replaced != made, "{path}: {replaced}");
    }
    let lines = || -> Vec<Value> {
        log.so_far().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let has = |message: &str, id: &str| {
        lines().iter().any(|line| line["message"] == message && line["span"]["request.id"] == id)
    };
    wait_for("the handler's own line", || has("revoked", "mine-2"));
    wait_for("the line of its answer", || has("a request was answered", "mine-2"));
    wait_for("the line of a refusal", || has("a request was answered", "mine-1"));
    let unnamed = lines().into_iter().find(|line| {
        line["message"] == "a request was answered" && !line["span"]["request.id"].is_string()
    });
    assert_eq!(unnamed, None);
}

#[test]
fn who_asks_for_problems_gets_them_and_nobody_else_does() {
    let keys = Keys::make();
    let lingua = Lingua::start(&["--config", keys.config("", "").to_str().unwrap()]);
    let to = lingua.address();
    for (accept, is_problem) in [
        ("accept: application/problem+json", true),
        ("accept: application/json, application/problem+json", true),
        ("accept: application/json", false),
        ("accept: */*", false),
        ("x-other: 1", false),
    ] {
        for (method, path, status, code) in [
            ("GET", "/api/v1/stats", 401, "UNAUTHORIZED"),
            ("GET", "/nowhere", 404, "NOT_FOUND"),
            ("PUT", "/health", 405, "METHOD_NOT_ALLOWED"),
        ] {
            let told = ask(to, method, path, &[accept, "x-request-id: r-1"], "");
            let body = told.json();
            assert_eq!(told.status, status, "{accept} {path}");
            assert_eq!(told.header("cache-control"), "no-store", "{accept} {path}");
            if is_problem {
                assert_eq!(told.header("content-type"), "application/problem+json");
                assert_eq!(body["type"], format!("urn:lingua:error:{code}"));
                assert_eq!((&body["code"], &body["status"]), (&json!(code), &json!(status)));
                assert_eq!(body["instance"], "urn:lingua:request:r-1");
                assert!(
                    body["title"].is_string()
                        && body["detail"].is_string()
                        && body["error"].is_null()
                );
            } else {
                assert_eq!(told.header("content-type"), "application/json");
                assert_eq!((&body["error"], &body["code"]), (&json!(code), &Value::Null));
            }
        }
    }
    let told = ask(to, "GET", "/api/v1/stats", &["accept: application/problem+json"], "");
    assert_eq!(
        (&told.json()["reason"], told.header("www-authenticate")),
        (&json!("no_token"), "Bearer")
    );
    let good = [
        &format!("authorization: Bearer {}", keys.admin("a", "a"))[..],
        "accept: application/problem+json",
    ];
    assert_eq!(
        ask(to, "GET", "/api/v1/stats", &good, "").header("content-type"),
        "application/json"
    );
}

#[test]
fn answers_are_compressed_for_who_accepts_it_but_not_small_ones_streams_or_speech() {
    let (lingua, _log) = start(&[]);
    let to = lingua.address();
    let gzip = |path: &str| ask(to, "GET", path, &["accept-encoding: br, gzip"], "");
    for path in ["/openapi.json", "/asyncapi.json", "/metrics", "/dashboard", "/dashboard/app.js"] {
        let (plain, told) = (ask(to, "GET", path, &[], ""), gzip(path));
        assert_eq!(
            (told.header("content-encoding"), plain.header("content-encoding")),
            ("gzip", ""),
            "{path}"
        );
        assert!(plain.header("vary").contains("accept-encoding"), "{path}");
        assert_eq!(told.header("content-length"), told.body.len().to_string(), "{path}");
        assert!(
            told.body.len() * 2 < plain.body.len(),
            "{path}: {} of {}",
            told.body.len(),
            plain.body.len()
        );
        let mut read = Vec::new();
        GzDecoder::new(&told.body[..]).read_to_end(&mut read).unwrap();
        assert!(read == plain.body || path == "/metrics", "{path}");
    }
    let tag = gzip("/dashboard/app.js").header("etag").to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    let known = ask(
        to,
        "GET",
        "/dashboard/app.js",
        &["accept-encoding: gzip", &format!("if-none-match: {tag}")],
        "",
    );
    assert_eq!((known.status, known.body.len()), (304, 0));
    for path in ["/health", "/ready", "/api/v1/cluster", "/v1/languages", "/nowhere"] {
        assert_eq!(gzip(path).header("content-encoding"), "", "{path}");
    }
    let mut stream = TcpStream::connect(to).unwrap();
    write!(stream, "GET /api/v1/events HTTP/1.1\r\nhost: {to}\r\naccept-encoding: gzip\r\n\r\n")
        .unwrap();
    let mut head = [0; 2_048];
    let read = stream.read(&mut head).unwrap();
    let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
    assert!(head.contains("text/event-stream") && !head.contains("content-encoding"), "{head}");
}

#[test]
fn pages_of_the_named_origins_may_read_and_all_others_get_nothing() {
    let keys = Keys::make();
    let origins = "origins = [\"https://app.example.org\"]";
    let lingua = Lingua::start(&["--config", keys.config("", origins).to_str().unwrap()]);
    let (to, token) = (lingua.address(), format!("authorization: Bearer {}", keys.admin("a", "a")));
    let asks = "access-control-request-method: POST";
    let asks_headers = "access-control-request-headers: authorization, content-type";
    let page = "origin: https://app.example.org";
    let told = ask(to, "OPTIONS", "/v1/dispatch/f2f", &[page, asks, asks_headers], "");
    assert_eq!((told.status, told.body.len()), (204, 0));
    assert_eq!(told.header("access-control-allow-origin"), "https://app.example.org");
    assert_eq!(told.header("access-control-allow-methods"), "POST");
    assert!(
        told.header("access-control-allow-headers")
            .contains("authorization, content-type, idempotency-key")
    );
    assert_eq!(told.header("access-control-max-age"), "600");
    assert_eq!(told.header("access-control-allow-credentials"), "");
    assert!(told.header("vary").contains("origin"));

    for (path, status) in [("/api/v1/stats", 200), ("/api/v1/nodes/none", 404), ("/nowhere", 404)] {
        let told = ask(to, "GET", path, &[page, &token], "");
        assert_eq!(told.status, status, "{path}");
        assert_eq!(told.header("access-control-allow-origin"), "https://app.example.org", "{path}");
        assert!(told.header("access-control-expose-headers").contains("x-request-id"), "{path}");
    }
    assert_eq!(
        ask(to, "GET", "/api/v1/stats", &[page], "").header("access-control-allow-origin"),
        "https://app.example.org",
        "also why it is refused"
    );

    let own = format!("origin: http://{to}");
    for origin in [
        "origin: https://app.example.org.evil.test",
        "origin: http://app.example.org",
        "origin: https://app.example.org:8443",
        "origin: https://evil.test",
        "origin: null",
        "origin: *",
        &own,
        "x-no: origin",
    ] {
        for (method, headers) in [("OPTIONS", vec![origin, asks]), ("GET", vec![origin, &token])] {
            for path in ["/api/v1/stats", "/health", "/openapi.json", "/nowhere"] {
                let told = ask(to, method, path, &headers, "");
                let allowed: Vec<_> =
                    told.headers.keys().filter(|name| name.starts_with("access-control")).collect();
                assert!(allowed.is_empty(), "{method} {path} {origin}: {allowed:?}");
                assert!(told.header("vary").contains("origin"), "{method} {path} {origin}");
            }
        }
    }
}

#[test]
fn without_tokens_loopback_pages_may_call_but_only_named_origins_may_read() {
    let (lingua, _log) = start(&[("LINGUA_IDENTITY_ORIGINS", "http://localhost:9001")]);
    let read = |origin: &str| {
        let told =
            ask(lingua.address(), "GET", "/api/v1/stats", &[&format!("origin: {origin}")], "");
        (told.status, told.header("access-control-allow-origin").to_owned())
    };
    assert_eq!(read("http://localhost:9001"), (200, "http://localhost:9001".to_owned()));
    assert_eq!(read("http://localhost:9002"), (200, String::new()));
    assert_eq!(read("http://evil.test"), (403, String::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_is_another_name_of_the_request_id() {
    let app = TestApp::start(On::Memory, calm()).await;
    let api = Api::of(&app).await;
    assert_eq!(api.post("/v1/node/register", &node("n-1")).await.status, 200);
    let to = app.address;
    let hand_in = async |headers: &[&str], request: Option<&str>| {
        let mut body = job("keys");
        if let Some(request) = request {
            body["request_id"] = json!(request);
        }
        let (headers, body): (Vec<String>, _) =
            (headers.iter().map(|one| (*one).to_owned()).collect(), body.to_string());
        tokio::task::spawn_blocking(move || {
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            let told = ask(to, "POST", "/v1/dispatch/f2f", &headers, &body);
            (told.status, told.json())
        })
        .await
        .unwrap()
    };
    let (status, first) = hand_in(&["idempotency-key: k-1"], None).await;
    assert_eq!(status, 200, "{first}");
    for (headers, request) in [
        (&["idempotency-key: k-1"][..], None),
        (&["Idempotency-Key: \"k-1\""], None),
        (&["idempotency-key: k-1"], Some("k-1")),
        (&[], Some("k-1")),
    ] {
        let (status, again) = hand_in(headers, request).await;
        assert_eq!(
            (status, &again["job_id"]),
            (200, &first["job_id"]),
            "{headers:?} {request:?}: {again}"
        );
    }
    let (status, refused) = hand_in(&["idempotency-key: k-1"], Some("k-2")).await;
    assert_eq!(
        (status, &refused["error"], &refused["reason"]),
        (400, &json!("INVALID_MESSAGE"), &json!("two_request_ids"))
    );
    for wrong in [
        &["idempotency-key: a b"][..],
        &["idempotency-key: "],
        &["idempotency-key: \"\""],
        &["idempotency-key: a", "idempotency-key: a"],
    ] {
        let (status, refused) = hand_in(wrong, None).await;
        assert_eq!((status, &refused["error"]), (400, &json!("INVALID_MESSAGE")), "{wrong:?}");
        assert!(refused["detail"].as_str().unwrap().starts_with("Idempotency-Key: "), "{refused}");
    }
    app.finish().await;
}
