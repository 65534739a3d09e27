//! How speech comes in and where it is cut.
//!
//! Every piece that is taken is in exactly one utterance or named by one
//! [`Effect::AudioDropped`]. Cutting is one step: the log of speech gets its end, the index is used up
//! whatever becomes of the dispatch, and the next piece begins a new log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::event::{DropReason, Effect, Effects};
use super::results::AckLimit;
use super::routes::Routes;
use super::settings::{MAX_CLIENT_INDICES, MAX_UTTERANCE};
use super::speech::{CutReason, SpeechLog};
use super::utterance::Utterance;
use super::{Phase, Session};
use crate::ids::TurnId;

/// A piece of speech as it came.
pub(super) struct Chunk {
    pub seq: u32,
    pub bytes: Bytes,
    pub duration: Duration,
    pub is_final: bool,
}

/// A whole utterance as it came.
pub(super) struct Whole {
    pub client_index: Option<u64>,
    pub routes: Routes,
    pub audio: Bytes,
    pub duration: Duration,
    pub manual_cut: bool,
}

/// What becomes an utterance.
struct Cut {
    speech: SpeechLog,
    /// The last number before its first piece.
    before: Option<u32>,
    client_index: Option<u64>,
    routes: Routes,
}

impl<R: Clone> Session<R> {
    pub(super) fn on_audio(&mut self, mut chunk: Chunk, out: &mut Effects<R>) {
        if !self.settings.trust_seq {
            chunk.seq = self.last_seq.map_or(0, |last| last.saturating_add(1));
        }
        let seq = chunk.seq;
        if self.last_seq.is_some_and(|last| seq <= last) {
            // Some clients end an utterance with a bare final under the number of its last piece.
            // Repeated, it meets an empty buffer.
            if chunk.is_final && chunk.bytes.is_empty() && self.last_seq == Some(seq) {
                self.cut(CutReason::Manual, out);
            }
            return;
        }
        let refusal = match self.phase {
            Phase::Open if seq == u32::MAX => Some(DropReason::SeqExhausted),
            Phase::Open => None,
            Phase::Draining => Some(DropReason::Draining),
            Phase::Closing | Phase::Closed => Some(DropReason::Closed),
        };
        if let Some(reason) = refusal {
            if !chunk.bytes.is_empty() {
                self.drop_audio((seq, seq), chunk.bytes.len(), reason, out);
            }
            return;
        }
        if let Some(last) = self.last_seq.filter(|last| seq - last > 1) {
            out.push(Effect::AudioGap { from: last + 1, to: seq - 1 });
        }
        self.take_in(chunk, out);
    }

    /// Takes a new piece in, or drops it for want of room; in both cases its number is used up.
    fn take_in(&mut self, chunk: Chunk, out: &mut Effects<R>) {
        let Chunk { seq, bytes, duration, is_final } = chunk;
        if bytes.is_empty() {
            self.speech.extend_to(seq);
        } else {
            match self.make_room(bytes.len(), duration, out) {
                Ok(()) => {
                    self.backpressured = false;
                    if self.speech.is_empty() {
                        self.before_speech = self.last_seq;
                    }
                    self.speech.append(seq, &bytes, duration);
                }
                Err(reason) => self.drop_audio((seq, seq), bytes.len(), reason, out),
            }
        }
        self.last_seq = Some(seq);
        self.pause.touch(self.now);
        if is_final {
            self.cut(CutReason::Manual, out);
        } else if self.speech.duration() >= self.settings.max_utterance {
            self.cut(CutReason::MaxDuration, out);
        }
    }

    /// Makes room for a piece, cutting what was said before if the piece does not fit behind it. An
    /// utterance that has begun has its place among the open ones already.
    fn make_room(
        &mut self,
        bytes: usize,
        duration: Duration,
        out: &mut Effects<R>,
    ) -> Result<(), DropReason> {
        self.check_size(bytes, duration)?;
        if let Some(reason) = self.speech.full_for(&self.settings, bytes, duration) {
            self.cut(reason, out);
        }
        if self.speech.is_empty() { self.check_jobs(&self.routes) } else { Ok(()) }
    }

    /// Whether an utterance with these routes may begin. One may always, however many targets it has.
    fn check_jobs(&self, routes: &Routes) -> Result<(), DropReason> {
        // An utterance that has begun will need its jobs too.
        let begun = if self.speech.is_empty() { 0 } else { self.routes.lanes() };
        let open = self.window.open_jobs() + begun;
        if open > 0 && open + routes.lanes() > self.settings.max_open_jobs {
            return Err(DropReason::OpenJobs);
        }
        Ok(())
    }

    fn check_size(&self, bytes: usize, duration: Duration) -> Result<(), DropReason> {
        if bytes > self.settings.max_utterance_bytes || duration > MAX_UTTERANCE {
            Err(DropReason::TooLarge)
        } else if self.held_bytes() + bytes > self.settings.max_held_bytes {
            Err(DropReason::HeldBytes)
        } else {
            Ok(())
        }
    }

    fn drop_audio(
        &mut self,
        (first_seq, last_seq): (u32, u32),
        bytes: usize,
        reason: DropReason,
        out: &mut Effects<R>,
    ) {
        out.push(Effect::AudioDropped { first_seq, last_seq, bytes, reason });
        if matches!(reason, DropReason::HeldBytes | DropReason::OpenJobs | DropReason::Draining) {
            self.signal_backpressure(reason, out);
        }
    }

    /// Asks the client to hold on, once until speech is taken again.
    pub(super) fn signal_backpressure(&mut self, reason: DropReason, out: &mut Effects<R>) {
        if !std::mem::replace(&mut self.backpressured, true) {
            out.push(Effect::Backpressure { reason });
        }
    }

    /// Drops the speech that is not cut yet, explicitly.
    pub(super) fn abandon_speech(&mut self, out: &mut Effects<R>) {
        self.turns.end();
        let speech = std::mem::take(&mut self.speech);
        if let Some(seqs) = speech.seqs() {
            self.drop_audio(seqs, speech.bytes(), DropReason::Abandoned, out);
        }
    }

    /// Releases the speech that is not cut yet as if it had not come: it is not acknowledged, so the
    /// client sends it again.
    pub(super) fn release_speech(&mut self, out: &mut Effects<R>) {
        self.turns.end();
        let speech = std::mem::take(&mut self.speech);
        if let Some((first_seq, last_seq)) = speech.seqs() {
            self.last_seq = self.before_speech;
            let (bytes, reason) = (speech.bytes(), DropReason::Draining);
            out.push(Effect::AudioDropped { first_seq, last_seq, bytes, reason });
        }
    }

    /// Sets the end of the speech so far and makes an utterance of it. Without speech, only a turn may
    /// end.
    pub(super) fn cut(&mut self, reason: CutReason, out: &mut Effects<R>) -> Option<u64> {
        if self.speech.is_empty() {
            if reason.ends_turn() {
                self.turns.end();
            }
            return None;
        }
        let mut speech = std::mem::take(&mut self.speech);
        speech.set_end(reason);
        let turn = self.turns.part(self.epoch, self.next_index());
        if reason.ends_turn() {
            self.turns.end();
        }
        let (before, routes) = (self.before_speech, self.routes.clone());
        Some(self.open_utterance(Cut { speech, before, client_index: None, routes }, turn, out))
    }

    pub(super) fn on_whole(&mut self, whole: Whole, out: &mut Effects<R>) {
        let client_index = whole.client_index;
        if let Some(client_index) = client_index
            && let Some(index) = self.index_of(client_index)
        {
            out.push(Effect::RepeatedUtterance { client_index, index });
            return;
        }
        if let Err(reason) = self.check_whole(&whole) {
            out.push(Effect::UtteranceRefused { client_index, reason });
            if matches!(reason, DropReason::HeldBytes | DropReason::OpenJobs | DropReason::Draining)
            {
                self.signal_backpressure(reason, out);
            }
            return;
        }
        self.backpressured = false;
        let reason = if whole.manual_cut { CutReason::Manual } else { CutReason::Pause };
        // A turn of its own, which leaves the one that is being said alone.
        let turn = (self.turns.name(self.epoch, self.next_index()), 0);
        let cut = Cut {
            speech: SpeechLog::whole(whole.audio, whole.duration, reason),
            before: None,
            client_index,
            routes: whole.routes,
        };
        let index = self.open_utterance(cut, turn, out);
        let Some(client_index) = client_index else {
            return out.push(Effect::Finalized { index: Some(index) });
        };
        self.client_indices.push_back((client_index, index));
        if self.client_indices.len() > MAX_CLIENT_INDICES {
            self.client_indices.pop_front();
        }
    }

    fn check_whole(&self, whole: &Whole) -> Result<(), DropReason> {
        match self.phase {
            Phase::Open => {}
            Phase::Draining => return Err(DropReason::Draining),
            Phase::Closing | Phase::Closed => return Err(DropReason::Closed),
        }
        let rises = |last: u64| whole.client_index.is_none_or(|index| index > last);
        if self.client_indices.back().is_some_and(|(last, _)| !rises(*last)) {
            return Err(DropReason::IndexNotRising);
        }
        if whole.audio.is_empty() {
            return Err(DropReason::Empty);
        }
        self.check_size(whole.audio.len(), whole.duration)?;
        self.check_jobs(&whole.routes)
    }

    fn open_utterance(
        &mut self,
        cut: Cut,
        (turn, part_index): (TurnId, u32),
        out: &mut Effects<R>,
    ) -> u64 {
        let index = self.window.next_index();
        let utterance = Arc::new(Utterance {
            index,
            epoch: self.epoch,
            client_index: cut.client_index,
            turn,
            part_index,
            routes: cut.routes,
            speech: cut.speech,
            deadline: self.now + self.settings.result_deadline,
        });
        self.window.open(Arc::clone(&utterance), cut.before);
        out.push(Effect::Dispatch(utterance));
        index
    }

    /// Acknowledges speech as far as it is safe.
    pub(super) fn acknowledge(&mut self, out: &mut Effects<R>) {
        let safe = match self.window.ack_limit() {
            AckLimit::UpTo(before) => before,
            AckLimit::Everything if !self.speech.is_empty() => self.before_speech,
            AckLimit::Everything => self.last_seq,
        };
        if safe > self.acked_seq {
            self.acked_seq = safe;
            if let Some(seq) = safe {
                out.push(Effect::AudioAck { seq });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eligibility::Route;
    use crate::lang::Lang;
    use crate::session::{Event, Settings};
    use crate::time::Moment;

    /// What is cut by pieces of so many seconds, in seconds.
    fn cuts(seconds: &[u64]) -> Vec<(u64, CutReason)> {
        let route = Route::Directed(Lang::new("en").unwrap(), Lang::new("zh").unwrap());
        let (routes, now) = (Routes::one(route), Moment::from_millis(0));
        let mut session: Session<()> =
            Session::new(Settings::default(), 1, routes, [0; 16], now).unwrap();
        let mut cuts = Vec::new();
        for (seq, seconds) in (0..).zip(seconds) {
            let (bytes, duration) = (Bytes::from_static(b"x"), Duration::from_secs(*seconds));
            let piece = Event::Audio { seq, bytes, duration, is_final: false };
            cuts.extend(session.on_event(now, piece).into_iter().filter_map(
                |effect| match effect {
                    Effect::Dispatch(cut) => {
                        Some((cut.speech.duration().as_secs(), cut.cut_reason()))
                    }
                    _ => None,
                },
            ));
        }
        cuts
    }

    #[test]
    fn the_piece_that_passes_the_limit_is_in_the_part_that_it_ends() {
        let long = CutReason::MaxDuration;
        assert_eq!(cuts(&[3, 3, 3, 3, 3]), [(12, long)]);
        assert_eq!(cuts(&[5, 5, 9]), [(10, long)]);
        // A long piece does not make more of an utterance than any may be.
        assert_eq!(cuts(&[9, 25]), [(9, long), (25, long)]);
    }
}
