//! Directions for which no node was found lately, so that owners of nodes see what would be useful.

use std::time::Duration;

use lingua_core::eligibility::Route;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Directions remembered; beyond it the least asked for is forgotten.
const MAX_DIRECTIONS: usize = 64;

/// A direction that was not asked for in so long is forgotten.
const LATELY: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Demand(Mutex<Vec<Unmet>>);

struct Unmet {
    route: Route,
    speech: bool,
    times: u64,
    last: Instant,
}

impl Demand {
    /// A job of this direction found no node, or none with a slot.
    pub fn note(&self, route: Route, speech: bool) {
        let now = Instant::now();
        let mut unmet = self.0.lock();
        if let Some(known) = unmet.iter_mut().find(|u| (u.route, u.speech) == (route, speech)) {
            (known.times, known.last) = (known.times + 1, now);
            return;
        }
        unmet.retain(|known| now - known.last < LATELY);
        if unmet.len() >= MAX_DIRECTIONS {
            let least = (0..unmet.len()).min_by_key(|i| unmet[*i].times).expect("not empty");
            unmet.swap_remove(least);
        }
        unmet.push(Unmet { route, speech, times: 1, last: now });
    }

    /// The most wanted first.
    pub fn unmet(&self) -> Vec<(Route, bool)> {
        let mut unmet = self.0.lock();
        unmet.retain(|known| known.last.elapsed() < LATELY);
        unmet.sort_by_key(|known| std::cmp::Reverse(known.times));
        unmet.iter().map(|known| (known.route, known.speech)).collect()
    }
}
