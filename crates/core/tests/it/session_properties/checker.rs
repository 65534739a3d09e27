//! What a session promises, and an account of its own to check it by.
//!
//! `speech`: every byte in one utterance or dropped, acknowledged when it is safe. `endings`: one for each
//! index and target, in order.

mod endings;
mod speech;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use lingua_core::eligibility::Route;
use lingua_core::session::*;
use lingua_core::{Lang, Moment};

pub const PAUSE_MS: u64 = 500;
pub const UTTERANCE_MS: u64 = 1_000;
pub const UTTERANCE_BYTES: usize = 64;
pub const HELD_BYTES: usize = 200;
pub const DEADLINE_MS: u64 = 4_000;
pub const RESUME_MS: u64 = 3_000;
pub const TTS_HOLD_MS: u64 = 900;

/// Everything that must hold, kept apart from the machine.
pub struct Checker {
    /// Endings kept for each target, and jobs open at most.
    pub kept: usize,
    pub max_open: usize,
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
    /// On this connection, the last index delivered of each target, and of utterances with one target.
    pub last_of: HashMap<Option<Lang>, u64>,
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
    pub route: Route,
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

impl LaneAccount {
    pub fn is_settled(&self) -> bool {
        self.accepted || self.ending.is_some()
    }
}

impl Account {
    /// Its speech is safe, or cannot be sent again.
    pub fn is_safe(&self) -> bool {
        self.seqs.is_none() || self.lanes.iter().all(LaneAccount::is_settled)
    }

    /// Whether this lane comes before that one of a later utterance.
    pub fn precedes(&self, lane: &LaneAccount, later: &Account, behind: &LaneAccount) -> bool {
        let shared = targets(&lane.route).any(|one| targets(&behind.route).any(|two| one == two));
        shared || (self.lanes.len() == 1 && later.lanes.len() == 1)
    }
}

/// The languages in which a result may be.
pub fn targets(route: &Route) -> impl Iterator<Item = Lang> {
    route.directions().map(|(_, target)| target)
}

/// Up to where the client says it has seen the endings of this route.
pub fn seen_of(seen: &LastSeen, route: &Route) -> Option<u64> {
    let named = |target: Lang| seen.targets.iter().filter(move |(named, _)| *named == target);
    targets(route).flat_map(named).map(|(_, index)| *index).max().max(seen.all)
}

impl Checker {
    pub fn new(kept: usize, max_open: usize, routes: Routes) -> Self {
        Checker {
            kept,
            max_open,
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
            last_of: HashMap::new(),
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

    /// Jobs whose ending was not delivered.
    pub fn open_jobs(&self) -> usize {
        self.utterances.iter().flat_map(|u| &u.lanes).filter(|lane| !lane.told).count()
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
                self.last_of.clear();
                // Of an earlier life the client may know more than was left to this one.
                let inherited = usize::try_from(self.inherited).unwrap();
                for (index, account) in (0u64..).zip(&mut self.utterances[..inherited]) {
                    for lane in account.lanes.iter_mut().filter(|lane| !lane.told) {
                        if seen_of(last_seen, &lane.route).is_some_and(|seen| index <= seen) {
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
                let unnumbered = matches!(event, Event::WholeUtterance { client_index: None, .. });
                assert!(matches!(event, Event::Finalize) || (unnumbered && index.is_some()));
                let made =
                    all.iter().any(|e| matches!(e, Effect::Dispatch(u) if Some(u.index) == *index));
                assert!(index.is_none() || made, "finalized names an utterance made by it");
            }
            Effect::RepeatedUtterance { client_index, index } => {
                assert_eq!(self.clients.get(client_index), Some(index));
            }
            Effect::UtteranceRefused { client_index, reason } => {
                assert!(client_index.is_none_or(|client| !self.clients.contains_key(&client)));
                if *reason == DropReason::IndexNotRising {
                    let client = client_index.expect("without a number none can be too low");
                    assert!(self.clients.range(client..).next().is_some());
                }
            }
            Effect::AudioDropped { first_seq, last_seq, bytes, reason } => {
                if matches!(event, Event::Drain) {
                    // The client keeps what was not cut, and says it again elsewhere.
                    assert_eq!(*reason, DropReason::Draining);
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
                self.resumed(*epoch, last_seen, forgotten, all);
                assert_eq!(*next_index, self.utterances.len() as u64);
                assert_eq!(*audio_ack, self.acked);
            }
            Effect::Closed => {
                assert!(!std::mem::replace(&mut self.closed, true), "closed twice");
                assert!(self.utterances.iter().flat_map(|u| &u.lanes).all(|l| l.ending.is_some()));
                assert!(!self.connected || self.open_jobs() == 0, "closed with something untold");
                assert_eq!(self.held_bytes(), 0);
                self.leaving = true;
                self.draining = false;
            }
            Effect::Backpressure { .. } | Effect::Ignored(_) => {}
        }
    }
}
