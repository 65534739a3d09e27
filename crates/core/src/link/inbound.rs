//! Messages of the node about jobs. A message has an effect only if it comes over the newest connection and
//! names an attempt that the node has. Any other is stale: it is counted and changes nothing.

use super::attempt::Phase;
use super::event::{Effect, Effects, JobMessage, Kinds, MessageKind, News, TokenClaim};
use super::machine::{ADOPTION, MAX_UNCLAIMED, Machine, tell};
use super::{Fault, Supports};
use crate::ids::JobId;
use crate::planted::{self, Flaw};
use crate::slots::LeaseToken;
use crate::time::Moment;

/// A result of a job that is not known here, or not yet.
pub(super) struct Unclaimed<K: Kinds> {
    /// It is kept for its job's instance until then.
    pub until: Moment,
    /// What the node understood when it sent the result.
    pub supports: Supports,
    pub message: JobMessage<K::Payload>,
}

impl<K: Kinds> Machine<K> {
    pub(super) fn on_message(
        &mut self,
        epoch: u64,
        message: JobMessage<K::Payload>,
        out: &mut Effects<K>,
    ) {
        match self.supports_of(epoch) {
            Some(supports) => self.apply_message(supports, message, out),
            None => out.push(Effect::Stale(message.kind)),
        }
    }

    fn apply_message(
        &mut self,
        supports: Supports,
        message: JobMessage<K::Payload>,
        out: &mut Effects<K>,
    ) {
        // A node that knows lease tokens names the token in each message; older agents do not know them.
        let is_named = message.token != TokenClaim::Absent || !supports.tokens;
        let (now, lease, kind) = (self.now, self.running_lease(), message.kind);
        let held = self.attempts.of_job(&message.job);
        let held = held.filter(|held| is_named && held.is_meant(message.attempt, message.token));
        let Some(held) = held else {
            out.push(Effect::Stale(kind));
            if is_named {
                self.keep_unclaimed(supports, message, out);
            }
            return;
        };
        held.first_message_at.get_or_insert(now);
        let token = held.token;
        if !held.is_wanted() {
            out.push(Effect::Stale(kind));
            // The attempt was abandoned before; the message may still say that its slot is free.
            if kind.frees_slot() {
                self.release(token, out);
            }
            return;
        }
        let was_answered = held.phase == Phase::Answered;
        if !was_answered {
            held.phase = if kind.frees_slot() { Phase::Answered } else { Phase::Working };
        }
        if kind == MessageKind::Partial && held.lease_until < now + lease * 2 / 3 {
            held.lease_until = now + lease;
            out.push(Effect::Renew { token, lease });
        }
        out.push(tell(held, News::Message(kind, message.payload)));
        if was_answered || !kind.is_result() {
            return;
        }
        if !supports.any() {
            self.close_turn(&token.job, out);
        }
        match kind {
            MessageKind::Success => self.count_success(out),
            MessageKind::Failure { fault: true } => {
                self.count_fault(Fault::Job, out);
            }
            _ => {}
        }
    }

    /// An older agent keeps the speech of a turn's earlier parts for a later part, and sends no result for
    /// them: they end with the later one.
    fn close_turn(&mut self, closing: &JobId, out: &mut Effects<K>) {
        let Some(closing) = self.attempts.of_job(closing) else { return };
        let (turn, index) = (closing.turn.clone(), closing.index);
        // An attempt with an answer of its own ends by that answer, which may still be on its way.
        let earlier = self.attempts.iter().filter(|held| {
            held.index < index
                && held.turn == turn
                && held.is_wanted()
                && held.phase != Phase::Answered
        });
        out.extend(earlier.map(|held| tell(held, News::TurnClosed)));
    }

    /// Keeps a result of a job that is not known here. The job's instance may live and adopt the attempt in a
    /// moment, or it is gone and another instance has to end the job.
    fn keep_unclaimed(
        &mut self,
        supports: Supports,
        message: JobMessage<K::Payload>,
        out: &mut Effects<K>,
    ) {
        let is_whole = message.kind.is_result() && message.attempt.is_some();
        if !is_whole || planted::on(Flaw::EarlyResultDropped) {
            return;
        }
        if self.take_lookups(1).is_err() {
            out.push(Effect::LookupLimited);
            return;
        }
        let key = |message: &JobMessage<K::Payload>| (message.job, message.attempt);
        if self.unclaimed.iter().any(|kept| key(&kept.message) == key(&message)) {
            return;
        }
        if self.unclaimed.len() >= MAX_UNCLAIMED {
            out.extend(self.unclaimed.pop_front().map(|oldest| Effect::Orphaned(oldest.message)));
        }
        self.unclaimed.push_back(Unclaimed { until: self.now + ADOPTION, supports, message });
    }

    /// An attempt has a listener now: its result may be here already.
    pub(super) fn claim_result(&mut self, token: LeaseToken, out: &mut Effects<K>) {
        let of_it = |kept: &Unclaimed<K>| {
            (kept.message.job, kept.message.attempt) == (token.job, Some(token.attempt))
        };
        if let Some(at) = self.unclaimed.iter().position(of_it)
            && let Some(Unclaimed { supports, message, .. }) = self.unclaimed.remove(at)
        {
            self.apply_message(supports, message, out);
        }
    }
}
