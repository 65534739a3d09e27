//! Directions for which no node was found lately, so that owners of nodes see what would be useful.

use std::time::Duration;

use lingua_core::eligibility::{Need, Route};
use lingua_core::inventory::Asks;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Directions remembered; beyond it the least asked for is forgotten. The same number of things asked for by
/// name.
const MAX_DIRECTIONS: usize = 64;

/// A direction that was not asked for in so long is forgotten.
const LATELY: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Demand {
    directions: Mutex<Vec<Wish>>,
    /// Directions that are served, with things asked for by name that no node of theirs has.
    by_name: Mutex<Vec<Wish>>,
}

/// What somebody asked for in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InVain {
    /// The direction.
    pub route: Route,
    /// The translation was to be spoken.
    pub speech: bool,
    /// What was asked for by name.
    pub asks: Asks,
}

struct Wish {
    what: InVain,
    times: u64,
    last: Instant,
}

impl Demand {
    /// A job like this found no node, or none with a slot.
    pub fn note(&self, need: &Need) {
        let what = InVain { route: need.route, speech: need.speech, asks: need.asks.clone() };
        let list = if what.asks.is_none() { &self.directions } else { &self.by_name };
        let (now, mut wishes) = (Instant::now(), list.lock());
        if let Some(known) = wishes.iter_mut().find(|known| known.what == what) {
            (known.times, known.last) = (known.times + 1, now);
            return;
        }
        wishes.retain(|known| now - known.last < LATELY);
        if wishes.len() >= MAX_DIRECTIONS {
            let least = (0..wishes.len()).min_by_key(|i| wishes[*i].times).expect("not empty");
            wishes.swap_remove(least);
        }
        wishes.push(Wish { what, times: 1, last: now });
    }

    /// Directions that no node served, the most wanted first.
    pub fn unmet(&self) -> Vec<(Route, bool)> {
        let unmet = lately(&self.directions);
        unmet.into_iter().map(|wish| (wish.route, wish.speech)).collect()
    }

    /// What no node had that served the direction, the most wanted first.
    pub fn unmet_by_name(&self) -> Vec<InVain> {
        lately(&self.by_name)
    }
}

fn lately(list: &Mutex<Vec<Wish>>) -> Vec<InVain> {
    let mut wishes = list.lock();
    wishes.retain(|known| known.last.elapsed() < LATELY);
    wishes.sort_by_key(|known| std::cmp::Reverse(known.times));
    wishes.iter().map(|known| known.what.clone()).collect()
}
