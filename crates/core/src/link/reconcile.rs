//! What a node's report means for its slots: a list of running jobs, or only their number.
//!
//! An older agent reports only how many jobs it runs. The number bounds how many of the attempts that the node
//! had at that moment may still run. No slot that may be in use is released.

use std::collections::HashSet;

use crate::ids::JobId;
use crate::slots::LeaseToken;
use crate::time::Moment;

/// What a node reports to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Running {
    /// When it reported that.
    pub at: Moment,
    /// Attempts that this machine knows.
    pub known: Vec<LeaseToken>,
    /// Jobs that are not known here: another process sent them.
    pub unknown: Vec<(JobId, u32)>,
    /// The store does not know some of those either, and the node does not stop when told to.
    pub unstoppable: bool,
}

/// A list of running jobs, sorted.
pub(super) struct Sorted {
    pub running: Running,
    /// Attempts that were abandoned: the node is to stop them.
    pub given_up: Vec<(JobId, u32)>,
}

impl Running {
    /// A report without jobs.
    pub fn new(at: Moment) -> Self {
        Running { at, known: Vec::new(), unknown: Vec::new(), unstoppable: false }
    }

    /// Sorts a list of running jobs, each counted once. `held` returns the lease of an attempt that is known
    /// here, and whether a job waits for it.
    pub fn sort(
        at: Moment,
        named: Vec<(JobId, u32)>,
        held: impl Fn(&JobId, u32) -> Option<(LeaseToken, bool)>,
    ) -> Sorted {
        let mut seen = HashSet::with_capacity(named.len());
        let mut sorted = Sorted { running: Running::new(at), given_up: Vec::new() };
        for (job, attempt) in named.into_iter().filter(|named| seen.insert(*named)) {
            match held(&job, attempt) {
                Some((token, true)) => sorted.running.known.push(token),
                Some((_, false)) => sorted.given_up.push((job, attempt)),
                None => sorted.running.unknown.push((job, attempt)),
            }
        }
        sorted
    }
}

/// An attempt of a node, as a number of running jobs is compared with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The lease of its slot.
    pub token: LeaseToken,
    /// It was abandoned: only its slot is taken.
    pub given_up: bool,
    /// It was sent over an earlier connection.
    pub earlier: bool,
    /// The node had it when it counted. The number leaves out what was on its way to the node.
    pub had: bool,
}

/// What follows from a number of running jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reconciled {
    /// All attempts that can run, if the number determines them.
    pub running: Option<Vec<LeaseToken>>,
    /// Abandoned ones that do not run: their slots are free.
    pub freed: Vec<LeaseToken>,
}

/// What follows for these attempts, the oldest first, if the node runs so many jobs.
///
/// If it runs none, nothing runs that the node had when it counted. If it runs some, it is not known which: as
/// many of the abandoned attempts may run, and the others do not.
pub fn by_count(attempts: &[Counted], running: u32) -> Reconciled {
    let over = |attempt: &&Counted| attempt.given_up && (attempt.earlier || attempt.had);
    let over: Vec<LeaseToken> = attempts.iter().filter(over).map(|a| a.token).collect();
    let may_run = usize::try_from(running).unwrap_or(usize::MAX);
    let freed = over[..over.len().saturating_sub(may_run)].to_vec();
    let listed = attempts.iter().filter(|a| !a.earlier && !a.given_up);
    Reconciled { running: (running == 0).then(|| listed.map(|a| a.token).collect()), freed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{JobId, SessionId, SessionKey, TenantId};

    fn attempt(n: u128) -> Counted {
        let session = SessionKey::new(TenantId::new("t").unwrap(), SessionId::new("s").unwrap());
        let job = JobId::derive(session.tag(), &[1; 32]);
        let token = LeaseToken { job, attempt: 1, nonce: n };
        Counted { token, given_up: false, earlier: false, had: true }
    }

    fn names(tokens: &[LeaseToken]) -> Vec<u128> {
        tokens.iter().map(|token| token.nonce).collect()
    }

    #[test]
    fn a_node_that_runs_nothing_frees_what_it_had_before() {
        let attempts = [
            Counted { given_up: true, earlier: true, ..attempt(1) },
            Counted { earlier: true, ..attempt(2) },
            Counted { given_up: true, ..attempt(3) },
            Counted { given_up: true, had: false, ..attempt(4) },
            attempt(5),
        ];
        let Reconciled { running, freed } = by_count(&attempts, 0);
        assert_eq!(names(&freed), [1, 3]);
        assert_eq!(names(&running.unwrap()), [5], "2 was lost with its connection");
    }

    #[test]
    fn as_many_as_run_keep_their_slots() {
        let old = |n| Counted { given_up: true, earlier: true, ..attempt(n) };
        let attempts = [old(1), old(2), old(3), attempt(4)];
        for (running, freed) in [(1, vec![1, 2]), (2, vec![1]), (3, vec![]), (9, vec![])] {
            let reconciled = by_count(&attempts, running);
            assert_eq!(names(&reconciled.freed), freed, "{running} run");
            assert_eq!(reconciled.running, None, "nobody knows which");
        }
        assert_eq!(by_count(&[], 0), Reconciled { running: Some(vec![]), freed: vec![] });
    }
}
