//! Whether an owner may say that a node of which the store has no record has no earlier life.
//!
//! If the store was lost together with the process that knew the node, the node may still work on jobs
//! of that life, and nobody here knows of them.

use std::time::Duration;

use crate::planted::{self, Flaw};

/// What an owner knows when a node registers of which the store may have no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acquaintance {
    /// This instance knew it before, or knows it as another instance's.
    pub known: bool,
    /// So many jobs it runs by its own word; `None` if it does not say.
    pub runs: Option<usize>,
    /// How long the process has been there.
    pub process_age: Duration,
    /// The longest that a slot stays taken with nobody renewing it.
    pub longest_lease: Duration,
}

impl Acquaintance {
    /// Whether grants on a node without a record need not wait for its report. A process as old as the
    /// longest lease would know the node, or all leases of the node's earlier life are over; a younger
    /// one believes only the node's own word.
    pub fn vouches(&self) -> bool {
        match self.runs {
            _ if planted::on(Flaw::TrustedBecauseUnknown) => true,
            _ if self.known => false,
            Some(jobs) => jobs == 0,
            None => self.process_age >= self.longest_lease,
        }
    }

    /// How long a node for which nobody vouches may have jobs of an earlier life: until the process is as
    /// old as the longest lease.
    pub fn hold(&self) -> Option<Duration> {
        let left = self.longest_lease.saturating_sub(self.process_age);
        (!self.known && !self.vouches() && left > Duration::ZERO).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_young_process_vouches_only_for_who_says_that_it_runs_nothing() {
        let lease = Duration::from_secs(45);
        for (known, runs, age, vouches) in [
            (false, None, 0, false),
            (false, None, 44, false),
            (false, None, 45, true),
            (false, Some(0), 0, true),
            (false, Some(1), 0, false),
            (false, Some(1), 90, false),
            (true, None, 90, false),
            (true, Some(0), 90, false),
        ] {
            let process_age = Duration::from_secs(age);
            let knows = Acquaintance { known, runs, process_age, longest_lease: lease };
            assert_eq!(knows.vouches(), vouches, "{knows:?}");
            let held = !known && !vouches && age < 45;
            assert_eq!(knows.hold(), held.then(|| lease - process_age), "{knows:?}");
        }
    }
}
