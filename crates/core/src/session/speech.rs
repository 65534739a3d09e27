//! Speech as an append-only log with an end.
//!
//! Pieces are appended until the utterance is cut; the cut sets the end, and nothing is appended behind
//! it. Whoever works on an utterance reads its log.
//!
//! A growing log is a list of blocks of one size, to which each piece is copied: a piece that was kept as
//! it came would keep the whole frame that it was read from. Blocks of one size are reused well by the
//! allocator, and nothing is moved while the speech grows. The end turns them into one stretch of exactly
//! the right size.

use std::time::Duration;

use bytes::Bytes;

use super::settings::{MAX_UTTERANCE, Settings};

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
    /// The session ended or the instance goes away.
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

/// Bytes of one block: a quarter of a second of samples, or two seconds and more of packets.
const BLOCK: usize = 8 << 10;

/// The speech of one utterance.
///
/// Without `Debug`: speech stays out of logs.
#[derive(Clone, PartialEq, Eq)]
pub struct SpeechLog {
    content: Content,
    duration: Duration,
    /// The client's numbers of the first and last piece; `None` if it was sent as a whole, or is empty.
    seqs: Option<(u32, u32)>,
}

#[derive(Clone, PartialEq, Eq)]
enum Content {
    Growing { blocks: Vec<Vec<u8>>, bytes: usize },
    Ended { audio: Bytes, reason: CutReason },
}

impl Default for SpeechLog {
    fn default() -> Self {
        let content = Content::Growing { blocks: Vec::new(), bytes: 0 };
        SpeechLog { content, duration: Duration::ZERO, seqs: None }
    }
}

impl SpeechLog {
    /// The log of an utterance that was sent as a whole.
    pub(super) fn whole(audio: Bytes, duration: Duration, reason: CutReason) -> Self {
        SpeechLog { content: Content::Ended { audio, reason }, duration, seqs: None }
    }

    /// Appends a piece of speech. A log that has ended does not change.
    pub(super) fn append(&mut self, seq: u32, mut piece: &[u8], duration: Duration) {
        let Content::Growing { blocks, bytes } = &mut self.content else {
            debug_assert!(false, "speech behind the end of its utterance");
            return;
        };
        *bytes += piece.len();
        while !piece.is_empty() {
            if blocks.last().is_none_or(|block| block.len() == BLOCK) {
                blocks.push(Vec::with_capacity(BLOCK));
            }
            let Some(block) = blocks.last_mut() else { break };
            let (fits, rest) = piece.split_at(piece.len().min(BLOCK - block.len()));
            block.extend_from_slice(fits);
            piece = rest;
        }
        self.duration = self.duration.saturating_add(duration);
        self.seqs = Some((self.seqs.map_or(seq, |(first, _)| first), seq));
    }

    /// An empty piece belongs to the log as well: its number is used up with it.
    pub(super) fn extend_to(&mut self, seq: u32) {
        if let Some((_, last)) = &mut self.seqs {
            *last = seq;
        }
    }

    /// Sets the end. A log that has one keeps it.
    pub(super) fn set_end(&mut self, reason: CutReason) {
        if let Content::Growing { blocks, .. } = &self.content {
            self.content = Content::Ended { audio: blocks.concat().into(), reason };
        }
    }

    /// Why it ended; `None` while it grows.
    pub fn end(&self) -> Option<CutReason> {
        match &self.content {
            Content::Growing { .. } => None,
            Content::Ended { reason, .. } => Some(*reason),
        }
    }

    /// Everything in the log. Costs a copy while the log grows, and none behind its end.
    pub fn audio(&self) -> Bytes {
        match &self.content {
            Content::Growing { blocks, .. } => blocks.concat().into(),
            Content::Ended { audio, .. } => audio.clone(),
        }
    }

    /// Bytes of speech.
    pub fn bytes(&self) -> usize {
        match &self.content {
            Content::Growing { bytes, .. } => *bytes,
            Content::Ended { audio, .. } => audio.len(),
        }
    }

    /// Whether there is no speech in it.
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// How much speech it is.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// The client's numbers of the first and last piece, unless sent as a whole.
    pub fn seqs(&self) -> Option<(u32, u32)> {
        self.seqs
    }

    /// Which limit a piece of this size would exceed, so that the log must end before it.
    pub(super) fn full_for(
        &self,
        settings: &Settings,
        bytes: usize,
        duration: Duration,
    ) -> Option<CutReason> {
        if self.is_empty() {
            None
        } else if self.bytes() + bytes > settings.max_utterance_bytes {
            Some(CutReason::MaxBytes)
        } else if self.duration.saturating_add(duration) > MAX_UTTERANCE {
            Some(CutReason::MaxDuration)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_grows_until_its_end_and_reads_the_same_behind_it() {
        let mut log = SpeechLog::default();
        let said: Vec<u8> = (0..3 * BLOCK + 5).map(|n| n as u8).collect();
        for (seq, piece) in (7..).zip(said.chunks(1_000)) {
            log.append(seq, piece, Duration::from_millis(30));
        }
        assert_eq!((log.end(), log.bytes()), (None, said.len()));
        assert_eq!(log.audio(), said);
        let pieces = said.len().div_ceil(1_000) as u32;
        log.extend_to(7 + pieces);
        log.set_end(CutReason::Pause);
        log.set_end(CutReason::Manual);
        assert_eq!(log.end(), Some(CutReason::Pause), "the first end stands");
        assert_eq!(log.audio(), said);
        assert_eq!(log.seqs(), Some((7, 7 + pieces)));
        assert_eq!(log.duration(), Duration::from_millis(30) * pieces);
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
}
