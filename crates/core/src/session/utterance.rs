//! Utterances, and the buffer they are cut from.
//!
//! The buffer is a row of blocks of one size, to which each piece is copied: pieces are small, and one
//! that was kept as it came would keep the frame that it was read from. Blocks that are all alike fit
//! wherever another speaker's were, and nothing is moved as the speech grows. Cutting takes all of it
//! into one stretch of just its size.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::settings::{MAX_LANES, MAX_UTTERANCE, Settings};
use crate::eligibility::Route;
use crate::ids::{TurnId, base32};
use crate::time::Moment;

/// The place of a route in its utterance's list, from 0.
///
/// Endings are in order within a lane. A conversation of two has one lane whichever way the talk
/// goes, so its endings are in order of speech although their languages alternate; in a room each
/// wanted language has a lane of its own and waits for no other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lane(pub u8);

/// The directions one utterance is translated in: 1 to [`MAX_LANES`], all different.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routes(Vec<Route>);

/// Why a list of routes is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutesError {
    /// Nothing to translate into.
    #[error("an utterance needs at least one direction")]
    None,
    /// More than [`MAX_LANES`].
    #[error("an utterance has at most {MAX_LANES} directions, this one has {0}")]
    TooMany(usize),
    /// The same one twice would be one job under two names.
    #[error("the direction {0} is listed twice")]
    Twice(Route),
}

impl Routes {
    /// Checks the list.
    pub fn new(routes: impl Into<Vec<Route>>) -> Result<Self, RoutesError> {
        let routes = routes.into();
        if routes.is_empty() {
            return Err(RoutesError::None);
        }
        if routes.len() > MAX_LANES {
            return Err(RoutesError::TooMany(routes.len()));
        }
        if let Some((_, twice)) =
            routes.iter().enumerate().find(|(i, route)| routes[..*i].contains(route))
        {
            return Err(RoutesError::Twice(*twice));
        }
        Ok(Routes(routes))
    }

    /// A single direction.
    pub fn one(route: Route) -> Self {
        Routes(vec![route])
    }

    /// Each lane with its direction.
    pub fn iter(&self) -> impl Iterator<Item = (Lane, Route)> {
        (0..).map(Lane).zip(self.0.iter().copied())
    }

    /// How many lanes.
    pub fn lanes(&self) -> usize {
        self.0.len()
    }
}

/// Why an utterance ended where it did.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CutReason {
    /// The client said so.
    Manual,
    /// Nothing came for a while.
    Pause,
    /// As long as an utterance may be; the turn goes on.
    MaxDuration,
    /// As large as an utterance may be; the turn goes on.
    MaxBytes,
    /// What follows is in other languages.
    LanguageChange,
    /// The conversation ended or the instance goes away.
    Close,
}

impl CutReason {
    /// Whether the next utterance begins a new turn.
    pub fn ends_turn(self) -> bool {
        !matches!(self, CutReason::MaxDuration | CutReason::MaxBytes)
    }

    /// Whether the turn ended although the speaker did not say so. Existing agents work on a turn
    /// only when they are told that it ended, so whatever ends one is told as one of the two.
    pub fn ends_turn_by_itself(self) -> bool {
        self.ends_turn() && self != CutReason::Manual
    }

    /// Milliseconds of silence the node puts behind the speech.
    pub fn padding_ms(self) -> u32 {
        match self {
            CutReason::Manual | CutReason::LanguageChange => 280,
            CutReason::Pause | CutReason::Close => 220,
            CutReason::MaxDuration | CutReason::MaxBytes => 0,
        }
    }
}

/// Speech with a beginning and an end, and everything a job of it needs.
#[derive(Clone, PartialEq, Eq)]
pub struct Utterance {
    /// Its number in the conversation.
    pub index: u64,
    /// The session's epoch when it was cut; part of its jobs' keys.
    pub epoch: u64,
    /// The client's number, if it was sent as a whole.
    pub client_index: Option<u64>,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// Which part of the turn, from 0.
    pub part_index: u32,
    /// Why it ended.
    pub reason: CutReason,
    /// Into which languages.
    pub routes: Routes,
    /// The speech.
    pub audio: Bytes,
    /// How long it is.
    pub duration: Duration,
    /// The client's numbers of its first and last piece, unless sent as a whole.
    pub seqs: Option<(u32, u32)>,
    /// When its endings are due.
    pub deadline: Moment,
}

impl Utterance {
    /// Milliseconds of silence the node puts behind the speech.
    pub fn padding_ms(&self) -> u32 {
        self.reason.padding_ms()
    }
}

impl fmt::Debug for Utterance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The speech itself stays out of logs.
        f.debug_struct("Utterance")
            .field("index", &self.index)
            .field("turn", &self.turn)
            .field("part_index", &self.part_index)
            .field("reason", &self.reason)
            .field("bytes", &self.audio.len())
            .field("duration", &self.duration)
            .field("seqs", &self.seqs)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Bytes of one block: a quarter of a second of samples, or two seconds and more of packets.
const BLOCK: usize = 8 << 10;

/// Speech not yet cut.
#[derive(Default)]
pub(super) struct Buffer {
    blocks: Vec<Vec<u8>>,
    bytes: usize,
    pub duration: Duration,
    /// The client's numbers of the first and last piece.
    pub seqs: (u32, u32),
    /// The last number before the first piece: how far may be acknowledged while this is open.
    pub before: Option<u32>,
}

impl Buffer {
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Which cap a piece of this size would break, so that the buffer must be cut before it.
    pub fn full_for(
        &self,
        settings: &Settings,
        bytes: usize,
        speech: Duration,
    ) -> Option<CutReason> {
        if self.is_empty() {
            None
        } else if self.bytes() + bytes > settings.max_utterance_bytes {
            Some(CutReason::MaxBytes)
        } else if self.duration.saturating_add(speech) > MAX_UTTERANCE {
            Some(CutReason::MaxDuration)
        } else {
            None
        }
    }

    pub fn push(&mut self, seq: u32, before: Option<u32>, mut bytes: &[u8], speech: Duration) {
        if self.is_empty() {
            self.seqs.0 = seq;
            self.before = before;
        }
        self.seqs.1 = seq;
        self.duration = self.duration.saturating_add(speech);
        self.bytes += bytes.len();
        while !bytes.is_empty() {
            if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
                self.blocks.push(Vec::with_capacity(BLOCK));
            }
            let Some(block) = self.blocks.last_mut() else { break };
            let (fits, rest) = bytes.split_at(bytes.len().min(BLOCK - block.len()));
            block.extend_from_slice(fits);
            bytes = rest;
        }
    }

    /// What was said, in one stretch.
    pub fn into_speech(self) -> Bytes {
        self.blocks.concat().into()
    }

    /// Everything in it, if there is anything.
    pub fn take(&mut self) -> Option<Buffer> {
        (!self.is_empty()).then(|| std::mem::take(self))
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

    /// A turn was cut by a cap, and its next part may come.
    pub fn goes_on(&self) -> bool {
        self.current.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::Lang;

    fn route(src: &str, tgt: &str) -> Route {
        Route::Directed(Lang::new(src).unwrap(), Lang::new(tgt).unwrap())
    }

    #[test]
    fn routes_are_one_to_eight_and_all_different() {
        assert_eq!(Routes::new([]), Err(RoutesError::None));
        let twice = Routes::new([route("en", "zh"), route("en", "zh")]);
        assert_eq!(twice, Err(RoutesError::Twice(route("en", "zh"))));
        let many: Vec<Route> =
            ["aa", "ab", "af", "am", "ar", "as", "ay", "az", "ba"].map(|t| route("en", t)).into();
        assert_eq!(Routes::new(many.clone()), Err(RoutesError::TooMany(9)));
        assert_eq!(Routes::new(&many[..8]).unwrap().lanes(), 8);
    }

    #[test]
    fn whatever_ends_a_turn_is_told_to_nodes_as_one_of_two_reasons() {
        for (reason, ends, by_itself) in [
            (CutReason::Manual, true, false),
            (CutReason::Pause, true, true),
            (CutReason::LanguageChange, true, true),
            (CutReason::Close, true, true),
            (CutReason::MaxDuration, false, false),
            (CutReason::MaxBytes, false, false),
        ] {
            assert_eq!(
                (reason.ends_turn(), reason.ends_turn_by_itself()),
                (ends, by_itself),
                "{reason:?}"
            );
        }
    }

    #[test]
    fn turn_names_repeat_for_the_same_seed_and_differ_by_epoch_and_index() {
        let name = |seed, epoch, index| Turns::new([seed; 16]).name(epoch, index);
        assert_eq!(name(1, 1, 0), name(1, 1, 0));
        assert_ne!(name(1, 1, 0), name(1, 1, 1));
        assert_ne!(name(1, 1, 0), name(1, 2, 0));
        assert_ne!(name(1, 1, 0), name(2, 1, 0));
    }
}
