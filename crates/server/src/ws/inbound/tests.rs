//! A client at the other end of a pipe, and the library behind what is tested.

use std::future::poll_fn;
use std::sync::Arc;

use futures_util::FutureExt;
use lingua_engine::metrics::Metrics;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::task::unconstrained;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::*;
use crate::config::{Config, Limits, Profile};
use crate::unfinished::Budget;
use crate::ws::socket::Socket;

const TEXT: OpCode = OpCode::Data(Data::Text);
const MORE: OpCode = OpCode::Data(Data::Continue);
const MAX: usize = 1 << 20;

/// Both ends, and the budget that they share with others.
struct Ends {
    near: Socket<DuplexStream>,
    far: DuplexStream,
}

fn limits() -> Limits {
    Limits { unfinished_bytes_per_address: 1 << 20, ..Config::preset(Profile::Stable).limits }
}

fn budget() -> Arc<Budget> {
    Budget::new(&limits(), &Metrics::default())
}

fn account(budget: &Arc<Budget>) -> Account {
    budget.account([127, 0, 0, 1].into())
}

fn ends(budget: &Arc<Budget>) -> Ends {
    let (near, far) = duplex(8 << 20);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX))
        .max_frame_size(Some(MAX))
        .read_buffer_size(4_096);
    Ends { near: Socket::new(Inbound::new(near, account(budget), MAX), config), far }
}

/// A frame as a client sends it.
fn frame(opcode: OpCode, is_final: bool, payload: Vec<u8>) -> Vec<u8> {
    let mut frame = Frame::message(payload, opcode, is_final);
    frame.header_mut().mask = Some([9, 8, 7, 6]);
    let mut bytes = Vec::new();
    frame.format(&mut bytes).unwrap();
    bytes
}

impl Ends {
    async fn send(&mut self, bytes: &[u8]) {
        self.far.write_all(bytes).await.unwrap();
    }

    /// The next text; `None` if there is none yet.
    fn text(&mut self) -> Option<String> {
        // However much is read for it.
        let next = unconstrained(poll_fn(|cx| self.near.poll_next(cx))).now_or_never()?;
        match next.unwrap().unwrap() {
            Message::Text(text) => Some(text.to_string()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn messages_arrive_as_they_were_sent_whole_and_in_pieces() {
    let mut ends = ends(&budget());
    let long = "y".repeat(200_000);
    ends.send(&frame(TEXT, true, b"one".to_vec())).await;
    ends.send(&frame(TEXT, true, long.clone().into_bytes())).await;
    ends.send(&frame(TEXT, false, b"two ".to_vec())).await;
    ends.send(&frame(MORE, false, vec![b'z'; 100_000])).await;
    ends.send(&frame(MORE, true, b" three".to_vec())).await;
    ends.send(&frame(TEXT, true, b"four".to_vec())).await;
    let mut texts = Vec::new();
    while let Some(text) = ends.text() {
        if ends.near.has_grown() {
            ends.near.renew();
        }
        texts.push(text);
    }
    let pieces = format!("two {} three", "z".repeat(100_000));
    assert_eq!(texts, ["one".to_owned(), long, pieces, "four".to_owned()]);
}

#[tokio::test]
async fn a_buffer_that_is_given_back_loses_nothing_of_what_came_behind_the_message() {
    for size in [10_000, 16_380, 16_384, 70_000, 300_000] {
        let mut ends = ends(&budget());
        let mut all = Vec::new();
        for n in 0..10 {
            all.extend(frame(TEXT, true, vec![b'a'; size + n]));
            all.extend(frame(TEXT, true, vec![b'b'; n]));
        }
        ends.send(&all).await;
        for n in 0..10 {
            assert_eq!(ends.text().unwrap().len(), size + n);
            assert_eq!(ends.near.has_grown(), size + n >= 16_384);
            if ends.near.has_grown() {
                ends.near.renew();
            }
            assert_eq!(ends.text().unwrap(), "b".repeat(n));
        }
        assert_eq!(ends.text(), None);
    }
}

#[tokio::test]
async fn a_message_waits_until_there_is_room_for_it() {
    let budget = budget();
    let mut others = account(&budget);
    others.hold((1 << 20) - 100_000).unwrap();
    let mut ends = ends(&budget);
    ends.send(&frame(TEXT, true, b"small".to_vec())).await;
    let large = frame(TEXT, true, vec![b'x'; 200_000]);
    // The header comes in two parts, and only its end is kept back.
    ends.send(&large[..3]).await;
    assert_eq!(ends.text().unwrap(), "small");
    ends.send(&large[3..]).await;
    ends.send(&frame(TEXT, true, b"behind".to_vec())).await;
    for _ in 0..3 {
        assert_eq!(ends.text(), None);
        assert_eq!(ends.near.stream.waits_for(), Some(Full::Address));
    }
    assert!(ends.near.stream.since().is_some(), "its time has begun");
    drop(others);
    assert_eq!(ends.text().unwrap().len(), 200_000);
    assert_eq!((ends.near.stream.waits_for(), ends.near.stream.since()), (None, None));
    ends.near.renew();
    assert_eq!(ends.text().unwrap(), "behind");
    let mut all = account(&budget);
    assert_eq!(all.hold(1 << 20), Ok(()), "what was held for it was given back");
}

#[tokio::test]
async fn a_message_that_came_with_the_opening_counts_for_the_tenant() {
    let most = 1 << 20;
    let limits =
        Limits { unfinished_bytes_per_tenant: most, ..Config::preset(Profile::Stable).limits };
    let budget = Budget::new(&limits, &Metrics::default());
    let acme = || Some(TenantId::new("acme").unwrap());
    for (others_hold, waits) in [(100_000, None), (900_000, Some(Full::Tenant))] {
        let mut ends = ends(&budget);
        let mut others = account(&budget);
        others.belongs_to(acme());
        others.hold(others_hold).unwrap();
        ends.send(&frame(TEXT, true, b"opening".to_vec())).await;
        ends.send(&frame(TEXT, true, vec![b'x'; 500_000])[..10_000]).await;
        assert_eq!(ends.text().unwrap(), "opening");
        ends.near.stream.belongs_to(acme());
        assert_eq!(ends.near.stream.waits_for(), waits);
        assert_eq!(others.hold(600_000).is_err(), waits.is_none(), "{others_hold}");
    }
}

#[tokio::test]
async fn half_a_message_is_held_for_and_given_up_with_its_socket() {
    let budget = budget();
    let mut ends = ends(&budget);
    let large = frame(TEXT, true, vec![b'x'; 800_000]);
    ends.send(&large[..5_000]).await;
    assert_eq!(ends.text(), None);
    let mut others = account(&budget);
    assert_eq!(others.hold(300_000), Err(Full::Address), "all of its frame counts");
    drop(ends);
    assert_eq!(others.hold(300_000), Ok(()));
}

#[tokio::test]
async fn what_is_too_large_is_refused_by_its_header_and_holds_nothing() {
    for first in [frame(TEXT, false, vec![b'x'; MAX / 4]), Vec::new()] {
        let budget = budget();
        let mut ends = ends(&budget);
        ends.send(&first).await;
        let opcode = if first.is_empty() { TEXT } else { MORE };
        let header = &frame(opcode, true, vec![0; MAX + 1])[..14];
        ends.send(header).await;
        let read = unconstrained(poll_fn(|cx| ends.near.poll_next(cx)));
        let error = read.now_or_never().unwrap();
        let error = error.unwrap().unwrap_err().to_string();
        assert!(error.contains("the message is too large"), "{error}");
    }
}

#[tokio::test]
async fn empty_frames_are_read_no_faster_than_they_are_counted() {
    let mut ends = ends(&budget());
    ends.send(&frame(TEXT, false, Vec::new())).await;
    ends.send(&frame(MORE, false, Vec::new()).repeat(10_000)).await;
    let (mut counted, mut looks) = (0, 0);
    loop {
        assert_eq!(ends.text(), None);
        let frames = ends.near.stream.take_short_frames();
        if frames == 0 {
            break;
        }
        assert!(frames < 1_000, "{frames} at once");
        counted += frames;
        looks += 1;
    }
    assert_eq!(counted, 10_000);
    assert!(looks >= 10, "{looks}");
}
