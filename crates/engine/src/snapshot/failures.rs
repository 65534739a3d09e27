//! Jobs that ended badly lately, to have something to begin with at night. No contents.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::view::Failure;

/// Of one instance; the oldest go first.
const KEPT: usize = 32;

#[derive(Default)]
pub(crate) struct Failures(Mutex<VecDeque<Failure>>);

impl Failures {
    pub fn note(&self, failure: Failure) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(failure);
    }

    /// The newest first.
    pub fn latest(&self) -> Vec<Failure> {
        self.0.lock().iter().rev().cloned().collect()
    }
}
