//! Every byte taken is in exactly one utterance or explicitly dropped, and acknowledged when it is safe.

use std::time::Duration;

use lingua_core::session::*;

use super::super::last_piece;
use super::*;

impl Checker {
    pub fn dispatched(&mut self, event: &Event<u32>, utterance: &Utterance) {
        assert_eq!(utterance.index, self.utterances.len() as u64, "indices are 0, 1, 2…");
        assert!(utterance.speech.bytes() <= UTTERANCE_BYTES);
        assert!(utterance.deadline == self.now + Duration::from_millis(DEADLINE_MS));
        let turn = utterance.turn.as_str().to_owned();
        if utterance.is_whole() {
            let Event::WholeUtterance { client_index, audio, routes, .. } = event else { panic!() };
            let said = (utterance.client_index, &utterance.speech.audio());
            assert_eq!(said, (*client_index, audio));
            assert_eq!(&utterance.routes, routes);
            if let Some(client) = utterance.client_index {
                assert!(self.clients.insert(client, utterance.index).is_none(), "a second job");
            }
            assert!(self.turns.insert(turn), "a turn of its own");
        } else {
            self.cut_from_stream(event, utterance, turn);
        }
        assert_eq!(utterance.speech.end(), Some(utterance.cut_reason()), "its speech has an end");
        let lane = |(_, route)| LaneAccount {
            route,
            attempts: (0, 0),
            accepted: false,
            ending: None,
            told: false,
        };
        self.utterances.push(Account {
            deadline: utterance.deadline,
            seqs: utterance.speech.seqs(),
            held: utterance.speech.bytes(),
            lanes: utterance.routes.iter().map(lane).collect(),
        });
    }

    pub fn cut_from_stream(&mut self, event: &Event<u32>, utterance: &Utterance, turn: String) {
        assert_eq!(utterance.routes, self.routes, "speech belongs to the languages it came under");
        let (first, last) = utterance.speech.seqs().expect("streamed");
        let mut said = Vec::new();
        for (seq, piece) in &mut self.pieces {
            if *seq <= last && piece.fate == Fate::Pending {
                assert!(*seq >= first, "piece {seq} was passed over");
                piece.fate = Fate::In(utterance.index);
                said.extend_from_slice(&piece.bytes);
            }
        }
        assert!(!said.is_empty(), "an utterance of nothing");
        assert_eq!(said, utterance.speech.audio(), "each byte once, in order");
        // The piece that reaches the longest utterance is in it, and nothing behind it.
        let before = utterance.speech.duration().saturating_sub(last_piece(event, &said));
        assert!(before < Duration::from_millis(UTTERANCE_MS));
        match utterance.cut_reason() {
            CutReason::LanguageChange => assert!(matches!(event, Event::SetLanguages(_))),
            CutReason::Close => assert!(matches!(event, Event::Close { .. })),
            CutReason::Pause => {
                assert!(self.now >= self.last_sound + Duration::from_millis(PAUSE_MS));
            }
            CutReason::MaxDuration | CutReason::MaxBytes => {
                assert!(matches!(event, Event::Audio { .. }));
            }
            CutReason::Manual => {
                assert!(matches!(event, Event::Audio { is_final: true, .. } | Event::Finalize))
            }
        }
        if utterance.part_index > 0 {
            let (before, part, reason) = self.last_part.take().expect("a part before it");
            assert_eq!((before, part + 1), (turn.clone(), utterance.part_index));
            assert!(!reason.ends_turn());
        } else {
            assert!(self.turns.insert(turn.clone()), "a new turn has a new name");
        }
        self.last_part = Some((turn, utterance.part_index, utterance.cut_reason()));
    }

    pub fn dropped(&mut self, (first, last): (u32, u32), bytes: usize, reason: DropReason) {
        let (held, open) = (self.held_bytes() - bytes, self.open_jobs());
        let mut sum = 0;
        for (_, piece) in self.pieces.range_mut(first..=last) {
            if piece.fate == Fate::Pending {
                piece.fate = Fate::Dropped;
                sum += piece.bytes.len();
            }
        }
        assert_eq!(sum, bytes, "the drop names what it drops");
        match reason {
            DropReason::TooLarge => assert!(bytes > UTTERANCE_BYTES),
            DropReason::HeldBytes => assert!(held + bytes > HELD_BYTES),
            DropReason::OpenJobs => {
                assert!(open > 0 && open + self.routes.lanes() > self.max_open);
            }
            DropReason::Draining => assert!(self.draining),
            DropReason::Closed => assert!(self.leaving && !self.draining),
            // Only a client that did not come back, or an end without a final, leaves speech.
            DropReason::Abandoned => self.leaving = true,
            other => panic!("{other:?}"),
        }
    }

    pub fn dropped_by(&self, effects: &[Effect<u32>]) -> Vec<u32> {
        let dropped = |effect: &Effect<u32>| match effect {
            Effect::AudioDropped { first_seq, last_seq, .. } => Some(*first_seq..=*last_seq),
            _ => None,
        };
        effects.iter().filter_map(dropped).flatten().collect()
    }

    pub fn acknowledged(&mut self, event: &Event<u32>, seq: u32) {
        assert!(self.acked.is_none_or(|acked| seq > acked), "the watermark only rises");
        self.acked = Some(seq);
        let offered = match event {
            Event::Audio { seq, .. } => Some(*seq),
            _ => None,
        };
        assert!(Some(seq) <= self.last_used.max(offered));
        for (piece_seq, piece) in self.pieces.range(..=seq) {
            match piece.fate {
                Fate::Pending => panic!("{piece_seq} is acknowledged and in no utterance"),
                Fate::Dropped => {}
                Fate::In(index) => {
                    let lanes = &self.utterances[usize::try_from(index).unwrap()].lanes;
                    let safe = lanes.iter().all(LaneAccount::is_settled);
                    assert!(safe, "{piece_seq} of {index} is acknowledged and no node has it");
                }
            }
        }
    }
}
