//! The task that owns a scripted speaker's connection.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::hearing::Received;
use super::wire::Frame;
use super::{Session, lock};
use crate::closed::Closed;
use crate::link::{Heard, Link};

/// Messages that the test has not asked for yet. Beyond this the speaker stops reading, and the
/// scheduler meets a slow consumer.
const UNREAD: usize = 4096;

/// What the test gives to the task.
#[derive(Debug)]
pub(super) enum Line {
    /// Goes out; told once it is with the operating system.
    Frames(Vec<Frame>, oneshot::Sender<()>),
    Ping(bytes::Bytes, oneshot::Sender<()>),
    /// Whether to read.
    Read(bool),
    Close(u16, String),
    Reset,
}

/// What the task gives to the test.
#[derive(Debug)]
pub(super) enum Arrived {
    Message(Received),
    /// Something that is no message of the contract.
    Other(String),
    Ended(Closed),
}

type Carrier =
    (mpsc::Sender<Line>, mpsc::Receiver<Arrived>, watch::Receiver<Option<Closed>>, JoinHandle<()>);

pub(super) fn start(link: Link, session: Arc<Mutex<Session>>) -> Carrier {
    let (lines, from_test) = mpsc::channel(1);
    let (to_test, arrived) = mpsc::channel(UNREAD);
    let (ending, ended) = watch::channel(None);
    let task = tokio::spawn(async move {
        // Told also when the task is aborted: then the sender is gone.
        let closed = carry(link, from_test, to_test, &session).await;
        ending.send_replace(Some(closed));
    });
    (lines, arrived, ended, task)
}

async fn carry(
    mut link: Link,
    mut from_test: mpsc::Receiver<Line>,
    to_test: mpsc::Sender<Arrived>,
    session: &Mutex<Session>,
) -> Closed {
    let mut reading = true;
    let mut unsent: Vec<oneshot::Sender<()>> = Vec::new();
    loop {
        let room = to_test.capacity() > 0;
        let heard = tokio::select! {
            line = from_test.recv() => {
                match line {
                    Some(Line::Frames(frames, sent)) => {
                        frames.into_iter().for_each(|frame| put(&mut link, frame));
                        unsent.push(sent);
                    }
                    Some(Line::Ping(payload, sent)) => {
                        link.send_ping(payload);
                        unsent.push(sent);
                    }
                    Some(Line::Read(read)) => reading = read,
                    Some(Line::Close(code, reason)) => return link.close(code, &reason).await,
                    Some(Line::Reset) => {
                        // Fails if it is gone already, and then there is nothing to reset.
                        let _ = link.reset();
                        return Closed::default();
                    }
                    None => return Closed::default(),
                }
                continue;
            }
            heard = link.write_and_hear(reading && room, !unsent.is_empty()) => match heard {
                Some(heard) => heard,
                None => {
                    for sent in unsent.drain(..) {
                        // The test may have given up on it.
                        let _ = sent.send(());
                    }
                    continue;
                }
            },
            _ = to_test.reserve(), if !room => continue,
        };
        match arrival(heard, session) {
            Arrived::Ended(closed) => return closed,
            // There is room, and without its speaker nobody is left to miss it.
            arrived => drop(to_test.try_send(arrived)),
        }
    }
}

fn put(link: &mut Link, frame: Frame) {
    match frame {
        Frame::Text(text) => link.send_text(text),
        Frame::Binary(bytes) => link.send_binary(bytes),
    }
}

fn arrival(heard: Heard, session: &Mutex<Session>) -> Arrived {
    let (at, at_us) = (Instant::now(), crate::monotonic_us());
    match heard {
        Heard::Text(text) => match serde_json::from_str::<Value>(&text) {
            Ok(message) => {
                lock(session).hear(at_us, &message);
                Arrived::Message(Received { message, at })
            }
            Err(error) => Arrived::Other(format!("{error} in {text}")),
        },
        Heard::Binary(bytes) => Arrived::Other(format!("a binary frame of {} bytes", bytes.len())),
        Heard::Ended(closed) => Arrived::Ended(closed),
    }
}
