//! What a speaker says, in pieces, and what it keeps of it until it is acknowledged.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use lingua_engine::sessions::inbound::FromClient;
use lingua_lab::speaker::Event;
use lingua_lab::speech::{Digest, Mark};

use crate::canary::SPEECH;

/// How much speech is in a piece.
const PIECE: Duration = Duration::from_millis(200);

/// Bytes of a piece.
const PIECE_BYTES: usize = 48;

/// Pieces that are kept; more are forgotten, oldest first.
const MAX_KEPT: usize = 512;

#[derive(Clone)]
struct Piece {
    seq: u32,
    audio: Bytes,
    is_final: bool,
}

/// The numbers of pieces, and those that nobody acknowledged.
pub(super) struct Voice {
    keeps: bool,
    next_seq: u32,
    kept: VecDeque<Piece>,
}

impl Voice {
    pub fn new(keeps: bool) -> Self {
        Voice { keeps, next_seq: 0, kept: VecDeque::new() }
    }

    /// Another session: nothing of the old one counts there.
    pub fn begin_anew(&mut self) {
        self.next_seq = 0;
        self.kept.clear();
    }

    /// What is not acknowledged goes again.
    pub fn again(&self) -> impl Iterator<Item = FromClient> {
        self.kept.iter().map(Piece::message)
    }

    pub fn acknowledged(&mut self, seq: u32) {
        while self.kept.front().is_some_and(|piece| piece.seq <= seq) {
            self.kept.pop_front();
        }
    }

    fn piece(&mut self, audio: Bytes, is_final: bool) -> (u32, FromClient) {
        let piece = Piece { seq: self.next_seq, audio, is_final };
        self.next_seq += 1;
        let message = piece.message();
        if self.keeps {
            if self.kept.len() == MAX_KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(piece);
        }
        (self.next_seq - 1, message)
    }
}

impl Piece {
    fn message(&self) -> FromClient {
        let duration = if self.audio.is_empty() { Duration::ZERO } else { PIECE };
        FromClient::Audio {
            seq: self.seq,
            audio: self.audio.clone(),
            duration,
            is_final: self.is_final,
        }
    }
}

/// A sentence that is being said.
pub(super) struct Saying {
    pub mark: Mark,
    pieces: usize,
    next: usize,
    first_seq: u32,
    digest: Digest,
}

impl Saying {
    pub fn new(mark: Mark, pieces: usize) -> Self {
        Saying { mark, pieces, next: 0, first_seq: 0, digest: Digest::default() }
    }

    /// Says it once more from its beginning, in another session.
    pub fn begin_again(&mut self) {
        *self = Saying::new(self.mark, self.pieces);
    }

    /// The next piece, whether it is the first, and behind the last what was said.
    pub fn next(&mut self, voice: &mut Voice) -> (FromClient, bool, Option<Event>) {
        let is_first = self.next == 0;
        let is_last = self.next == self.pieces;
        let mut audio = Vec::with_capacity(PIECE_BYTES);
        if is_first {
            audio.extend(self.mark.to_bytes());
        }
        if !is_last {
            audio.extend(SPEECH.iter().cycle().take(PIECE_BYTES - audio.len()));
            // So that no two pieces are alike.
            audio[PIECE_BYTES - 1] = self.next as u8;
            audio[PIECE_BYTES - 2] = self.mark.sentence as u8;
        }
        self.digest.add(&audio);
        self.next += 1;
        let (seq, message) = voice.piece(audio.into(), is_last);
        if is_first {
            self.first_seq = seq;
        }
        let said = is_last.then_some(Event::Said {
            mark: Some(self.mark),
            digest: self.digest,
            whole: None,
            seqs: Some((self.first_seq, seq)),
        });
        (message, is_first, said)
    }
}
