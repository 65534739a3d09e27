//! The last attempts that failed on a node, for its owner and for operators. No contents.

use std::collections::VecDeque;

use lingua_core::JobId;

/// Of one node; the oldest go first.
const KEPT: usize = 8;

/// Characters of a code: a node may send its own.
const MAX_CODE_CHARS: usize = 64;

/// An attempt that failed on a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeFailure {
    /// When, in epoch milliseconds.
    pub at_ms: u64,
    /// Of which job.
    pub job: JobId,
    /// Why, as a code.
    pub code: String,
}

/// The last failures of one node.
#[derive(Default)]
pub(crate) struct RecentFailures(VecDeque<NodeFailure>);

impl RecentFailures {
    pub fn note(&mut self, at_ms: u64, job: JobId, code: &str) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        let code = code.chars().take(MAX_CODE_CHARS).collect();
        self.0.push_back(NodeFailure { at_ms, job, code });
    }

    /// The newest first.
    pub fn latest(&self) -> Vec<NodeFailure> {
        self.0.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_failures_are_kept_and_told_first() {
        let mut failures = RecentFailures::default();
        let job: JobId = "0000000000000000000000000a".parse().unwrap();
        for at_ms in 0..20 {
            failures.note(at_ms, job, &"X".repeat(100));
        }
        let told = failures.latest();
        let times: Vec<u64> = told.iter().map(|failure| failure.at_ms).collect();
        assert_eq!(times, [19, 18, 17, 16, 15, 14, 13, 12]);
        assert!(told.iter().all(|failure| failure.code.len() == MAX_CODE_CHARS));
    }
}
