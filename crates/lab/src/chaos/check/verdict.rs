//! What became of a run.

use std::collections::BTreeMap;
use std::fmt;

use super::recovery::Recovery;
use super::story::Story;

/// Sentences about violations of one promise that are kept; all are counted.
const MAX_TEXTS: usize = 40;

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// Guarantee I1.
    Capacity,
    /// I3 and I5: with all its words and no others.
    Whole,
    /// I4: one ending, in time.
    OneEnding,
    /// I5: in order, and nothing after an ending.
    Order,
    /// Guarantee I6.
    Fencing,
    /// Guarantee I9.
    SingleOwner,
    /// The kill of a scheduler alone costs no utterance.
    Resumed,
    /// Guarantee I16.
    Drain,
    /// A scheduler runs until it is asked to end.
    Alive,
    /// Once all is healed all works.
    Quiet,
}

/// What the files of a run prove.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// The store.
    pub store: String,
    /// What the faults were drawn from.
    pub seed: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Faults that could not be done or undone, and why.
    pub problems: Vec<String>,
    /// Sentences said to their end.
    pub said: u64,
    /// `translation_result`s.
    pub results: u64,
    /// `missing_result`s, by reason.
    pub missing: BTreeMap<String, u64>,
    /// Sentences that went down with a session whose state the store had lost.
    pub abandoned: u64,
    /// Sentences that the scheduler said it did not take.
    pub dropped: u64,
    /// Sentences begun after all was healed.
    pub quiet_said: u64,
    /// Connections and sessions of speakers.
    pub connections: u64,
    /// See `connections`.
    pub sessions: u64,
    /// Jobs that nodes were given.
    pub jobs: u64,
    /// Words on connections that speakers had given up, sent after their session went on elsewhere.
    pub old_words: u64,
    /// The longest time from the end of a sentence to its ending, whatever happened meanwhile.
    pub longest_us: u64,
    /// How quickly things work again.
    pub recovery: Recovery,
    counts: BTreeMap<Promise, u64>,
    texts: BTreeMap<Promise, Vec<String>>,
}

impl Promise {
    /// Its name in the design, and in words.
    pub fn word(self) -> &'static str {
        match self {
            Promise::Capacity => "I1 capacity",
            Promise::Whole => "I3 every word once",
            Promise::OneEnding => "I4 one ending, in time",
            Promise::Order => "I5 order",
            Promise::Fencing => "I6 fencing",
            Promise::SingleOwner => "I9 single owner",
            Promise::Resumed => "a killed scheduler loses no utterance",
            Promise::Drain => "I16 drain",
            Promise::Alive => "schedulers stay alive",
            Promise::Quiet => "all works once healed",
        }
    }

    /// All of them.
    pub const ALL: [Self; 10] = [
        Promise::Capacity,
        Promise::Whole,
        Promise::OneEnding,
        Promise::Order,
        Promise::Fencing,
        Promise::SingleOwner,
        Promise::Resumed,
        Promise::Drain,
        Promise::Alive,
        Promise::Quiet,
    ];
}

impl Verdict {
    pub(super) fn new(story: &Story) -> Self {
        let mut verdict = Self { store: story.store.clone(), seed: story.seed, ..Self::default() };
        for span in &story.spans {
            *verdict.faults.entry(span.fault.kind().word()).or_default() += 1;
            if let Some(problem) = &span.problem {
                verdict.problems.push(format!("fault {}, {}: {problem}", span.id, span.fault));
            }
        }
        verdict
    }

    pub(super) fn violated(&mut self, promise: Promise, text: String) {
        *self.counts.entry(promise).or_default() += 1;
        let texts = self.texts.entry(promise).or_default();
        if texts.len() < MAX_TEXTS {
            texts.push(text);
        }
    }

    /// How often a promise was broken.
    pub fn count(&self, promise: Promise) -> u64 {
        self.counts.get(&promise).copied().unwrap_or(0)
    }

    /// The first sentences about how it was broken.
    pub fn texts(&self, promise: Promise) -> &[String] {
        self.texts.get(&promise).map_or(&[], Vec::as_slice)
    }

    /// How often any was.
    pub fn violations(&self) -> u64 {
        self.counts.values().sum()
    }

    /// No promise was broken.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: u64 = self.faults.values().sum();
        writeln!(f, "store {}, seed {}, {faults} faults", self.store, self.seed)?;
        for (kind, count) in &self.faults {
            writeln!(f, "  {count:5}  {kind}")?;
        }
        let missing: u64 = self.missing.values().sum();
        let share = |count: u64| 100.0 * count as f64 / (self.results + missing).max(1) as f64;
        writeln!(f, "{} sentences said, {} jobs at nodes", self.said, self.jobs)?;
        writeln!(f, "  {:6}  results ({:.2} %)", self.results, share(self.results))?;
        for (reason, count) in &self.missing {
            writeln!(f, "  {count:6}  missing: {reason} ({:.2} %)", share(*count))?;
        }
        writeln!(f, "  {:6}  went down with a session that the store had lost", self.abandoned)?;
        if self.dropped > 0 {
            writeln!(f, "  {:6}  not taken, and said so", self.dropped)?;
        }
        let longest = self.longest_us / 1_000;
        writeln!(f, "longest from a sentence to its ending {longest} ms, disturbed or not")?;
        let (connections, sessions) = (self.connections, self.sessions);
        writeln!(f, "{connections} connections of {sessions} sessions")?;
        writeln!(f, "{} words on old connections, within what is allowed", self.old_words)?;
        writeln!(f, "{} sentences after all was healed", self.quiet_said)?;
        writeln!(f, "{}", self.recovery)?;
        for problem in &self.problems {
            writeln!(f, "not done or undone: {problem}")?;
        }
        for promise in Promise::ALL {
            let count = self.count(promise);
            let word = promise.word();
            match count {
                0 => writeln!(f, "  kept    {word}")?,
                count => writeln!(f, "  BROKEN  {word}: {count} times")?,
            }
            for text in self.texts(promise) {
                writeln!(f, "            {text}")?;
            }
        }
        match self.violations() {
            0 => write!(f, "no promise was broken"),
            count => write!(f, "{count} violations"),
        }
    }
}
