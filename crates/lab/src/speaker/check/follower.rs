//! One target: whether everything that was said came back once, whole and in order.

use std::collections::{BTreeSet, VecDeque};

use super::super::event::Event;
use super::super::report::{Kind, Report};
use super::Answered;
use crate::speech::{Digest, Echo, Mark};

/// Sentences and numbers remembered to tell a repetition from something unheard of.
pub(super) const MAX_REMEMBERED: usize = 256;

/// Follows one target of one speaker, over all its connections. Takes bounded memory however long it speaks.
#[derive(Debug, Clone, Default)]
pub(super) struct Follower {
    report: Report,
    session_id: String,
    /// The number that ends next.
    next_index: u64,
    /// The target was added in mid-session: which number is its first is not known.
    joins: bool,
    /// Numbers below it that have not ended.
    skipped: BTreeSet<u64>,
    /// Sentences without an ending of their own, in the order of speaking.
    open: VecDeque<Sentence>,
    /// Endings since the last recognised one that tell of no sentence.
    unexplained: usize,
    /// Sentences that came back, and under which number.
    heard: Recent,
    /// Sentences that were passed over.
    passed: Recent,
    /// Numbers of whole utterances, rising, and whether any was ever sent.
    whole: VecDeque<u64>,
    whole_ended: BTreeSet<u64>,
    mixed: bool,
    /// The sentence that is being said.
    saying: Option<Mark>,
    /// Some audio had no mark.
    unmarked: bool,
    /// What was dropped of a sentence that is not said to its end yet.
    dropped: VecDeque<((u32, u32), u64)>,
}

#[derive(Debug, Clone)]
struct Sentence {
    mark: Option<Mark>,
    digest: Digest,
    said_us: u64,
    seqs: Option<(u32, u32)>,
    /// Bytes of it that the scheduler told it had dropped.
    dropped: u64,
}

#[derive(Debug, Clone, Default)]
struct Recent(VecDeque<(Mark, u64)>);

impl Recent {
    fn put(&mut self, mark: Mark, index: u64) {
        if self.0.len() == MAX_REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((mark, index));
    }

    fn get(&self, mark: Mark) -> Option<u64> {
        self.0.iter().rev().find(|(known, _)| *known == mark).map(|(_, index)| *index)
    }
}

impl Follower {
    /// Of a target that was added in mid-session.
    pub fn joining(session_id: &str) -> Self {
        Self { joins: true, session_id: session_id.to_owned(), ..Self::default() }
    }

    /// A target that was left out comes back.
    pub fn rejoin(&mut self) {
        self.joins = true;
    }

    /// The longest of its lists.
    #[cfg(test)]
    pub fn remembers(&self) -> usize {
        self.heard.0.len().max(self.skipped.len())
    }

    /// Whether that number has ended here.
    pub fn has_ended(&self, index: u64) -> bool {
        index < self.next_index && !self.skipped.contains(&index)
    }

    /// Takes note of what happened at that time, on [`crate::monotonic_us`]; for an ending, says of
    /// which sentence it is.
    pub fn note(&mut self, at_us: u64, event: &Event) -> Option<Answered> {
        match event {
            Event::Opened { session_id, recovered } => {
                let goes_on = *recovered == Some(true)
                    || (*recovered == Some(false) && *session_id == self.session_id);
                if !goes_on {
                    self.begin_anew();
                }
                self.session_id.clone_from(session_id);
            }
            Event::Targets { .. } => {}
            Event::Begun { mark } => self.saying = Some(*mark),
            Event::Said { mark, digest, whole, seqs } => {
                self.saying = None;
                self.unmarked |= mark.is_none();
                if let Some(index) = whole {
                    self.mixed = true;
                    self.whole.push_back(*index);
                }
                let (mark, digest, seqs, said_us) = (*mark, *digest, *seqs, at_us);
                self.open.push_back(Sentence { mark, digest, said_us, seqs, dropped: 0 });
                for (seqs, bytes) in std::mem::take(&mut self.dropped) {
                    self.dropped_in(seqs, bytes);
                }
            }
            Event::Dropped { seqs, bytes } => {
                self.dropped_in(*seqs, *bytes);
            }
            Event::Result { index, echo, .. } => {
                self.report.results += 1;
                self.ended(*index);
                let answered = self.result(*index, *echo, at_us);
                self.report.took(answered.as_ref());
                return answered;
            }
            Event::Missing { index, reason, .. } => {
                *self.report.missing.entry(reason.clone()).or_default() += 1;
                self.ended(*index);
                let answered = self.explains_nothing(at_us, None);
                self.report.took(answered.as_ref());
                return answered;
            }
            Event::About { index, kind, .. } => {
                let ended = !self.mixed && *index < self.next_index;
                if ended && !self.skipped.contains(index) {
                    let text = format!("a {kind} of utterance {index} came after its ending");
                    self.report.violated(Kind::AfterEnding, text);
                }
            }
        }
        None
    }

    /// Everything found so far; what has not come back by now counts as lost.
    pub fn report(&self) -> Report {
        let mut report = self.report.clone();
        for index in &self.skipped {
            report.violated(Kind::Lost, format!("utterance {index} never ended"));
        }
        for index in &self.whole {
            report.violated(Kind::Lost, format!("whole utterance {index} never ended"));
        }
        if self.whole.is_empty() {
            for sentence in self.open.iter().skip(self.unexplained) {
                report.violated(Kind::Lost, format!("{} never came back", sentence.name()));
            }
        }
        report
    }

    /// Sentences that were said and have not ended.
    pub fn open(&self) -> usize {
        self.open.len().saturating_sub(self.unexplained)
    }

    /// The number of the ending that comes next.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// Notes of which sentence that was a part; one of which nothing is left has no ending.
    fn dropped_in(&mut self, seqs: (u32, u32), bytes: u64) {
        let meets = |own: (u32, u32)| own.0 <= seqs.1 && seqs.0 <= own.1;
        let Some(at) = self.open.iter().position(|one| one.seqs.is_some_and(meets)) else {
            if self.dropped.len() == MAX_REMEMBERED {
                self.dropped.pop_front();
            }
            self.dropped.push_back((seqs, bytes));
            return;
        };
        self.open[at].dropped += bytes;
        if self.open[at].dropped >= self.open[at].digest.bytes {
            self.report.dropped_sentences += 1;
            self.open.remove(at);
        }
    }

    /// Another session: what was open in the old one will not end.
    fn begin_anew(&mut self) {
        for sentence in self.open.drain(..).skip(self.unexplained) {
            let text = format!("{} went down with its session", sentence.name());
            self.report.violated(Kind::Abandoned, text);
        }
        for index in std::mem::take(&mut self.skipped) {
            self.report.violated(Kind::Lost, format!("utterance {index} never ended"));
        }
        self.next_index = 0;
        self.joins = false;
        self.unexplained = 0;
        self.dropped.clear();
        self.saying = None;
        self.whole.clear();
        self.whole_ended.clear();
        self.mixed = false;
    }

    /// The rules of the numbers.
    fn ended(&mut self, index: u64) {
        if let Some(at) = self.whole.iter().position(|whole| *whole == index) {
            for earlier in self.whole.drain(..=at).take(at) {
                let text = format!("whole utterance {index} ended before {earlier} did");
                self.report.violated(Kind::Disordered, text);
            }
            self.whole_ended.insert(index);
            while self.whole_ended.len() > MAX_REMEMBERED {
                self.whole_ended.pop_first();
            }
        } else if self.skipped.remove(&index) {
            let text = format!("utterance {index} ended after later ones");
            self.report.violated(Kind::Disordered, text);
        } else if self.whole_ended.contains(&index) || index < self.next_index {
            self.report.violated(Kind::Doubled, format!("utterance {index} ended a second time"));
        } else {
            // Whole utterances take numbers too, and are told under those of the client.
            let joins = index > self.next_index && std::mem::take(&mut self.joins);
            if !self.mixed && !joins {
                self.skipped.extend((self.next_index..index).take(MAX_REMEMBERED));
            }
            while self.skipped.len() > MAX_REMEMBERED {
                let index = self.skipped.pop_first().unwrap_or_default();
                self.report.violated(Kind::Lost, format!("utterance {index} never ended"));
            }
            self.next_index = index + 1;
        }
    }

    /// The rules of the marks.
    fn result(&mut self, index: u64, echo: Option<Echo>, at_us: u64) -> Option<Answered> {
        let Some(Echo { mark: Some(mark), digest, .. }) = echo else {
            let damaged = self.open.iter().any(|sentence| sentence.dropped > 0);
            if let Some(echo) = echo.filter(|_| !self.unmarked && !damaged) {
                let bytes = echo.digest.bytes;
                let text = format!("utterance {index} is {bytes} bytes from within a sentence");
                self.report.violated(Kind::Split, text);
            }
            return self.explains_nothing(at_us, echo);
        };
        let Some(at) = self.open.iter().position(|sentence| sentence.mark == Some(mark)) else {
            let (kind, text) = match (self.heard.get(mark), self.passed.get(mark)) {
                (Some(first), _) => {
                    (Kind::Doubled, format!("sentence {mark} came back as {first} and as {index}"))
                }
                (None, Some(later)) => (
                    Kind::Disordered,
                    format!("sentence {mark} came back as {index}, after {later}"),
                ),
                (None, None) if self.saying == Some(mark) => {
                    let text = format!("{} bytes of sentence {mark}", digest.bytes);
                    (Kind::Split, format!("{text} came back as {index} while it was being said"))
                }
                (None, None) => {
                    (Kind::Foreign, format!("utterance {index} is of sentence {mark}, never said"))
                }
            };
            self.report.violated(kind, text);
            return None;
        };
        for (place, sentence) in self.open.drain(..at).enumerate() {
            if let Some(passed) = sentence.mark {
                self.passed.put(passed, index);
            }
            if place >= self.unexplained {
                let text = format!("{} did not come back, {mark} behind it did", sentence.name());
                self.report.violated(Kind::Lost, text);
            }
        }
        self.unexplained = 0;
        self.heard.put(mark, index);
        let sentence = self.open.pop_front()?;
        self.compare(index, &sentence, digest);
        Some(Answered { mark: Some(mark), said_us: sentence.said_us, answered_us: at_us, echo })
    }

    fn compare(&mut self, index: u64, sentence: &Sentence, heard: Digest) {
        let (said, heard_bytes) = (sentence.digest.bytes, heard.bytes);
        let (kind, how) = match heard_bytes.cmp(&said) {
            _ if heard == sentence.digest => return,
            _ if sentence.dropped > 0 && heard_bytes + sentence.dropped == said => return,
            std::cmp::Ordering::Less => (Kind::Split, "only"),
            std::cmp::Ordering::Equal => (Kind::Garbled, "other"),
            std::cmp::Ordering::Greater => (Kind::Doubled, "even"),
        };
        let name = sentence.name();
        let text = format!("{name}, {said} bytes, came back as {index} with {how} {heard_bytes}");
        self.report.violated(kind, text);
    }

    /// An ending that may be of any sentence that is open; most likely of the oldest.
    fn explains_nothing(&mut self, at_us: u64, echo: Option<Echo>) -> Option<Answered> {
        let sentence = self.open.get(self.unexplained);
        let answered = sentence.map(|sentence| Answered {
            mark: sentence.mark,
            said_us: sentence.said_us,
            answered_us: at_us,
            echo,
        });
        // Those without a mark will not be recognised later either.
        match self.open.front() {
            Some(Sentence { mark: None, .. }) => drop(self.open.pop_front()),
            Some(_) => self.unexplained = (self.unexplained + 1).min(self.open.len()),
            None => {}
        }
        answered
    }
}

impl Sentence {
    fn name(&self) -> String {
        self.mark.map_or_else(|| "a sentence".to_owned(), |mark| format!("sentence {mark}"))
    }
}
