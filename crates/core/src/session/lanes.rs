//! How far each job of an open utterance is.

use super::event::{Ending, Ignored};
use super::routes::{Lane, targets};
use crate::eligibility::Route;
use crate::lang::Lang;
use crate::planted::{self, Flaw};

/// The lanes of one utterance. The first is stored inline: most utterances have one.
pub(super) struct Lanes<R> {
    first: LaneState<R>,
    more: Vec<LaneState<R>>,
}

impl<R> Lanes<R> {
    /// `None` if there are none.
    pub fn new(mut lanes: impl Iterator<Item = LaneState<R>>) -> Option<Self> {
        Some(Lanes { first: lanes.next()?, more: lanes.collect() })
    }

    pub fn iter(&self) -> impl Iterator<Item = &LaneState<R>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Lane, &mut LaneState<R>)> {
        (0..).map(Lane).zip(std::iter::once(&mut self.first).chain(&mut self.more))
    }

    pub fn get_mut(&mut self, lane: Lane) -> Option<&mut LaneState<R>> {
        match usize::from(lane.0).checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => self.more.get_mut(at),
        }
    }

    pub fn len(&self) -> usize {
        1 + self.more.len()
    }
}

/// One job.
pub(super) struct LaneState<R> {
    /// Its direction; not known of a job that an older version saved.
    pub route: Option<Route>,
    /// Attempts from the first to the second number may speak; more than one only when hedged.
    pub attempts: (u32, u32),
    /// A node took it once. Stays so over a retry, since acknowledged audio cannot be taken back.
    pub accepted: bool,
    pub progress: Progress<R>,
}

pub(super) enum Progress<R> {
    Waiting,
    Ended(Ending<R>),
    Delivered,
}

impl<R> LaneState<R> {
    pub fn new(route: Option<Route>) -> Self {
        LaneState { route, attempts: (0, 0), accepted: false, progress: Progress::Waiting }
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.progress, Progress::Waiting)
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.progress, Progress::Ended(_))
    }

    pub fn is_delivered(&self) -> bool {
        matches!(self.progress, Progress::Delivered)
    }

    /// Its speech is safe with a node, or no longer needed.
    pub fn is_settled(&self) -> bool {
        self.accepted || !self.is_waiting()
    }

    /// Whether a message of this attempt may do something here.
    pub fn check(&self, attempt: u32) -> Result<(), Ignored> {
        if !self.is_waiting() && !planted::on(Flaw::LaterEndingCounts) {
            Err(Ignored::LateOrDuplicate)
        } else if attempt == 0 || !(self.attempts.0..=self.attempts.1).contains(&attempt) {
            Err(Ignored::StaleAttempt)
        } else {
            Ok(())
        }
    }
}

/// Which endings must wait for an earlier one: those of the same target, and those of utterances with a
/// single target behind each other. So a conversation of two is in order of speech although its
/// languages alternate, and of several targets none waits for another.
#[derive(Default)]
pub(super) struct Order {
    /// Targets of which an earlier ending was not delivered.
    targets: Vec<Lang>,
    /// An earlier utterance with a single target has no ending yet.
    single: bool,
    /// Of an earlier ending that was not delivered the target is not known.
    unknown: bool,
    /// Some ending is held back at all.
    any: bool,
}

impl Order {
    /// Whether an ending of this route must wait; `single` if it is the only one of its utterance.
    pub fn holds_back(&self, route: Option<&Route>, single: bool) -> bool {
        self.unknown
            || (single && self.single)
            || route.map_or(self.any, |route| targets(route).any(|one| self.targets.contains(&one)))
    }

    /// An ending of this route was not delivered.
    pub fn hold(&mut self, route: Option<&Route>, single: bool) {
        self.any = true;
        self.single |= single;
        match route {
            Some(route) => {
                for target in targets(route) {
                    if !self.targets.contains(&target) {
                        self.targets.push(target);
                    }
                }
            }
            None => self.unknown = true,
        }
    }
}
