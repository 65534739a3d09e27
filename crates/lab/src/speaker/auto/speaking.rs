//! When a speaker says what: the pieces of its script and the moments at which they are due. No
//! socket.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::speaker::script::{Pace, Reader, Script};
use crate::speech::Codec;

/// A closed loop keeps below what one socket may send in a second: so many messages, and so many
/// bytes count as one more.
const CLOSED_LOOP_MESSAGES_PER_SECOND: f64 = 150.0;
const BYTES_PER_MESSAGE: usize = 16 * 1024;

/// What is in one piece of a closed loop: a second, for it is not spoken but thrown.
const CLOSED_LOOP_PIECE_MS: u64 = 1_000;

/// While asked to slow down, everything takes this many times as long.
const SLOWED: f64 = 2.0;

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// This piece of a sentence, the first one or a later one.
    Piece { audio: Bytes, first: bool },
    /// The end of the sentence.
    Final,
}

/// The place in a script, in time.
#[derive(Debug)]
pub(super) struct Speaking {
    reader: Reader,
    pace: Pace,
    at_least_every: Duration,
    piece_ms: u64,
    codec: Codec,
    now: Place,
    /// Nothing is said before.
    held_until: Option<Instant>,
    slowed_until: Option<Instant>,
}

#[derive(Debug)]
enum Place {
    /// Between two sentences, the next of which begins then.
    Pause { until: Instant },
    /// Within a sentence; the next piece is due then.
    Sentence { pieces: Vec<Bytes>, next: usize, due: Instant, pause: Duration },
    /// A closed loop waits for the ending, and is not faster than this.
    Ending { not_before: Instant },
    /// All is said.
    End,
}

impl Speaking {
    pub fn new(script: &Script, codec: Codec, now: Instant) -> Self {
        let piece_ms = match script.pace {
            Pace::Times(_) => script.piece_ms,
            Pace::ClosedLoop => CLOSED_LOOP_PIECE_MS,
        };
        Self {
            reader: Reader::new(script.sentences.clone(), codec),
            pace: script.pace,
            at_least_every: script.at_least_every,
            piece_ms,
            codec,
            now: Place::Pause { until: now + script.begin_after },
            held_until: None,
            slowed_until: None,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.now, Place::End)
    }

    /// When something is due; `None` while only an ending can bring it on.
    pub fn due(&self, all_ended: bool) -> Option<Instant> {
        let due = match &self.now {
            Place::Pause { until } => *until,
            Place::Sentence { due, .. } => *due,
            Place::Ending { not_before } if all_ended => *not_before,
            Place::Ending { .. } | Place::End => return None,
        };
        Some(self.held_until.map_or(due, |held| due.max(held)))
    }

    /// Takes what is due now, and says since when it was.
    pub fn take(&mut self, now: Instant, all_ended: bool) -> Option<(Due, Instant)> {
        let since = self.due(all_ended).filter(|due| *due <= now)?;
        if let Place::Pause { .. } | Place::Ending { .. } = self.now {
            self.begin(now, since);
            if !matches!(self.pace, Pace::ClosedLoop) || self.is_over() {
                // The first piece is spoken first, and sent when it is full.
                return None;
            }
        }
        let slow = if self.slowed_until.is_some_and(|until| now < until) { SLOWED } else { 1.0 };
        let Place::Sentence { pieces, next, due, pause } = &mut self.now else { return None };
        match pieces.get(*next) {
            Some(audio) => {
                let piece = Due::Piece { audio: audio.clone(), first: *next == 0 };
                *next += 1;
                // The final goes along with the last piece.
                if *next < pieces.len() {
                    *due += step(self.pace, self.piece_ms, slow);
                }
                Some((piece, since))
            }
            None => {
                let bytes: usize = pieces.iter().map(Bytes::len).sum();
                let messages = pieces.len() + 1 + bytes / BYTES_PER_MESSAGE;
                self.now = match self.pace {
                    Pace::Times(times) => Place::Pause { until: *due + pause.div_f64(times) },
                    Pace::ClosedLoop => {
                        let seconds = messages as f64 / CLOSED_LOOP_MESSAGES_PER_SECOND;
                        let pause = Duration::from_secs_f64(seconds).max(self.at_least_every);
                        Place::Ending { not_before: *due + pause }
                    }
                };
                Some((Due::Final, since))
            }
        }
    }

    /// Says nothing for that long.
    pub fn hold(&mut self, until: Instant) {
        self.held_until = self.held_until.max(Some(until));
    }

    /// Speaks slower for that long.
    pub fn slow_down(&mut self, until: Instant) {
        self.slowed_until = self.slowed_until.max(Some(until));
    }

    /// Says the sentence it is in once more from its beginning, in another session.
    pub fn repeat_sentence(&mut self, now: Instant) {
        if let Place::Sentence { next, due, .. } = &mut self.now {
            (*next, *due) = (0, now);
        }
    }

    /// Begins no other sentence.
    pub fn stop_between(&mut self) {
        if !matches!(self.now, Place::Sentence { .. }) {
            self.now = Place::End;
        }
    }

    /// Says nothing more; `true` if it was within one, which then needs its final.
    pub fn stop(&mut self) -> bool {
        matches!(std::mem::replace(&mut self.now, Place::End), Place::Sentence { next: 1.., .. })
    }

    fn begin(&mut self, now: Instant, since: Instant) {
        self.now = match self.reader.next() {
            None => Place::End,
            Some(sentence) => {
                let pieces = self.codec.pieces(&sentence.audio, self.piece_ms);
                // Spoken on time even if it is noticed late, but no backlog is made up for.
                let began = since.max(now.checked_sub(Duration::from_secs(1)).unwrap_or(now));
                let due = match self.pace {
                    Pace::ClosedLoop => now,
                    pace @ Pace::Times(_) => began + step(pace, self.piece_ms, 1.0),
                };
                Place::Sentence { pieces, next: 0, due, pause: sentence.pause }
            }
        };
    }
}

/// From one piece to the next.
fn step(pace: Pace, piece_ms: u64, slow: f64) -> Duration {
    match pace {
        Pace::Times(times) => Duration::from_millis(piece_ms).mul_f64(slow).div_f64(times),
        Pace::ClosedLoop => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speaker::script::{Sentence, Sentences};
    use crate::speech::Signal;

    fn script(pace: Pace) -> Script {
        let audio = Codec::Pcm16.speech(Signal::Silence, 250, None, 0);
        let sentence = Sentence { audio, pause: Duration::from_millis(500) };
        Script { sentences: Sentences::Given(vec![sentence; 2]), pace, ..Script::default() }
    }

    /// What happens when, in ms: the bytes of a piece, or 0 for a final.
    fn play(speaking: &mut Speaking, began: Instant, ended: bool) -> Vec<(u64, usize)> {
        let mut heard = Vec::new();
        while let Some(due) = speaking.due(ended) {
            let at = (due - began).as_millis() as u64;
            match speaking.take(due, ended) {
                Some((Due::Piece { audio, .. }, _)) => heard.push((at, audio.len())),
                Some((Due::Final, _)) => heard.push((at, 0)),
                None => {}
            }
        }
        heard
    }

    #[test]
    fn in_real_time_a_piece_leaves_when_it_is_spoken_and_the_final_with_the_last() {
        let now = Instant::now();
        let mut speaking = Speaking::new(&script(Pace::Times(1.0)), Codec::Pcm16, now);
        let heard = play(&mut speaking, now, false);
        let first = [(100, 3200), (200, 3200), (300, 1600), (300, 0)];
        let second = first.map(|(at, bytes)| (at + 800, bytes));
        assert_eq!(heard, [first, second].concat());
        assert!(speaking.is_over());
    }

    #[test]
    fn twice_as_fast_takes_half_the_time() {
        let now = Instant::now();
        let mut speaking = Speaking::new(&script(Pace::Times(2.0)), Codec::Pcm16, now);
        let heard = play(&mut speaking, now, false);
        assert_eq!((heard[0], heard[7]), ((50, 3200), (550, 0)));
    }

    #[test]
    fn a_closed_loop_waits_for_its_ending() {
        let now = Instant::now();
        let mut speaking = Speaking::new(&script(Pace::ClosedLoop), Codec::Pcm16, now);
        assert_eq!(play(&mut speaking, now, false), [(0, 8000), (0, 0)]);
        assert_eq!(speaking.due(false), None);
        let heard = play(&mut speaking, now, true);
        assert_eq!(heard, [(13, 8000), (13, 0)]);
    }

    #[test]
    fn a_closed_loop_that_is_refused_at_once_says_no_more_than_it_is_told_to() {
        let now = Instant::now();
        let at_least_every = Duration::from_millis(700);
        let script = Script { at_least_every, ..script(Pace::ClosedLoop) };
        let mut speaking = Speaking::new(&script, Codec::Pcm16, now);
        assert_eq!(
            play(&mut speaking, now, true),
            [(0, 8000), (0, 0), (700, 8000), (700, 0)],
            "each ends in the moment it is said"
        );
    }

    #[test]
    fn it_holds_slows_and_stops_when_asked_to() {
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        let mut speaking = Speaking::new(&script(Pace::Times(1.0)), Codec::Pcm16, now);
        assert_eq!(speaking.take(now, false), None);
        speaking.slow_down(after(150));
        assert!(speaking.take(after(100), false).is_some());
        assert_eq!(speaking.due(false), Some(after(300)));
        speaking.hold(after(1000));
        assert_eq!(speaking.take(after(999), false), None);
        assert!(speaking.take(after(1000), false).is_some());
        speaking.repeat_sentence(after(1100));
        assert!(matches!(
            speaking.take(after(1100), false),
            Some((Due::Piece { first: true, .. }, _))
        ));
        speaking.stop_between();
        assert!(!speaking.is_over());
        assert!(speaking.stop());
        assert!(speaking.is_over() && !speaking.stop());
    }
}
