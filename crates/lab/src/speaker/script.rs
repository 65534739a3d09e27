//! What a speaker that speaks by itself has to say.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::speech::{Codec, Mark, Signal};

/// What is said, and how fast.
#[derive(Debug, Clone)]
pub struct Script {
    /// The sentences.
    pub sentences: Sentences,
    /// How fast they are said.
    pub pace: Pace,
    /// A closed loop says no more than one sentence in so long, also when all are refused at once.
    pub at_least_every: Duration,
    /// How much speech goes into one piece.
    pub piece_ms: u64,
    /// The pause before the first sentence, so that speakers do not all begin together.
    pub begin_after: Duration,
    /// How long the last endings are awaited before the session is closed.
    pub patience: Duration,
    /// Whether a lost connection is made again and the session resumed.
    pub reconnect: bool,
    /// How long it tries to come back.
    pub give_up_after: Duration,
}

/// The sentences of a script.
#[derive(Debug, Clone)]
pub enum Sentences {
    /// These, one after the other.
    Given(Vec<Sentence>),
    /// Test speech, marked, of random lengths with random pauses.
    Random {
        /// How many; without it, until the speaker is stopped.
        count: Option<u64>,
        /// How long each is.
        speech_ms: RangeInclusive<u64>,
        /// How long the pause behind each is.
        pause_ms: RangeInclusive<u64>,
        /// The speaker in the marks.
        speaker: u32,
        /// The same seed gives the same sentences.
        seed: u64,
    },
}

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The speech, in the codec of the speaker.
    pub audio: Bytes,
    /// The pause behind it.
    pub pause: Duration,
}

/// How fast a script is said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many times as fast as people speak; pauses too.
    Times(f64),
    /// Each sentence at once, and the next as soon as it has ended.
    ClosedLoop,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            sentences: Sentences::Given(Vec::new()),
            pace: Pace::Times(1.0),
            at_least_every: Duration::ZERO,
            piece_ms: 100,
            begin_after: Duration::ZERO,
            patience: Duration::from_secs(90),
            reconnect: true,
            give_up_after: Duration::from_secs(60),
        }
    }
}

impl Script {
    /// So many marked sentences of a random length, in real time.
    pub fn random(speaker: u32, count: u64) -> Self {
        let sentences = Sentences::Random {
            count: Some(count),
            speech_ms: 1_000..=3_000,
            pause_ms: 200..=800,
            speaker,
            seed: u64::from(speaker),
        };
        Self { sentences, ..Self::default() }
    }

    /// At that pace.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }
}

/// The place in a script.
#[derive(Debug)]
pub(super) struct Reader {
    sentences: Sentences,
    codec: Codec,
    next: u64,
    dice: SmallRng,
}

impl Reader {
    pub fn new(sentences: Sentences, codec: Codec) -> Self {
        let seed = match &sentences {
            Sentences::Given(_) => 0,
            Sentences::Random { seed, speaker, .. } => seed ^ u64::from(*speaker) << 32,
        };
        Self { sentences, codec, next: 0, dice: SmallRng::seed_from_u64(seed) }
    }

    /// The next sentence; `None` at the end.
    pub fn next(&mut self) -> Option<Sentence> {
        let number = self.next;
        self.next += 1;
        match &self.sentences {
            Sentences::Given(sentences) => sentences.get(usize::try_from(number).ok()?).cloned(),
            Sentences::Random { count, speech_ms, pause_ms, speaker, .. } => {
                if count.is_some_and(|count| number >= count) {
                    return None;
                }
                let mark = Mark { speaker: *speaker, sentence: number as u32 };
                let ms = self.dice.random_range(speech_ms.clone());
                let pause = Duration::from_millis(self.dice.random_range(pause_ms.clone()));
                let seed = self.dice.random();
                let tone = Signal::Tone { hz: 180.0 + f64::from(speaker % 100) };
                let audio = self.codec.speech(tone, ms, Some(mark), seed);
                Some(Sentence { audio, pause })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_sentences_are_marked_in_order_and_repeatable() {
        let read = || {
            let mut reader = Reader::new(Script::random(7, 3).sentences, Codec::Opus);
            std::iter::from_fn(move || reader.next()).collect::<Vec<_>>()
        };
        let sentences = read();
        let marks: Vec<_> = sentences.iter().map(|one| Mark::find(&one.audio).unwrap()).collect();
        assert_eq!(marks, [0, 1, 2].map(|sentence| Mark { speaker: 7, sentence }));
        assert_eq!(sentences, read());
    }
}
