//! How attempts come to the node, are abandoned and are lost.

use std::time::Duration;

use super::attempt::{Attempt, NewAttempt, Phase};
use super::breaker::Fault;
use super::event::{Effect, Effects, Kinds, News, NotAssigned, ToNode};
use super::machine::{GRACE_FOR_LATE_RESULTS, INHIBITION, Machine, tell};
use crate::ids::JobId;
use crate::planted::{self, Flaw};
use crate::slots::LeaseToken;

impl<K: Kinds> Machine<K> {
    pub(super) fn on_assign(
        &mut self,
        new: NewAttempt<K::Listener>,
        assignment: K::Assignment,
        out: &mut Effects<K>,
    ) {
        if !self.is_connected() {
            return out.push(Effect::NotAssigned(NotAssigned::NotConnected));
        }
        let twice = planted::on(Flaw::EnvelopeActedOnTwice);
        if self.attempts.by_token(new.token).is_some() && !twice {
            // A repeated request: the node has it.
            return;
        }
        if !self.has_room_for(&new.token.job) {
            return out.push(Effect::NotAssigned(NotAssigned::Full));
        }
        self.attempts.insert(Attempt::new(new, Some(self.epoch), self.now));
        out.push(Effect::Send(ToNode::Assign(assignment)));
    }

    /// Whether the node can have one attempt more. The grant of the store is not enough: leases expire when they
    /// are renewed too late, and the node works on.
    fn has_room_for(&self, job: &JobId) -> bool {
        let open = match planted::on(Flaw::RoomNotChecked) {
            true => usize::MAX,
            false => self.open_slots() as usize,
        };
        self.attempts.len() < open || self.attempts.slots_taken(self.now, Some(job)) < open
    }

    /// The node has an attempt that another process sent. The job's instance notices later than this one that
    /// the node is here, so the node's report may have come before.
    pub(super) fn on_adopted(&mut self, new: NewAttempt<K::Listener>, out: &mut Effects<K>) {
        let token = new.token;
        if let Some(mut held) = self.attempts.remove_token(token) {
            (held.listener, held.wanted_until) = (new.listener, new.wanted_until);
            if held.phase == Phase::Abandoned {
                held.phase = Phase::Working;
                // The job that waits for it now counts its slot.
                out.extend(held.slot.take().map(Effect::SlotFreed));
            }
            self.attempts.insert(held);
        } else {
            let mut attempt: Attempt<K> = Attempt::new(new, None, self.now);
            let reported = self.reporting.reported.as_ref();
            if reported.is_some_and(|reported| !reported.contains(&token)) {
                attempt.phase = Phase::Missing { until: self.now + GRACE_FOR_LATE_RESULTS };
            }
            self.attempts.insert(attempt);
        }
        self.claim_result(token, out);
    }

    pub(super) fn on_given_up(
        &mut self,
        job: JobId,
        attempt: u32,
        reason: &'static str,
        slot: Option<K::Slot>,
        out: &mut Effects<K>,
    ) {
        let token = self.attempts.get(&job, attempt).map(|held| held.token);
        let lease = self.running_lease();
        self.attempts.abandon(&job, attempt, slot, lease);
        if let Some(token) = token.filter(|_| planted::on(Flaw::GivenUpNotStopped)) {
            return self.release(token, out);
        }
        if let Some(supports) = self.supports() {
            // If the node stops when told to, the slot is free once the cancel is on its connection: the
            // next assignment comes after it.
            let frees = token.filter(|_| supports.cancel);
            out.push(Effect::Send(ToNode::Cancel { job, attempt, reason, frees }));
        }
    }

    pub(super) fn on_cancel_sent(&mut self, token: LeaseToken, out: &mut Effects<K>) {
        let is_abandoned = self.attempts.by_token(token).is_some_and(|held| !held.is_wanted());
        if is_abandoned {
            self.release(token, out);
        }
    }

    pub(super) fn on_attempt_failed(
        &mut self,
        job: &JobId,
        attempt: u32,
        failed: Option<(u64, String)>,
        out: &mut Effects<K>,
    ) {
        let held = self.attempts.get(job, attempt);
        let Some(held) = held.filter(|held| held.phase != Phase::Answered) else { return };
        let fault = self.fault_of(held);
        if let Some((at_ms, code)) = failed {
            self.past.note_failure(at_ms, *job, &code);
            self.sync.pending.reputation = true;
        }
        if let Some(fault) = fault {
            self.count_fault(fault, out);
        }
    }

    /// Releases the slot of an abandoned attempt.
    pub(super) fn release(&mut self, token: LeaseToken, out: &mut Effects<K>) {
        if planted::on(Flaw::SlotReleasedTwice) && self.attempts.by_token(token).is_some() {
            return out.push(Effect::Release { token, slot: None });
        }
        if let Some(held) = self.attempts.remove_token(token) {
            out.push(Effect::Release { token, slot: held.slot });
        }
    }

    /// The assignment did not fit into the queue of the connection.
    pub(super) fn on_not_queued(&mut self, token: LeaseToken, out: &mut Effects<K>) {
        self.attempts.remove_token(token);
        self.inhibit(out);
    }

    pub(super) fn on_send_failed(
        &mut self,
        epoch: u64,
        job: JobId,
        attempt: u32,
        out: &mut Effects<K>,
    ) {
        let held = self.attempts.get(&job, attempt).filter(|held| held.is_wanted());
        out.extend(held.map(|held| tell(held, News::NotSent)));
        if self.supports_of(epoch).is_some() {
            self.inhibit(out);
        }
    }

    fn inhibit(&mut self, out: &mut Effects<K>) {
        self.inhibited_until = Some(self.now + INHIBITION);
        out.push(Effect::FleetChanged);
    }

    pub(super) fn extend(&mut self, token: LeaseToken, lease: Duration) {
        let until = self.now + lease;
        if let Some(held) = self.attempts.by_token(token) {
            held.lease_until = until;
        }
    }

    /// The node does not have this attempt any more. The slot is its job's, or free if it was abandoned.
    pub(super) fn drop_attempt(&mut self, token: LeaseToken, out: &mut Effects<K>) {
        let Some(held) = self.attempts.remove_token(token) else { return };
        if !held.is_wanted() {
            return out.extend(held.slot.map(Effect::SlotFreed));
        }
        out.push(tell(&held, News::Dropped));
        if held.phase != Phase::Answered
            && let Some(fault) = self.fault_of(&held)
        {
            self.count_fault(fault, out);
        }
    }

    /// The fault that the loss of an attempt counts as. What another process sent may have been lost with that
    /// process.
    fn fault_of(&self, held: &Attempt<K>) -> Option<Fault> {
        let sent_over = held.sent_over?;
        let present = self.is_connected() && sent_over == self.epoch;
        Some(if present { Fault::Job } else { Fault::Break(sent_over) })
    }
}
