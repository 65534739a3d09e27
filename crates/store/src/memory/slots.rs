//! Who holds which slot of which node until when.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::limits::{MAX_MODELS_PER_JOB, MAX_SLOTS};
use lingua_core::node::Health;
use lingua_core::planted::{self, Flaw};
use lingua_core::slots::{Commit, Confirmed, Grant, LeaseState, SPENT_RETENTION, Usage};
use lingua_core::{LeaseToken, Moment, NodeId};

use super::MemoryStore;
use super::nodes::{Node, Record};
use crate::error::{Error, Result, checked_ms};
use crate::journal::{Entry, Kind};
use crate::slots::{Confirm, Refusal, Report, Reserve, SlotLeases, Wish};

impl Node {
    fn reserve(&mut self, now: Moment, wish: &Wish<'_>) -> Reserve {
        let refusal = self.refusal(now, wish);
        let max = self.record.as_ref().map_or(0, |record| record.max);
        // What became of the token comes before what the node may take: with no slot to give, a
        // token that is known still gets its own answer.
        let open = if refusal.is_some() { 0 } else { max };
        match (self.leases.reserve(now, wish.token, wish.lease, open), refusal) {
            (Grant::Already(until), _) => Reserve::Already { until },
            (Grant::Spent, _) => Reserve::Spent,
            (Grant::Full, Some(refusal)) => Reserve::Refused(refusal),
            (Grant::Full, None) => Reserve::Full { used: self.leases.usage(now).used(), max },
            (Grant::Granted(until), _) => {
                Reserve::Granted { until, used: self.leases.usage(now).used() }
            }
        }
    }

    fn refusal(&self, now: Moment, wish: &Wish<'_>) -> Option<Refusal> {
        let Some(record) = &self.record else { return Some(Refusal::UnknownNode) };
        if record.version != wish.version && !planted::on(Flaw::ChangedNodeGrants) {
            Some(Refusal::Changed(record.version))
        } else if record.health != Health::Ready {
            Some(Refusal::Closed)
        } else if record.fresh_until <= now && !planted::on(Flaw::StaleNodeGrants) {
            Some(Refusal::Stale)
        } else if !record.confirmed && !planted::on(Flaw::GrantBeforeReport) {
            Some(Refusal::Unconfirmed)
        } else if record.hold_until > now && !planted::on(Flaw::GrantDuringHold) {
            Some(Refusal::Held(record.hold_until))
        } else if self.misses(now, wish.models) {
            Some(Refusal::MissingModel)
        } else {
            None
        }
    }

    fn confirm(&mut self, now: Moment, report: &Report<'_>) -> Confirm {
        let Some(record) = self.record.as_mut().filter(|r| r.epoch >= report.epoch) else {
            return Confirm::Unknown;
        };
        if record.epoch > report.epoch {
            return Confirm::Superseded { epoch: record.epoch };
        }
        let recovering = record.is_recovering(now);
        let (max, lease, grace) = (record.max, report.lease, report.grace);
        let confirmed = match report.running {
            Some(tokens) => self.leases.confirm(now, tokens, lease, grace, max, recovering),
            None => Confirmed::default(),
        };
        if !record.confirmed {
            let hold =
                if report.running.is_some() { report.reserve_lease } else { report.quarantine };
            record.confirmed = true;
            record.hold_until = now + hold;
        }
        Confirm::Confirmed(confirmed)
    }
}

impl Record {
    /// Whether leases may be missing that the node still works on.
    fn is_recovering(&self, now: Moment) -> bool {
        !self.confirmed || self.hold_until > now
    }
}

#[async_trait]
impl SlotLeases for MemoryStore {
    async fn reserve(&self, wish: &Wish<'_>) -> Result<Reserve> {
        checked_ms(wish.lease)?;
        if wish.models.len() > MAX_MODELS_PER_JOB {
            return Err(Error::Invalid("a job names at most 8 models"));
        }
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(wish.node);
        let reserve = match shard.nodes.get_mut(hash, wish.node) {
            Some(node) => node.reserve(now, wish),
            None => Reserve::Refused(Refusal::UnknownNode),
        };
        if let Reserve::Granted { until, .. } = reserve {
            self.note_lease(wish.node, wish.token, LeaseState::Reserved(until));
        }
        drop(shard);
        self.kept(reserve)
    }

    async fn commit(&self, node: &NodeId, token: LeaseToken, lease: Duration) -> Result<Commit> {
        checked_ms(lease)?;
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        let Some(known) = shard.nodes.get_mut(hash, node) else { return Ok(Commit::Lost) };
        let record = known.record.as_ref();
        let max = record.map_or(0, |record| record.max);
        let recovering = record.is_some_and(|record| record.is_recovering(now));
        let commit = known.leases.commit(now, token, lease, max, recovering);
        if let Commit::Committed(until) | Commit::Already(until) | Commit::Regained(until) = commit
        {
            self.note_lease(node, token, LeaseState::Running(until));
        }
        drop(shard);
        self.kept(commit)
    }

    async fn renew(
        &self,
        node: &NodeId,
        token: LeaseToken,
        lease: Duration,
    ) -> Result<Option<Moment>> {
        checked_ms(lease)?;
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        let known = shard.nodes.get_mut(hash, node);
        let renewed = known.and_then(|known| known.leases.renew(now, &token, lease));
        if let Some(until) = renewed {
            self.note_lease(node, token, LeaseState::Running(until));
        }
        drop(shard);
        self.kept(renewed)
    }

    async fn release(&self, node: &NodeId, token: LeaseToken) -> Result<bool> {
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        let freed = shard.spending(now, hash, node).leases.release(now, token);
        self.note_lease(node, token, LeaseState::Spent(now));
        drop(shard);
        self.kept(freed)
    }

    async fn confirm(&self, node: &NodeId, report: &Report<'_>) -> Result<Confirm> {
        let Report { lease, grace, reserve_lease, quarantine, .. } = *report;
        for duration in [lease, grace, reserve_lease, quarantine] {
            checked_ms(duration)?;
        }
        if report.running.is_some_and(|tokens| tokens.len() > MAX_SLOTS as usize) {
            return Err(Error::Invalid("a node runs at most 256 jobs"));
        }
        let now = self.change()?;
        let (hash, mut shard) = self.nodes.shards.of(node);
        let Some(known) = shard.nodes.get_mut(hash, node) else { return Ok(Confirm::Unknown) };
        let confirm = known.confirm(now, report);
        if let Confirm::Confirmed(confirmed) = &confirm {
            self.note(|journal| known.note(journal, node));
            for token in report.running.unwrap_or_default() {
                if !confirmed.unknown.contains(token) {
                    self.note_lease(node, *token, LeaseState::Running(now + lease));
                }
            }
            for token in &confirmed.dropped {
                self.note_lease(node, *token, LeaseState::Spent(now));
            }
        }
        drop(shard);
        self.kept(confirm)
    }

    async fn usage(&self, node: &NodeId) -> Result<Usage> {
        let now = self.clock.now();
        let (hash, shard) = self.nodes.shards.of(node);
        Ok(shard.nodes.get(hash, node).map_or_else(Usage::default, |node| node.leases.usage(now)))
    }
}

impl MemoryStore {
    /// The value is a word, a moment and the token.
    fn note_lease(&self, node: &NodeId, token: LeaseToken, held: LeaseState) {
        self.note(|journal| {
            let (word, at) = match held {
                LeaseState::Reserved(until) => ("reserved", until),
                LeaseState::Running(until) => ("running", until),
                LeaseState::Spent(at) => ("spent", at),
            };
            let nonce = token.spelled_nonce();
            let key = [node.as_str(), nonce.as_str()];
            let value = format!("{word} {} {token}", at.as_millis());
            journal.note_bytes(Kind::Lease, &key, at + SPENT_RETENTION, value.as_bytes());
        });
    }

    /// Puts back what was kept of leases, in the order of their moments; gives the first that cannot be read.
    pub(super) fn put_back_leases<'a>(
        &self,
        entries: &[&'a Entry],
    ) -> std::result::Result<(), &'a Entry> {
        let now = self.clock.now();
        let mut leases = Vec::with_capacity(entries.len());
        for entry in entries {
            leases.push(read_lease(entry).ok_or(*entry)?);
        }
        leases.sort_by_key(|(at, ..)| *at);
        for (_, node, token, held) in leases {
            let (hash, mut shard) = self.nodes.shards.of(&node);
            // As a mark, so that it is forgotten if the node has no record.
            shard.spending(now, hash, &node).leases.put_back(token, held);
        }
        Ok(())
    }
}

fn read_lease(entry: &Entry) -> Option<(Moment, NodeId, LeaseToken, LeaseState)> {
    let mut words = std::str::from_utf8(&entry.value).ok()?.split(' ');
    let (word, at, token) = (words.next()?, words.next()?, words.next()?);
    let at = Moment::from_millis(at.parse().ok()?);
    let held = match word {
        "reserved" => LeaseState::Reserved(at),
        "running" => LeaseState::Running(at),
        "spent" => LeaseState::Spent(at),
        _ => return None,
    };
    Some((at, entry.id(0)?, token.parse().ok()?, held))
}
