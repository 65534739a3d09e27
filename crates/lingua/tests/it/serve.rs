//! The binary as its users meet it: started as a process, spoken to over real sockets.

use crate::acl;
use crate::process;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use lingua_lab::{Behaviour, FakeNode, HttpClient, NodeOptions, RedisConfig, RedisServer};
use process::{Lingua, get, lingua, request, wait_for};

#[test]
fn without_a_command_it_serves_and_says_so_in_three_lines() {
    let server = Lingua::start(&["--listen", "127.0.0.1:0"]);
    let lines = server.greeting();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].contains(&format!("listens on http://{}", server.address())), "{lines:?}");
    assert!(lines[1].contains("store: embedded"), "{lines:?}");
    assert!(lines[2].contains("/dashboard") && lines[2].contains("--help"), "{lines:?}");
}

#[test]
fn health_and_ready_answer_and_everything_else_is_a_clear_refusal() {
    let server = Lingua::start(&["serve", "--listen", "127.0.0.1:0"]);
    let (status, body) = get(server.address(), "/health");
    assert_eq!((status, body["status"].as_str()), (200, Some("ok")));
    let (status, body) = get(server.address(), "/ready");
    assert_eq!((status, body["ready"].as_bool()), (200, Some(true)));
    let (status, body) = get(server.address(), "/nowhere");
    assert_eq!((status, body["error"].as_str()), (404, Some("NOT_FOUND")));
    let (status, body) = request(server.address(), "DELETE", "/health");
    assert_eq!(status, 405);
    assert!(body["detail"].as_str().unwrap().contains("DELETE"), "{body}");
}

#[test]
fn a_signal_ends_it_with_zero() {
    for signal in ["TERM", "INT"] {
        let mut server = Lingua::start(&["serve", "--listen", "127.0.0.1:0"]);
        server.signal(signal);
        assert_eq!(server.exit_code(), Some(0), "SIG{signal}");
    }
}

#[test]
fn headers_that_dribble_are_cut_off() {
    let server = Lingua::start(&["serve", "--listen", "127.0.0.1:0"]);
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: ").unwrap();
    let mut answer = Vec::new();
    // The end of the stream: the server closed it, with or without an answer.
    slow.read_to_end(&mut answer).unwrap();
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(get(server.address(), "/health").0, 200);
}

#[test]
fn a_connection_that_asked_is_kept_for_its_next_request_and_one_that_did_not_is_closed() {
    let settings = |idle: &'static str| {
        [("LINGUA_LIMITS_HEADER_TIMEOUT_MS", "300"), ("LINGUA_LIMITS_IDLE_TIMEOUT_MS", idle)]
    };
    let start = |idle| Lingua::logged(&["serve", "--listen", "127.0.0.1:0"], &settings(idle));
    let connect = |to: &Lingua| {
        let stream = TcpStream::connect(to.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 1024];
        let read = stream.read(&mut answer).unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"));
    };
    let ended = |stream: &mut TcpStream| {
        assert_eq!(stream.read(&mut [0; 1024]).unwrap(), 0, "it was not closed");
    };

    let (patient, _log) = start("60000");
    let (mut silent, mut asking) = (connect(&patient), connect(&patient));
    ask(&mut asking);
    // Long enough for the one that says nothing is long enough for the other.
    ended(&mut silent);
    ask(&mut asking);

    let (strict, _log) = start("500");
    let mut asking = connect(&strict);
    ask(&mut asking);
    ended(&mut asking);
}

#[test]
fn settings_that_cannot_work_end_in_one_sentence_and_a_code() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (args, code, says) in [
        (&["serve", "--listen", "0.0.0.0:0"][..], 78, "--insecure"),
        (&["serve", "--listen", &taken], 1, "cannot listen"),
        (&["serve", "--listen", "nonsense"], 2, "--listen"),
        (&["serve", "--store", "mongodb://x"], 2, "a store URL is"),
        (&["serve", "--store", "redis://127.0.0.1:1"], 69, "cannot be reached"),
        (&["serve", "--store", "redis+cluster://127.0.0.1:1"], 69, "cannot be reached"),
        (&["serve", "--store", "redis+sentinel://127.0.0.1:1/main"], 69, "no Sentinel answers"),
        (&["nonsense"], 2, "nonsense"),
        (&["bench", "store", "--in-flight", "0"], 2, "--in-flight"),
    ] {
        let (found, error) = lingua(args);
        assert_eq!(found, Some(code), "{args:?}: {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    }
}

#[tokio::test]
async fn a_store_that_would_lose_leases_is_refused_in_one_sentence() {
    let evicting = RedisConfig::new().line("maxmemory-policy allkeys-lru").start().await.unwrap();
    let (code, error) = lingua(&["serve", "--store", &evicting.url()]);
    assert_eq!(code, Some(78), "{error}");
    assert!(error.contains("CONFIG SET maxmemory-policy noeviction"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");

    let foreign = RedisServer::start().await.unwrap();
    foreign.command(&["SET", "lingua:v1:schema", "2.0"]).await.unwrap();
    let (code, error) = lingua(&["serve", "--store", &foreign.url()]);
    assert_eq!((code, error.lines().count()), (Some(78), 1), "{error}");
    assert!(error.contains("schema 2.0"), "{error}");
}

#[tokio::test]
async fn a_password_is_never_shown() {
    let guarded = RedisConfig::new().password("s3cret").start().await.unwrap();
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}/", guarded.port());
    let (code, error) = lingua(&["serve", "--store", &url("wr0ng")]);
    assert_eq!(code, Some(69), "{error}");
    assert!(error.contains("does not let us in") && !error.contains("wr0ng"), "{error}");
    let server = Lingua::start(&["serve", "--listen", "127.0.0.1:0", "--store", &url("s3cret")]);
    assert!(!server.greeting().concat().contains("s3cret"));
    assert!(!get(server.address(), "/ready").1.to_string().contains("s3cret"));
}

#[tokio::test]
async fn the_user_of_the_sample_configuration_has_all_the_rights_it_takes() {
    let redis = acl::start().await.unwrap();
    let server = Lingua::start(&["serve", "--listen", "127.0.0.1:0", "--store", &acl::url(&redis)]);
    let options = NodeOptions::new(format!("ws://{}/ws/node", server.address()));
    let node = FakeNode::connect(options.behaviour(Behaviour::taking_ms(1))).await.unwrap();
    let client = HttpClient::new(format!("http://{}", server.address()));
    let job = serde_json::json!({
        "session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
        "options": {"wait_ms": 20_000},
    });
    let done = client.post("/v1/dispatch/f2f", &job).await.unwrap().ok().unwrap();
    assert_eq!(done["job"]["state"], "DONE", "{done}");
    let order = format!("/api/v1/nodes/{}/drain", node.node_id());
    assert!(client.post(&order, &serde_json::json!({})).await.unwrap().is_success());
    // Long enough for everything that is done again and again.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(get(server.address(), "/ready").0, 200);
    server.signal("TERM");
    let mut server = server;
    assert_eq!(server.exit_code(), Some(0));
    let denied = redis.command(&["ACL", "LOG"]).await.unwrap().into_result().unwrap();
    assert!(denied.items().is_empty(), "refused: {}", denied.text());
}

#[tokio::test]
async fn ready_follows_the_store_down_and_up_while_health_stays() {
    let mut redis = RedisServer::start().await.unwrap();
    let server = Lingua::start(&["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()]);
    let status = || get(server.address(), "/ready").0;
    assert_eq!(status(), 200);
    redis.kill().unwrap();
    wait_for("503 after the store died", || status() == 503);
    let (_, body) = get(server.address(), "/ready");
    assert_eq!(body["error"], "SCHEDULER_DEPENDENCY_DOWN");
    assert!(body["retry_after_ms"].as_u64().is_some(), "{body}");
    assert_eq!(get(server.address(), "/health").0, 200);
    redis.restart().await.unwrap();
    wait_for("200 after the store is back", || status() == 200);
    redis.pause().unwrap();
    wait_for("503 while the store is silent", || status() == 503);
    redis.resume().unwrap();
    wait_for("200 after it speaks again", || status() == 200);
}

#[test]
fn the_bench_measures_all_stores_and_writes_its_report() {
    let report = tempfile::NamedTempFile::new().unwrap();
    let path = report.path().to_str().unwrap();
    let args = ["bench", "store", "--seconds", "1", "--in-flight", "1,8", "--json", path];
    let (code, error) = lingua(&args);
    assert_eq!(code, Some(0), "{error}");
    let lines: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report.path()).unwrap()).unwrap();
    let lines = lines.as_array().unwrap();
    assert_eq!(lines.len(), 6);
    for line in lines {
        assert!(line["jobs_per_second"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["calls_per_job"].as_u64().unwrap() <= 5, "{line}");
        assert_eq!(line["store"] == "redis", line["ratio_per_call"].is_f64(), "{line}");
    }
}
