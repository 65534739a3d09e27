//! What the node says about jobs. It has an effect only if it comes over the newest connection and is
//! about an attempt that the node has; everything else is counted and changes nothing.

use super::attempt::Phase;
use super::event::{Effect, Effects, Kinds, News, TokenClaim, Word, WordKind};
use super::machine::{ADOPTION, MAX_UNCLAIMED, Machine, tell};
use super::{Fault, Supports};
use crate::ids::JobId;
use crate::planted::{self, Flaw};
use crate::slots::LeaseToken;
use crate::time::Moment;

/// A result of a job that is not known here (yet).
pub(super) struct Unclaimed<K: Kinds> {
    /// It is kept for its job's instance until then.
    pub until: Moment,
    /// What the node understood when it sent it.
    pub supports: Supports,
    pub word: Word<K::Payload>,
}

impl<K: Kinds> Machine<K> {
    pub(super) fn on_word(&mut self, epoch: u64, word: Word<K::Payload>, out: &mut Effects<K>) {
        match self.supports_of(epoch) {
            Some(supports) => self.hear(supports, word, out),
            None => out.push(Effect::Stale(word.kind)),
        }
    }

    fn hear(&mut self, supports: Supports, word: Word<K::Payload>, out: &mut Effects<K>) {
        // Who was told the name of its lease says it; older agents were not.
        let is_named = word.token != TokenClaim::Absent || !supports.tokens;
        let (now, lease, kind) = (self.now, self.running_lease(), word.kind);
        let held = self.attempts.of_job(&word.job);
        let held = held.filter(|held| is_named && held.is_meant(word.attempt, word.token));
        let Some(held) = held else {
            out.push(Effect::Stale(kind));
            if is_named {
                self.keep_unclaimed(supports, word, out);
            }
            return;
        };
        held.heard_at.get_or_insert(now);
        let token = held.token;
        if !held.is_wanted() {
            out.push(Effect::Stale(kind));
            // Given up before; what it still says is that its slot is free.
            if kind.frees_slot() {
                self.release(token, out);
            }
            return;
        }
        let was_answered = held.phase == Phase::Answered;
        if !was_answered {
            held.phase = if kind.frees_slot() { Phase::Answered } else { Phase::Working };
        }
        if kind == WordKind::Partial && held.lease_until < now + lease * 2 / 3 {
            held.lease_until = now + lease;
            out.push(Effect::Renew { token, lease });
        }
        out.push(tell(held, News::Said(kind, word.payload)));
        if was_answered || !kind.is_result() {
            return;
        }
        if !supports.any() {
            self.close_turn(&token.job, out);
        }
        match kind {
            WordKind::Success => self.count_success(out),
            WordKind::Failure { fault: true } => {
                self.count_fault(Fault::Job, out);
            }
            _ => {}
        }
    }

    /// An older agent keeps the speech of a turn's earlier parts for a later one, and gives no
    /// result for them: they end with it.
    fn close_turn(&mut self, closing: &JobId, out: &mut Effects<K>) {
        let Some(closing) = self.attempts.of_job(closing) else { return };
        let (turn, index) = (closing.turn.clone(), closing.index);
        // One with an answer of its own ends by that, which may still be on its way.
        let earlier = self.attempts.iter().filter(|held| {
            held.index < index
                && held.turn == turn
                && held.is_wanted()
                && held.phase != Phase::Answered
        });
        out.extend(earlier.map(|held| tell(held, News::TurnClosed)));
    }

    /// A result of a job that is not known here. Its instance may live and be about to say that it
    /// wants to hear of it, or it is gone and somebody else has to end the job.
    fn keep_unclaimed(&mut self, supports: Supports, word: Word<K::Payload>, out: &mut Effects<K>) {
        let is_whole = word.kind.is_result() && word.attempt.is_some();
        if !is_whole || planted::on(Flaw::EarlyResultDropped) {
            return;
        }
        if self.take_lookups(1).is_err() {
            out.push(Effect::LookupLimited);
            return;
        }
        let key = |word: &Word<K::Payload>| (word.job, word.attempt);
        if self.unclaimed.iter().any(|kept| key(&kept.word) == key(&word)) {
            return;
        }
        if self.unclaimed.len() >= MAX_UNCLAIMED {
            out.extend(self.unclaimed.pop_front().map(|oldest| Effect::Orphaned(oldest.word)));
        }
        self.unclaimed.push_back(Unclaimed { until: self.now + ADOPTION, supports, word });
    }

    /// Somebody wants to hear of an attempt now: its result may be here already.
    pub(super) fn claim_result(&mut self, token: LeaseToken, out: &mut Effects<K>) {
        let of_it = |kept: &Unclaimed<K>| {
            (kept.word.job, kept.word.attempt) == (token.job, Some(token.attempt))
        };
        if let Some(at) = self.unclaimed.iter().position(of_it)
            && let Some(Unclaimed { supports, word, .. }) = self.unclaimed.remove(at)
        {
            self.hear(supports, word, out);
        }
    }
}
