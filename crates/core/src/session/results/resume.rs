//! What a client that comes back is told, and what the next owner of a session is left.

use super::{Open, Window};
use crate::ids::TurnId;
use crate::planted::{self, Flaw};
use crate::session::event::{Delivery, Effect, Effects, Ending, MissingReason, ResultKey};
use crate::session::lanes::{LaneState, Lanes, Progress};
use crate::session::routes::{Lane, Routes};
use crate::session::saved::{SavedLane, SavedUtterance};
use crate::session::seen::{Forgotten, LastSeen, Span};
use crate::session::settings::MAX_LANES;
use crate::time::Moment;

/// Utterances that a client may have seen the end of after the last save of an owner that died; what was
/// open then is bounded, and a client that claims more is not believed.
const MAX_UNSAVED: u64 = 256;

impl<R> Window<R> {
    /// Adds an utterance of an earlier owner. If it does not live on, it failed.
    pub fn restore(&mut self, saved: SavedUtterance, lives_on: bool, out: &mut Effects<R>) {
        let index = saved.index;
        let lanes = (0..).map(Lane).zip(saved.lanes).take(MAX_LANES).map(|(lane, saved)| {
            let mut state = LaneState::new(saved.route);
            state.attempts = (saved.attempt, saved.attempt);
            state.accepted = true;
            if saved.delivered {
                state.progress = Progress::Delivered;
            } else if let Some(why) = saved.missing {
                state.progress = Progress::Ended(Ending::Missing(why));
            } else if !lives_on {
                let why = MissingReason::JobFailed;
                state.progress = Progress::Ended(Ending::Missing(why));
                out.push(Effect::CancelJob { key: ResultKey { index, lane }, why });
            }
            state
        });
        let Some(lanes) = Lanes::new(lanes) else { return };
        self.open.push_back(Open {
            index,
            client_index: saved.client_index,
            turn: saved.turn,
            part_index: saved.part_index,
            deadline: saved.deadline,
            last_seq: saved.last_seq,
            before: None,
            audio: None,
            lanes,
            inherited: true,
        });
    }

    /// Continues at `next_index`. What an earlier owner delivered is no longer kept.
    pub fn resume_at(&mut self, next_index: u64, forgotten: Vec<Span>) {
        self.next_index = if planted::on(Flaw::TakeoverBeginsAtZero) { 0 } else { next_index };
        self.restored = true;
        self.forgotten = Forgotten::restore(forgotten);
        for open in &self.open {
            for lane in open.lanes.iter().filter(|lane| lane.is_delivered()) {
                self.forgotten.note(open.index, lane.route);
            }
        }
    }

    /// What the next owner of this session must know of the open utterances.
    pub fn saved(&self) -> Vec<SavedUtterance> {
        let lane = |lane: &LaneState<R>| SavedLane {
            route: lane.route,
            attempt: lane.attempts.1,
            delivered: lane.is_delivered(),
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

    /// Endings that the next owner will not have: all that were delivered.
    pub fn saved_forgotten(&self) -> Vec<Span> {
        let mut all = Forgotten::restore(self.forgotten.spans().to_vec());
        for delivery in &self.delivered {
            all.note(delivery.key.index, delivery.route);
        }
        all.spans().to_vec()
    }

    /// Endings behind what the client has seen that were delivered and are no longer kept.
    pub fn forgotten_after(&self, seen: &LastSeen, routes: &Routes) -> Vec<Span> {
        self.forgotten.after(seen, routes)
    }

    /// Notes what the client has seen. Of an earlier owner's endings it may know more than was saved: `lost` gives
    /// the turn of an utterance that was not, and the time.
    pub fn note_seen(
        &mut self,
        seen: &LastSeen,
        routes: &Routes,
        lost: impl Fn(u64) -> (TurnId, Moment),
        out: &mut Effects<R>,
    ) {
        // An ending that was delivered after the last save: its index is used up.
        if let Some(last) = seen.highest()
            && self.restored
            && (self.next_index..self.next_index + MAX_UNSAVED).contains(&last)
        {
            let unsaved = self.next_index..=last;
            match routes.lanes() {
                // The client has seen them all.
                1 => self.forgotten.add(Span { route: None, first: self.next_index, last }),
                // In the other targets they are missing, behind what is still open there.
                _ => unsaved.for_each(|index| self.lose(index, seen, routes, lost(index), out)),
            }
            self.next_index = last + 1;
        }
        for open in self.open.iter_mut().filter(|open| open.inherited) {
            for (lane, state) in open.lanes.iter_mut().filter(|(_, lane)| !lane.is_delivered()) {
                let up_to = state.route.as_ref().map_or(seen.all, |route| seen.of(route));
                if up_to.is_none_or(|up_to| up_to < open.index) {
                    continue;
                }
                if state.is_waiting() {
                    let key = ResultKey { index: open.index, lane };
                    out.push(Effect::CancelJob { key, why: MissingReason::Cancelled });
                }
                state.progress = Progress::Delivered;
                self.forgotten.note(open.index, state.route);
            }
        }
        self.release_audio(out);
    }

    /// Adds an utterance of an earlier owner that was not saved: its jobs are lost.
    fn lose(
        &mut self,
        index: u64,
        seen: &LastSeen,
        routes: &Routes,
        (turn, deadline): (TurnId, Moment),
        out: &mut Effects<R>,
    ) {
        let lanes = routes.iter().map(|(_, route)| {
            let delivered = seen.of(&route).is_some_and(|up_to| index <= up_to);
            let missing = (!delivered).then_some(MissingReason::JobFailed);
            SavedLane { route: Some(route), attempt: 0, delivered, missing }
        });
        let lanes = lanes.collect();
        let (client_index, part_index, last_seq) = (None, 0, None);
        let lost = SavedUtterance {
            index,
            client_index,
            turn,
            part_index,
            deadline,
            last_seq,
            settled: true,
            lanes,
        };
        self.restore(lost, true, out);
    }

    /// Endings that the client may not have seen, in no particular order.
    pub fn unseen(&self) -> impl Iterator<Item = (ResultKey, &Ending<R>)> {
        let delivered = self.delivered.iter().map(|one| (one.key, &one.ending));
        let waiting = self.open.iter().flat_map(|open| {
            let lanes = (0..).map(Lane).zip(open.lanes.iter());
            lanes.filter_map(|(lane, state)| match &state.progress {
                Progress::Ended(ending) => Some((ResultKey { index: open.index, lane }, ending)),
                Progress::Waiting | Progress::Delivered => None,
            })
        });
        delivered.chain(waiting)
    }

    /// Keeps no more than so many bytes of endings that were delivered.
    pub fn forget_beyond(&mut self, bytes: usize, size: impl Fn(&R) -> usize) {
        let of = |one: &Delivery<R>| match &one.ending {
            Ending::Result(answer) => size(answer),
            Ending::Missing(_) => 0,
        };
        let mut kept: usize = self.delivered.iter().map(of).sum();
        while kept > bytes
            && let Some(oldest) = self.delivered.front()
        {
            kept -= of(oldest);
            self.forget_oldest();
        }
    }

    /// Delivers again what the client did not see on an earlier connection.
    pub fn deliver_again(&mut self, seen: &LastSeen, out: &mut Effects<R>)
    where
        R: Clone,
    {
        let is_seen = |one: &Delivery<R>| {
            let up_to = one.route.as_ref().map_or(seen.all, |route| seen.of(route));
            let told = planted::on(Flaw::SeenToldAgain);
            !told && up_to.is_some_and(|up_to| one.key.index <= up_to)
        };
        // Targets are not in step, so one that was seen may stand behind one that was not.
        while self.delivered.front().is_some_and(is_seen) {
            self.forget_oldest();
        }
        let again = |one: &Delivery<R>| Effect::Deliver(Delivery { again: true, ..one.clone() });
        out.extend(self.delivered.iter().filter(|one| !is_seen(one)).map(again));
    }
}
