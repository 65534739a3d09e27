//! What is known of a node beyond its present connection: its standing. The store keeps it, and the next owner
//! of the node's connection begins from it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::breaker::{Breaker, BreakerMemory, Fault};
use super::event::{Effect, Effects, Kinds};
use super::machine::Machine;
use super::trust::{Trust, TrustMemory};
use crate::ids::JobId;
use crate::job::outcome::is_code;

/// Failures kept; the oldest go first.
const MAX_FAILURES: usize = 8;

/// Codes that are counted separately. A node may send its own, so further ones are counted together.
const MAX_CODES: usize = 16;

/// Codes beyond [`MAX_CODES`] are counted as this. So is a text that is no code: a node may put there what a
/// person said, which must not get into the store.
const OTHER_CODES: &str = "OTHER";

/// Jobs that a node did and failed, and what follows from them. Fields are only ever added: instances of two
/// neighbouring versions read what the other wrote.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reputation {
    /// When it was first seen, in epoch milliseconds.
    pub since_ms: u64,
    /// Jobs it did.
    pub done: u64,
    /// Jobs it failed by its own fault.
    pub failed: u64,
    /// Attempts that failed on it, by code.
    pub failed_by_code: BTreeMap<String, u64>,
    /// The last of them, the newest last.
    pub failures: VecDeque<NodeFailure>,
    /// Its breaker.
    pub breaker: BreakerMemory,
    /// How far it is trusted.
    pub trust: Option<TrustMemory>,
}

/// An attempt that failed on a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeFailure {
    /// When, in epoch milliseconds.
    pub at_ms: u64,
    /// Of which job.
    pub job: JobId,
    /// Why, as a code.
    pub code: String,
}

impl Reputation {
    /// An attempt failed on it.
    pub fn note_failure(&mut self, at_ms: u64, job: JobId, code: &str) {
        let code = if is_code(code) { code.to_owned() } else { OTHER_CODES.to_owned() };
        let is_counted = self.failed_by_code.contains_key(&code);
        let has_room = self.failed_by_code.len() < MAX_CODES - 1;
        let counted = if is_counted || has_room { code.clone() } else { OTHER_CODES.to_owned() };
        let count = self.failed_by_code.entry(counted).or_default();
        *count = count.saturating_add(1);
        if self.failures.len() >= MAX_FAILURES {
            self.failures.pop_front();
        }
        self.failures.push_back(NodeFailure { at_ms, job, code });
    }

    /// The last failures, the newest first.
    pub fn latest_failures(&self) -> Vec<NodeFailure> {
        self.failures.iter().rev().cloned().collect()
    }

    /// The same, so much later: pauses are shorter by that.
    pub fn aged(self, age: Duration) -> Self {
        Reputation { breaker: self.breaker.aged(age), ..self }
    }
}

impl<K: Kinds> Machine<K> {
    /// Begins from what the store knows of the node.
    pub(super) fn recall(&mut self, known: Option<Reputation>) {
        let Some(known) = known else { return };
        self.breaker = Breaker::recalled(known.breaker, self.now, &self.policy.breaker);
        if let Some(memory) = known.trust {
            self.arrival = Some(memory.arrival);
            let slow_start = self.policy.slow_start;
            self.trust = Trust::recalled(slow_start, memory.arrival, Some(memory));
        }
        let (done, failed) = self.totals_here();
        self.recalled = (known.done.saturating_sub(done), known.failed.saturating_sub(failed));
        self.ended_at_beat = known.done + known.failed;
        self.past = known;
    }

    /// The store may have lost everything.
    pub(super) fn on_store_back(&mut self) {
        self.sync.tell_now();
        self.sync.pending.put |= self.is_connected();
        self.reporting.hold_until = None;
        self.sync.pending.reputation |= self.past.done + self.past.failed > 0;
    }

    /// A job failed by the node's fault.
    pub(super) fn count_fault(&mut self, fault: Fault, out: &mut Effects<K>) {
        self.past.failed += 1;
        self.sync.pending.reputation = true;
        let was_aside = self.breaker.is_aside();
        let opened = self.breaker.failure(self.now, fault, &self.policy.breaker);
        if self.trust.failure(self.profile.max_slots) || opened {
            self.sync.pending.beat = true;
            out.push(Effect::FleetChanged);
        }
        if opened {
            out.push(Effect::BreakerOpened);
            self.tell_aside(out);
        }
        if self.breaker.is_aside() && !was_aside {
            out.push(Effect::PutAside);
        }
    }

    /// A job succeeded.
    pub(super) fn count_success(&mut self, out: &mut Effects<K>) {
        self.past.done += 1;
        self.sync.pending.reputation = true;
        let was_aside = self.breaker.is_aside();
        let closed = self.breaker.success(&self.policy.breaker);
        if closed && was_aside {
            out.push(Effect::BackInService);
        }
        if closed && let Some(arrival) = self.arrival {
            self.trust = Trust::new(self.policy.slow_start, arrival);
        }
        if self.trust.success(self.profile.max_slots) || closed {
            self.sync.pending.beat = true;
            out.push(Effect::FleetChanged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobId {
        "0000000000000000000000000a".parse().unwrap()
    }

    #[test]
    fn the_newest_failures_are_kept_and_told_first() {
        let mut known = Reputation::default();
        for at_ms in 0..20 {
            known.note_failure(at_ms, job(), "no code, but what was said");
        }
        let told = known.latest_failures();
        let times: Vec<u64> = told.iter().map(|failure| failure.at_ms).collect();
        assert_eq!(times, [19, 18, 17, 16, 15, 14, 13, 12]);
        assert!(told.iter().all(|failure| failure.code == OTHER_CODES));
        assert_eq!(known.failed_by_code.values().sum::<u64>(), 20);
    }

    #[test]
    fn a_node_that_makes_codes_up_takes_no_more_room_than_another() {
        let mut known = Reputation::default();
        for n in 0..1_000 {
            known.note_failure(n, job(), &format!("CODE_{n}"));
        }
        assert_eq!(known.failed_by_code.len(), MAX_CODES);
        assert_eq!(known.failed_by_code[OTHER_CODES], 1_000 - (MAX_CODES as u64 - 1));
        known.note_failure(0, job(), "CODE_3");
        assert_eq!(known.failed_by_code["CODE_3"], 2, "one that is counted is counted on");
    }
}
