//! Utterances, and the turns that they are parts of.

use std::fmt;

use super::routes::Routes;
use super::speech::{CutReason, SpeechLog};
use crate::ids::{TurnId, base32};
use crate::time::Moment;

/// Everything that the jobs of an utterance need.
#[derive(Clone, PartialEq, Eq)]
pub struct Utterance {
    /// Its index in the session.
    pub index: u64,
    /// The session's epoch when it was cut; part of its jobs' keys.
    pub epoch: u64,
    /// The client's number, if it was sent as a whole.
    pub client_index: Option<u64>,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// Which part of the turn, from 0.
    pub part_index: u32,
    /// Into which languages.
    pub routes: Routes,
    /// The speech, which has ended.
    pub speech: SpeechLog,
    /// When its endings are due.
    pub deadline: Moment,
}

impl Utterance {
    /// It came as a whole, and not in pieces.
    pub fn is_whole(&self) -> bool {
        self.speech.seqs().is_none()
    }

    /// Why it ended.
    pub fn cut_reason(&self) -> CutReason {
        self.speech.end().expect("an utterance is made when its speech has ended")
    }
}

impl fmt::Debug for Utterance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The speech itself stays out of logs.
        f.debug_struct("Utterance")
            .field("index", &self.index)
            .field("turn", &self.turn)
            .field("part_index", &self.part_index)
            .field("end", &self.speech.end())
            .field("bytes", &self.speech.bytes())
            .field("duration", &self.speech.duration())
            .field("seqs", &self.speech.seqs())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Names turns by the epoch and index of their first utterance. A name tells nothing about the
/// others to one who does not know the seed: a node sees these names and must not be able to
/// follow a speaker from turn to turn by them.
pub(super) struct Turns {
    seed: [u8; 16],
    current: Option<(TurnId, u32)>,
}

impl Turns {
    pub fn new(seed: [u8; 16]) -> Self {
        Turns { seed, current: None }
    }

    /// The turn and part of an utterance cut now; the next part, if any, counts on.
    pub fn part(&mut self, epoch: u64, index: u64) -> (TurnId, u32) {
        let (id, part) = match self.current.take() {
            Some(turn) => turn,
            None => (self.name(epoch, index), 0),
        };
        self.current = Some((id.clone(), part.saturating_add(1)));
        (id, part)
    }

    /// The turn that begins with this utterance.
    pub fn name(&self, epoch: u64, index: u64) -> TurnId {
        let mut hasher = blake3::Hasher::new_derive_key("lingua turn v1");
        hasher.update(&self.seed).update(&epoch.to_le_bytes()).update(&index.to_le_bytes());
        let mut text = [0; 26];
        base32(&hasher.finalize().as_bytes()[..17], &mut text);
        let text = std::str::from_utf8(&text).expect("base32 is ASCII");
        TurnId::new(text).expect("26 letters and digits")
    }

    /// The next utterance begins a new turn.
    pub fn end(&mut self) {
        self.current = None;
    }

    /// A turn was cut by a limit, and its next part may come.
    pub fn goes_on(&self) -> bool {
        self.current.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_names_repeat_for_the_same_seed_and_differ_by_epoch_and_index() {
        let name = |seed, epoch, index| Turns::new([seed; 16]).name(epoch, index);
        assert_eq!(name(1, 1, 0), name(1, 1, 0));
        assert_ne!(name(1, 1, 0), name(1, 1, 1));
        assert_ne!(name(1, 1, 0), name(1, 2, 0));
        assert_ne!(name(1, 1, 0), name(2, 1, 0));
    }
}
