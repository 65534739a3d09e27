//! The open utterances and the order of their endings.
//!
//! An utterance is open from its cut until the ending of each of its lanes was delivered. Endings of one
//! target are delivered in index order: one that is not there yet holds back those behind it until its
//! deadline makes it an explicit absence. The first ending of a lane stands, whatever comes later.
//!
//! In a session that can be resumed an ending also waits until all speech up to it is safe: taken by
//! nodes in every target, or over. The client keeps speech that is not safe and sends it again if the
//! instance dies; had one target's ending been delivered before, it would be heard a second time.

mod resume;

use std::collections::VecDeque;
use std::sync::Arc;

use super::event::{Delivery, Effect, Effects, Ending, Ignored, MissingReason, ResultKey};
use super::lanes::{LaneState, Lanes, Order, Progress};
use super::seen::Forgotten;
use super::settings::Settings;
use super::utterance::Utterance;
use crate::ids::TurnId;
use crate::planted::{self, Flaw};
use crate::time::Moment;

/// See the top of the file.
pub(super) struct Window<R> {
    /// By index, rising.
    open: VecDeque<Open<R>>,
    /// The first index not handed out yet.
    next_index: u64,
    /// Bytes of audio kept for open jobs.
    held_bytes: usize,
    /// The last endings delivered, in the order in which they were.
    delivered: VecDeque<Delivery<R>>,
    /// How many of them are kept for each target.
    max_kept: usize,
    /// Endings delivered that are no longer kept.
    forgotten: Forgotten,
    /// It continues what an earlier owner saved.
    restored: bool,
    /// The client may come back and send unacknowledged speech again.
    resumable: bool,
}

/// How far audio may be acknowledged because of utterances that are not settled.
pub enum AckLimit {
    /// All that was heard.
    Everything,
    /// Up to this piece; nothing, if there is none.
    UpTo(Option<u32>),
}

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
    lanes: Lanes<R>,
    /// It was cut by an earlier owner of the session.
    inherited: bool,
}

impl<R> Open<R> {
    fn is_waiting(&self) -> bool {
        self.lanes.iter().any(LaneState::is_waiting)
    }

    fn is_delivered(&self) -> bool {
        self.lanes.iter().all(LaneState::is_delivered)
    }

    /// Its audio is safe with nodes, or no longer needed.
    fn is_settled(&self) -> bool {
        self.lanes.iter().all(LaneState::is_settled)
    }
}

impl<R> Window<R> {
    pub fn new(settings: &Settings) -> Self {
        Window {
            open: VecDeque::new(),
            next_index: 0,
            held_bytes: 0,
            delivered: VecDeque::new(),
            max_kept: settings.max_kept_endings,
            forgotten: Forgotten::default(),
            restored: false,
            resumable: !settings.resume_window.is_zero(),
        }
    }

    /// Adds an utterance just cut.
    pub fn open(&mut self, utterance: Arc<Utterance>, before: Option<u32>) {
        let routes = utterance.routes.iter();
        let lanes = Lanes::new(routes.map(|(_, route)| LaneState::new(Some(route))));
        self.held_bytes += utterance.speech.bytes();
        self.next_index = utterance.index + 1;
        self.open.push_back(Open {
            index: utterance.index,
            client_index: utterance.client_index,
            turn: utterance.turn.clone(),
            part_index: utterance.part_index,
            deadline: utterance.deadline,
            last_seq: utterance.speech.seqs().map(|(_, last)| last),
            before,
            lanes: lanes.expect("routes are at least one"),
            audio: Some(utterance),
            inherited: false,
        });
    }

    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Jobs whose ending was not delivered.
    pub fn open_jobs(&self) -> usize {
        let open = |lane: &&LaneState<R>| !lane.is_delivered();
        self.open.iter().map(|utterance| utterance.lanes.iter().filter(open).count()).sum()
    }

    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether some job is not over.
    pub fn is_waiting(&self) -> bool {
        self.open.iter().any(Open::is_waiting)
    }

    /// The audio of an utterance with an open job.
    pub fn utterance(&self, index: u64) -> Option<&Arc<Utterance>> {
        let at = self.open.binary_search_by_key(&index, |open| open.index).ok()?;
        self.open[at].audio.as_ref()
    }

    /// The earliest deadline of a job that is not over.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.open.iter().filter(|open| open.is_waiting()).map(|open| open.deadline).min()
    }

    /// How far audio may be acknowledged because of the first utterance that is not settled.
    pub fn ack_limit(&self) -> AckLimit {
        let unsettled = |open: &&Open<R>| open.last_seq.is_some() && !open.is_settled();
        let first = self.open.iter().find(unsettled);
        let first = first.filter(|_| !planted::on(Flaw::AckedWhenReceived));
        first.map_or(AckLimit::Everything, |open| AckLimit::UpTo(open.before))
    }

    /// A dispatch goes out; from now on only it may speak, and with `hedge` the one before it too.
    pub fn assign(&mut self, key: ResultKey, attempt: u32, hedge: bool) -> Result<(), Ignored> {
        let (_, lane) = self.find(key)?;
        if !lane.is_waiting() {
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
            None if !lane.is_waiting() && !planted::on(Flaw::LaterEndingCounts) => {
                return Err(Ignored::LateOrDuplicate);
            }
            None => {}
        }
        let failed = matches!(ending, Ending::Missing(_));
        lane.progress = Progress::Ended(ending);
        if planted::on(Flaw::IndexReused) && failed && key.index + 1 == self.next_index {
            self.next_index = key.index;
        }
        self.release_audio(out);
        Ok(())
    }

    /// The client gave an utterance up, in every target.
    pub fn cancel(&mut self, index: u64, out: &mut Effects<R>) -> Result<(), Ignored> {
        if index >= self.next_index {
            Err(Ignored::UnknownKey)
        } else if self.abandon(|open| open.index == index, MissingReason::Cancelled, out) {
            Ok(())
        } else {
            Err(Ignored::LateOrDuplicate)
        }
    }

    /// Every job whose deadline has come ends without a result.
    pub fn expire(&mut self, now: Moment, out: &mut Effects<R>) {
        self.abandon(|open| open.deadline <= now, MissingReason::GapTimeout, out);
    }

    /// Delivers every ending whose turn it is. Endings are kept for so many targets.
    pub fn deliver(&mut self, targets: usize, out: &mut Effects<R>)
    where
        R: Clone,
    {
        if self.open.iter().any(|open| open.lanes.iter().any(LaneState::has_ended)) {
            self.deliver_in_order(out);
        }
        while self.open.front().is_some_and(Open::is_delivered) {
            self.open.pop_front();
        }
        while self.delivered.len() > self.max_kept * targets {
            self.forget_oldest();
        }
    }

    fn deliver_in_order(&mut self, out: &mut Effects<R>)
    where
        R: Clone,
    {
        let mut order = Order::default();
        // Of the utterances so far: all speech is safe, every ending was delivered.
        let (mut is_safe, mut is_complete) = (true, true);
        for at in 0..self.open.len() {
            let complete_behind = self.complete_behind(at);
            let open = &mut self.open[at];
            let (streamed, single) = (open.last_seq.is_some(), open.lanes.len() == 1);
            is_safe &= !streamed || open.is_settled();
            let held = self.resumable && streamed && !is_safe;
            let mut left = open.lanes.iter().filter(|lane| !lane.is_delivered()).count();
            for (lane, state) in open.lanes.iter_mut().filter(|(_, lane)| !lane.is_delivered()) {
                let route = state.route;
                let unordered = planted::on(Flaw::OrderNotKept);
                let held = held && !unordered;
                let waits = order.holds_back(route.as_ref(), single) && !unordered;
                if !state.has_ended() || held || waits {
                    order.hold(route.as_ref(), single);
                    continue;
                }
                let ended = std::mem::replace(&mut state.progress, Progress::Delivered);
                let Progress::Ended(ending) = ended else { unreachable!("checked above") };
                left -= 1;
                let completes = is_complete && left == 0;
                let delivery = Delivery {
                    key: ResultKey { index: open.index, lane },
                    route,
                    client_index: open.client_index,
                    turn: open.turn.clone(),
                    part_index: open.part_index,
                    audio_ack: complete_behind.or(open.last_seq).filter(|_| completes),
                    ending,
                    again: false,
                };
                self.delivered.push_back(delivery.clone());
                out.push(Effect::Deliver(delivery));
            }
            is_complete &= left == 0;
        }
    }

    /// The last piece of the utterances right behind this one whose every ending was delivered before.
    fn complete_behind(&self, at: usize) -> Option<u32> {
        let behind = self.open.iter().skip(at + 1).take_while(|open| open.is_delivered());
        behind.filter_map(|open| open.last_seq).last()
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.delivered.pop_front() {
            self.forgotten.note(oldest.key.index, oldest.route);
        }
    }

    fn find(&mut self, key: ResultKey) -> Result<(Option<u64>, &mut LaneState<R>), Ignored> {
        let at = self.open.binary_search_by_key(&key.index, |open| open.index).map_err(|_| {
            if key.index < self.next_index { Ignored::LateOrDuplicate } else { Ignored::UnknownKey }
        })?;
        let open = &mut self.open[at];
        let lane = open.lanes.get_mut(key.lane).ok_or(Ignored::UnknownKey)?;
        Ok((open.client_index, lane))
    }

    /// Ends every open job of `which` without a result. Returns whether there was one.
    fn abandon(
        &mut self,
        which: impl Fn(&Open<R>) -> bool,
        why: MissingReason,
        out: &mut Effects<R>,
    ) -> bool {
        let mut any = false;
        for open in self.open.iter_mut().filter(|open| which(open)) {
            for (lane, state) in open.lanes.iter_mut().filter(|(_, lane)| lane.is_waiting()) {
                state.progress = Progress::Ended(Ending::Missing(why));
                out.push(Effect::CancelJob { key: ResultKey { index: open.index, lane }, why });
                any = true;
            }
        }
        self.release_audio(out);
        any
    }

    /// Releases the audio of utterances whose every job is over.
    fn release_audio(&mut self, out: &mut Effects<R>) {
        for open in self.open.iter_mut().filter(|open| !open.is_waiting()) {
            if let Some(utterance) = open.audio.take() {
                self.held_bytes -= utterance.speech.bytes();
                out.push(Effect::ReleaseAudio { index: open.index });
            }
        }
    }
}
