//! The node that does nothing but what its test tells it.

use std::collections::VecDeque;
use std::ops::Deref;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_tungstenite::tungstenite;

use super::messages::{self, Load, merge};
use super::options::{Heartbeats, NodeOptions};
use super::wire::audio_frame;
use super::{Closed, Registration};
use crate::link::{Heard, Link};

/// Messages that the test has not asked for yet. Beyond this the node stops reading, and the
/// scheduler meets a slow consumer.
const UNREAD: usize = 4096;

/// A node that sends what its test says and hands it everything the scheduler sends. It answers
/// pings by itself, and nothing else. Dropping it is [`ScriptedNode::abort`].
#[derive(Debug)]
pub struct ScriptedNode {
    options: NodeOptions,
    registration: Option<Registration>,
    lines: mpsc::Sender<Line>,
    heard: mpsc::Receiver<Heard>,
    /// Taken from `heard` and not handed out yet.
    held_back: VecDeque<Heard>,
    ended: watch::Receiver<Option<Closed>>,
    task: JoinHandle<()>,
}

/// One message from the scheduler: the JSON itself through `Deref`, so that fields are indexed
/// directly, and for a `job_assign` the audio of the binary frame behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// The message.
    pub message: Value,
    /// The audio, if it came in a binary frame.
    pub audio: Option<Bytes>,
}

impl Deref for Received {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.message
    }
}

/// What the task that owns the connection is given.
#[derive(Debug)]
enum Line {
    Text(Bytes, oneshot::Sender<Sent>),
    Binary(Bytes, oneshot::Sender<Sent>),
    Close(u16, String),
}

type Sent = Result<(), tungstenite::Error>;

impl ScriptedNode {
    pub(super) fn start(
        options: NodeOptions,
        link: Link,
        registration: Option<Registration>,
    ) -> Self {
        let (lines, from_test) = mpsc::channel(1);
        let (to_test, heard) = mpsc::channel(UNREAD);
        let (ending, ended) = watch::channel(None);
        let heartbeats = Reports::new(&options, registration.as_ref());
        let task = tokio::spawn(async move {
            let closed = carry(link, from_test, to_test, heartbeats).await;
            ending.send_replace(Some(closed));
        });
        Self { options, registration, lines, heard, held_back: VecDeque::new(), ended, task }
    }

    /// The answer to the registration, if there was one.
    pub fn registration(&self) -> Option<&Registration> {
        self.registration.as_ref()
    }

    /// The node's name; empty before a registration without a name is answered.
    pub fn node_id(&self) -> &str {
        let given = self.registration.as_ref().map(|registration| &registration.node_id);
        given.or(self.options.node_id.as_ref()).map_or("", String::as_str)
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Registers, on a connection that is not registered yet.
    pub async fn register(&mut self) -> anyhow::Result<&Registration> {
        let starting = self.options.starts_before_services();
        self.send(messages::register(&self.options, self.options.node_id.as_deref(), starting))
            .await?;
        let answer = self.next().await?;
        let registration = Registration::read(answer.message)?;
        Ok(self.registration.insert(registration))
    }

    /// The next message, within [`NodeOptions::patience`].
    pub async fn next(&mut self) -> anyhow::Result<Received> {
        let give_up_at = Instant::now() + self.options.patience;
        let text = match self.hear(give_up_at).await? {
            Heard::Text(text) => text,
            Heard::Binary(frame) => {
                bail!("{}: a binary frame behind no assign: {}", self.name(), start_of(&frame))
            }
            Heard::Ended(closed) => {
                bail!("{}: the connection ended {closed} instead of a message", self.name())
            }
        };
        let message: Value = serde_json::from_str(&text)
            .with_context(|| format!("{}: no JSON: {text}", self.name()))?;
        let audio = match self.awaits_audio(&message) {
            true => self.audio_of(&message, give_up_at).await?,
            false => None,
        };
        Ok(Received { message, audio })
    }

    /// The next message of that type, passing over others.
    pub async fn next_of(&mut self, kind: &str) -> anyhow::Result<Received> {
        let limit = self.options.patience;
        let mut passed = Vec::new();
        let found = async {
            loop {
                let received = self.next().await?;
                if received["type"] == kind {
                    return Ok(received);
                }
                passed.push(received.message.to_string());
            }
        };
        let found: anyhow::Result<_> =
            timeout(limit, found).await.unwrap_or_else(|_| bail!("not within {limit:?}"));
        found.with_context(|| format!("waiting for a {kind}, passed over: [{}]", passed.join(", ")))
    }

    /// An error if anything comes within that time.
    pub async fn hears_nothing_for(&mut self, time: Duration) -> anyhow::Result<()> {
        match self.hear(Instant::now() + time).await {
            Err(_) => Ok(()),
            Ok(Heard::Text(text)) => bail!("{}: {text} came", self.name()),
            Ok(Heard::Binary(frame)) => bail!("{}: {} came", self.name(), start_of(&frame)),
            Ok(Heard::Ended(closed)) => bail!("{}: the connection ended {closed}", self.name()),
        }
    }

    /// Sends a message; once it returns, the message is with the operating system.
    pub async fn send(&self, message: Value) -> anyhow::Result<()> {
        self.send_text(message.to_string()).await
    }

    /// Sends a text frame, whatever is in it.
    pub async fn send_text(&self, text: impl Into<String>) -> anyhow::Result<()> {
        self.write(|sent| Line::Text(text.into().into(), sent)).await
    }

    /// Sends a binary frame.
    pub async fn send_binary(&self, bytes: impl Into<Bytes>) -> anyhow::Result<()> {
        self.write(|sent| Line::Binary(bytes.into(), sent)).await
    }

    /// Sends a message of that type about a job: the ids and token of its assign, and `fields` over
    /// them.
    pub async fn about(&self, assign: &Value, kind: &str, fields: Value) -> anyhow::Result<()> {
        let mut message = json!({ "type": kind, "node_id": self.node_id() });
        for name in ["job_id", "attempt_id", "session_id", "trace_id", "lease_token"] {
            if let Some(value) = assign.get(name) {
                message[name] = value.clone();
            }
        }
        merge(&mut message, &fields);
        self.send(message).await
    }

    /// `job_ack`
    pub async fn ack(&self, assign: &Value) -> anyhow::Result<()> {
        self.about(assign, "job_ack", Value::Null).await
    }

    /// `job_started`
    pub async fn started(&self, assign: &Value) -> anyhow::Result<()> {
        self.about(assign, "job_started", Value::Null).await
    }

    /// `job_reject`
    pub async fn reject(&self, assign: &Value, reason: &str) -> anyhow::Result<()> {
        self.about(assign, "job_reject", json!({ "reason": reason })).await
    }

    /// `asr_partial`
    pub async fn partial(&self, assign: &Value, text: &str) -> anyhow::Result<()> {
        let index = &assign["utterance_index"];
        let fields = json!({ "utterance_index": index, "text": text, "is_final": false });
        self.about(assign, "asr_partial", fields).await
    }

    /// `job_progress`
    pub async fn progress(&self, assign: &Value, stage: &str) -> anyhow::Result<()> {
        self.about(assign, "job_progress", json!({ "stage": stage })).await
    }

    /// A `job_result` that went well, with that translation.
    pub async fn result(&self, assign: &Value, text: &str) -> anyhow::Result<()> {
        let fields = json!({
            "utterance_index": assign["utterance_index"],
            "success": true,
            "text_asr": format!("heard: {text}"),
            "text_translated": text,
        });
        self.about(assign, "job_result", fields).await
    }

    /// A `job_result` with an error of that code.
    pub async fn fail(&self, assign: &Value, code: &str) -> anyhow::Result<()> {
        let fields = json!({
            "utterance_index": assign["utterance_index"],
            "success": false,
            "error": { "code": code, "message": "the scripted node was told to" },
        });
        self.about(assign, "job_result", fields).await
    }

    /// `node_heartbeat`, with no jobs running, and `extra` over it.
    pub async fn heartbeat(&self, extra: Value) -> anyhow::Result<()> {
        let node_id = Some(self.node_id());
        self.send(messages::heartbeat(&self.options, node_id, &Load::default(), &extra)).await
    }

    /// Says goodbye with 1000 and waits a moment for the scheduler to say it too.
    pub async fn close(&self) -> anyhow::Result<Closed> {
        self.close_with(1000, "").await
    }

    /// Says goodbye with that code and reason.
    pub async fn close_with(&self, code: u16, reason: &str) -> anyhow::Result<Closed> {
        // Fails if the connection has ended, and then there is nothing to close.
        let _ = self.lines.send(Line::Close(code, reason.to_owned())).await;
        self.closed().await
    }

    /// Drops the connection at once, without a close.
    pub fn abort(self) {
        drop(self);
    }

    /// Waits, within [`NodeOptions::patience`], until the connection has ended, and says how.
    pub async fn closed(&self) -> anyhow::Result<Closed> {
        let mut ended = self.ended.clone();
        let limit = self.options.patience;
        let closed = timeout(limit, ended.wait_for(Option::is_some)).await;
        let closed =
            closed.with_context(|| format!("{}: still open after {limit:?}", self.name()))?;
        Ok(closed.as_deref().ok().cloned().flatten().unwrap_or_default())
    }

    async fn write(&self, line: impl FnOnce(oneshot::Sender<Sent>) -> Line) -> anyhow::Result<()> {
        let (sent, done) = oneshot::channel();
        let gone = || format!("{}: the connection has ended", self.name());
        self.lines.send(line(sent)).await.map_err(|_| anyhow::anyhow!(gone()))?;
        done.await.with_context(gone)?.with_context(gone)
    }

    async fn hear(&mut self, give_up_at: Instant) -> anyhow::Result<Heard> {
        match self.held_back.pop_front() {
            Some(heard) => Ok(heard),
            None => self.hear_new(give_up_at).await,
        }
    }

    async fn hear_new(&mut self, give_up_at: Instant) -> anyhow::Result<Heard> {
        match timeout_at(give_up_at, self.heard.recv()).await {
            Ok(Some(heard)) => Ok(heard),
            Ok(None) => Ok(Heard::Ended(self.closed().await?)),
            Err(_) => bail!("{}: nothing came from the scheduler in time", self.name()),
        }
    }

    /// Whether the next frame should be the audio of this assign.
    fn awaits_audio(&self, message: &Value) -> bool {
        let in_json = |name| message.get(name).is_some_and(|value: &Value| !value.is_null());
        message["type"] == "job_assign"
            && self.options.does("binary_audio")
            && !in_json("audio")
            && !in_json("text")
    }

    /// The next binary frame, which must be the audio of this assign. Messages that come before it
    /// are kept for later.
    async fn audio_of(
        &mut self,
        assign: &Value,
        give_up_at: Instant,
    ) -> anyhow::Result<Option<Bytes>> {
        loop {
            let heard = self.hear_new(give_up_at).await;
            match heard.with_context(|| format!("the audio frame of {assign} is missing"))? {
                Heard::Text(text) => self.held_back.push_back(Heard::Text(text)),
                Heard::Binary(frame) => match audio_frame(&frame) {
                    Some((job_id, audio)) if assign["job_id"] == job_id => return Ok(Some(audio)),
                    _ => bail!("{}: behind {assign} came {}", self.name(), start_of(&frame)),
                },
                Heard::Ended(closed) => {
                    bail!("{}: no audio behind {assign}: it ended {closed}", self.name())
                }
            }
        }
    }

    fn name(&self) -> String {
        format!("node {:?}", self.node_id())
    }
}

impl Drop for ScriptedNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Heartbeats that a scripted node sends by itself, because its options ask for it.
struct Reports {
    options: NodeOptions,
    node_id: Option<String>,
    every: Option<Duration>,
}

impl Reports {
    fn new(options: &NodeOptions, registration: Option<&Registration>) -> Self {
        let every = match options.heartbeats {
            Heartbeats::Every(interval) => Some(interval),
            Heartbeats::AsTold | Heartbeats::Never => None,
        };
        let node_id = registration.map(|registration| registration.node_id.clone());
        Self { options: options.clone(), node_id, every }
    }

    fn message(&self) -> Value {
        let node_id = self.node_id.as_deref();
        messages::heartbeat(&self.options, node_id, &Load::default(), &Value::Null)
    }
}

/// Carries messages between the test and the scheduler until one of them has had enough.
async fn carry(
    mut link: Link,
    mut from_test: mpsc::Receiver<Line>,
    to_test: mpsc::Sender<Heard>,
    reports: Reports,
) -> Closed {
    let mut next_report = reports.every.map(|every| Instant::now() + every);
    loop {
        let room = to_test.capacity() > 0;
        tokio::select! {
            line = from_test.recv() => {
                let sent = match line {
                    Some(Line::Text(text, sent)) => {
                        link.send_text(text);
                        sent
                    }
                    Some(Line::Binary(bytes, sent)) => {
                        link.send_binary(bytes);
                        sent
                    }
                    Some(Line::Close(code, reason)) => return link.close(code, &reason).await,
                    None => return Closed::default(),
                };
                // The test may have given up on it.
                let _ = sent.send(link.flush().await);
            }
            heard = link.hear(), if room => match heard {
                Heard::Ended(closed) => return closed,
                // There is room, and without its node nobody is left to miss it.
                heard => { let _ = to_test.try_send(heard); }
            },
            _ = to_test.reserve(), if !room => {}
            () = sleep_until(next_report.unwrap_or_else(Instant::now)), if next_report.is_some() => {
                link.send_json(&reports.message());
                next_report = reports.every.map(|every| Instant::now() + every);
            }
        }
    }
}

/// Enough of a frame to recognise it by.
fn start_of(frame: &Bytes) -> String {
    let start = &frame[..frame.len().min(40)];
    format!("{} bytes that start with {:?}", frame.len(), String::from_utf8_lossy(start))
}
