//! Whether everything that was said came back once, whole and in order, in every target.
//!
//! Two things are followed for each target: the numbers of endings, and the marks of sentences. Of the
//! numbers each must end exactly once, in order, without a gap. Of marked sentences each must come back once,
//! with all its audio and no other, in the order of speaking; one that does not come back needs a
//! `missing_result` in its place. Of a sentence of which the scheduler told that it dropped a part, the
//! rest may come back. Audio without a mark is followed by numbers only.
//!
//! A speaker that names no list of targets has one, whatever its endings call it.

mod follower;

use std::collections::BTreeMap;

pub use super::event::Event;
use super::report::Report;
use crate::speech::{Echo, Mark};
use follower::Follower;

/// An ending, with the sentence it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// The sentence, as far as it can be told.
    pub mark: Option<Mark>,
    /// When its last piece went out, on [`crate::monotonic_us`].
    pub said_us: u64,
    /// When the ending came.
    pub answered_us: u64,
    /// What the node told; `None` for a `missing_result`.
    pub echo: Option<Echo>,
}

/// How often each reason for a missing result was told.
pub type Reasons = BTreeMap<String, u64>;

/// Follows one speaker, over all its connections.
#[derive(Debug, Clone, Default)]
pub struct Checker {
    /// What is not of a single target.
    report: Report,
    session_id: String,
    /// The only target, of a speaker without a list.
    only: Follower,
    /// The targets that were ever listed, by name.
    listed: BTreeMap<String, Follower>,
    /// Those of what is said next.
    current: Vec<String>,
}

impl Checker {
    /// Checks a log as a whole.
    pub fn check<'a>(log: impl IntoIterator<Item = (u64, &'a Event)>) -> Report {
        let mut checker = Self::default();
        for (at_us, event) in log {
            checker.note(at_us, event);
        }
        checker.report()
    }

    /// Takes note of what happened at that time, on [`crate::monotonic_us`]; for an ending, says of
    /// which sentence it is.
    pub fn note(&mut self, at_us: u64, event: &Event) -> Option<Answered> {
        match event {
            Event::Opened { session_id, recovered } => {
                self.report.connections += 1;
                let goes_on = *recovered == Some(true)
                    || (*recovered == Some(false) && *session_id == self.session_id);
                self.report.sessions += u64::from(!goes_on);
                self.session_id.clone_from(session_id);
            }
            Event::Said { .. } => {
                self.report.said += 1;
                // Later targets have no part in it.
                if !self.current.is_empty() {
                    for target in &self.current {
                        if let Some(follower) = self.listed.get_mut(target) {
                            follower.note(at_us, event);
                        }
                    }
                    return None;
                }
            }
            Event::Dropped { bytes, .. } => self.report.dropped_bytes += bytes,
            Event::Targets { targets } => self.list(targets),
            Event::Result { target, .. } | Event::About { target, .. } => {
                let follower = target.as_ref().and_then(|target| self.listed.get_mut(target));
                return follower.unwrap_or(&mut self.only).note(at_us, event);
            }
            Event::Missing { target: Some(target), .. } => {
                let follower = self.listed.get_mut(target).unwrap_or(&mut self.only);
                return follower.note(at_us, event);
            }
            // Every target that has no ending yet is meant.
            Event::Missing { index, target: None, .. } if !self.listed.is_empty() => {
                let open = self.listed.values_mut().filter(|follower| !follower.has_ended(*index));
                let answered = open.map(|follower| follower.note(at_us, event));
                return answered.fold(None, Option::or);
            }
            Event::Begun { .. } | Event::Missing { target: None, .. } => {}
        }
        let mut answered = None;
        for follower in self.followers_mut() {
            answered = answered.or(follower.note(at_us, event));
        }
        answered
    }

    /// Everything found so far; what has not come back by now counts as lost.
    pub fn report(&self) -> Report {
        let mut report = self.report.clone();
        if self.listed.is_empty() {
            report.add(&self.only.report());
            return report;
        }
        let mut dropped = 0;
        for (target, follower) in &self.listed {
            let mut of_target = follower.report();
            dropped = dropped.max(std::mem::take(&mut of_target.dropped_sentences));
            for text in &mut of_target.violations {
                *text = format!("{target}: {text}");
            }
            report.add(&of_target);
        }
        report.dropped_sentences = dropped;
        report
    }

    /// An `error` came, which an existing client shows.
    pub fn popup(&mut self) {
        self.report.popups += 1;
    }

    /// Sentences that were said and have not ended in every target.
    pub fn open(&self) -> usize {
        self.followers().map(Follower::open).max().unwrap_or(0)
    }

    /// The number of the ending that comes next.
    pub fn next_index(&self) -> u64 {
        self.followers().map(Follower::next_index).min().unwrap_or(0)
    }

    /// From now on these targets.
    fn list(&mut self, targets: &[String]) {
        let first = self.listed.is_empty();
        for target in targets.iter().filter(|target| !self.current.contains(target)) {
            match self.listed.get_mut(target) {
                Some(follower) => follower.rejoin(),
                None => {
                    let follower = match first {
                        true => self.only.clone(),
                        false => Follower::joining(&self.session_id),
                    };
                    self.listed.insert(target.clone(), follower);
                }
            }
        }
        self.current = targets.to_vec();
    }

    fn followers(&self) -> impl Iterator<Item = &Follower> {
        self.listed.values().chain(self.listed.is_empty().then_some(&self.only))
    }

    fn followers_mut(&mut self) -> impl Iterator<Item = &mut Follower> {
        let only = self.listed.is_empty().then_some(&mut self.only);
        self.listed.values_mut().chain(only)
    }
}

#[cfg(test)]
mod tests;
