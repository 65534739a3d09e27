//! The bounds of one session, checked before it starts.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Target languages of one utterance. Each is a job of its own.
pub const MAX_LANES: usize = 8;

/// The longest utterance any session may ask for, and the longest single piece.
pub const MAX_UTTERANCE: Duration = Duration::from_secs(30);

/// Whole utterances of a client that are remembered, so that a repeat is answered with its job.
pub const MAX_CLIENT_INDICES: usize = 256;

const PAUSE_MS: RangeInclusive<u64> = 200..=30_000;
const MAX_UTTERANCE_MS: RangeInclusive<u64> = 1_000..=30_000;
const UTTERANCE_BYTES: RangeInclusive<u64> = 1..=16 << 20;
const HELD_BYTES: RangeInclusive<u64> = 1..=256 << 20;
const OPEN_JOBS: RangeInclusive<u64> = 1..=256;
const KEPT_ENDINGS: RangeInclusive<u64> = 0..=256;
const RESULT_DEADLINE_MS: RangeInclusive<u64> = 1_000..=600_000;
const RESUME_WINDOW_MS: RangeInclusive<u64> = 0..=600_000;
const TTS_HOLD_MS: RangeInclusive<u64> = 0..=120_000;

/// The bounds of one session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Time without a piece of speech that ends an utterance; 200 ms to 30 s.
    pub pause: Duration,
    /// Speech after which an utterance is cut and its turn goes on, behind the piece that reaches it;
    /// 1 to 30 s.
    pub max_utterance: Duration,
    /// Bytes after which it is cut; at most 16 MiB.
    pub max_utterance_bytes: usize,
    /// Bytes of speech held at once, not cut yet and for open jobs; room for one utterance at
    /// least, at most 256 MiB.
    pub max_held_bytes: usize,
    /// Jobs whose endings are not delivered, one for each target of an utterance, those of the speech
    /// that is not cut yet counted; 1 to 256. One utterance may always be open.
    pub max_open_jobs: usize,
    /// Endings already delivered that are kept for each target in case the client says it did not see
    /// them; at most 256. Endings not yet delivered are always kept, as parts of open utterances.
    pub max_kept_endings: usize,
    /// From the end of an utterance to the end of waiting for its results; 1 s to 10 min.
    pub result_deadline: Duration,
    /// How long a client may be away; zero for one that cannot resume, at most 10 min.
    pub resume_window: Duration,
    /// How long the client's loudspeaker may hold off the pause; at most 2 min.
    pub tts_hold_max: Duration,
    /// The client's numbers tell pieces of speech apart. Off for clients that do not number them
    /// through, such as those that begin anew with each utterance: theirs are counted as they come,
    /// and none is taken for a repeat.
    pub trust_seq: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            pause: Duration::from_secs(3),
            max_utterance: Duration::from_secs(10),
            max_utterance_bytes: 2 << 20,
            max_held_bytes: 8 << 20,
            max_open_jobs: 32,
            max_kept_endings: 16,
            result_deadline: Duration::from_secs(75),
            resume_window: Duration::from_secs(60),
            tts_hold_max: Duration::from_secs(30),
            trust_seq: true,
        }
    }
}

/// Why settings are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A value outside its bounds.
    #[error("{name} is {value}, and must be from {min} to {max}")]
    OutOfBounds {
        /// Which setting, with its unit.
        name: &'static str,
        /// What was asked for.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Not even one full utterance could be held.
    #[error("max_held_bytes ({held}) must not be below max_utterance_bytes ({utterance})")]
    HeldBelowUtterance {
        /// Bytes held at most.
        held: usize,
        /// Bytes of one utterance at most.
        utterance: usize,
    },
}

impl Settings {
    /// These settings with what a client asked for in their place, if that is within bounds.
    pub fn overridden(
        self,
        pause: Option<Duration>,
        max_utterance: Option<Duration>,
    ) -> Result<Settings, SettingsError> {
        let pause = pause.unwrap_or(self.pause);
        let max_utterance = max_utterance.unwrap_or(self.max_utterance);
        Settings { pause, max_utterance, ..self }.checked()
    }

    /// These settings, if every one is within its bounds.
    pub fn checked(self) -> Result<Settings, SettingsError> {
        let ms = crate::time::millis;
        for (name, value, bounds) in [
            ("pause_ms", ms(self.pause), PAUSE_MS),
            ("max_utterance_ms", ms(self.max_utterance), MAX_UTTERANCE_MS),
            ("max_utterance_bytes", self.max_utterance_bytes as u64, UTTERANCE_BYTES),
            ("max_held_bytes", self.max_held_bytes as u64, HELD_BYTES),
            ("max_open_jobs", self.max_open_jobs as u64, OPEN_JOBS),
            ("max_kept_endings", self.max_kept_endings as u64, KEPT_ENDINGS),
            ("result_deadline_ms", ms(self.result_deadline), RESULT_DEADLINE_MS),
            ("resume_window_ms", ms(self.resume_window), RESUME_WINDOW_MS),
            ("tts_hold_max_ms", ms(self.tts_hold_max), TTS_HOLD_MS),
        ] {
            if !bounds.contains(&value) {
                let (min, max) = bounds.into_inner();
                return Err(SettingsError::OutOfBounds { name, value, min, max });
            }
        }
        if self.max_held_bytes < self.max_utterance_bytes {
            return Err(SettingsError::HeldBelowUtterance {
                held: self.max_held_bytes,
                utterance: self.max_utterance_bytes,
            });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_move_its_own_clocks_only_within_bounds() {
        let ask = |pause, max| {
            Settings::default()
                .overridden(Some(Duration::from_millis(pause)), Some(Duration::from_millis(max)))
        };
        assert_eq!(ask(500, 20_000).unwrap().pause, Duration::from_millis(500));
        let text = ask(0, 20_000).unwrap_err().to_string();
        assert_eq!(text, "pause_ms is 0, and must be from 200 to 30000");
        assert!(ask(500, 999).is_err() && ask(500, 30_001).is_err());
        assert_eq!(Settings::default().overridden(None, None), Ok(Settings::default()));
    }

    #[test]
    fn a_session_must_be_able_to_hold_one_utterance() {
        let settings =
            Settings { max_held_bytes: 10, max_utterance_bytes: 11, ..Default::default() };
        let refused = SettingsError::HeldBelowUtterance { held: 10, utterance: 11 };
        assert_eq!(settings.checked(), Err(refused));
    }
}
