//! Which faults it takes: leaves out what a broken promise does not need (delta debugging).

use crate::plan::Plan;
use crate::run::{Options, run_plan};
use crate::verdict::Verdict;

/// Worlds that are tried at most.
const MAX_TRIES: usize = 200;

/// A plan that still breaks a promise, with as few faults as were found.
pub struct Shrunk {
    /// The faults that are left, by their places in the plan of the seed.
    pub kept: Vec<usize>,
    /// What happens with them alone.
    pub verdict: Verdict,
    /// Worlds that were tried.
    pub tries: usize,
}

/// Leaves out as many faults as it can, so that one of the same promises is still broken.
pub fn shrink(plan: &Plan, found: Verdict) -> Shrunk {
    let mut kept: Vec<usize> = (0..plan.faults.len()).collect();
    let (mut verdict, mut tries, mut parts) = (found, 0, 2);
    while !kept.is_empty() && tries < MAX_TRIES {
        let size = kept.len().div_ceil(parts).max(1);
        let smaller = (0..kept.len()).step_by(size).find_map(|from| {
            let to = (from + size).min(kept.len());
            let rest: Vec<usize> = [&kept[..from], &kept[to..]].concat();
            tries += 1;
            let tried = run_plan(&plan.with_faults(&rest), &Options::default());
            tried.breaks_as(&verdict).then_some((rest, tried))
        });
        match smaller {
            Some((rest, tried)) => {
                (kept, verdict) = (rest, tried);
                parts = (parts - 1).max(2);
            }
            None if size == 1 => break,
            None => parts *= 2,
        }
    }
    Shrunk { kept, verdict, tries }
}
