//! Slow start: how many slots of a node are chosen like those of any other. What a node without a credential
//! declares is not believed at once.

use serde::{Deserialize, Serialize};

/// Which nodes start slowly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowStart {
    /// Nodes without a credential.
    Strangers,
    /// Every node.
    All,
    /// No node starts slowly.
    Off,
}

/// How a node was admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Without a credential, from the scheduler's own machine.
    Local,
    /// Without a credential, from another machine.
    Open,
    /// With a credential that the operator gave it.
    Credential,
}

/// With so many successes a node has a good record, and all declared slots are trusted. A failure costs
/// [`FAILURE_COSTS`] of them, so a node that fails one job of nine never has a good record.
pub const GOOD_RECORD: u32 = 64;

/// Successes that a failure takes from a node's record.
const FAILURE_COSTS: u32 = 8;

/// Begins with one slot and doubles with every success, up to what the node declares, or all of it with a good
/// record. Slots above that are a last resort. Of a node with a credential they are not opened at all: it starts
/// slowly only if the operator, who gave the credential, configured that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trust {
    earned: u32,
    /// Successes towards a good record.
    successes: u32,
    unearned: Unearned,
}

/// How slots are used that are not earned yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unearned {
    /// They are like the others.
    Open,
    /// They are used when no other slot is free.
    LastResort,
    /// They are not opened.
    Closed,
}

/// A node's trust as the store keeps it, for the next owner of the node's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TrustMemory {
    /// How it was admitted then. Trust counts only for the same way of admission: otherwise it may be another
    /// machine of the same name.
    pub arrival: Arrival,
    /// Slots that it earned.
    pub earned: u32,
    /// Successes towards a good record.
    pub successes: u32,
}

impl Trust {
    /// Of a node without a record.
    pub fn new(slow_start: SlowStart, arrival: Arrival) -> Self {
        let slowly = match slow_start {
            SlowStart::Strangers => arrival == Arrival::Open,
            SlowStart::All => true,
            SlowStart::Off => false,
        };
        let unearned = match (slowly, arrival) {
            (false, _) => Unearned::Open,
            (true, Arrival::Credential) => Unearned::Closed,
            (true, Arrival::Local | Arrival::Open) => Unearned::LastResort,
        };
        Trust { earned: 1, successes: 0, unearned }
    }

    /// Of a node that the store may know.
    pub fn recalled(slow_start: SlowStart, arrival: Arrival, memory: Option<TrustMemory>) -> Self {
        let new = Trust::new(slow_start, arrival);
        match memory.filter(|memory| memory.arrival == arrival) {
            Some(TrustMemory { earned, successes, .. }) => {
                Trust { earned: earned.max(1), successes, ..new }
            }
            None => new,
        }
    }

    /// What is to be remembered of it.
    pub fn memory(&self, arrival: Arrival) -> TrustMemory {
        TrustMemory { arrival, earned: self.earned, successes: self.successes }
    }

    /// Slots that are chosen like those of any other node.
    pub fn trusted(&self, declared: u32) -> u32 {
        let all = self.unearned == Unearned::Open || self.successes >= GOOD_RECORD;
        if all { declared } else { self.earned.min(declared) }
    }

    /// Slots open to jobs of those declared.
    pub fn open(&self, declared: u32) -> u32 {
        match self.unearned {
            Unearned::Open | Unearned::LastResort => declared,
            Unearned::Closed => self.trusted(declared),
        }
    }

    /// A job succeeded. Says whether more is trusted now.
    pub fn success(&mut self, declared: u32) -> bool {
        let before = self.trusted(declared);
        // Not beyond what is declared: a larger declaration later must be earned as well.
        self.earned = self.earned.saturating_mul(2).min(declared.max(self.earned));
        self.successes = self.successes.saturating_add(1).min(2 * GOOD_RECORD);
        self.trusted(declared) != before
    }

    /// A job failed by the node's fault. Says whether less is trusted now.
    pub fn failure(&mut self, declared: u32) -> bool {
        let before = self.trusted(declared);
        self.successes = self.successes.saturating_sub(FAILURE_COSTS);
        self.trusted(declared) != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flaw 16.
    #[test]
    fn a_stranger_with_a_million_slots_is_trusted_with_one() {
        let mut trust = Trust::new(SlowStart::Strangers, Arrival::Open);
        assert_eq!(trust.trusted(1_000_000), 1);
        assert!(trust.success(6) && trust.success(6));
        assert_eq!(trust.trusted(6), 4);
        assert!(trust.success(6) && !trust.success(6));
        assert_eq!(trust.trusted(6), 6);
        assert_eq!(trust.trusted(100), 6, "more is earned, not said");
        assert!(trust.success(100));
    }

    #[test]
    fn only_under_a_credential_slots_are_held_back() {
        for (slow_start, arrival, trusted, open) in [
            (SlowStart::Strangers, Arrival::Local, 4, 4),
            (SlowStart::Strangers, Arrival::Open, 1, 4),
            (SlowStart::Strangers, Arrival::Credential, 4, 4),
            (SlowStart::All, Arrival::Local, 1, 4),
            (SlowStart::All, Arrival::Open, 1, 4),
            (SlowStart::All, Arrival::Credential, 1, 1),
            (SlowStart::Off, Arrival::Open, 4, 4),
            (SlowStart::Off, Arrival::Credential, 4, 4),
        ] {
            let trust = Trust::new(slow_start, arrival);
            let found = (trust.trusted(4), trust.open(4));
            assert_eq!(found, (trusted, open), "{slow_start:?} {arrival:?}");
        }
    }

    #[test]
    fn a_node_that_comes_back_the_same_way_begins_with_what_it_earned() {
        let mut trust = Trust::new(SlowStart::All, Arrival::Credential);
        for _ in 0..2 {
            trust.success(8);
        }
        let memory = Some(trust.memory(Arrival::Credential));
        let again = |arrival, memory| Trust::recalled(SlowStart::All, arrival, memory).trusted(8);
        assert_eq!(again(Arrival::Credential, memory), 4);
        assert_eq!(again(Arrival::Open, memory), 1, "anybody can use a name");
        assert_eq!(again(Arrival::Credential, None), 1);
        let nonsense = TrustMemory { arrival: Arrival::Open, earned: 0, successes: 0 };
        assert_eq!(again(Arrival::Open, Some(nonsense)), 1, "never none");
    }

    #[test]
    fn a_good_record_is_trusted_with_all_and_is_lost_by_failing() {
        let mut trust = Trust::new(SlowStart::Strangers, Arrival::Open);
        for _ in 0..GOOD_RECORD {
            trust.success(2);
        }
        assert_eq!(trust.trusted(200), 200);
        let memory = Some(trust.memory(Arrival::Open));
        let again = Trust::recalled(SlowStart::Strangers, Arrival::Open, memory);
        assert_eq!(again.trusted(200), 200, "for whoever has its connection next");
        assert!(trust.failure(200));
        assert_eq!(trust.trusted(200), 2, "what it earned slot by slot");
        // One failure in nine jobs never makes a good record.
        let mut fails = Trust::new(SlowStart::Strangers, Arrival::Open);
        for _ in 0..1_000 {
            for _ in 0..FAILURE_COSTS {
                fails.success(2);
            }
            fails.failure(2);
            assert_eq!(fails.trusted(200), 2);
        }
    }
}
