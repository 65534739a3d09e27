//! The open utterances and the order of their endings.
//!
//! An utterance is open from its cut until each of its lanes was told its ending. Within a lane
//! endings are told in index order: one that is not there yet holds back those behind it until its
//! deadline makes it an explicit absence. The first ending of a lane stands, whatever comes later.

use std::collections::VecDeque;
use std::sync::Arc;

use super::event::{Delivery, Effect, Effects, Ending, Ignored, MissingReason, ResultKey};
use super::saved::{SavedLane, SavedUtterance};
use super::settings::MAX_LANES;
use super::utterance::{Lane, Utterance};
use crate::ids::TurnId;
use crate::time::Moment;

/// See the top of the file.
pub(super) struct Window<R> {
    /// By index, rising.
    open: VecDeque<Open<R>>,
    /// The first index not handed out yet.
    next_index: u64,
    /// Bytes of audio kept for open jobs.
    held_bytes: usize,
    /// The last endings told, in the order in which they were.
    told: VecDeque<Delivery<R>>,
    max_told: usize,
    /// The highest index of which an ending was told and is no longer kept.
    forgotten: Option<u64>,
    /// It goes on from what an earlier life left.
    restored: bool,
}

/// Utterances that a client may have seen the end of after the last word that was left of a life;
/// what was open then is bounded, and a client that says more is not believed.
const MAX_BEHIND: u64 = 256;

struct Open<R> {
    index: u64,
    client_index: Option<u64>,
    turn: TurnId,
    part_index: u32,
    deadline: Moment,
    /// The client's number of its last piece, and the last one before its first.
    last_seq: Option<u32>,
    before: Option<u32>,
    /// Kept until every job of it is over, so that a retry has something to send.
    audio: Option<Arc<Utterance>>,
    lanes: Vec<LaneState<R>>,
    /// It was cut in an earlier life of the session.
    inherited: bool,
}

struct LaneState<R> {
    /// Attempts from the first to the second number may speak; more than one only when hedged.
    attempts: (u32, u32),
    /// A node took it once. Stays so over a retry, since acknowledged audio cannot be taken back.
    accepted: bool,
    progress: Progress<R>,
}

enum Progress<R> {
    Waiting,
    Ended(Ending<R>),
    Told,
}

impl<R> LaneState<R> {
    fn new() -> Self {
        LaneState { attempts: (0, 0), accepted: false, progress: Progress::Waiting }
    }

    fn waits(&self) -> bool {
        matches!(self.progress, Progress::Waiting)
    }

    fn is_told(&self) -> bool {
        matches!(self.progress, Progress::Told)
    }

    /// Whether a message of this attempt may do something here.
    fn check(&self, attempt: u32) -> Result<(), Ignored> {
        if !self.waits() {
            Err(Ignored::LateOrDuplicate)
        } else if attempt == 0 || !(self.attempts.0..=self.attempts.1).contains(&attempt) {
            Err(Ignored::StaleAttempt)
        } else {
            Ok(())
        }
    }
}

impl<R> Open<R> {
    fn waits(&self) -> bool {
        self.lanes.iter().any(LaneState::waits)
    }

    /// Its audio is safe with nodes, or no longer needed.
    fn is_settled(&self) -> bool {
        self.lanes.iter().all(|lane| lane.accepted || !lane.waits())
    }
}

impl<R> Window<R> {
    pub fn new(max_told: usize) -> Self {
        Window {
            open: VecDeque::new(),
            next_index: 0,
            held_bytes: 0,
            told: VecDeque::new(),
            max_told,
            forgotten: None,
            restored: false,
        }
    }

    /// Takes in an utterance just cut.
    pub fn open(&mut self, utterance: Arc<Utterance>, before: Option<u32>) {
        self.held_bytes += utterance.audio.len();
        self.next_index = utterance.index + 1;
        self.open.push_back(Open {
            index: utterance.index,
            client_index: utterance.client_index,
            turn: utterance.turn.clone(),
            part_index: utterance.part_index,
            deadline: utterance.deadline,
            last_seq: utterance.seqs.map(|(_, last)| last),
            before,
            lanes: (0..utterance.routes.lanes()).map(|_| LaneState::new()).collect(),
            audio: Some(utterance),
            inherited: false,
        });
    }

    /// Takes in an utterance of an earlier life. If it does not live on, it failed.
    pub fn restore(&mut self, saved: SavedUtterance, lives_on: bool, out: &mut Effects<R>) {
        let index = saved.index;
        let lanes = (0..).map(Lane).zip(saved.lanes).take(MAX_LANES).map(|(lane, saved)| {
            let mut state = LaneState::new();
            state.attempts = (saved.attempt, saved.attempt);
            state.accepted = true;
            if saved.told {
                state.progress = Progress::Told;
            } else if let Some(why) = saved.missing {
                state.progress = Progress::Ended(Ending::Missing(why));
            } else if !lives_on {
                let why = MissingReason::JobFailed;
                state.progress = Progress::Ended(Ending::Missing(why));
                out.push(Effect::CancelJob { key: ResultKey { index, lane }, why });
            }
            state
        });
        self.open.push_back(Open {
            index,
            client_index: saved.client_index,
            turn: saved.turn,
            part_index: saved.part_index,
            deadline: saved.deadline,
            last_seq: saved.last_seq,
            before: None,
            audio: None,
            lanes: lanes.collect(),
            inherited: true,
        });
    }

    /// Goes on at `next_index`. What was told in an earlier life is no longer kept.
    pub fn go_on_at(&mut self, next_index: u64) {
        self.next_index = next_index;
        self.restored = true;
        let first = self.open.front().map_or(next_index, |open| open.index);
        let told = |open: &&Open<R>| open.lanes.iter().any(LaneState::is_told);
        let partly = self.open.iter().rfind(told).map(|open| open.index);
        self.forgotten = partly.or(first.checked_sub(1));
    }

    /// What another life of this session must know of the open utterances.
    pub fn saved(&self) -> Vec<SavedUtterance> {
        let lane = |lane: &LaneState<R>| SavedLane {
            attempt: lane.attempts.1,
            told: lane.is_told(),
            missing: match lane.progress {
                Progress::Ended(Ending::Missing(why)) => Some(why),
                _ => None,
            },
        };
        let utterance = |open: &Open<R>| SavedUtterance {
            index: open.index,
            client_index: open.client_index,
            turn: open.turn.clone(),
            part_index: open.part_index,
            deadline: open.deadline,
            last_seq: open.last_seq,
            settled: open.is_settled(),
            lanes: open.lanes.iter().map(lane).collect(),
        };
        self.open.iter().map(utterance).collect()
    }

    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether some job is not over.
    pub fn waits(&self) -> bool {
        self.open.iter().any(Open::waits)
    }

    /// The audio of an utterance with an open job.
    pub fn utterance(&self, index: u64) -> Option<&Arc<Utterance>> {
        let at = self.open.binary_search_by_key(&index, |open| open.index).ok()?;
        self.open[at].audio.as_ref()
    }

    /// The earliest deadline of a job that is not over.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.open.iter().filter(|open| open.waits()).map(|open| open.deadline).min()
    }

    /// How far audio may be acknowledged because of the first utterance that is not settled;
    /// `None` if there is none such.
    pub fn ack_limit(&self) -> Option<Option<u32>> {
        let unsettled = |open: &&Open<R>| open.last_seq.is_some() && !open.is_settled();
        self.open.iter().find(unsettled).map(|open| open.before)
    }

    /// A dispatch goes out; from now on only it may speak, and with `hedge` the one before it too.
    pub fn assign(&mut self, key: ResultKey, attempt: u32, hedge: bool) -> Result<(), Ignored> {
        let (_, lane) = self.find(key)?;
        if !lane.waits() {
            return Err(Ignored::LateOrDuplicate);
        }
        if attempt <= lane.attempts.1 {
            return Err(Ignored::StaleAttempt);
        }
        let first = if hedge && lane.attempts.1 > 0 { lane.attempts.1 } else { attempt };
        lane.attempts = (first, attempt);
        Ok(())
    }

    /// A node took the job.
    pub fn accept(&mut self, key: ResultKey, attempt: u32) -> Result<(), Ignored> {
        let (_, lane) = self.find(key)?;
        lane.check(attempt)?;
        lane.accepted = true;
        Ok(())
    }

    /// Whether a partial may go out, and under which of the client's numbers.
    pub fn partial(&mut self, key: ResultKey, attempt: u32) -> Result<Option<u64>, Ignored> {
        let (client_index, lane) = self.find(key)?;
        lane.check(attempt)?;
        Ok(client_index)
    }

    /// A job is over.
    pub fn end(
        &mut self,
        key: ResultKey,
        attempt: Option<u32>,
        ending: Ending<R>,
        out: &mut Effects<R>,
    ) -> Result<(), Ignored> {
        let (_, lane) = self.find(key)?;
        match attempt {
            Some(attempt) => lane.check(attempt)?,
            None if !lane.waits() => return Err(Ignored::LateOrDuplicate),
            None => {}
        }
        lane.progress = Progress::Ended(ending);
        self.release_audio(out);
        Ok(())
    }

    /// The client gave an utterance up.
    pub fn cancel(&mut self, index: u64, out: &mut Effects<R>) -> Result<(), Ignored> {
        if index >= self.next_index {
            Err(Ignored::UnknownKey)
        } else if self.give_up(|open| open.index == index, MissingReason::Cancelled, out) {
            Ok(())
        } else {
            Err(Ignored::LateOrDuplicate)
        }
    }

    /// Every job whose deadline has come ends without a result.
    pub fn expire(&mut self, now: Moment, out: &mut Effects<R>) {
        self.give_up(|open| open.deadline <= now, MissingReason::GapTimeout, out);
    }

    /// Tells every ending whose turn it is.
    pub fn tell(&mut self, out: &mut Effects<R>)
    where
        R: Clone,
    {
        let mut held_back = [false; MAX_LANES];
        for open in &mut self.open {
            for (at, lane) in (0u8..).zip(&mut open.lanes) {
                let held_back = &mut held_back[usize::from(at)];
                if *held_back || lane.is_told() {
                    continue;
                }
                match std::mem::replace(&mut lane.progress, Progress::Told) {
                    Progress::Ended(ending) => {
                        let delivery = Delivery {
                            key: ResultKey { index: open.index, lane: Lane(at) },
                            client_index: open.client_index,
                            turn: open.turn.clone(),
                            part_index: open.part_index,
                            last_seq: open.last_seq,
                            ending,
                            again: false,
                        };
                        self.told.push_back(delivery.clone());
                        out.push(Effect::Deliver(delivery));
                    }
                    waiting => {
                        lane.progress = waiting;
                        *held_back = true;
                    }
                }
            }
        }
        while self.open.front().is_some_and(|open| open.lanes.iter().all(LaneState::is_told)) {
            self.open.pop_front();
        }
        while self.told.len() > self.max_told {
            self.forget_oldest();
        }
    }

    /// Which endings after `last_seen` were told and are no longer kept, as first and last index.
    pub fn forgotten_after(&self, last_seen: Option<u64>) -> Option<(u64, u64)> {
        let first = last_seen.map_or(0, |seen| seen.saturating_add(1));
        self.forgotten.filter(|last| first <= *last).map(|last| (first, last))
    }

    /// The client has seen every ending up to `last_seen`. Of an earlier life it may know more than
    /// was left to this one.
    pub fn seen(&mut self, last_seen: Option<u64>, out: &mut Effects<R>) {
        // An ending that was told behind the last word that was left: its number is used up.
        if let Some(last) = last_seen
            && self.restored
            && (self.next_index..self.next_index + MAX_BEHIND).contains(&last)
        {
            self.next_index = last + 1;
            self.forgotten = Some(last);
        }
        let known = |open: &&mut Open<R>| open.inherited && Some(open.index) <= last_seen;
        for open in self.open.iter_mut().filter(known) {
            for (at, lane) in (0..).zip(&mut open.lanes).filter(|(_, lane)| !lane.is_told()) {
                if lane.waits() {
                    let key = ResultKey { index: open.index, lane: Lane(at) };
                    out.push(Effect::CancelJob { key, why: MissingReason::Cancelled });
                }
                lane.progress = Progress::Told;
                self.forgotten = self.forgotten.max(Some(open.index));
            }
        }
        self.release_audio(out);
    }

    /// Endings that the client may not have seen, in no particular order.
    pub fn unseen(&self) -> impl Iterator<Item = (ResultKey, &Ending<R>)> {
        let told = self.told.iter().map(|told| (told.key, &told.ending));
        let waiting = self.open.iter().flat_map(|open| {
            let lanes = (0..).map(Lane).zip(&open.lanes);
            lanes.filter_map(|(lane, state)| match &state.progress {
                Progress::Ended(ending) => Some((ResultKey { index: open.index, lane }, ending)),
                Progress::Waiting | Progress::Told => None,
            })
        });
        told.chain(waiting)
    }

    /// Keeps no more than so many bytes of endings that were told.
    pub fn forget_beyond(&mut self, bytes: usize, size: impl Fn(&R) -> usize) {
        let of = |told: &Delivery<R>| match &told.ending {
            Ending::Result(answer) => size(answer),
            Ending::Missing(_) => 0,
        };
        let mut kept: usize = self.told.iter().map(of).sum();
        while kept > bytes
            && let Some(oldest) = self.told.front()
        {
            kept -= of(oldest);
            self.forget_oldest();
        }
    }

    /// Tells again what the client did not see on an earlier connection.
    pub fn tell_again(&mut self, last_seen: Option<u64>, out: &mut Effects<R>)
    where
        R: Clone,
    {
        // Lanes are not told in step, so one that was seen may stand behind one that was not.
        while self.told.front().is_some_and(|told| Some(told.key.index) <= last_seen) {
            self.forget_oldest();
        }
        let unseen = |told: &&Delivery<R>| Some(told.key.index) > last_seen;
        let again = |told: &Delivery<R>| Effect::Deliver(Delivery { again: true, ..told.clone() });
        out.extend(self.told.iter().filter(unseen).map(again));
    }

    fn forget_oldest(&mut self) {
        let forgotten = self.told.pop_front().map(|told| told.key.index);
        self.forgotten = self.forgotten.max(forgotten);
    }

    fn find(&mut self, key: ResultKey) -> Result<(Option<u64>, &mut LaneState<R>), Ignored> {
        let at = self.open.binary_search_by_key(&key.index, |open| open.index).map_err(|_| {
            if key.index < self.next_index { Ignored::LateOrDuplicate } else { Ignored::UnknownKey }
        })?;
        let open = &mut self.open[at];
        let lane = open.lanes.get_mut(usize::from(key.lane.0)).ok_or(Ignored::UnknownKey)?;
        Ok((open.client_index, lane))
    }

    /// Ends every open job of `which` without a result. Says whether there was one.
    fn give_up(
        &mut self,
        which: impl Fn(&Open<R>) -> bool,
        why: MissingReason,
        out: &mut Effects<R>,
    ) -> bool {
        let mut any = false;
        for open in self.open.iter_mut().filter(|open| which(open)) {
            for (at, lane) in (0..).zip(&mut open.lanes).filter(|(_, lane)| lane.waits()) {
                lane.progress = Progress::Ended(Ending::Missing(why));
                let key = ResultKey { index: open.index, lane: Lane(at) };
                out.push(Effect::CancelJob { key, why });
                any = true;
            }
        }
        self.release_audio(out);
        any
    }

    /// Lets go of the audio of utterances whose every job is over.
    fn release_audio(&mut self, out: &mut Effects<R>) {
        for open in self.open.iter_mut().filter(|open| !open.waits()) {
            if let Some(utterance) = open.audio.take() {
                self.held_bytes -= utterance.audio.len();
                out.push(Effect::ReleaseAudio { index: open.index });
            }
        }
    }
}
