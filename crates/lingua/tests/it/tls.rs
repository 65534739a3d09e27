//! TLS as those outside meet it: a real process, real sockets, real certificates.

use crate::process;
use crate::tls_lab;

use std::net::SocketAddr;
use std::time::Duration;

use lingua_lab::{FakeNode, NodeOptions};
use process::{lingua, wait_for};
use rustls::version::TLS12;
use tls_lab::{Authority, Client, House, Tunnel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// What comes until the other end closes.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end as well.
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await.unwrap();
    all
}

/// The beginning of a handshake, without its end.
async fn half_a_handshake(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await.unwrap();
    stream
}

/// Whether nothing has come yet, not even the end.
fn is_open(stream: &TcpStream) -> bool {
    let blocks = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    stream.try_read(&mut [0; 16]).is_err_and(blocks)
}

async fn wait_until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..400 {
        if done().await {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("not in time: {what}");
}

#[tokio::test]
async fn every_listener_speaks_tls_and_says_so() {
    let house = House::new();
    house.configure("admin_listen = \"127.0.0.1:0\"", "");
    let server = house.start();
    let lines = server.greeting();
    assert!(lines[0].contains(&format!("listens on https://{}", server.address())), "{lines:?}");
    assert!(lines[2].contains(&format!("https://{}/dashboard", server.admin())), "{lines:?}");
    let client = house.client();
    assert_eq!(client.get(server.address(), "/health").await.unwrap().0, 200);
    assert_eq!(client.get(server.admin(), "/api/v1/nodes").await.unwrap().0, 200);
    assert_eq!(client.inside("http/1.1").get(server.admin(), "/health").await.unwrap().0, 200);
    assert_eq!(client.get(server.address(), "/api/v1/nodes").await.unwrap().0, 404);
}

#[tokio::test]
async fn whoever_speaks_something_else_is_closed() {
    let house = House::new();
    house.configure("admin_listen = \"127.0.0.1:0\"", "");
    let server = house.start();
    for address in [server.address(), server.admin()] {
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let answer = rest(&mut plain).await;
        assert!(!answer.windows(4).any(|four| four == b"HTTP"), "{answer:?}");
        let old = Client::speaking(&house.instances, &TLS12);
        let refused = old.connect(address).await.unwrap_err().to_string();
        assert!(refused.contains("ProtocolVersion"), "{refused}");
        let other = house.client().inside("h2");
        let refused = other.connect(address).await.unwrap_err().to_string();
        assert!(refused.contains("NoApplicationProtocol"), "{refused}");
        assert_eq!(house.client().get(address, "/health").await.unwrap().0, 200);
    }
}

#[tokio::test]
async fn half_a_handshake_is_closed_in_time_and_delays_nobody() {
    let house = House::new();
    house.configure("threads = 1", "[limits]\nheader_timeout_ms = 4_000");
    let server = house.start();
    let began = Instant::now();
    let mut halves = Vec::new();
    for _ in 0..50 {
        halves.push(half_a_handshake(server.address()).await);
    }
    halves.push(TcpStream::connect(server.address()).await.unwrap());
    for _ in 0..5 {
        assert_eq!(house.client().get(server.address(), "/health").await.unwrap().0, 200);
    }
    assert!(halves.iter().all(is_open), "the others were answered before these were closed");
    for half in &mut halves {
        assert_eq!(rest(half).await, b"", "nothing was said to it");
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(3_900), "{took:?}");
    assert!(took < Duration::from_secs(12), "{took:?}");
}

#[tokio::test]
async fn half_a_handshake_does_not_hold_up_the_end() {
    let house = House::new();
    house.configure("", "[limits]\nheader_timeout_ms = 60_000");
    let mut server = house.start();
    let mut half = half_a_handshake(server.address()).await;
    assert_eq!(house.client().get(server.address(), "/health").await.unwrap().0, 200);
    let began = Instant::now();
    server.signal("TERM");
    assert_eq!(rest(&mut half).await, b"");
    assert_eq!(server.exit_code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn another_certificate_is_shown_after_sighup_and_open_sockets_stay() {
    let house = House::new();
    house.configure("", "");
    let server = house.start();
    let (client, address) = (house.client(), server.address());
    let tunnel = Tunnel::open(&client, address).await;
    let url = tunnel.ws("/ws/node");
    let mut node = FakeNode::scripted(NodeOptions::new(url).node_id("n")).await.unwrap();
    let before = client.shown(address).await.unwrap();

    let next = house.instances.instance();
    house.show(&next);
    assert_eq!(client.shown(address).await.unwrap(), before, "nobody said that it changed");
    server.signal("HUP");
    wait_until("the next certificate", async || client.shown(address).await.unwrap() == next.der())
        .await;
    wait_for("the log says so", || house.read("log").contains("another certificate"));

    // What came over the old one goes on.
    node.register().await.unwrap();
    assert_eq!(client.get(address, "/health").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_bad_certificate_changes_nothing_and_is_told() {
    let house = House::new();
    house.configure("", "");
    let server = house.start();
    let (client, address) = (house.client(), server.address());
    let good = client.shown(address).await.unwrap();
    let (one, other) = (house.instances.instance(), house.instances.instance());
    let late = house.instances.instance_for(-60);
    let told = || house.read("log").matches("nothing is changed").count();
    let bad = [
        ("no PEM".to_owned(), one.key_pem(), "no certificate"),
        (one.cert_pem(), other.key_pem(), "do not go together"),
        (one.cert_pem(), String::new(), "tls.key_file"),
        (late.cert_pem(), late.key_pem(), "has expired"),
    ];
    for (n, (cert, key, why)) in bad.into_iter().enumerate() {
        house.write("server.pem", &cert);
        house.write("server.key", &key);
        server.signal("HUP");
        wait_for(why, || told() == n + 1 && house.read("log").contains(why));
        assert_eq!(client.shown(address).await.unwrap(), good, "{why}");
    }
    // And without any, it would have to speak in the clear.
    house.show(&one);
    house.write("lingua.toml", "listen = \"127.0.0.1:0\"");
    server.signal("HUP");
    wait_for("TLS stays", || house.read("log").contains("takes a restart"));
    assert_eq!(client.shown(address).await.unwrap(), good);
    let secret = one.key_pem().lines().nth(1).unwrap().to_owned();
    assert!(!house.read("log").contains(&secret), "a key is in the log");
}

#[tokio::test]
async fn a_certificate_that_ends_soon_is_spoken_of() {
    let house = House::new();
    house.configure("", "");
    {
        let _server = house.start();
        assert!(!house.read("log").contains("expires soon"));
    }
    house.show(&house.instances.instance_for(3 * 24 * 3_600 + 60));
    let _server = house.start();
    wait_for("a warning", || house.read("log").contains("expires soon"));
    assert!(house.read("log").contains("days=3"), "{}", house.read("log"));
}

#[test]
fn files_that_cannot_work_end_in_one_sentence_and_a_code() {
    let house = House::new();
    let (one, other) = (house.instances.instance(), house.instances.instance());
    let config = house.path("lingua.toml");
    let args = ["serve", "--config", config.to_str().unwrap()];
    let refused = |says: &str| {
        for args in [&args[..], &["config", "check", args[1], args[2]]] {
            let (code, error) = lingua(args);
            assert_eq!(code, Some(78), "{args:?}: {error}");
            assert!(error.contains(says) && error.lines().count() == 1, "{args:?}: {error}");
        }
    };
    house.configure("", "");
    house.write("server.key", &other.key_pem());
    refused("do not go together");
    house
        .write("server.key", "-----BEGIN PRIVATE KEY-----\nnot base64!\n-----END PRIVATE KEY-----");
    refused("tls.key_file");
    std::fs::remove_file(house.path("server.key")).unwrap();
    refused("tls.key_file");
    house.show(&one);
    house.write("server.pem", "");
    refused("tls.cert_file");
    house.show(&one);
    house.configure("", "node_ca_file = \"DIR/nowhere.pem\"");
    refused("tls.node_ca_file");
    house.configure("", "node_ca_file = \"DIR/nodes.pem\"\nnode_crl_file = \"DIR/nodes.pem\"");
    refused("tls.node_crl_file");
    house.configure("", "peer_ca_file = \"DIR/server.key\"");
    refused("tls.peer_ca_file");
    house.configure("", "");
    let (code, error) = lingua(&["config", "check", args[1], args[2]]);
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn a_probe_goes_over_tls() {
    let house = House::new();
    house.configure("", "");
    house.write("other.pem", &Authority::new("other").pem());
    let server = house.start();
    let url = format!("https://{}", server.address());
    let ca = |name: &str| house.path(name).to_str().unwrap().to_owned();
    for (args, code, says) in [
        (vec!["--ca".to_owned(), ca("instances.pem")], 0, ""),
        (vec!["--ready".to_owned(), "--ca".to_owned(), ca("instances.pem")], 0, ""),
        (vec!["--ca".to_owned(), ca("other.pem")], 1, "certificate"),
        (vec!["--ca".to_owned(), ca("nowhere.pem")], 2, "--ca"),
        // By the roots of this machine.
        (vec![], 1, "certificate"),
    ] {
        let mut all = vec!["probe", "--url", &url];
        all.extend(args.iter().map(String::as_str));
        let (found, error) = lingua(&all);
        assert_eq!(found, Some(code), "{all:?}: {error}");
        assert!(error.contains(says), "{all:?}: {error}");
    }
    let plain = format!("http://{}", server.address());
    assert_eq!(lingua(&["probe", "--url", &plain]).0, Some(1));
}

/// A store beyond this machine may have several instances, which share a key.
fn serve_with_a_key(house: &House, options: &str) -> (Option<i32>, String) {
    house.write("cluster.key", &"0f".repeat(32));
    let key = house.path("cluster.key");
    house.write("lingua.toml", &format!("{options}\n[cluster]\nkey_file = {key:?}\n"));
    lingua(&["serve", "--config", house.path("lingua.toml").to_str().unwrap()])
}

#[test]
fn a_redis_beyond_this_machine_is_not_spoken_to_in_the_clear() {
    // 0.0.0.0 is not a loopback address, and yet nobody else is reached there.
    for url in [
        "redis://:s3cret@0.0.0.0:1",
        "redis+sentinel://:s3cret@127.0.0.1:1,0.0.0.0:1/main",
        "redis+cluster://:s3cret@0.0.0.0:1",
    ] {
        let (code, error) = lingua(&["serve", "--store", url]);
        assert_eq!(code, Some(78), "{error}");
        assert!(error.contains("store_plaintext") && !error.contains("s3cret"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        let house = House::new();
        let (code, error) =
            serve_with_a_key(&house, &format!("store_plaintext = true\nstore = {url:?}"));
        assert_eq!(code, Some(69), "{error}");
    }
    let (code, error) = serve_with_a_key(&House::new(), "store = \"rediss://0.0.0.0:1\"");
    assert_eq!(code, Some(69), "{error}");
}

#[tokio::test]
async fn the_manual_says_how_to_make_certificates() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/production.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let chapter = manual.split("\n## ").find(|chapter| chapter.starts_with("TLS\n")).unwrap();
    let blocks = |kind: &str| -> Vec<&str> {
        let opening = format!("```{kind}\n");
        chapter
            .split(opening.as_str())
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap())
            .collect()
    };
    let [authorities, instance, node, once, each_time] = blocks("sh")[..] else { panic!() };
    let [settings] = blocks("toml")[..] else { panic!() };
    let house = House::new();
    let dir = house.path("");
    let run = |commands: &str| {
        let done = std::process::Command::new("bash")
            .args(["-eu", "-c", commands])
            .current_dir(&dir)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    for commands in [authorities, instance, node, once] {
        run(commands);
    }
    let settings = settings.replace("/etc/lingua/", &format!("{}", dir.display()));
    let main = "listen = \"127.0.0.1:0\"\n";
    house.write("lingua.toml", &format!("{main}{settings}"));
    let server = house.start();
    let at = |name: &str| house.path(name);
    let client = Client::of_files(&at("instances-ca.pem"), &at("gpu-7.pem"), &at("gpu-7.key"));
    let tunnel = Tunnel::open(&client, server.address()).await;
    let node = FakeNode::scripted(NodeOptions::new(tunnel.ws("/ws/node"))).await.unwrap();
    assert_eq!(node.node_id(), "gpu-7");

    run(each_time);
    let list = format!("node_crl_file = {:?}\n", at("nodes.crl"));
    house.write("lingua.toml", &format!("{main}{settings}{list}"));
    server.signal("HUP");
    let closed = timeout(Duration::from_secs(20), node.closed()).await.unwrap().unwrap();
    assert_eq!(closed.code, Some(1008), "{closed:?}");
    assert!(client.get(server.address(), "/health").await.is_err());
}
