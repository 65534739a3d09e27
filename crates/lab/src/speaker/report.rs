//! What the checker found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::bail;

use super::check::{Answered, Reasons};

/// Sentences about violations that are kept; all are counted.
const MAX_SENTENCES: usize = 50;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something that was said, or a number, has no ending.
    Lost,
    /// Something ended twice, or came back with more audio than was said.
    Doubled,
    /// Something ended after what came behind it.
    Disordered,
    /// A sentence came back in parts.
    Split,
    /// A sentence came back with other audio.
    Garbled,
    /// Something was told of an utterance that had ended.
    AfterEnding,
    /// A sentence came back that was never said here.
    Foreign,
    /// A sentence had not ended when its session could not be recovered.
    Abandoned,
}

/// What became of everything a speaker said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Sentences said to their end.
    pub said: u64,
    /// `translation_result`s.
    pub results: u64,
    /// `missing_result`s, by reason.
    pub missing: Reasons,
    /// Connections that were opened.
    pub connections: u64,
    /// Sessions that were begun; one, unless one could not be recovered.
    pub sessions: u64,
    /// The longest time from the last piece of a sentence to its ending.
    pub longest: Duration,
    /// Audio of which the scheduler told that it did not take it.
    pub dropped_bytes: u64,
    /// Sentences of which it took nothing; they have no ending.
    pub dropped_sentences: u64,
    /// `error` messages, each of which an existing client shows.
    pub popups: u64,
    /// How often each thing went wrong.
    pub counts: BTreeMap<Kind, u64>,
    /// The first of them as sentences.
    pub violations: Vec<String>,
}

impl Report {
    /// Nothing went wrong.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// An error that names what went wrong.
    pub fn ensure_clean(&self) -> anyhow::Result<()> {
        if self.is_clean() {
            return Ok(());
        }
        bail!("{self}")
    }

    /// How often that went wrong.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// `missing_result`s for any reason.
    pub fn missing(&self) -> u64 {
        self.missing.values().sum()
    }

    /// Adds what another speaker met.
    pub fn add(&mut self, other: &Report) {
        self.said += other.said;
        self.results += other.results;
        self.connections += other.connections;
        self.sessions += other.sessions;
        self.longest = self.longest.max(other.longest);
        self.dropped_bytes += other.dropped_bytes;
        self.dropped_sentences += other.dropped_sentences;
        self.popups += other.popups;
        for (reason, count) in &other.missing {
            *self.missing.entry(reason.clone()).or_default() += count;
        }
        for (kind, count) in &other.counts {
            *self.counts.entry(*kind).or_default() += count;
        }
        let room = MAX_SENTENCES.saturating_sub(self.violations.len());
        self.violations.extend(other.violations.iter().take(room).cloned());
    }

    pub(super) fn violated(&mut self, kind: Kind, sentence: String) {
        *self.counts.entry(kind).or_default() += 1;
        if self.violations.len() < MAX_SENTENCES {
            self.violations.push(sentence);
        }
    }

    pub(super) fn took(&mut self, answered: Option<&Answered>) {
        if let Some(Answered { said_us, answered_us, .. }) = answered {
            let took = Duration::from_micros(answered_us.saturating_sub(*said_us));
            self.longest = self.longest.max(took);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (said, results, missing) = (self.said, self.results, self.missing());
        write!(f, "{said} said, {results} results, {missing} missing")?;
        if self.dropped_bytes > 0 {
            write!(f, ", {} bytes dropped", self.dropped_bytes)?;
        }
        for (kind, count) in &self.counts {
            write!(f, ", {count} {}", kind.word())?;
        }
        for sentence in &self.violations {
            write!(f, "\n  {sentence}")?;
        }
        Ok(())
    }
}

impl Kind {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Lost => "lost",
            Kind::Doubled => "doubled",
            Kind::Disordered => "disordered",
            Kind::Split => "split",
            Kind::Garbled => "garbled",
            Kind::AfterEnding => "after their ending",
            Kind::Foreign => "foreign",
            Kind::Abandoned => "abandoned",
        }
    }
}
