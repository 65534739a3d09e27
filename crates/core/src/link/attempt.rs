//! The attempts that a node has, or may have.

use std::collections::HashMap;
use std::time::Duration;

use super::event::{Kinds, TokenClaim};
use super::reconcile::Counted;
use crate::ids::JobId;
use crate::planted::{self, Flaw};
use crate::slots::LeaseToken;
use crate::time::Moment;

/// An attempt that is new to a node's machine.
#[derive(Clone)]
pub struct NewAttempt<L> {
    /// The lease of its slot.
    pub token: LeaseToken,
    /// The turn that its speech is a part of, as the node knows it.
    pub turn: String,
    /// Which utterance of its session it is.
    pub index: u64,
    /// Gets its news.
    pub listener: L,
    /// How long its lease lasts from now.
    pub lease: Duration,
    /// When its job is over at the latest; `None` if the job is of this instance and ends the attempt itself.
    pub wanted_until: Option<Moment>,
}

/// An attempt that a node has, or may have.
pub struct Attempt<K: Kinds> {
    /// The lease of its slot.
    pub token: LeaseToken,
    /// The turn that its speech is a part of, as the node knows it.
    pub turn: String,
    /// Which utterance of its session it is.
    pub index: u64,
    /// Gets its news.
    pub listener: K::Listener,
    /// Its slot, as its job counted it, once it is abandoned.
    pub(super) slot: Option<K::Slot>,
    pub(super) phase: Phase,
    /// The epoch of the connection over which it was sent; `None` if another process sent it.
    pub(super) sent_over: Option<u64>,
    pub(super) sent_at: Moment,
    /// When the node's first message about it came.
    pub(super) first_message_at: Option<Moment>,
    pub(super) lease_until: Moment,
    pub(super) wanted_until: Option<Moment>,
}

/// Where an attempt is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// On its way to the node or being worked on, and its job waits for it.
    Working,
    /// It was sent over an earlier connection, and the node's report does not name it. The node may have the
    /// result, and has until then to send it.
    Missing { until: Moment },
    /// The node sent a result or a reject; the job has to end the attempt.
    Answered,
    /// No job waits for it. The node may still work on it, and its slot counts as taken until the lease
    /// expires.
    Abandoned,
}

impl<K: Kinds> Attempt<K> {
    pub(super) fn new(new: NewAttempt<K::Listener>, sent_over: Option<u64>, now: Moment) -> Self {
        let NewAttempt { token, turn, index, listener, lease, wanted_until } = new;
        Attempt {
            token,
            turn,
            index,
            listener,
            slot: None,
            phase: Phase::Working,
            sent_over,
            sent_at: now,
            // One that another process sent was received a while ago.
            first_message_at: sent_over.is_none().then_some(now),
            lease_until: now + lease,
            wanted_until,
        }
    }

    /// Whether a job waits for it.
    pub fn is_wanted(&self) -> bool {
        self.phase != Phase::Abandoned
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self.phase, Phase::Missing { .. })
    }

    pub(super) fn is_meant(&self, attempt: Option<u32>, token: TokenClaim) -> bool {
        let unfenced = planted::on(Flaw::WordNotFenced);
        unfenced
            || attempt.is_none_or(|attempt| attempt == self.token.attempt)
                && match token {
                    TokenClaim::Absent => true,
                    TokenClaim::Nonce(nonce) => nonce == self.token.nonce,
                    TokenClaim::Invalid => false,
                }
    }

    /// Whether it counts against the node's slots.
    pub fn takes_slot(&self, now: Moment) -> bool {
        match self.phase {
            Phase::Working => true,
            Phase::Missing { .. } | Phase::Answered => false,
            Phase::Abandoned => self.lease_until > now,
        }
    }

    /// Whether it is too new to be in a report of that moment over the connection of this epoch: it was sent
    /// later, or the node's first message about it came later.
    pub(super) fn is_newer_than(&self, reported_at: Moment, epoch: u64) -> bool {
        let later = self.sent_at >= reported_at
            || self.first_message_at.is_some_and(|first| first >= reported_at);
        later && self.sent_over == Some(epoch) && !planted::on(Flaw::OlderReportObeyed)
    }

    /// The attempt, as a count of running jobs of that moment over the connection of this epoch is compared with
    /// it. What was sent less than `crossing` before may not be counted.
    pub(super) fn counted(&self, at: Moment, epoch: u64, crossing: Duration) -> Counted {
        Counted {
            token: self.token,
            given_up: self.phase == Phase::Abandoned,
            earlier: self.sent_over != Some(epoch),
            had: self.sent_at + crossing <= at,
        }
    }

    /// When time alone changes it.
    fn due(&self) -> Option<Moment> {
        let own = match self.phase {
            Phase::Missing { until } => Some(until),
            Phase::Abandoned => return Some(self.lease_until),
            Phase::Working | Phase::Answered => None,
        };
        [own, self.wanted_until].into_iter().flatten().min()
    }
}

/// The attempts that time changed.
pub(super) struct Lapsed<K: Kinds> {
    /// Missing ones whose grace period is over.
    pub missing: Vec<LeaseToken>,
    /// Abandoned ones whose leases are over, now removed.
    pub freed: Vec<Attempt<K>>,
}

/// The attempts of one node, at most one of each job.
pub(super) struct Attempts<K: Kinds> {
    by_job: HashMap<JobId, Attempt<K>, crate::hash::Fast>,
    /// Nothing is due before this; `None` if nothing is due at all.
    due: Option<Moment>,
}

impl<K: Kinds> Default for Attempts<K> {
    fn default() -> Self {
        Attempts { by_job: HashMap::default(), due: None }
    }
}

impl<K: Kinds> Attempts<K> {
    pub fn len(&self) -> usize {
        self.by_job.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_job.is_empty()
    }

    pub fn contains(&self, job: &JobId) -> bool {
        self.by_job.contains_key(job)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Attempt<K>> {
        self.by_job.values()
    }

    pub fn get(&self, job: &JobId, attempt: u32) -> Option<&Attempt<K>> {
        self.by_job.get(job).filter(|held| held.token.attempt == attempt)
    }

    pub fn of_job(&mut self, job: &JobId) -> Option<&mut Attempt<K>> {
        self.by_job.get_mut(job)
    }

    pub fn by_token(&mut self, token: LeaseToken) -> Option<&mut Attempt<K>> {
        self.by_job.get_mut(&token.job).filter(|held| held.token == token)
    }

    pub fn insert(&mut self, attempt: Attempt<K>) {
        self.note_due(attempt.due());
        self.by_job.insert(attempt.token.job, attempt);
    }

    pub fn remove(&mut self, job: &JobId, attempt: u32) -> Option<Attempt<K>> {
        self.get(job, attempt)?;
        self.by_job.remove(job)
    }

    pub fn remove_token(&mut self, token: LeaseToken) -> Option<Attempt<K>> {
        self.by_token(token)?;
        self.by_job.remove(&token.job)
    }

    pub fn take(&mut self) -> Vec<Attempt<K>> {
        self.due = None;
        self.by_job.drain().map(|(_, attempt)| attempt).collect()
    }

    /// No job waits for it any more. Of a job of another instance it is not known here when the store extended
    /// the lease: that was after the node's first message, for `running_lease`.
    pub fn abandon(
        &mut self,
        job: &JobId,
        attempt: u32,
        slot: Option<K::Slot>,
        running_lease: Duration,
    ) {
        let held = self.by_job.get_mut(job).filter(|held| held.token.attempt == attempt);
        // Repeated, it changes nothing: the slot is counted already.
        let Some(held) = held.filter(|held| held.is_wanted()) else { return };
        (held.phase, held.slot) = (Phase::Abandoned, slot);
        if held.wanted_until.is_some() {
            let committed = held.first_message_at.unwrap_or(held.sent_at) + running_lease;
            held.lease_until = held.lease_until.max(committed);
        }
        let due = held.due();
        self.note_due(due);
    }

    /// Slots taken by these attempts, without that of one job.
    pub fn slots_taken(&self, now: Moment, without: Option<&JobId>) -> usize {
        let others = self.by_job.iter().filter(|(job, _)| without != Some(*job));
        others.filter(|(_, held)| held.takes_slot(now)).count()
    }

    /// Slots of abandoned ones.
    pub fn abandoned_slots(&self, now: Moment) -> usize {
        let abandoned = self.iter().filter(|held| held.phase == Phase::Abandoned);
        abandoned.filter(|held| held.takes_slot(now)).count()
    }

    /// The tokens of those that are not abandoned.
    pub fn wanted(&self) -> Vec<LeaseToken> {
        self.iter().filter(|held| held.is_wanted()).map(|held| held.token).collect()
    }

    /// A connection registered again: its attempts are of the new epoch now.
    pub fn renumber(&mut self, from: u64, to: u64) {
        for held in self.by_job.values_mut().filter(|held| held.sent_over == Some(from)) {
            held.sent_over = Some(to);
        }
    }

    /// Applies a report. What was sent over an earlier connection and is not reported is missing until then;
    /// what is reported is not missing.
    pub fn reported(&mut self, epoch: u64, tokens: &[LeaseToken], until: Moment) {
        for held in self.by_job.values_mut().filter(|held| held.sent_over != Some(epoch)) {
            let reported = tokens.contains(&held.token);
            let until = if planted::on(Flaw::LastWordsNotAwaited) { Moment::ZERO } else { until };
            held.phase = match held.phase {
                Phase::Working if !reported => Phase::Missing { until },
                Phase::Missing { .. } if reported => Phase::Working,
                phase => phase,
            };
        }
        self.note_due(Some(until));
    }

    /// The earliest moment at which [`Attempts::lapse`] may have something to do.
    pub fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Applies what is due by now.
    pub fn lapse(&mut self, now: Moment) -> Lapsed<K> {
        let mut lapsed = Lapsed { missing: Vec::new(), freed: Vec::new() };
        if self.due.is_none_or(|due| due > now) {
            return lapsed;
        }
        for held in self.by_job.values_mut() {
            if held.wanted_until.is_some_and(|until| until <= now) {
                held.phase = Phase::Abandoned;
            }
            if matches!(held.phase, Phase::Missing { until } if until <= now) {
                lapsed.missing.push(held.token);
            }
        }
        let is_over = |held: &Attempt<K>| !held.is_wanted() && held.lease_until <= now;
        let over = self.by_job.extract_if(|_, held| is_over(held));
        lapsed.freed = over.map(|(_, held)| held).collect();
        let next = self.by_job.values().filter_map(Attempt::due).filter(|due| *due > now).min();
        self.due = next;
        lapsed
    }

    fn note_due(&mut self, due: Option<Moment>) {
        self.due = [self.due, due].into_iter().flatten().min();
    }
}
