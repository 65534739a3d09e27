//! What another instance must know to go on with a session.
//!
//! Speech and results are not part of it. Of the utterances that were open, those whose audio was
//! acknowledged live on: a node works on them, and their results are still delivered (one that had come
//! and was not delivered is gone, unless the owner finds it in the job's record). The others fail
//! explicitly, for their audio lies above the acknowledged piece, so the client sends it again and
//! it becomes new utterances; were both to go on, a sentence would be heard twice.
//!
//! What is saved may be a little behind: it must be as new as the last acknowledgement that the
//! client was sent. Utterances cut since then are not known here, and neither was their speech
//! acknowledged; of endings delivered since then the client says itself which it has seen.

use std::collections::VecDeque;

use super::event::{Effects, MissingReason};
use super::routes::Routes;
use super::seen::Span;
use super::settings::{MAX_CLIENT_INDICES, Settings, SettingsError};
use super::{Session, Window};
use crate::eligibility::Route;
use crate::ids::TurnId;
use crate::time::Moment;

/// A session as its next owner finds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedState {
    /// The epoch of its last owner.
    pub epoch: u64,
    /// The number of its next utterance.
    pub next_index: u64,
    /// The piece of speech up to which all was acknowledged.
    pub acked_seq: Option<u32>,
    /// The languages of its next utterance.
    pub routes: Routes,
    /// The whole utterances of the client that are remembered: its number and ours, rising.
    pub client_indices: Vec<(u64, u64)>,
    /// Utterances with endings that were not delivered, by index, rising.
    pub open: Vec<SavedUtterance>,
    /// Endings that were delivered, and are not kept for the next owner.
    pub forgotten: Vec<Span>,
}

/// An utterance with endings that were not delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedUtterance {
    /// Its number.
    pub index: u64,
    /// The client's number, if it was sent as a whole.
    pub client_index: Option<u64>,
    /// Its turn.
    pub turn: TurnId,
    /// Which part of it.
    pub part_index: u32,
    /// When its endings are due. Clocks differ between instances: whoever saves and restores turns
    /// it into a moment of the store's clock and back.
    pub deadline: Moment,
    /// The client's number of its last piece, unless sent as a whole.
    pub last_seq: Option<u32>,
    /// Every job of it was taken by a node or is over.
    pub settled: bool,
    /// How far each lane is.
    pub lanes: Vec<SavedLane>,
}

/// How far one lane of an utterance is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedLane {
    /// Its direction; an older version did not save it.
    pub route: Option<Route>,
    /// The last dispatch; zero if there was none.
    pub attempt: u32,
    /// Its ending was delivered.
    pub delivered: bool,
    /// It ended without a result, and that was not delivered.
    pub missing: Option<MissingReason>,
}

impl<R: Clone> Session<R> {
    /// What the next owner must know. True between any two events.
    pub fn saved(&self) -> SavedState {
        SavedState {
            epoch: self.epoch,
            next_index: self.next_index(),
            acked_seq: self.acked_seq,
            routes: self.routes.clone(),
            client_indices: self.client_indices.iter().copied().collect(),
            open: self.window.saved(),
            forgotten: self.window.saved_forgotten(),
        }
    }

    /// The session on its next owner, which claimed `epoch`, as after [`Event::Disconnected`]: it
    /// waits for [`Event::Resumed`]. The effects cancel the jobs that do not live on.
    ///
    /// [`Event::Disconnected`]: super::Event::Disconnected
    /// [`Event::Resumed`]: super::Event::Resumed
    pub fn restore(
        settings: Settings,
        saved: SavedState,
        epoch: u64,
        turn_seed: [u8; 16],
        now: Moment,
    ) -> Result<(Self, Effects<R>), SettingsError> {
        let mut session = Session::new(settings, epoch, saved.routes, turn_seed, now)?;
        let mut out = Effects::new();
        session.last_seq = saved.acked_seq;
        session.acked_seq = saved.acked_seq;
        session.client_indices = VecDeque::from(saved.client_indices);
        while session.client_indices.len() > MAX_CLIENT_INDICES {
            session.client_indices.pop_front();
        }
        let mut window = Window::new(&session.settings);
        let mut open = saved.open;
        open.sort_by_key(|utterance| utterance.index);
        open.dedup_by_key(|utterance| utterance.index);
        // The clock of the last owner may be ahead; nothing is due later than what is cut now.
        let latest = now + session.settings.result_deadline;
        for mut utterance in open.into_iter().filter(|utterance| utterance.index < saved.next_index)
        {
            utterance.deadline = utterance.deadline.min(latest);
            let lives_on = match utterance.last_seq {
                Some(last) => saved.acked_seq.is_some_and(|acked| last <= acked),
                None => utterance.settled,
            };
            window.restore(utterance, lives_on, &mut out);
        }
        window.resume_at(saved.next_index, saved.forgotten);
        session.window = window;
        session.detach(&mut out);
        session.settle(&mut out);
        Ok((session, out))
    }
}
