//! How many slots of a node are filled like any other's: what a stranger says of itself is not
//! believed at once.

use serde::{Deserialize, Serialize};

/// Whose slots are filled slowly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowStart {
    /// Those of nodes that nobody vouches for.
    Strangers,
    /// Those of every node.
    All,
    /// No node starts slowly.
    Off,
}

/// How a node came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Without a credential, from the scheduler's own machine.
    Local,
    /// Without a credential, from elsewhere: a stranger.
    Open,
    /// With a credential that the operator gave it.
    Credential,
}

/// Begins with one slot and doubles with every success, up to what the node declares. What is above
/// that is a last resort, and only under a credential it is held back: then the operator, who gives
/// out credentials and can be asked, wants it so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trust {
    earned: u32,
    /// Slots that are not earned are not opened at all.
    held: bool,
}

impl Trust {
    /// Of a node that has shown nothing yet.
    pub fn new(slow_start: SlowStart, arrival: Arrival) -> Self {
        let slowly = match slow_start {
            SlowStart::Strangers => arrival == Arrival::Open,
            SlowStart::All => true,
            SlowStart::Off => false,
        };
        let earned = if slowly { 1 } else { u32::MAX };
        Trust { earned, held: slowly && arrival == Arrival::Credential }
    }

    /// Slots that are filled like any other node's.
    pub fn trusted(&self, declared: u32) -> u32 {
        self.earned.min(declared)
    }

    /// Slots open to jobs of those declared.
    pub fn open(&self, declared: u32) -> u32 {
        if self.held { self.trusted(declared) } else { declared }
    }

    /// A job succeeded. Says whether more is trusted now.
    pub fn success(&mut self, declared: u32) -> bool {
        let before = self.trusted(declared);
        // Not beyond what is declared: a later, larger word must be earned as well.
        self.earned = self.earned.saturating_mul(2).min(declared.max(self.earned));
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
}
