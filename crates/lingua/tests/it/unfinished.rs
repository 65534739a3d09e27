//! Those who begin and do not end: other protocols, nodes that never register, frames, messages and bodies
//! without an end. A real process, in the clear and with TLS, and raw sockets.

mod raw;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::process::wait_for;
use raw::{CONTINUATION, MESSAGE, PING, Place, Speaks, TEXT, closed, frame, head, heartbeat, next};

const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn http2_is_closed(speaks: Speaks) {
    let place = Place::start(speaks, "header_timeout_ms = 1_500").await;
    // All of the preface, and the beginning of it.
    for preface in [HTTP2, &HTTP2[..10]] {
        let mut stream = TcpStream::connect(place.address()).await.unwrap();
        stream.write_all(preface).await.unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        let read = timeout(Duration::from_secs(8), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "{speaks:?}: it stays, and was told {answer:?}");
        let settings = answer.get(3) == Some(&4) && !answer.starts_with(b"HTTP/1.1 4");
        assert!(!settings, "{speaks:?}: HTTP/2 is spoken: {answer:?}");
    }
    // And so it is without knowing before: the answer is HTTP/1.1.
    let mut stream = TcpStream::connect(place.address()).await.unwrap();
    let upgrade = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: upgrade, http2-settings\r\n\
                   upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n";
    stream.write_all(upgrade.as_bytes()).await.unwrap();
    assert!(head(&mut stream).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn http2_is_not_spoken_in_the_clear() {
    http2_is_closed(Speaks::Clear).await;
}

#[tokio::test]
async fn http2_is_not_spoken_inside_tls() {
    http2_is_closed(Speaks::Tls).await;
}

#[test]
fn http2_is_not_in_the_build() {
    let locked = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let locked = std::fs::read_to_string(locked).unwrap();
    assert!(!locked.contains("name = \"h2\""), "some feature of hyper brings HTTP/2 in");
}

/// A socket of somebody who says this again and again, and nothing that opens it.
async fn is_closed_whatever_it_says(place: &Place, path: &str, says: Vec<u8>) {
    let mut stream = place.socket(path, None).await;
    let began = Instant::now();
    let (mut reader, mut writer) = stream.split();
    let talks = async {
        loop {
            if writer.write_all(&says).await.is_err() {
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_millis(500)).await;
        }
    };
    let code = tokio::select! {
        code = closed(&mut reader) => code,
        () = talks => unreachable!(),
    };
    let took = began.elapsed();
    assert_eq!(code, 4002, "{path}");
    assert!(took >= Duration::from_millis(1_900) && took < Duration::from_secs(8), "{took:?}");
}

async fn who_does_not_open_has_to_go(speaks: Speaks) {
    let place = Place::start(speaks, "handshake_timeout_ms = 2_000").await;
    let heartbeat = frame(TEXT, true, json!({"type": "node_heartbeat"}).to_string().as_bytes());
    let ping = frame(PING, true, b"here");
    let empty = frame(TEXT, true, b"{}");
    join_all([
        is_closed_whatever_it_says(&place, "/ws/node", heartbeat),
        is_closed_whatever_it_says(&place, "/ws/node", ping.clone()),
        is_closed_whatever_it_says(&place, "/ws/node", empty.clone()),
        is_closed_whatever_it_says(&place, "/ws/session", ping),
        is_closed_whatever_it_says(&place, "/ws/session", empty),
    ])
    .await;
    let counted = place.metric("lingua_limited_total{limit=\"handshake_timeout_ms\"}").await;
    assert_eq!(counted, 5.0);
}

#[tokio::test]
async fn a_stranger_may_not_stay_whatever_it_says() {
    who_does_not_open_has_to_go(Speaks::Clear).await;
}

#[tokio::test]
async fn a_stranger_may_not_stay_inside_tls_whatever_it_says() {
    who_does_not_open_has_to_go(Speaks::Tls).await;
}

async fn empty_frames_cost_little(speaks: Speaks) {
    let place = Place::start(speaks, "").await;
    let mut stream = place.session(&place.token("acme")).await;
    stream.write_all(&frame(TEXT, false, b"")).await.unwrap();
    let frames = frame(CONTINUATION, false, b"").repeat(10_000);
    let (mut reader, mut writer) = stream.split();
    let floods = async {
        while writer.write_all(&frames).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let told = async {
        let told = next(&mut reader).await;
        assert_eq!((&told["type"], &told["action"]), (&json!("backpressure"), &json!("SLOW_DOWN")));
        let before = place.spent();
        // As long as a processor's time is measured.
        sleep(Duration::from_secs(3)).await;
        place.spent() - before
    };
    let spent = tokio::select! {
        spent = told => spent,
        () = floods => unreachable!(),
    };
    assert!(spent < Duration::from_millis(900), "{speaks:?}: {spent:?} of 3 s");
}

#[tokio::test]
async fn empty_frames_without_end_are_slowed_down() {
    empty_frames_cost_little(Speaks::Clear).await;
}

#[tokio::test]
async fn empty_frames_without_end_are_slowed_down_inside_tls() {
    empty_frames_cost_little(Speaks::Tls).await;
}

#[tokio::test]
async fn a_node_that_sends_empty_frames_without_end_is_let_go() {
    let place = Place::start(Speaks::Clear, "").await;
    let token = place.house.token("node", "n", &[]);
    let mut stream = place.socket("/ws/node", Some(&token)).await;
    let register = json!({"type": "node_register", "running": [], "node_id": "n", "max_concurrent_jobs": 1,
        "language_capabilities": {"semantic_languages": ["en"]}});
    stream.write_all(&frame(TEXT, true, register.to_string().as_bytes())).await.unwrap();
    assert_eq!(next(&mut stream).await["type"], "node_register_ack");
    // A message in pieces is heard, however many they are.
    let pieces = frame(CONTINUATION, false, &[b' '; 1_024]).repeat(8_000);
    stream.write_all(&frame(TEXT, false, b"{\"type\":\"heartbeat\"}")).await.unwrap();
    stream.write_all(&pieces).await.unwrap();
    stream.write_all(&frame(CONTINUATION, true, b"")).await.unwrap();
    stream.write_all(&frame(TEXT, true, b"{}")).await.unwrap();
    assert_eq!(next(&mut stream).await["code"], "INVALID_MESSAGE", "the one behind it");
    stream.write_all(&frame(TEXT, false, b"")).await.unwrap();
    let _ = stream.write_all(&frame(CONTINUATION, false, b"").repeat(20_000)).await;
    assert_eq!(next(&mut stream).await["code"], "RATE_LIMITED");
    assert_eq!(closed(&mut stream).await, 1008);
}

#[tokio::test]
async fn a_message_in_pieces_arrives_however_it_is_cut() {
    let place = Place::start(Speaks::Clear, "session_messages_per_s = 10_000").await;
    let mut stream = place.session(&place.token("acme")).await;
    let message = heartbeat(300_000);
    for size in [100, 1_023, 4_096, 20_000, 299_999] {
        let mut sent = Vec::new();
        for (n, piece) in message.chunks(size).enumerate() {
            let is_last = (n + 1) * size >= message.len();
            sent.extend(frame(if n == 0 { TEXT } else { CONTINUATION }, is_last, piece));
            sent.extend(frame(PING, true, b"between"));
        }
        stream.write_all(&sent).await.unwrap();
        let answer = next(&mut stream).await;
        assert_eq!(answer["code"], "INVALID_SESSION", "pieces of {size}: {answer}");
        place.is_heard(&mut stream, 3).await;
    }
}

/// Room for two of the largest messages of a tenant, and not three.
const SMALL: &str = "unfinished_bytes_per_tenant = 8_388_608\nmessage_timeout_ms = 3_000\n\
                     session_messages_per_s = 10_000";

async fn unfinished_messages_have_a_budget(speaks: Speaks) {
    let place = Place::start(speaks, SMALL).await;
    let (greedy, other) = (place.token("greedy"), place.token("other"));
    let mut healthy = place.session(&other).await;
    place.is_heard(&mut healthy, MESSAGE - 1_000).await;
    let mut streams = Vec::new();
    for _ in 0..40 {
        streams.push(place.session(&greedy).await);
    }
    let before = place.resident_mib();
    let message = frame(TEXT, true, &vec![b' '; MESSAGE]);
    let holds = async |mut stream: TcpStream| {
        let (mut reader, mut writer) = stream.split();
        // But for the last byte, and then signs of life for as long as it is let.
        let sends = async {
            let _ = writer.write_all(&message[..message.len() - 1]).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            code = closed(&mut reader) => code,
            () = sends => unreachable!(),
        }
    };
    let attack = join_all(streams.into_iter().map(holds));
    let beside = async {
        let (mut most, mut most_held) = (0f64, 0f64);
        for _ in 0..10 {
            // Those of another tenant notice nothing.
            place.is_heard(&mut healthy, MESSAGE - 1_000).await;
            most = most.max(place.resident_mib());
            most_held = most_held.max(place.metric("lingua_unfinished_bytes").await);
            sleep(Duration::from_millis(100)).await;
        }
        assert!(most_held > 4_000_000.0 && most_held <= 8_388_608.0, "{most_held}");
        most
    };
    let (codes, most) = tokio::join!(attack, beside);
    assert!(most - before < 40.0, "{speaks:?}: from {before} to {most} MiB");
    let late = codes.iter().filter(|code| **code == 1008).count();
    let no_room = codes.iter().filter(|code| **code == 1013).count();
    assert_eq!((late + no_room, late > 0, no_room > 0), (40, true, true), "{codes:?}");
    place.holds_nothing().await;
    place.is_heard(&mut place.session(&greedy).await, MESSAGE - 1_000).await;
    wait_for("the memory is given back", || place.resident_mib() - before < 25.0);
}

#[tokio::test]
async fn unfinished_messages_of_a_tenant_have_a_budget_and_a_time() {
    unfinished_messages_have_a_budget(Speaks::Clear).await;
}

#[tokio::test]
async fn unfinished_messages_of_a_tenant_have_a_budget_and_a_time_inside_tls() {
    unfinished_messages_have_a_budget(Speaks::Tls).await;
}

#[tokio::test]
async fn a_message_in_bytes_that_dribble_has_a_time() {
    let place = Place::start(Speaks::Clear, "message_timeout_ms = 1_500").await;
    let mut stream = place.session(&place.token("acme")).await;
    let (mut reader, mut writer) = stream.split();
    let began = Instant::now();
    let dribbles = async {
        for byte in frame(TEXT, true, &[b' '; 10_000]) {
            let _ = writer.write_all(&[byte]).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let code = tokio::select! {
        code = closed(&mut reader) => code,
        () = dribbles => unreachable!(),
    };
    assert_eq!(code, 1008);
    assert!(began.elapsed() >= Duration::from_millis(1_400), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn sockets_that_sent_much_and_are_idle_keep_no_memory_for_it() {
    let place = Place::start(Speaks::Clear, "").await;
    let token = place.token("acme");
    let mut first = place.session(&token).await;
    place.is_heard(&mut first, MESSAGE - 1_000).await;
    let before = place.resident_mib();
    let mut idle = Vec::new();
    for _ in 0..60 {
        let mut stream = place.session(&token).await;
        place.is_heard(&mut stream, MESSAGE - 1_000).await;
        idle.push(stream);
    }
    // Their buffers would be 160 MiB.
    let after = place.resident_mib();
    assert!(after - before < 40.0, "from {before} to {after} MiB");
    for stream in &mut idle {
        place.is_heard(stream, 10).await;
    }
}

/// The head of a request with a body of so many bytes.
fn request(path: &str, token: &str, length: usize, more: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{more}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
    .into_bytes()
}

const BODY: usize = 4 << 20;

/// Room for two of them, and time enough to send all of them.
const FEW: &str = "unfinished_bytes_per_tenant = 8_388_608\nmessage_timeout_ms = 8_000";

async fn unfinished_bodies_have_a_budget(speaks: Speaks) {
    let place = Place::start(speaks, FEW).await;
    let (greedy, other) = (place.token("greedy"), place.token("other"));
    let whole = async |token: &str| {
        let mut stream = TcpStream::connect(place.address()).await.unwrap();
        stream.write_all(&request("/v1/dispatch/f2f", token, BODY, "")).await.unwrap();
        stream.write_all(&vec![b' '; BODY]).await.unwrap();
        head(&mut stream).await
    };
    assert!(whole(&other).await.starts_with("HTTP/1.1 400 "), "read whole, and then refused");
    let before = place.resident_mib();
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut stream = TcpStream::connect(place.address()).await.unwrap();
        stream.write_all(&request("/v1/dispatch/f2f", &greedy, BODY, "")).await.unwrap();
        stream.write_all(&vec![b' '; BODY - 1]).await.unwrap();
        streams.push(stream);
    }
    let most = place.resident_mib();
    assert!(most - before < 30.0, "{speaks:?}: from {before} to {most} MiB");
    assert!(place.metric("lingua_unfinished_bytes").await <= 8_388_608.0);
    let refused = whole(&greedy).await;
    assert!(
        refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: 1"),
        "{refused}"
    );
    let mut first = TcpStream::connect(place.address()).await.unwrap();
    let asks = request("/v1/dispatch/f2f", &greedy, BODY, "expect: 100-continue\r\n");
    first.write_all(&asks).await.unwrap();
    assert!(head(&mut first).await.starts_with("HTTP/1.1 429 "), "before it is sent");
    assert!(whole(&other).await.starts_with("HTTP/1.1 400 "), "another tenant notices nothing");
    let limit = "lingua_limited_total{limit=\"unfinished_bytes_per_tenant\"}";
    assert!(place.metric(limit).await >= 2.0);
    for stream in &mut streams {
        let answer = head(stream).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    place.holds_nothing().await;
    assert!(whole(&greedy).await.starts_with("HTTP/1.1 400 "), "there is room again");
    wait_for("the memory is given back", || place.resident_mib() - before < 25.0);
}

#[tokio::test]
async fn unfinished_bodies_of_a_tenant_have_a_budget_and_a_time() {
    unfinished_bodies_have_a_budget(Speaks::Clear).await;
}

#[tokio::test]
async fn unfinished_bodies_of_a_tenant_have_a_budget_and_a_time_inside_tls() {
    unfinished_bodies_have_a_budget(Speaks::Tls).await;
}

#[tokio::test]
async fn strangers_of_one_address_have_a_budget_together() {
    let limits = "unfinished_bytes_per_address = 2_097_152\nnode_message_bytes = 65_536\n\
                  session_message_bytes = 1_048_576\nhandshake_timeout_ms = 4_000\n\
                  message_timeout_ms = 3_000\n[sessions]\nmax_audio_bytes = 700_000";
    let place = Place::start(Speaks::Clear, limits).await;
    let mut streams = Vec::new();
    for _ in 0..40 {
        let mut stream = place.socket("/ws/session", None).await;
        let message = frame(TEXT, true, &vec![b' '; 200_000]);
        stream.write_all(&message[..100_000]).await.unwrap();
        streams.push(stream);
    }
    sleep(Duration::from_millis(500)).await;
    let held = place.metric("lingua_unfinished_bytes").await;
    assert!(held > 1_000_000.0 && held <= 2_097_152.0, "{held}");
    for stream in &mut streams {
        let code = closed(stream).await;
        assert!(code == 4002 || code == 1008 || code == 1013, "{code}");
    }
    place.holds_nothing().await;
}
