//! What is counted of one case: pure, from how sentences ended and when.

use std::collections::BTreeMap;
use std::fmt;

use lingua_lab::meter::Ending;
use serde::Serialize;

use crate::cli::Agents;

/// Until when after their return sentences may be refused because of agents that do not say what they run: the lease
/// of a job.
const LEASE_MS: u64 = 2_000;

/// Reasons of a sentence that was given to no node.
const REFUSED: [&str; 2] = ["no_capable_node", "all_nodes_busy"];

/// How the sentences of one case ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    /// From the fault until the last node was registered again.
    pub back_after_ms: u64,
    /// Sentences with a result, in the whole run.
    pub results: u64,
    /// Sentences that went down with a session that could not be resumed.
    pub lost_with_session: u64,
    /// Sentences without a result before the fault, by reason.
    pub before: BTreeMap<String, u64>,
    /// Sentences without a result that ended after the fault and were said before all nodes were back, by reason.
    pub meanwhile: BTreeMap<String, u64>,
    /// Sentences said after that and given to no node, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Sentences said after that and without a result for another reason.
    pub missing: BTreeMap<String, u64>,
    /// How long after the return of the nodes the last of those was said.
    pub until_ms: Option<u64>,
}

impl Tally {
    /// Times are on the clock of the endings.
    pub fn of(endings: &[Ending], lost_with_session: u64, fault_us: u64, back_us: u64) -> Self {
        let back_after_ms = back_us.saturating_sub(fault_us) / 1_000;
        let mut tally = Self { back_after_ms, lost_with_session, ..Self::default() };
        for ending in endings {
            let Some(reason) = &ending.missing else {
                tally.results += 1;
                continue;
            };
            let list = if ending.ended_us < fault_us {
                &mut tally.before
            } else if ending.said_us < back_us {
                &mut tally.meanwhile
            } else {
                let after = (ending.said_us - back_us) / 1_000;
                tally.until_ms = tally.until_ms.max(Some(after));
                match REFUSED.contains(&reason.as_str()) {
                    true => &mut tally.refused,
                    false => &mut tally.missing,
                }
            };
            *list.entry(reason.clone()).or_default() += 1;
        }
        tally
    }

    /// Nothing fails after the return of agents that report, and of others only within a lease.
    pub fn meets_aim(&self, agents: Agents) -> bool {
        let none = self.refused.is_empty() && self.missing.is_empty();
        match agents {
            Agents::Current => none,
            Agents::Existing => none || self.until_ms.is_some_and(|until| until <= LEASE_MS),
        }
    }
}

/// All of a list.
pub(super) fn sum(reasons: &BTreeMap<String, u64>) -> u64 {
    reasons.values().sum()
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (refused, missing) = (sum(&self.refused), sum(&self.missing));
        write!(
            f,
            "nodes back after {:.1} s, {} lost with their session, {} without a result meanwhile, then {refused} \
             refused and {missing} missing",
            self.back_after_ms as f64 / 1_000.0,
            self.lost_with_session,
            sum(&self.meanwhile),
        )?;
        match self.until_ms {
            Some(until) => write!(f, ", the last one {:.1} s later", until as f64 / 1_000.0),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(said_ms: u64, ended_ms: u64, missing: Option<&str>) -> Ending {
        Ending {
            said_us: said_ms * 1_000,
            ended_us: ended_ms * 1_000,
            missing: missing.map(str::to_owned),
        }
    }

    #[test]
    fn sentences_are_sorted_by_when_they_were_said() {
        let endings = [
            ending(100, 200, None),
            ending(100, 900, Some("all_nodes_busy")),
            // Said before the fault at one second, and lost by it.
            ending(900, 1_400, Some("job_failed")),
            ending(2_000, 2_001, Some("no_capable_node")),
            // The nodes are back at three seconds.
            ending(3_000, 3_100, Some("all_nodes_busy")),
            ending(3_500, 9_000, Some("gap_timeout")),
            ending(9_000, 9_500, None),
        ];
        let tally = Tally::of(&endings, 4, 1_000_000, 3_000_000);
        assert_eq!((tally.back_after_ms, tally.results, tally.lost_with_session), (2_000, 2, 4));
        assert_eq!(tally.before, [("all_nodes_busy".to_owned(), 1)].into());
        assert_eq!(sum(&tally.meanwhile), 2);
        assert_eq!(tally.refused, [("all_nodes_busy".to_owned(), 1)].into());
        assert_eq!(tally.missing, [("gap_timeout".to_owned(), 1)].into());
        assert_eq!(tally.until_ms, Some(500));
    }

    #[test]
    fn agents_that_do_not_report_have_one_lease() {
        let at = |said_ms| Tally::of(&[ending(said_ms, said_ms, Some("job_failed"))], 0, 0, 0);
        assert!(at(LEASE_MS).meets_aim(Agents::Existing));
        assert!(!at(LEASE_MS + 1).meets_aim(Agents::Existing));
        assert!(!at(0).meets_aim(Agents::Current));
        assert!(Tally::default().meets_aim(Agents::Current));
        assert!(Tally::default().meets_aim(Agents::Existing));
    }
}
