//! Whether an instance may vouch that a node without a record in the store runs no jobs.
//!
//! If the store lost its data and the process that knew the node died, the node may still work on jobs that
//! nobody here knows.

use std::time::Duration;

use crate::planted::{self, Flaw};

/// What an instance knows of a node that registers, of which the store may have no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acquaintance {
    /// This instance knew it before, or knows it as a node of another instance.
    pub known: bool,
    /// How many jobs it reports to run; `None` if it does not report that.
    pub runs: Option<usize>,
    /// How long this process has run.
    pub process_age: Duration,
    /// The longest time that a slot stays taken without a renewal.
    pub longest_lease: Duration,
}

impl Acquaintance {
    /// Whether grants on a node without a record need not wait for its report. If this process is as old as the
    /// longest lease, it would know the node, or all earlier leases are over. A younger process believes only
    /// the node's own report.
    pub fn vouches(&self) -> bool {
        match self.runs {
            _ if planted::on(Flaw::TrustedBecauseUnknown) => true,
            _ if self.known => false,
            Some(jobs) => jobs == 0,
            None => self.process_age >= self.longest_lease,
        }
    }

    /// How long a node for which this instance cannot vouch may run unknown jobs: until the process is as old as
    /// the longest lease.
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
