//! What agents of the time before `supports` do by themselves, and what they remember for it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::wire::Audio;
use crate::speech;

/// Turns and sessions remembered. A turn that never ended is forgotten behind so many others.
const MAX_REMEMBERED: usize = 1_024;

/// The habits of an existing agent, with the times of the real one. They count only with
/// [`super::NodeOptions::old_agent`]; tests make the times shorter.
#[derive(Debug, Clone, PartialEq)]
pub struct ExistingAgent {
    /// How often it reports, without jitter; the first report follows the registration at once.
    pub heartbeat_every: Duration,
    /// After how long a lost connection is made again, whatever its end said. Never longer, never
    /// shorter, and for ever.
    pub reconnect_after: Duration,
    /// Speech of one turn with which it begins to work although no job said that the turn ended.
    pub works_from: Duration,
    /// Types of services that are installed and do not run: listed, with `ready: false`.
    pub stopped: Vec<String>,
    /// For how long none of its services runs: until then it names no language.
    pub services_start_after: Duration,
    /// Memory that the page cache takes, which its memory figure counts as used. A machine that has
    /// read its models from disk soon reports 95 and more.
    pub page_cache_percent: f64,
    /// The service that it names when a model is missing.
    pub missing_service: String,
}

impl Default for ExistingAgent {
    fn default() -> Self {
        Self {
            heartbeat_every: Duration::from_secs(15),
            reconnect_after: Duration::from_secs(5),
            works_from: Duration::from_secs(10),
            stopped: vec!["semantic".to_owned(), "tone".to_owned()],
            services_start_after: Duration::ZERO,
            page_cache_percent: 45.0,
            missing_service: "nmt-m2m100".to_owned(),
        }
    }
}

impl ExistingAgent {
    /// The same habits with times for tests: it reports, comes back and works sooner.
    pub fn quick() -> Self {
        Self {
            heartbeat_every: Duration::from_millis(200),
            reconnect_after: Duration::from_millis(100),
            ..Self::default()
        }
    }
}

/// What an existing agent remembers of turns and sessions.
#[derive(Debug, Default)]
pub(super) struct Memory {
    turns: Recent<Kept>,
    texts: Recent<String>,
}

/// Speech of a turn that it has not worked on.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    audio: Audio,
    ms: u64,
}

/// The part of a turn that one job carries.
pub(super) struct Part<'a> {
    /// The turn and the target language.
    pub turn: (&'a str, &'a str),
    pub audio: &'a [u8],
    pub audio_format: &'a str,
    /// The job says that the turn has ended.
    pub ends: bool,
}

impl Memory {
    /// Everything of the turn, if it is to be worked on now; `None` if it is kept for a later job.
    pub fn gather(&mut self, part: &Part<'_>, works_from: Duration) -> Option<Audio> {
        let name = format!("{} {}", part.turn.0, part.turn.1);
        let mut kept = self.turns.take(&name).unwrap_or_default();
        kept.audio.add(part.audio);
        kept.ms += speech::millis_of(part.audio_format, part.audio);
        if part.ends || u128::from(kept.ms) >= works_from.as_millis() {
            return Some(kept.audio);
        }
        self.turns.put(name, kept);
        None
    }

    /// Remembers what was recognised; `true` if it is what was recognised last in this session.
    pub fn says_again(&mut self, session: &str, text: &str) -> bool {
        let last = self.texts.take(session);
        self.texts.put(session.to_owned(), text.to_owned());
        last.is_some_and(|last| last == text)
    }
}

/// Values by name; the one that was put longest ago goes first.
#[derive(Debug)]
struct Recent<T> {
    values: HashMap<String, T>,
    order: VecDeque<String>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { values: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Recent<T> {
    fn take(&mut self, name: &str) -> Option<T> {
        let value = self.values.remove(name)?;
        self.order.retain(|known| known != name);
        Some(value)
    }

    fn put(&mut self, name: String, value: T) {
        if self.values.insert(name.clone(), value).is_none() {
            self.order.push_back(name);
        }
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speech::{Codec, Signal};

    const TEN: Duration = Duration::from_secs(10);

    fn part(turn: &'static str, audio: &'static [u8], ends: bool) -> Part<'static> {
        Part { turn: (turn, "zh"), audio, audio_format: "pcm16", ends }
    }

    #[test]
    fn a_turn_is_worked_on_when_a_job_ends_it_and_then_as_a_whole() {
        let mut memory = Memory::default();
        assert!(memory.gather(&part("t", b"one ", false), TEN).is_none());
        assert!(memory.gather(&part("another", b"x", false), TEN).is_none());
        let whole = memory.gather(&part("t", b"two", true), TEN).unwrap();
        assert_eq!(whole, Audio::of(b"one two"));
        assert_eq!(memory.gather(&part("t", b"new", true), TEN), Some(Audio::of(b"new")));
    }

    #[test]
    fn a_turn_is_worked_on_once_it_is_long_enough() {
        for codec in [Codec::Opus, Codec::Pcm16] {
            let mut memory = Memory::default();
            let mut gather = |ms| {
                let audio = codec.speech(Signal::Babble, ms, None, 1);
                let part = Part {
                    turn: ("t", "zh"),
                    audio: &audio,
                    audio_format: codec.name(),
                    ends: false,
                };
                memory.gather(&part, TEN).is_some()
            };
            assert!(!gather(9_900), "{codec:?}");
            assert!(gather(100), "{codec:?}");
            assert!(!gather(9_900), "{codec:?}: the rest begins anew");
        }
    }

    #[test]
    fn only_the_last_text_of_a_session_is_compared() {
        let mut memory = Memory::default();
        assert!(!memory.says_again("s", "yes"));
        assert!(memory.says_again("s", "yes"));
        assert!(!memory.says_again("other", "yes"));
        assert!(!memory.says_again("s", "no"));
        assert!(!memory.says_again("s", "yes"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut memory = Memory::default();
        for n in 0..MAX_REMEMBERED * 2 {
            memory.says_again(&format!("s-{n}"), "yes");
        }
        assert_eq!(memory.texts.values.len(), MAX_REMEMBERED);
        assert!(memory.says_again(&format!("s-{}", MAX_REMEMBERED * 2 - 1), "yes"));
        assert!(!memory.says_again("s-0", "yes"));
    }
}
