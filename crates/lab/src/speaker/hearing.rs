//! What a test can hear from its speaker.

use std::ops::Deref;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::Speaker;
use super::carrier::{Arrived, Line};
use crate::speech::Echo;

/// One message from the scheduler: the JSON itself through `Deref`, so that fields are indexed
/// directly.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// The message.
    pub message: Value,
    /// When it came.
    pub at: Instant,
}

impl Deref for Received {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.message
    }
}

impl Received {
    /// Its type; empty if it has none.
    pub fn kind(&self) -> &str {
        self.message["type"].as_str().unwrap_or_default()
    }

    /// The utterance it is about.
    pub fn index(&self) -> Option<u64> {
        self.message["utterance_index"].as_u64()
    }

    /// Whether an utterance ends with it.
    pub fn is_ending(&self) -> bool {
        matches!(self.kind(), "translation_result" | "missing_result")
    }

    /// What a simulated node told of the audio of this result.
    pub fn echo(&self) -> Option<Echo> {
        Echo::read(&self.message)
    }
}

impl Speaker {
    /// The next message, within [`super::SpeakerOptions::patience`].
    pub async fn next(&mut self) -> anyhow::Result<Received> {
        self.next_within(self.options.patience).await
    }

    /// The next message within that time.
    pub async fn next_within(&mut self, limit: Duration) -> anyhow::Result<Received> {
        match self.arrival(limit).await? {
            Arrived::Message(received) => Ok(received),
            Arrived::Other(what) => bail!("{}: {what} came", self.name()),
            Arrived::Ended(closed) => {
                bail!("{}: the connection ended {closed} instead of a message", self.name())
            }
        }
    }

    /// The next message of that type, passing over others.
    pub async fn next_of(&mut self, kind: &str) -> anyhow::Result<Received> {
        self.next_of_within(kind, self.options.patience).await
    }

    /// The same within that time.
    pub async fn next_of_within(
        &mut self,
        kind: &str,
        limit: Duration,
    ) -> anyhow::Result<Received> {
        let found = self.until_within(limit, |received| received.kind() == kind).await;
        found.with_context(|| format!("waiting for a {kind}"))
    }

    /// The next message like that, passing over others.
    pub async fn until(
        &mut self,
        wanted: impl FnMut(&Received) -> bool,
    ) -> anyhow::Result<Received> {
        self.until_within(self.options.patience, wanted).await
    }

    /// The same within that time.
    pub async fn until_within(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(&Received) -> bool,
    ) -> anyhow::Result<Received> {
        let mut passed = Vec::new();
        let give_up_at = Instant::now() + limit;
        loop {
            let left = give_up_at.saturating_duration_since(Instant::now());
            match self.next_within(left).await {
                Ok(received) if wanted(&received) => return Ok(received),
                Ok(received) => passed.push(received.message.to_string()),
                Err(error) => {
                    let passed = passed.join(", ");
                    return Err(error.context(format!("passed over: [{passed}]")));
                }
            }
        }
    }

    /// The next ending, a `translation_result` or a `missing_result`.
    pub async fn ending(&mut self) -> anyhow::Result<Received> {
        self.until(Received::is_ending).await.context("waiting for an ending")
    }

    /// The next endings, all within [`super::SpeakerOptions::patience`].
    pub async fn endings(&mut self, count: usize) -> anyhow::Result<Vec<Received>> {
        self.endings_within(count, self.options.patience).await
    }

    /// The same within that time.
    pub async fn endings_within(
        &mut self,
        count: usize,
        limit: Duration,
    ) -> anyhow::Result<Vec<Received>> {
        let give_up_at = Instant::now() + limit;
        let mut endings = Vec::with_capacity(count);
        while endings.len() < count {
            let left = give_up_at.saturating_duration_since(Instant::now());
            let ending = self.until_within(left, Received::is_ending).await;
            endings
                .push(ending.with_context(|| format!("ending {} of {count}", endings.len() + 1))?);
        }
        Ok(endings)
    }

    /// An error if anything comes within that time.
    pub async fn hears_nothing_for(&mut self, time: Duration) -> anyhow::Result<()> {
        match self.arrival(time).await {
            Err(_) => Ok(()),
            Ok(Arrived::Message(received)) => bail!("{}: {} came", self.name(), received.message),
            Ok(Arrived::Other(what)) => bail!("{}: {what} came", self.name()),
            Ok(Arrived::Ended(closed)) => bail!("{}: it ended {closed}", self.name()),
        }
    }

    /// An error if an ending comes within that time, or the connection ends.
    pub async fn hears_no_ending_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + time;
        loop {
            match self.arrival(until.saturating_duration_since(Instant::now())).await {
                Err(_) => return Ok(()),
                Ok(Arrived::Message(received)) if received.is_ending() => {
                    bail!("{}: {} came", self.name(), received.message)
                }
                Ok(Arrived::Message(_) | Arrived::Other(_)) => {}
                Ok(Arrived::Ended(closed)) => bail!("{}: it ended {closed}", self.name()),
            }
        }
    }

    /// From now on nothing is read from the socket, not even pings; the connection stays.
    pub async fn stop_reading(&self) -> anyhow::Result<()> {
        self.order(Line::Read(false)).await
    }

    /// Reads again.
    pub async fn read_again(&self) -> anyhow::Result<()> {
        self.order(Line::Read(true)).await
    }

    async fn order(&self, line: Line) -> anyhow::Result<()> {
        let sent = self.lines.send(line).await;
        sent.map_err(|_| anyhow::anyhow!("{}: the connection has ended", self.name()))
    }

    pub(super) async fn arrival(&mut self, limit: Duration) -> anyhow::Result<Arrived> {
        match timeout(limit, self.arrived.recv()).await {
            Ok(Some(arrived)) => Ok(arrived),
            Ok(None) => Ok(Arrived::Ended(self.closed().await?)),
            Err(_) => bail!("{}: nothing came from the scheduler in {limit:?}", self.name()),
        }
    }
}
