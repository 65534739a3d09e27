//! What a speaker says and hears in its session, over all its connections.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::Value;

use super::check::{Answered, Checker};
use super::event::{Event, event_of, told_with};
use super::options::SpeakerOptions;
use super::voice::{SessionAck, Voice};
use super::wire::Frame;
use crate::fake_node::merge;
use crate::speech::{Digest, Mark};
use crate::{Journal, monotonic_us};

/// One speaker's session.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub voice: Voice,
    pub checker: Checker,
    /// The utterance that is being said.
    mark: Option<Mark>,
    digest: Digest,
    seqs: Option<(u32, u32)>,
    log: VecDeque<(u64, Event)>,
    log_capacity: usize,
    journal: Option<Journal>,
    /// It names its targets as a list.
    lists_targets: bool,
}

impl Session {
    pub fn new(options: &SpeakerOptions) -> Self {
        let voice = Voice::new(options);
        let (log_capacity, journal) = (options.log_capacity, options.journal.clone());
        let lists_targets = !options.targets.is_empty();
        let mut session = Self { voice, log_capacity, journal, lists_targets, ..Self::default() };
        session.targets(&options.targets);
        session
    }

    /// What is said from now on is translated into these languages.
    pub fn targets(&mut self, targets: &[String]) {
        if self.lists_targets {
            self.note(monotonic_us(), Event::Targets { targets: targets.to_vec() });
        }
    }

    /// A connection is open; gives what goes again.
    pub fn opened(&mut self, ack: &SessionAck) -> Vec<Frame> {
        let recovered = ack.recovered;
        let goes_on = self.voice.goes_on(ack);
        self.note(monotonic_us(), Event::Opened { session_id: ack.session_id.clone(), recovered });
        if !goes_on {
            (self.mark, self.digest, self.seqs) = (None, Digest::default(), None);
        }
        self.voice.opened(ack)
    }

    /// A piece of speech goes out.
    pub fn say(&mut self, seq: Option<u32>, audio: Bytes, is_final: bool) -> (u32, Frame) {
        if self.digest.bytes == 0 {
            self.mark = Mark::find(&audio);
            if let Some(mark) = self.mark {
                self.note(monotonic_us(), Event::Begun { mark });
            }
        }
        self.digest.add(&audio);
        // Counted on from an arbitrary moment, as clients do.
        let timestamp_ms = (monotonic_us() / 1_000) as u32;
        let said = self.voice.say(seq, audio, is_final, timestamp_ms);
        self.seqs = Some((self.seqs.map_or(said.0, |(first, _)| first), said.0));
        if is_final {
            self.said();
        }
        said
    }

    /// What was said so far is an utterance; nothing if that is nothing.
    pub fn said(&mut self) {
        let digest = std::mem::take(&mut self.digest);
        let (mark, seqs) = (self.mark.take(), self.seqs.take());
        if digest.bytes > 0 {
            self.note(monotonic_us(), Event::Said { mark, digest, whole: None, seqs });
        }
    }

    /// A message came; for an ending, says of which sentence.
    pub fn hear(&mut self, at_us: u64, message: &Value) -> Option<Answered> {
        self.voice.hear(message);
        if message["type"] == "error" {
            self.checker.popup();
        }
        let event = event_of(message)?;
        self.write(at_us, &event, Some(message));
        self.take(at_us, event)
    }

    /// Writes down what happened, and has it checked.
    pub fn note(&mut self, at_us: u64, event: Event) -> Option<Answered> {
        self.write(at_us, &event, None);
        self.take(at_us, event)
    }

    fn write(&self, at_us: u64, event: &Event, message: Option<&Value>) {
        if let Some(journal) = &self.journal {
            let (word, mut fields) = event.to_line();
            if let Some(message) = message {
                merge(&mut fields, &told_with(message));
            }
            journal.write_at(at_us, word, fields);
        }
    }

    fn take(&mut self, at_us: u64, event: Event) -> Option<Answered> {
        let answered = self.checker.note(at_us, &event);
        if self.log_capacity > 0 {
            if self.log.len() == self.log_capacity {
                self.log.pop_front();
            }
            self.log.push_back((at_us, event));
        }
        answered
    }

    pub fn log(&self) -> Vec<(u64, Event)> {
        self.log.iter().cloned().collect()
    }
}
