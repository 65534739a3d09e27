//! Every fault of the wire, seen from both of its ends.

use std::time::Duration;

use lingua_lab::{FaultProxy, RedisConfig, RedisServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

const SOON: Duration = Duration::from_secs(5);
const A_WHILE: Duration = Duration::from_millis(150);

/// Both ends of one connection through a proxy.
struct Wire {
    proxy: FaultProxy,
    client: TcpStream,
    server: TcpStream,
}

impl Wire {
    async fn lay() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = FaultProxy::start(listener.local_addr().unwrap()).await.unwrap();
        let client = TcpStream::connect(proxy.addr()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        Self { proxy, client, server }
    }
}

/// What arrives within `SOON`, at most `len` bytes.
async fn receive(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    timeout(SOON, stream.read_exact(&mut bytes)).await.expect("nothing arrived").unwrap();
    bytes
}

async fn nothing_arrives(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(A_WHILE, stream.read(&mut byte)).await;
    assert!(read.is_err(), "{read:?} arrived");
}

async fn is_closed(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(SOON, stream.read(&mut byte)).await.expect("still open");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?} arrived");
}

async fn wait_for_connections(proxy: &FaultProxy, count: usize) {
    let met = async {
        while proxy.connections() != count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, met).await.expect("connections are left over");
}

#[tokio::test]
async fn bytes_and_the_end_of_each_stream_pass_both_ways() {
    let Wire { proxy, mut client, mut server } = Wire::lay().await;
    let large: Vec<u8> = (0..4_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let (sent, received) =
        tokio::join!(client.write_all(&large), receive(&mut server, large.len()));
    sent.unwrap();
    assert!(received == large);

    client.shutdown().await.unwrap();
    is_closed(&mut server).await;
    server.write_all(b"last words").await.unwrap();
    assert_eq!(receive(&mut client, 10).await, b"last words");
    drop(server);
    is_closed(&mut client).await;
    wait_for_connections(&proxy, 0).await;
}

#[tokio::test]
async fn a_delay_is_latency_and_does_not_add_up() {
    let Wire { proxy, mut client, mut server } = Wire::lay().await;
    proxy.delay_upstream(Duration::from_millis(1_000));
    let began = Instant::now();
    for byte in 0..10 {
        client.write_all(&[byte]).await.unwrap();
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(receive(&mut server, 10).await, (0..10).collect::<Vec<_>>());
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1_090), "{took:?}");
    assert!(took < Duration::from_secs(5), "ten delays would be ten seconds: {took:?}");

    let began = Instant::now();
    server.write_all(b"x").await.unwrap();
    receive(&mut client, 1).await;
    assert!(began.elapsed() < Duration::from_millis(900), "the other way is not delayed");
}

#[tokio::test]
async fn a_black_hole_takes_one_direction_and_gives_back_in_order() {
    let Wire { proxy, mut client, mut server } = Wire::lay().await;
    proxy.black_hole_downstream();
    client.write_all(b"request").await.unwrap();
    assert_eq!(receive(&mut server, 7).await, b"request");
    server.write_all(b"reply").await.unwrap();
    nothing_arrives(&mut client).await;

    proxy.pass();
    assert_eq!(receive(&mut client, 5).await, b"reply");

    proxy.black_hole_upstream();
    client.write_all(b"lost").await.unwrap();
    server.write_all(b"news").await.unwrap();
    assert_eq!(receive(&mut client, 4).await, b"news");
    nothing_arrives(&mut server).await;
}

#[tokio::test]
async fn a_black_hole_hides_the_end_of_a_peer_and_new_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).await.unwrap();
    let client = TcpStream::connect(proxy.addr()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();

    proxy.black_hole();
    drop(client);
    nothing_arrives(&mut server).await;
    let _second = TcpStream::connect(proxy.addr()).await.unwrap();
    assert!(timeout(A_WHILE, listener.accept()).await.is_err());

    proxy.pass();
    is_closed(&mut server).await;
    timeout(SOON, listener.accept()).await.expect("it comes through late").unwrap();
}

#[tokio::test]
async fn a_black_hole_takes_a_bounded_amount() {
    let Wire { proxy, mut client, .. } = Wire::lay().await;
    proxy.black_hole();
    let endless = async {
        let chunk = vec![0; 64 * 1024];
        for _ in 0..1024 {
            client.write_all(&chunk).await.unwrap();
        }
    };
    assert!(timeout(Duration::from_secs(1), endless).await.is_err(), "64 MiB went into the hole");
}

#[tokio::test]
async fn a_cut_closes_what_is_open_and_takes_new_connections() {
    let server = RedisServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.addr()).await.unwrap();
    let mut old = TcpStream::connect(proxy.addr()).await.unwrap();
    old.write_all(b"PING\r\n").await.unwrap();
    assert_eq!(receive(&mut old, 7).await, b"+PONG\r\n");
    proxy.cut();
    is_closed(&mut old).await;
    wait_for_connections(&proxy, 0).await;

    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    new.write_all(b"PING\r\n").await.unwrap();
    assert_eq!(receive(&mut new, 7).await, b"+PONG\r\n");
}

#[tokio::test]
async fn a_reply_is_cut_after_the_byte_that_was_asked_for() {
    let server = RedisServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.addr()).await.unwrap();
    for after_bytes in [0, 3, 6] {
        proxy.cut_in_mid_reply(after_bytes);
        let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
        client.write_all(b"PING\r\n").await.unwrap();
        assert_eq!(receive(&mut client, after_bytes).await, b"+PONG\r\n"[..after_bytes]);
        is_closed(&mut client).await;
    }
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    client.write_all(b"PING\r\n").await.unwrap();
    assert_eq!(receive(&mut client, 7).await, b"+PONG\r\n", "it cuts once");
}

#[tokio::test]
async fn refusing_closes_new_connections_and_leaves_open_ones() {
    let Wire { proxy, mut client, mut server } = Wire::lay().await;
    proxy.refuse(true);
    is_closed(&mut TcpStream::connect(proxy.addr()).await.unwrap()).await;
    client.write_all(b"x").await.unwrap();
    assert_eq!(receive(&mut server, 1).await, b"x");
}

#[tokio::test]
async fn dropping_the_proxy_closes_both_sides_and_the_port() {
    let Wire { proxy, mut client, mut server } = Wire::lay().await;
    let addr = proxy.addr();
    proxy.black_hole();
    drop(proxy);
    is_closed(&mut client).await;
    is_closed(&mut server).await;
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn writes_after_a_black_hole_before_the_replica_are_lost_in_a_failover() {
    let primary = RedisServer::start().await.unwrap();
    let proxy = FaultProxy::start(primary.addr()).await.unwrap();
    let replica = RedisConfig::new().replica_of("127.0.0.1", proxy.port()).start().await.unwrap();
    replica.wait_until_in_sync().await.unwrap();
    primary.command(&["SET", "kept", "1"]).await.unwrap().into_result().unwrap();
    let arrived = async {
        while replica.command(&["GET", "kept"]).await.unwrap().is_nil() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, arrived).await.expect("replication passes");

    proxy.black_hole_downstream();
    primary.command(&["SET", "lost", "1"]).await.unwrap().into_result().unwrap();
    sleep(A_WHILE).await;
    replica.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap().into_result().unwrap();
    proxy.pass();
    sleep(A_WHILE).await;
    assert_eq!(replica.command(&["GET", "kept"]).await.unwrap().text(), "1");
    assert!(replica.command(&["GET", "lost"]).await.unwrap().is_nil());
}
