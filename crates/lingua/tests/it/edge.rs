//! What holds at the edge whatever is called: whose pages may call and by which names, and what every answer
//! says of itself.

use crate::gated;
use crate::process;
use crate::tls_lab;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use gated::Keys;
use lingua_lab::RedisServer;
use process::{Lingua, Log, get, wait_for};
use serde_json::{Value, json};
use tls_lab::House;

/// One request with these headers and no others: the head and the body of the answer.
fn ask(to: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// What is needed to open a socket.
const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// The status of a request to open a socket, after which the connection ends.
fn open_socket(to: SocketAddr, host: &str, origin: &str) -> u16 {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /ws/session HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n{UPGRADE}\r\n")
        .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head[9..12]).parse().unwrap()
}

fn open(settings: &[(&str, &str)]) -> (Lingua, Log) {
    Lingua::logged(&["serve", "--listen", "127.0.0.1:0"], settings)
}

fn times(log: &Log, needle: &str) -> usize {
    log.so_far().lines().filter(|line| line.contains(needle)).count()
}

#[test]
fn pages_of_other_sites_are_turned_away() {
    let keys = Keys::make();
    let lingua = Lingua::start(&["--config", keys.config("", "").to_str().unwrap()]);
    let own = lingua.address().to_string();
    let (session, admin) = (keys.session("acme", "s"), keys.admin("ops", "a"));
    let with_origin = |origin: &str, path: &str, token: &str| {
        let headers =
            format!("host: {own}\r\norigin: {origin}\r\nauthorization: Bearer {token}\r\n");
        ask(lingua.address(), "GET", path, &headers, "").0
    };
    let suffix = format!("http://{own}.evil.example");
    let prefix = format!("http://evil.example@{own}");
    for origin in
        ["https://evil.example", "null", "", "http://", "http://127.0.0.1:1", &suffix, &prefix, "x"]
    {
        assert_eq!(with_origin(origin, "/ws/session", &session), 403, "{origin}");
        assert_eq!(with_origin(origin, "/api/v1/stats", &admin), 403, "{origin}");
    }
    assert_eq!(with_origin(&format!("http://{own}"), "/api/v1/stats", &admin), 200);
    assert_eq!(with_origin(&format!("http://{own}"), "/ws/session", &session), 400, "no upgrade");
}

#[test]
fn a_page_on_any_port_of_this_machine_may_call_where_no_token_is_asked() {
    let (lingua, log) = open(&[("LINGUA_IDENTITY_ORIGINS", "https://talk.example.org/")]);
    let to = lingua.address();
    let own = to.to_string();
    for origin in [
        "http://localhost:9001",
        "http://127.0.0.1:3000",
        "http://[::1]:9001",
        "https://talk.example.org",
        "https://talk.example.org/",
    ] {
        assert_eq!(open_socket(to, &own, origin), 101, "{origin}");
        let headers = format!("host: {own}\r\norigin: {origin}\r\n");
        assert_eq!(ask(to, "GET", "/v1/languages", &headers, "").0, 200, "{origin}");
    }
    for origin in ["http://evil.test", "https://talk.example.org.evil.test", "null"] {
        for _ in 0..3 {
            assert_eq!(open_socket(to, &own, origin), 403, "{origin}");
        }
    }
    // Logged once, with what would allow it.
    let line = "origins = ['https://talk.example.org', 'http://evil.test']";
    wait_for("the refusal is logged", || log.so_far().contains(line));
    assert_eq!(times(&log, "origin=\"http://evil.test\""), 1, "{}", log.so_far());
}

/// A page makes its own name point at this machine, and the browser believes that it talks to the page's site.
#[test]
fn calls_for_another_host_are_refused_where_no_token_is_asked() {
    let (lingua, log) = open(&[("LINGUA_IDENTITY_HOSTS", "lingua.lan")]);
    let (to, port) = (lingua.address(), lingua.address().port());
    let evil = format!("evil.test:{port}");
    for (method, path, _) in lingua_server::calls() {
        let path = path.replace(['{', '}', '*'], "");
        let headers = format!("host: {evil}\r\nsec-fetch-site: same-origin\r\n");
        let (status, answer) = ask(to, &method, &path, &headers, "");
        assert_eq!(status, 421, "{method} {path}: {answer}");
        assert!(answer.contains("MISDIRECTED_REQUEST"), "{answer}");
    }
    assert_eq!(open_socket(to, &evil, &format!("http://{evil}")), 421);
    let own = ["localhost", "127.0.0.1", "[::1]", "lingua.lan"];
    for host in own.map(|host| format!("{host}:{port}")) {
        let (status, answer) = ask(to, "GET", "/api/v1/stats", &format!("host: {host}\r\n"), "");
        assert_eq!(status, 200, "{host}: {answer}");
        assert_eq!(open_socket(to, &host, &format!("http://{host}")), 101, "{host}");
    }
    assert_eq!(ask(to, "GET", "/api/v1/stats", "", "").0, 200, "every browser says it");
    wait_for("the refusal is logged", || log.so_far().contains(&format!("hosts = ['{evil}']")));
    assert_eq!(times(&log, "a request for an unknown host was refused"), 1, "{}", log.so_far());
}

#[test]
fn with_tokens_hosts_are_checked_if_they_are_named() {
    let keys = Keys::make();
    for (hosts, status) in [("", 401), ("hosts = [\"lingua.example\"]", 421)] {
        let config = keys.config("", hosts);
        let lingua = Lingua::start(&["--config", config.to_str().unwrap()]);
        let (asked, _) =
            ask(lingua.address(), "GET", "/api/v1/stats", "host: other.example\r\n", "");
        assert_eq!(asked, status, "{hosts}");
        let (asked, _) =
            ask(lingua.address(), "GET", "/api/v1/stats", "host: lingua.example\r\n", "");
        assert_eq!(asked, 401, "{hosts}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_learn_where_the_store_is() {
    let redis = RedisServer::start().await.unwrap();
    let lingua = Lingua::start(&["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()]);
    wait_for("it takes work", || get(lingua.address(), "/ready").0 == 200);
    for path in ["/ready", "/health"] {
        let (_, answer) = ask(lingua.address(), "GET", path, "host: localhost\r\n", "");
        assert!(!answer.contains(&redis.port().to_string()) && !answer.contains("://"), "{answer}");
    }
    assert_eq!(get(lingua.address(), "/ready").1, json!({"ready": true, "store": "redis"}));
}

#[test]
fn a_probe_of_the_older_scheduler_is_told_ok_and_who_asks_for_json_gets_it() {
    let (lingua, _log) = open(&[]);
    let asked = |accept: &str| {
        ask(lingua.address(), "GET", "/health", &format!("host: localhost\r\n{accept}"), "").1
    };
    for accept in ["", "accept: */*\r\n", "accept: text/html,application/xhtml+xml;q=0.9\r\n"] {
        assert!(asked(accept).ends_with("\r\n\r\nOK"), "{accept}: {}", asked(accept));
    }
    for accept in ["accept: application/json\r\n", "accept: text/plain;q=0.5, Application/JSON\r\n"]
    {
        let answer = asked(accept);
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body["status"], "ok", "{accept}");
    }
}

#[test]
fn pages_of_the_older_scheduler_lead_to_the_dashboard() {
    let (lingua, _log) = open(&[]);
    for path in ["/", "/cluster", "/models", "/languages", "/compute-power"] {
        let (status, answer) = ask(lingua.address(), "GET", path, "host: localhost\r\n", "");
        assert_eq!(status, 307, "{path}");
        assert!(answer.to_lowercase().contains("\r\nlocation: /dashboard\r\n"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_kept_in_no_cache_and_tls_is_asked_for_only_where_it_is_spoken() {
    let (plain, _log) = open(&[]);
    for path in ["/health", "/ready", "/api/v1/stats", "/openapi.json", "/nowhere", "/v1/job/none"]
    {
        let headers = "host: localhost\r\naccept: application/json\r\n";
        let (_, answer) = ask(plain.address(), "GET", path, headers, "");
        let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
        assert!(head.contains("\r\ncache-control: no-store"), "{path}: {head}");
        assert!(!head.contains("strict-transport-security"), "{path}: {head}");
    }
    let house = House::new();
    house.configure("admin_listen = \"127.0.0.1:0\"", "");
    let server = house.start();
    for (to, path) in
        [(server.address(), "/talk"), (server.admin(), "/dashboard"), (server.address(), "/no")]
    {
        let head = house.client().head(to, path).await.unwrap().to_lowercase();
        assert!(head.contains("strict-transport-security: max-age=31536000\r\n"), "{path}: {head}");
    }
}

#[test]
fn a_key_that_everybody_can_read_is_spoken_of() {
    let house = House::new();
    house.configure("", "");
    let mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(house.path("server.key"), permissions).unwrap();
    };
    let said = "other users can read this secret file";
    for (bits, warned) in [(0o644, true), (0o640, false), (0o600, false)] {
        mode(bits);
        let mut server = house.start();
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
        let log = house.read("log");
        assert_eq!(log.contains(said) && log.contains("server.key"), warned, "{bits:o}: {log}");
    }
}

/// A node of an open scheduler made it drain another node, as its endpoint.
#[test]
fn a_node_cannot_make_the_scheduler_call_itself_or_another_instance() {
    let (lingua, _log) = open(&[]);
    let (other, _other_log) = open(&[]);
    let to = lingua.address();
    let register = |endpoint: String| {
        let body = json!({"node_id": "n", "semantic_langs": ["en", "zh"], "nmt_pairs": "any", "tts_langs": [],
            "endpoint": endpoint});
        ask(to, "POST", "/v1/node/register", "host: localhost\r\n", &body.to_string())
    };
    for host in ["127.0.0.1", "localhost", "[::1]", "127.3.3.3"] {
        let (status, answer) =
            register(format!("http://{host}:{}/api/v1/nodes/n/drain", to.port()));
        assert_eq!(status, 422, "{answer}");
        assert!(answer.contains("the scheduler itself"), "{answer}");
    }
    // Another instance on this machine is not known by its port, and takes nothing from a scheduler.
    let victim = json!({"node_id": "victim", "semantic_langs": ["en", "zh"], "nmt_pairs": "any", "tts_langs": []});
    let (status, answer) = ask(
        other.address(),
        "POST",
        "/v1/node/register",
        "host: localhost\r\n",
        &victim.to_string(),
    );
    assert_eq!(status, 200, "{answer}");
    let (status, answer) =
        register(format!("http://{}/api/v1/nodes/victim/drain", other.address()));
    assert_eq!(status, 200, "{answer}");
    let job = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
        "options": {"require_tts": false, "wait_ms": 3000, "deadline_ms": 3000}});
    let (status, answer) =
        ask(to, "POST", "/v1/dispatch/f2f", "host: localhost\r\n", &job.to_string());
    assert!(status >= 500 || answer.contains("\"FAILED\""), "it was sent, and not taken: {answer}");
    let (_, view) = get(other.address(), "/api/v1/nodes/victim");
    assert_eq!((&view["order"], &view["state"]), (&json!("serve"), &json!("ready")), "{view}");
}

#[test]
fn a_configuration_of_the_older_scheduler_is_spoken_of_and_not_read() {
    let place = tempfile::tempdir().unwrap();
    let older = "[server]\nhost = \"0.0.0.0\"\nport = 1\n[scheduler.phase2.redis]\nurl = \"redis://:s3cret@h\"\n";
    std::fs::write(place.path().join("config.toml"), older).unwrap();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lingua"));
        command.args(args).current_dir(place.path()).env_remove("LINGUA_STORE");
        // It ends as soon as it has said what it has to: nobody can listen there.
        command.env("LINGUA_LISTEN", "192.0.2.1:1").env("LINGUA_INSECURE", "true");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&["serve"]);
    assert_eq!(code, Some(1), "{said}");
    for name in
        ["is not read", "server.port is now listen", "phase2.redis.url is now store", "MIGRATING"]
    {
        assert!(said.contains(name), "{said}");
    }
    assert!(!said.contains("s3cret"), "{said}");
    // Given on purpose it is refused, in the same words.
    let (code, said) = run(&["serve", "--config", "config.toml"]);
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("server.port is now listen"), "{said}");
}
