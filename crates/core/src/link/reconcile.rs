//! What a node's report says about its slots: a list of running jobs, or only their number.
//!
//! An agent that cannot list what it runs still says how many jobs that are. The number bounds what
//! may run of everything that the node had when it said so, and no slot that may be in use is given
//! back.

use std::collections::HashSet;

use crate::ids::JobId;
use crate::slots::LeaseToken;
use crate::time::Moment;

/// What a node says it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Running {
    /// When it said so.
    pub at: Moment,
    /// Attempts that this machine knows.
    pub known: Vec<LeaseToken>,
    /// Jobs that another process sent, or nobody.
    pub unknown: Vec<(JobId, u32)>,
    /// Nobody knows some of those, and the node does not stop when it is told to.
    pub strays: bool,
}

/// A list of running jobs, sorted.
pub(super) struct Sorted {
    pub running: Running,
    /// Jobs that were given up: the node is to stop them.
    pub given_up: Vec<(JobId, u32)>,
}

impl Running {
    /// Nothing, as far as it is known.
    pub fn new(at: Moment) -> Self {
        Running { at, known: Vec::new(), unknown: Vec::new(), strays: false }
    }

    /// Sorts a list of running jobs, each counted once, by what is held of each: its lease, and
    /// whether somebody waits for it.
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

/// An attempt that a node was sent, when it says how many jobs it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The lease of its slot.
    pub token: LeaseToken,
    /// Its job was given up: only its slot is out.
    pub given_up: bool,
    /// It was sent over an earlier connection, which ended.
    pub earlier: bool,
    /// The node had it when it counted. What is on its way to the node is not in the number.
    pub had: bool,
}

/// What a number of running jobs says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reconciled {
    /// All that can run, if the number says so.
    pub running: Option<Vec<LeaseToken>>,
    /// Given up, and not running: their slots are free.
    pub freed: Vec<LeaseToken>,
}

/// What it says of these attempts, the oldest first, that the node runs so many jobs.
///
/// Without any job, nothing runs that the node had before. With some, nobody knows which: as many of
/// those that were given up may run, and the others do not.
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
