//! What a session promises, and an account of its own to check it by.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::Moment;
use lingua_core::session::*;

pub const PAUSE_MS: u64 = 500;
pub const UTTERANCE_MS: u64 = 1_000;
pub const UTTERANCE_BYTES: usize = 64;
pub const HELD_BYTES: usize = 200;
pub const OPEN: usize = 5;
pub const DEADLINE_MS: u64 = 4_000;
pub const RESUME_MS: u64 = 3_000;
pub const TTS_HOLD_MS: u64 = 900;

/// Everything that must hold, kept apart from the machine.
pub struct Checker {
    pub kept: usize,
    pub now: Moment,
    pub routes: Routes,
    pub pieces: BTreeMap<u32, Piece>,
    pub last_used: Option<u32>,
    pub acked: Option<u32>,
    pub last_sound: Moment,
    /// From when silence counts, and until when the loudspeaker holds it off.
    pub quiet_since: Moment,
    pub loud_until: Option<Moment>,
    pub utterances: Vec<Account>,
    pub clients: BTreeMap<u64, u64>,
    pub turns: HashSet<String>,
    pub last_part: Option<(String, u32, CutReason)>,
    /// Per connection and lane, the last index told.
    pub told_on_link: HashMap<Lane, u64>,
    pub epoch: u64,
    /// How many utterances were cut in earlier lives.
    pub inherited: u64,
    pub connected: bool,
    /// Until when the client may come back.
    pub resume_until: Option<Moment>,
    pub leaving: bool,
    pub draining: bool,
    pub closed: bool,
    /// Timers were heard in time and the client was not away, all along.
    pub punctual: bool,
    pub undisturbed: bool,
    pub timers: HashMap<Timer, (u64, Moment)>,
}

/// What became of a piece of speech.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fate {
    Pending,
    In(u64),
    Dropped,
}

pub struct Piece {
    pub bytes: Bytes,
    pub fate: Fate,
}

pub struct LaneAccount {
    pub attempts: (u32, u32),
    pub accepted: bool,
    pub ending: Option<Ending<u32>>,
    pub told: bool,
}

pub struct Account {
    pub deadline: Moment,
    pub seqs: Option<(u32, u32)>,
    pub held: usize,
    pub lanes: Vec<LaneAccount>,
}

impl Account {
    pub fn is_told(&self) -> bool {
        self.lanes.iter().all(|lane| lane.told)
    }
}

impl Checker {
    pub fn new(kept: usize, routes: Routes) -> Self {
        Checker {
            kept,
            now: Moment::ZERO,
            routes,
            pieces: BTreeMap::new(),
            last_used: None,
            acked: None,
            last_sound: Moment::ZERO,
            quiet_since: Moment::ZERO,
            loud_until: None,
            utterances: Vec::new(),
            clients: BTreeMap::new(),
            turns: HashSet::new(),
            last_part: None,
            told_on_link: HashMap::new(),
            epoch: 1,
            inherited: 0,
            connected: true,
            resume_until: None,
            leaving: false,
            draining: false,
            closed: false,
            punctual: true,
            undisturbed: true,
            timers: HashMap::new(),
        }
    }

    pub fn lane(&mut self, key: ResultKey) -> Option<&mut LaneAccount> {
        let account = self.utterances.get_mut(usize::try_from(key.index).unwrap())?;
        account.lanes.get_mut(usize::from(key.lane.0))
    }

    pub fn pending_bytes(&self) -> usize {
        let pending = |piece: &&Piece| piece.fate == Fate::Pending;
        self.pieces.values().filter(pending).map(|piece| piece.bytes.len()).sum()
    }

    pub fn held_bytes(&self) -> usize {
        self.pending_bytes() + self.utterances.iter().map(|u| u.held).sum::<usize>()
    }

    /// Utterances from the first not told to the last.
    pub fn open(&self) -> usize {
        self.utterances.iter().skip_while(|u| u.is_told()).count()
    }

    /// Whether a message of this attempt may do something, by the checker's own account.
    pub fn may_speak(&mut self, key: ResultKey, attempt: Option<u32>) -> bool {
        self.lane(key).is_some_and(|lane| {
            lane.ending.is_none()
                && attempt.is_none_or(|a| a > 0 && lane.attempts.0 <= a && a <= lane.attempts.1)
        })
    }

    pub fn may_resume(&self, epoch: u64) -> bool {
        let newer = epoch > self.epoch || (epoch == self.epoch && !self.connected);
        newer && !self.closed
    }

    pub fn end(&mut self, key: ResultKey, ending: Ending<u32>) {
        if let Some(lane) = self.lane(key) {
            lane.ending.get_or_insert(ending);
        }
    }

    pub fn end_all(&mut self, index: usize, why: MissingReason) {
        for lane in &mut self.utterances[index].lanes {
            lane.ending.get_or_insert(Ending::Missing(why));
        }
    }

    /// Time passes: what was not answered by its deadline is missing.
    pub fn advance(&mut self, now: Moment) {
        self.now = now;
        if self.resume_until.take_if(|until| *until <= now).is_some() {
            self.leaving = true;
            self.draining = false;
        }
        for index in 0..self.utterances.len() {
            if self.utterances[index].deadline <= now {
                self.end_all(index, MissingReason::GapTimeout);
            }
        }
    }

    /// Takes note of an event before the machine hears it.
    pub fn before(&mut self, event: &Event<u32>) {
        match event {
            Event::Audio { seq, bytes, .. } => {
                let fresh = self.last_used.is_none_or(|last| *seq > last);
                if fresh && !bytes.is_empty() {
                    self.pieces.insert(*seq, Piece { bytes: bytes.clone(), fate: Fate::Pending });
                }
            }
            Event::Cancel { index } => {
                let index = usize::try_from(*index).unwrap();
                if index < self.utterances.len() {
                    self.end_all(index, MissingReason::Cancelled);
                }
            }
            Event::Assigned { key, attempt, hedge } => {
                let open = |lane: &&mut LaneAccount| lane.ending.is_none();
                if let Some(lane) = self.lane(*key).filter(open)
                    && *attempt > lane.attempts.1
                {
                    let both = *hedge && lane.attempts.1 > 0;
                    let first = if both { lane.attempts.1 } else { *attempt };
                    lane.attempts = (first, *attempt);
                }
            }
            Event::NodeAccepted { key, attempt } if self.may_speak(*key, Some(*attempt)) => {
                self.lane(*key).unwrap().accepted = true;
            }
            Event::Ended { key, attempt, ending } if self.may_speak(*key, *attempt) => {
                self.end(*key, ending.clone());
            }
            Event::TtsStarted => {
                self.loud_until.take_if(|until| *until <= self.now);
                let longest = self.now + Duration::from_millis(TTS_HOLD_MS);
                self.loud_until.get_or_insert(longest);
            }
            Event::TtsPlayEnded => {
                if let Some(until) = self.loud_until.take() {
                    self.quiet_since = self.quiet_since.max(until.min(self.now));
                }
            }
            Event::Disconnected { epoch } if *epoch == self.epoch && !self.closed => {
                if self.connected {
                    self.resume_until = Some(self.now + Duration::from_millis(RESUME_MS));
                }
                self.connected = false;
                self.undisturbed = false;
            }
            Event::Resumed { epoch, last_seen } if self.may_resume(*epoch) => {
                self.told_on_link.clear();
                // Of an earlier life the client may know more than was left to this one.
                let inherited = usize::try_from(self.inherited).unwrap();
                for (index, account) in (0u64..).zip(&mut self.utterances[..inherited]) {
                    if last_seen.is_some_and(|seen| index <= seen) {
                        for lane in account.lanes.iter_mut().filter(|lane| !lane.told) {
                            lane.ending.get_or_insert(Ending::Missing(MissingReason::Cancelled));
                            lane.told = true;
                        }
                    }
                }
                (self.quiet_since, self.loud_until) = (self.now, None);
                self.undisturbed = false;
            }
            _ => {}
        }
    }

    pub fn after(&mut self, session: &Session<u32>, event: &Event<u32>, effects: &[Effect<u32>]) {
        let was_closed = self.closed;
        for effect in effects {
            if was_closed {
                assert!(
                    matches!(
                        effect,
                        Effect::AudioDropped { .. }
                            | Effect::UtteranceRefused { .. }
                            | Effect::RepeatedUtterance { .. }
                            | Effect::Finalized { index: None }
                            | Effect::Backpressure { .. }
                            | Effect::Ignored(_)
                    ),
                    "after the end: {effect:?}"
                );
            }
            self.effect(event, effect, effects);
        }
        match event {
            Event::Audio { seq, .. } if self.last_used.is_none_or(|last| *seq > last) => {
                let left_open = |effect: &Effect<u32>| match effect {
                    Effect::AudioDropped { reason, .. } => reason.leaves_seq_open(),
                    _ => false,
                };
                if effects.iter().any(left_open) {
                    self.pieces.remove(seq);
                } else if !self.leaving {
                    self.last_used = Some(*seq);
                    self.last_sound = self.now;
                    self.quiet_since = self.now;
                }
            }
            Event::SetLanguages(routes) => self.routes = routes.clone(),
            Event::Drain => {
                let left: Vec<u32> = self.dropped_by(effects);
                for seq in left {
                    self.pieces.remove(&seq);
                }
                self.last_used = self.last_used.min(session.last_seq());
                self.draining |= !self.leaving;
                self.leaving = true;
            }
            Event::Close { .. } => {
                self.leaving = true;
                self.draining = false;
            }
            _ => {}
        }
        self.standing(session);
    }

    pub fn effect(&mut self, event: &Event<u32>, effect: &Effect<u32>, all: &[Effect<u32>]) {
        match effect {
            Effect::Dispatch(utterance) => self.dispatched(event, utterance),
            Effect::Finalized { index } => {
                assert!(matches!(event, Event::Finalize));
                let made =
                    all.iter().any(|e| matches!(e, Effect::Dispatch(u) if Some(u.index) == *index));
                assert!(index.is_none() || made, "finalized names an utterance made by it");
            }
            Effect::RepeatedUtterance { client_index, index } => {
                assert_eq!(self.clients.get(client_index), Some(index));
            }
            Effect::UtteranceRefused { client_index, reason } => {
                assert!(!self.clients.contains_key(client_index));
                if *reason == Refusal::IndexNotRising {
                    assert!(self.clients.range(client_index..).next().is_some());
                }
            }
            Effect::AudioDropped { first_seq, last_seq, bytes, reason } => {
                if matches!(event, Event::Drain) {
                    // The client keeps what was not cut, and says it again elsewhere.
                    assert_eq!(*reason, Refusal::Draining);
                    self.draining = true;
                }
                self.dropped((*first_seq, *last_seq), *bytes, *reason);
            }
            Effect::AudioGap { from, to } => {
                assert_eq!(Some(*from), self.last_used.map(|last| last + 1));
                assert!(from <= to && self.pieces.range(from..=to).next().is_none());
            }
            Effect::AudioAck { seq } => self.acknowledged(event, *seq),
            Effect::Deliver(delivery) => self.delivered(event, delivery),
            Effect::Partial { key, .. } => {
                let lane = self.lane(*key).expect("a partial of something that exists");
                assert!(!lane.told && lane.ending.is_none(), "a partial after the ending");
                assert!(self.connected);
            }
            Effect::CancelJob { key, why } => {
                let lane = self.lane(*key).unwrap();
                assert_eq!(lane.ending, Some(Ending::Missing(*why)));
            }
            Effect::ReleaseAudio { index } => {
                let account = &mut self.utterances[usize::try_from(*index).unwrap()];
                assert!(account.lanes.iter().all(|lane| lane.ending.is_some()), "still needed");
                assert!(std::mem::take(&mut account.held) > 0, "released twice");
            }
            Effect::SetTimer { timer, generation, at } => {
                assert!(*at > self.now, "a timer that is already due would never end");
                let before = self.timers.insert(*timer, (*generation, *at));
                assert!(before.is_none_or(|(older, _)| older < *generation));
            }
            Effect::Resumed { next_index, audio_ack, forgotten } => {
                let Event::Resumed { epoch, last_seen } = event else { panic!("{effect:?}") };
                self.resumed(*epoch, *last_seen, *forgotten, all);
                assert_eq!(*next_index, self.utterances.len() as u64);
                assert_eq!(*audio_ack, self.acked);
            }
            Effect::Closed => {
                assert!(!std::mem::replace(&mut self.closed, true), "closed twice");
                assert!(self.utterances.iter().flat_map(|u| &u.lanes).all(|l| l.ending.is_some()));
                assert!(!self.connected || self.open() == 0, "closed with something untold");
                assert_eq!(self.held_bytes(), 0);
                self.leaving = true;
                self.draining = false;
            }
            Effect::Backpressure { .. } | Effect::Ignored(_) => {}
        }
    }

    pub fn dispatched(&mut self, event: &Event<u32>, utterance: &Utterance) {
        assert_eq!(utterance.index, self.utterances.len() as u64, "indices are 0, 1, 2…");
        assert!(utterance.audio.len() <= UTTERANCE_BYTES);
        assert!(utterance.deadline == self.now + Duration::from_millis(DEADLINE_MS));
        let turn = utterance.turn.as_str().to_owned();
        if let Some(client) = utterance.client_index {
            let Event::WholeUtterance { client_index, audio, routes, .. } = event else { panic!() };
            assert_eq!((client, &utterance.audio), (*client_index, audio));
            assert_eq!(&utterance.routes, routes);
            assert!(self.clients.insert(client, utterance.index).is_none(), "a second job");
            assert!(self.turns.insert(turn), "a turn of its own");
        } else {
            self.cut_from_stream(event, utterance, turn);
        }
        let lane = || LaneAccount { attempts: (0, 0), accepted: false, ending: None, told: false };
        self.utterances.push(Account {
            deadline: utterance.deadline,
            seqs: utterance.seqs,
            held: utterance.audio.len(),
            lanes: (0..utterance.routes.lanes()).map(|_| lane()).collect(),
        });
    }

    pub fn cut_from_stream(&mut self, event: &Event<u32>, utterance: &Utterance, turn: String) {
        assert_eq!(utterance.routes, self.routes, "speech belongs to the languages it came under");
        let (first, last) = utterance.seqs.expect("streamed");
        let mut said = Vec::new();
        for (seq, piece) in &mut self.pieces {
            if *seq <= last && piece.fate == Fate::Pending {
                assert!(*seq >= first, "piece {seq} was passed over");
                piece.fate = Fate::In(utterance.index);
                said.extend_from_slice(&piece.bytes);
            }
        }
        assert!(!said.is_empty(), "an utterance of nothing");
        assert_eq!(said, utterance.audio, "each byte once, in order");
        // The piece that reaches the longest utterance is in it, and nothing behind it.
        let before = utterance.duration.saturating_sub(super::last_piece(event, &said));
        assert!(before < Duration::from_millis(UTTERANCE_MS));
        match utterance.reason {
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
        self.last_part = Some((turn, utterance.part_index, utterance.reason));
    }

    pub fn dropped(&mut self, (first, last): (u32, u32), bytes: usize, reason: Refusal) {
        let (held, open) = (self.held_bytes() - bytes, self.open());
        let mut sum = 0;
        for (_, piece) in self.pieces.range_mut(first..=last) {
            if piece.fate == Fate::Pending {
                piece.fate = Fate::Dropped;
                sum += piece.bytes.len();
            }
        }
        assert_eq!(sum, bytes, "the drop names what it drops");
        match reason {
            Refusal::TooLarge => assert!(bytes > UTTERANCE_BYTES),
            Refusal::HeldBytes => assert!(held + bytes > HELD_BYTES),
            Refusal::OpenUtterances => assert!(open >= OPEN),
            Refusal::Draining => assert!(self.draining),
            Refusal::Closed => assert!(self.leaving && !self.draining),
            // Only a client that did not come back, or an end without a final, leaves speech.
            Refusal::Abandoned => self.leaving = true,
            other => panic!("{other:?}"),
        }
    }

    fn dropped_by(&self, effects: &[Effect<u32>]) -> Vec<u32> {
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
                    let safe = lanes.iter().all(|l| l.accepted || l.ending.is_some());
                    assert!(safe, "{piece_seq} of {index} is acknowledged and no node has it");
                }
            }
        }
    }

    pub fn delivered(&mut self, event: &Event<u32>, delivery: &Delivery<u32>) {
        assert!(self.connected, "nobody is there");
        let (key, now, exact) = (delivery.key, self.now, self.punctual && self.undisturbed);
        if let Some(last) = self.told_on_link.insert(key.lane, key.index) {
            assert!(last < key.index, "{key:?} after {last}");
        }
        let deadline = self.utterances[usize::try_from(key.index).unwrap()].deadline;
        let lane = self.lane(key).expect("an ending of something that exists");
        assert_eq!(Some(&delivery.ending), lane.ending.as_ref(), "{key:?}");
        if delivery.again {
            assert!(lane.told && matches!(event, Event::Resumed { .. }));
        } else {
            assert!(!std::mem::replace(&mut lane.told, true), "{key:?} ended twice");
            assert!(!exact || now <= deadline, "{key:?} ended late");
        }
    }

    pub fn resumed(
        &mut self,
        epoch: u64,
        last_seen: Option<u64>,
        forgotten: Option<(u64, u64)>,
        all: &[Effect<u32>],
    ) {
        assert!(self.may_resume(epoch));
        self.epoch = epoch;
        self.connected = true;
        self.resume_until = None;
        self.timers.remove(&Timer::Resume);
        let again: HashSet<ResultKey> = all
            .iter()
            .filter_map(|e| match e {
                Effect::Deliver(d) if d.again => Some(d.key),
                _ => None,
            })
            .collect();
        assert!(again.len() <= self.kept);
        for (index, account) in (0u64..).zip(&self.utterances) {
            for (at, lane) in (0u8..).zip(&account.lanes) {
                let unseen = lane.told && last_seen.is_none_or(|seen| index > seen);
                let gone = forgotten.is_some_and(|(a, b)| (a..=b).contains(&index));
                let key = ResultKey { index, lane: Lane(at) };
                assert!(!unseen || gone || again.contains(&key), "{key:?} is silently lost");
            }
        }
    }

    /// What holds between any two events.
    pub fn standing(&self, session: &Session<u32>) {
        assert_eq!(session.held_bytes(), self.held_bytes());
        assert!(self.held_bytes() <= HELD_BYTES);
        assert!(self.open() + usize::from(self.pending_bytes() > 0) <= OPEN);
        assert_eq!(session.is_closed(), self.closed);
        if self.closed {
            return;
        }
        let mut held_back = HashSet::new();
        for (index, account) in self.utterances.iter().enumerate() {
            for (at, lane) in account.lanes.iter().enumerate() {
                if lane.ending.is_none() {
                    held_back.insert(at);
                    let (_, alarm) = self.timers[&Timer::Deadline];
                    assert!(alarm <= account.deadline, "nobody watches {index}");
                }
                let due = self.connected && !held_back.contains(&at);
                assert!(!due || lane.told, "{index}/{at} is kept back for nothing");
            }
        }
        if self.pending_bytes() > 0 && self.connected {
            let quiet_since = self.loud_until.map_or(self.quiet_since, |u| u.max(self.quiet_since));
            let pause = quiet_since + Duration::from_millis(PAUSE_MS);
            assert!(self.now < pause, "the pause was not heard");
            assert!(self.timers[&Timer::Pause].1 <= pause, "the pause will be heard too late");
        }
        assert!(self.resume_until.is_none() || self.timers.contains_key(&Timer::Resume));
    }
}
