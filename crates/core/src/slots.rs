//! Capacity as a set of leases, never a counter.
//!
//! A slot is held by a [`LeaseToken`] until a moment. Reserved leases are short and wait for the
//! node's ack, running ones are renewed while the node works. What nobody renews is free one lease
//! later with nobody acting, and every step may be repeated.
//!
//! A token is used once. When it is released it leaves a mark behind, so that a late or repeated
//! message for it finds it *spent* and can neither take a slot nor bring one back. A lease that
//! merely lapsed is remembered for as long, and may be regained while a slot is free.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::time::Duration;

use crate::ids::{BASE32, IdError, JobId};
use crate::planted::{self, Flaw};
use crate::time::Moment;

/// How long a spent or lapsed token is remembered, counted from a moment that may lie up to 15 s
/// before it was spent: longer than any message is on its way.
pub const SPENT_RETENTION: Duration = Duration::from_secs(45);

/// Marks of spent tokens kept per node; a node that ends more jobs within the retention loses the
/// oldest marks, and the job's own fence still stands.
pub const MAX_SPENT: usize = 512;

/// The name of one slot held for one attempt of one job. The nonce makes it unguessable and tells
/// two dispatches of the same attempt apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken {
    /// The job.
    pub job: JobId,
    /// Which dispatch of it, from 1.
    pub attempt: u32,
    /// 128 bits of chance.
    pub nonce: u128,
}

impl Hash for LeaseToken {
    // The nonce alone tells tokens apart.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.nonce);
    }
}

const NONCE_CHARS: usize = 26;

/// The last part of a token as it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Nonce([u8; NONCE_CHARS]);

impl Nonce {
    /// Its characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("base32 is ASCII")
    }
}

impl LeaseToken {
    /// The nonce as it stands at the token's end.
    pub fn spelled_nonce(&self) -> Nonce {
        // As `base32` does, in a fraction of the time: every step of a job spells a token.
        let mut text = [0; NONCE_CHARS];
        for (i, slot) in text[..25].iter_mut().enumerate() {
            *slot = BASE32[(self.nonce >> (123 - 5 * i)) as usize & 31];
        }
        text[25] = BASE32[(self.nonce as usize & 7) << 2];
        Nonce(text)
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.job.as_str())?;
        write!(f, ".{}.", self.attempt)?;
        f.write_str(self.spelled_nonce().as_str())
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The nonce is a secret between the scheduler and one node: it stays out of logs.
        write!(f, "LeaseToken({}.{})", self.job, self.attempt)
    }
}

/// Not a lease token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lease token is a job id, an attempt number and a nonce, with dots between them")]
pub struct NotAToken;

impl From<IdError> for NotAToken {
    fn from(_: IdError) -> Self {
        NotAToken
    }
}

impl FromStr for LeaseToken {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let mut parts = text.split('.');
        let (Some(job), Some(attempt), Some(nonce), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotAToken);
        };
        let number: u32 = attempt.parse().map_err(|_| NotAToken)?;
        if nonce.len() != NONCE_CHARS || attempt.len() != number.to_string().len() {
            return Err(NotAToken);
        }
        // 26 characters hold 130 bits; the last two must be the zeros that `Display` wrote.
        let mut bits: u128 = 0;
        for (i, byte) in nonce.bytes().enumerate() {
            let value = BASE32.iter().position(|c| *c == byte).ok_or(NotAToken)? as u128;
            bits = match i {
                25 if value & 3 != 0 => return Err(NotAToken),
                25 => (bits << 3) | (value >> 2),
                _ => (bits << 5) | value,
            };
        }
        Ok(LeaseToken { job: job.parse()?, attempt: number, nonce: bits })
    }
}

/// How many slots of a node are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Held for jobs on their way.
    pub reserved: u32,
    /// Held for jobs being worked on.
    pub running: u32,
}

impl Usage {
    /// Slots taken.
    pub fn used(self) -> u32 {
        self.reserved + self.running
    }

    /// Slots left of `max`; none when `max` was lowered below what is taken.
    pub fn free(self, max: u32) -> u32 {
        max.saturating_sub(self.used())
    }
}

/// What became of a wish for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grant {
    /// The token holds a slot until then.
    Granted(Moment),
    /// It held one already; nothing changed.
    Already(Moment),
    /// It had its slot and is done; it never gets another.
    Spent,
    /// Every slot is taken.
    Full,
}

/// What became of an ack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// The reserved slot is a running one until then.
    Committed(Moment),
    /// It was running; now until then.
    Already(Moment),
    /// The lease had lapsed, and a slot was free to have it back until then.
    Regained(Moment),
    /// No slot for this token: the node must be told to stop.
    Lost,
}

/// What became of a report of running jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Confirmed {
    /// Reported by the node and unknown, spent or without a slot: it must be told to stop.
    pub unknown: Vec<LeaseToken>,
    /// Held for the node and no longer run by it: released now.
    pub dropped: Vec<LeaseToken>,
}

/// The leases of one node.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    reserved: Vec<Lease>,
    running: Vec<Lease>,
    /// Spent tokens by their nonces, which no two share, and the order in which to forget them.
    spent: HashSet<u128, crate::hash::Fast>,
    spent_order: VecDeque<(Moment, u128)>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    token: LeaseToken,
    until: Moment,
}

fn find(leases: &[Lease], token: &LeaseToken) -> Option<usize> {
    leases.iter().position(|lease| lease.token == *token)
}

fn live(leases: &[Lease], now: Moment) -> u32 {
    let live = |lease: &&Lease| lease.until > now || planted::on(Flaw::LeaseNeverLapses);
    leases.iter().filter(live).count() as u32
}

/// What a token has, as it is written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseState {
    /// A slot for a job on its way, until then.
    Reserved(Moment),
    /// A slot for a job being worked on, until then.
    Running(Moment),
    /// Nothing any more, since then.
    Spent(Moment),
}

impl Leases {
    /// Puts back what was written down of a token. Tokens come in the order of their moments.
    pub fn put_back(&mut self, token: LeaseToken, held: LeaseState) {
        match held {
            LeaseState::Reserved(until) => self.reserved.push(Lease { token, until }),
            LeaseState::Running(until) => self.running.push(Lease { token, until }),
            LeaseState::Spent(at) => self.mark_spent(at, token),
        }
    }

    /// Slots taken at `now`. A lease that ends at `now` takes none.
    pub fn usage(&self, now: Moment) -> Usage {
        Usage { reserved: live(&self.reserved, now), running: live(&self.running, now) }
    }

    /// Takes a slot for `token` if fewer than `max` are taken.
    pub fn reserve(&mut self, now: Moment, token: LeaseToken, lease: Duration, max: u32) -> Grant {
        let known = [&self.reserved, &self.running]
            .into_iter()
            .find_map(|set| find(set, &token).map(|i| set[i].until));
        match known {
            _ if planted::on(Flaw::RepeatTakesSecondSlot) => {}
            Some(until) if until > now => return Grant::Already(until),
            Some(_) => return Grant::Spent,
            None if self.spent.contains(&token.nonce) => return Grant::Spent,
            None => {}
        }
        if self.usage(now).used() >= max {
            return Grant::Full;
        }
        self.forget_old(now);
        let until = now + lease;
        self.reserved.push(Lease { token, until });
        Grant::Granted(until)
    }

    /// Makes the reserved slot of `token` a running one. A lapsed lease comes back while fewer than
    /// `max` slots are taken; while `recovering` from a loss, so does one that is not known at all.
    pub fn commit(
        &mut self,
        now: Moment,
        token: LeaseToken,
        lease: Duration,
        max: u32,
        recovering: bool,
    ) -> Commit {
        let until = now + lease;
        let reserved = find(&self.reserved, &token);
        let running = find(&self.running, &token);
        let held = reserved.map(|i| self.reserved[i]).or(running.map(|i| self.running[i]));
        let live = held.is_some_and(|lease| lease.until > now);
        if !live {
            let remembered = held.is_some() || (recovering && !self.spent.contains(&token.nonce));
            let full = self.usage(now).used() >= max && !planted::on(Flaw::LateAckTakesSlot);
            if !remembered || full {
                return Commit::Lost;
            }
        }
        if let Some(i) = running {
            self.running[i].until = until;
        } else {
            reserved.map(|i| self.reserved.swap_remove(i));
            self.running.push(Lease { token, until });
        }
        match (live, running) {
            (false, _) => Commit::Regained(until),
            (true, Some(_)) => Commit::Already(until),
            (true, None) => Commit::Committed(until),
        }
    }

    /// Extends a live running lease; `None` if there is none.
    pub fn renew(&mut self, now: Moment, token: &LeaseToken, lease: Duration) -> Option<Moment> {
        let i = find(&self.running, token).filter(|i| self.running[*i].until > now)?;
        self.running[i].until = now + lease;
        Some(self.running[i].until)
    }

    /// Gives the slot back and marks the token spent, also one that was never seen: a release that
    /// overtakes its own reservation wins. Says whether a live slot became free.
    pub fn release(&mut self, now: Moment, token: LeaseToken) -> bool {
        let mut freed = false;
        for set in [&mut self.reserved, &mut self.running] {
            let any = (planted::on(Flaw::ReleaseFreesAnother) && !set.is_empty()).then_some(0);
            if let Some(i) = find(set, &token).or(any) {
                freed |= set.swap_remove(i).until > now;
            }
        }
        self.mark_spent(now, token);
        freed
    }

    /// Takes the node's word on what it runs: renews what is known, releases what it no longer runs
    /// (unless renewed within `grace`, when its ack may have overtaken this report) and names what
    /// it should stop. While `recovering`, unknown tokens are taken back as they are: the store lost
    /// its data and the node is the only one who knows.
    pub fn confirm(
        &mut self,
        now: Moment,
        reported: &[LeaseToken],
        lease: Duration,
        grace: Duration,
        max: u32,
        recovering: bool,
    ) -> Confirmed {
        let mut confirmed = Confirmed::default();
        let recovering = recovering || planted::on(Flaw::UnknownJobsGetSlots);
        let grace = if planted::on(Flaw::ReportDropsNewer) { Duration::ZERO } else { grace };
        // First what is gone, so that its slots are free for lapsed leases that the node names.
        let recent = now + lease.saturating_sub(grace);
        let gone = |lease: &Lease| {
            lease.until > now && lease.until <= recent && !reported.contains(&lease.token)
        };
        confirmed.dropped = self.running.iter().filter(|l| gone(l)).map(|l| l.token).collect();
        for token in &confirmed.dropped {
            self.release(now, *token);
        }
        // What runs, runs: after a loss it is taken back also above the maximum.
        let max = if recovering { u32::MAX } else { max };
        for token in reported {
            if self.commit(now, *token, lease, max, recovering) == Commit::Lost {
                confirmed.unknown.push(*token);
            }
        }
        self.forget_old(now);
        confirmed
    }

    fn mark_spent(&mut self, now: Moment, token: LeaseToken) {
        if planted::on(Flaw::SpentTokenForgotten) {
            return;
        }
        if self.spent.insert(token.nonce) {
            self.spent_order.push_back((now, token.nonce));
        }
        if self.spent_order.len() > MAX_SPENT
            && let Some((_, oldest)) = self.spent_order.pop_front()
        {
            self.spent.remove(&oldest);
        }
    }

    fn forget_old(&mut self, now: Moment) {
        while let Some((at, nonce)) = self.spent_order.front()
            && *at + SPENT_RETENTION <= now
        {
            self.spent.remove(nonce);
            self.spent_order.pop_front();
        }
        for set in [&mut self.reserved, &mut self.running] {
            set.retain(|lease| lease.until + SPENT_RETENTION > now);
        }
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SessionId, SessionKey, TenantId};

    const LEASE: Duration = Duration::from_millis(100);
    const GRACE: Duration = Duration::from_millis(20);

    pub(super) fn token(n: u128) -> LeaseToken {
        let session = SessionKey::new(TenantId::new("t").unwrap(), SessionId::new("s").unwrap());
        LeaseToken { job: JobId::derive(session.tag(), &[1; 32]), attempt: 1, nonce: n }
    }

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn tokens_parse_back_and_other_text_is_refused() {
        for nonce in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let token = LeaseToken { attempt: u32::MAX, ..token(nonce) };
            assert_eq!(token.to_string().parse(), Ok(token));
            assert!(token.to_string().len() <= 64, "short enough for a compact sorted set");
        }
        let good = token(5).to_string();
        for bad in ["", "a.b.c", &good[1..], &format!("{good}.1"), &good.replace(".1.", ".01.")] {
            assert_eq!(bad.parse::<LeaseToken>(), Err(NotAToken), "{bad:?}");
        }
        let last_bits = format!("{}z", &good[..good.len() - 1]);
        assert_eq!(last_bits.parse::<LeaseToken>(), Err(NotAToken), "one token has one spelling");
    }

    #[test]
    fn a_slot_that_nobody_renews_is_free_one_lease_later() {
        let mut leases = Leases::default();
        assert_eq!(leases.reserve(at(0), token(1), LEASE, 1), Grant::Granted(at(100)));
        assert_eq!(leases.reserve(at(99), token(2), LEASE, 1), Grant::Full);
        assert_eq!(leases.reserve(at(100), token(2), LEASE, 1), Grant::Granted(at(200)));
    }

    #[test]
    fn repeating_any_step_changes_nothing() {
        let mut leases = Leases::default();
        leases.reserve(at(0), token(1), LEASE, 1);
        assert_eq!(leases.reserve(at(10), token(1), LEASE, 1), Grant::Already(at(100)));
        assert_eq!(leases.commit(at(20), token(1), LEASE, 1, false), Commit::Committed(at(120)));
        assert_eq!(leases.commit(at(20), token(1), LEASE, 1, false), Commit::Already(at(120)));
        assert_eq!(leases.reserve(at(20), token(1), LEASE, 1), Grant::Already(at(120)));
        assert!(leases.release(at(30), token(1)));
        assert!(!leases.release(at(30), token(1)));
        assert_eq!(leases.usage(at(30)), Usage::default());
    }

    #[test]
    fn a_spent_token_never_gets_a_slot_again() {
        let mut leases = Leases::default();
        leases.reserve(at(0), token(1), LEASE, 1);
        leases.release(at(10), token(1));
        assert_eq!(leases.reserve(at(11), token(1), LEASE, 1), Grant::Spent);
        assert_eq!(leases.commit(at(11), token(1), LEASE, 1, true), Commit::Lost);
        leases.release(at(12), token(2));
        assert_eq!(leases.reserve(at(13), token(2), LEASE, 1), Grant::Spent);
    }

    #[test]
    fn a_late_ack_regains_a_free_slot_and_never_a_taken_one() {
        let mut leases = Leases::default();
        leases.reserve(at(0), token(1), LEASE, 1);
        assert_eq!(leases.commit(at(150), token(1), LEASE, 1, false), Commit::Regained(at(250)));
        leases.reserve(at(300), token(2), LEASE, 1);
        assert_eq!(leases.commit(at(301), token(1), LEASE, 1, false), Commit::Lost);
    }

    #[test]
    fn an_unknown_token_gets_a_slot_only_while_recovering_from_a_loss() {
        let mut leases = Leases::default();
        assert_eq!(leases.commit(at(0), token(1), LEASE, 1, false), Commit::Lost);
        assert_eq!(leases.commit(at(0), token(1), LEASE, 1, true), Commit::Regained(at(100)));
        assert_eq!(leases.commit(at(0), token(2), LEASE, 1, true), Commit::Lost);
    }

    #[test]
    fn a_report_renews_drops_and_names_strangers() {
        let mut leases = Leases::default();
        for n in 1..=3 {
            leases.reserve(at(0), token(n), LEASE, 3);
            leases.commit(at(0), token(n), LEASE, 3, false);
        }
        leases.renew(at(45), &token(3), LEASE);
        let confirmed = leases.confirm(at(50), &[token(1), token(9)], LEASE, GRACE, 3, false);
        assert_eq!(confirmed.unknown, [token(9)]);
        assert_eq!(confirmed.dropped, [token(2)], "3 was renewed within the grace");
        assert_eq!(leases.usage(at(120)), Usage { reserved: 0, running: 2 });
    }

    #[test]
    fn after_a_loss_the_nodes_word_puts_its_leases_back() {
        let mut leases = Leases::default();
        let confirmed = leases.confirm(at(0), &[token(1), token(2)], LEASE, GRACE, 1, true);
        assert_eq!(confirmed, Confirmed::default());
        assert_eq!(leases.usage(at(1)).running, 2, "what runs, runs, also above the maximum");
    }

    #[test]
    fn marks_of_spent_tokens_are_bounded_in_time_and_number() {
        let mut leases = Leases::default();
        for n in 0..=(MAX_SPENT as u128) {
            leases.release(at(0), token(n));
        }
        assert_eq!(leases.spent.len(), MAX_SPENT);
        leases.reserve(at(0) + SPENT_RETENTION, token(u128::MAX), LEASE, 1);
        assert_eq!((leases.spent.len(), leases.spent_order.len()), (0, 0));
    }
}
