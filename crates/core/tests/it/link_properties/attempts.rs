//! Plays what jobs and the node do with attempts.

use std::time::Duration;

use lingua_core::LeaseToken;
use lingua_core::link::event::{JobMessage, MessageKind, ToNode, TokenClaim};
use lingua_core::link::{Effect, Event, NewAttempt};

use super::checker::*;
use super::driver::{Driver, job};
use super::{Fence, Op};

impl Driver {
    pub fn message(&mut self, which: u8, fence: Fence, kind: MessageKind) {
        let Some(token) = self.pick(which) else { return };
        let mut message = JobMessage {
            job: token.job,
            attempt: Some(token.attempt),
            token: TokenClaim::Nonce(token.nonce),
            kind,
            payload: token.nonce,
        };
        let mut epoch = self.node.epoch();
        match fence {
            Fence::Right => {
                if self.node.is_connected() {
                    if kind.frees_slot() {
                        self.runs.retain(|runs| *runs != token);
                    }
                    let acks = matches!(kind, MessageKind::Ack | MessageKind::Started);
                    if acks && self.node.listener(&token.job, token.attempt).is_some() {
                        let lease = self.node.running_lease();
                        self.ledger.commit(self.now, token, lease, self.max, false);
                        self.feed(Event::Extended { token, lease });
                    }
                }
                return self.feed(Event::Message { epoch, message });
            }
            Fence::OlderConnection => epoch -= 1,
            Fence::OtherAttempt => message.attempt = Some(token.attempt + 1),
            Fence::OtherToken => message.token = TokenClaim::Nonce(u128::MAX),
            Fence::UnknownJob => message.job = job(2_000_000 + u32::from(which)),
        }
        self.feed_without_effect(Event::Message { epoch, message });
    }

    pub fn assign(&mut self, granted: bool) {
        let token = self.new_token();
        if granted {
            let lease = Duration::from_secs(3);
            let grant = self.ledger.reserve(self.now, token, lease, self.max);
            if !matches!(grant, lingua_core::slots::Grant::Granted(_)) {
                return;
            }
        }
        let held = self.node.attempts().count();
        let attempt = self.attempt(token, None);
        let account = Account {
            token,
            stand: Stand::Wanted,
            sent_over: Some(self.node.epoch()),
            wanted_until: None,
        };
        // Known to the account before it is sent, as the machine knows it before the node does.
        self.checker.accounts.insert(token.nonce, account);
        self.feed_assign(attempt, token);
        if self.node.attempts().count() == held {
            self.ledger.release(self.now, token);
        }
    }

    /// The same attempt again, as a message that is read twice: the node gets it once.
    pub fn assign_again(&mut self, which: u8) {
        self.feed(Event::Tick);
        if let Some(token) = self.pick(which).filter(|_| self.node.is_connected()) {
            let attempt = self.attempt(token, None);
            self.feed_without_effect(Event::AssignWanted { attempt, assignment: token });
        }
    }

    fn feed_assign(&mut self, attempt: NewAttempt<u128>, token: LeaseToken) {
        let event = Event::AssignWanted { attempt, assignment: token };
        let effects = self.node.on_event(self.now, event);
        if effects.iter().any(|effect| matches!(effect, Effect::NotAssigned(_))) {
            self.checker.accounts.remove(&token.nonce);
        }
        self.checker.after(&self.node, self.now, false, effects);
        for message in std::mem::take(&mut self.checker.sent) {
            if let ToNode::Assign(token) = message {
                self.runs.push(token);
            }
        }
    }

    pub fn adopt(&mut self, known: u8) {
        let token = match self.pick(known).filter(|_| known.is_multiple_of(2)) {
            Some(token) => token,
            None => self.new_token(),
        };
        if self.checker.released.contains(&token.nonce) {
            return;
        }
        self.feed(Event::Tick);
        let until = self.now + Duration::from_secs(30);
        let new = Account { token, stand: Stand::Wanted, sent_over: None, wanted_until: None };
        let account = self.checker.accounts.entry(token.nonce).or_insert(new);
        account.wanted_until = Some(until);
        if account.stand == Stand::Left {
            account.stand = Stand::Wanted;
        }
        let attempt = self.attempt(token, Some(until));
        self.feed(Event::Adopted(attempt));
    }

    fn leave(&mut self, token: LeaseToken) {
        if let Some(account) = self.checker.accounts.get_mut(&token.nonce) {
            account.stand = Stand::Left;
        }
    }

    /// What a job, or the connection, does with one of its attempts.
    pub fn play_job(&mut self, op: Op, token: LeaseToken) {
        let (job, attempt) = (token.job, token.attempt);
        match op {
            Op::GiveUp { blame, .. } => {
                if blame {
                    self.feed(Event::AttemptFailed { job, attempt, failed: None });
                }
                self.leave(token);
                let slot = self.slot();
                self.feed(Event::GivenUp { job, attempt, reason: "given_up", slot });
            }
            Op::End { .. } => {
                self.leave(token);
                self.feed(Event::Ended { job, attempt });
                // The job gives the slot back itself.
                if self.checker.released.insert(token.nonce) {
                    self.ledger.release(self.now, token);
                }
            }
            Op::Abandon { .. } => {
                self.leave(token);
                let slot = self.slot();
                self.feed(Event::Abandoned { job, attempt, slot });
            }
            Op::NotQueued { .. } => {
                self.leave(token);
                self.feed(Event::NotQueued { token });
            }
            Op::SendFailed { stale, .. } => {
                let epoch = self.node.epoch().saturating_sub(u64::from(stale));
                self.feed(Event::SendFailed { epoch, job, attempt });
            }
            _ => unreachable!("not about one attempt"),
        }
    }
}
