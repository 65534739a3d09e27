//! Retries held to a share of fresh work, so that an outage is not multiplied by its own retries.

use std::time::Duration;

use crate::time::Moment;

/// The span over which retries are compared with fresh dispatches.
const WINDOW: Duration = Duration::from_secs(10);
const BUCKET: Duration = Duration::from_secs(1);

/// Whole buckets of the window, and one more: the present bucket has only begun, so a retry is
/// remembered for 10 to 11 s and the bound holds for every 10 s, wherever they start.
const KEPT: usize = 11;

/// How many retries, and second copies of hedged jobs, are allowed beside fresh dispatches.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    percent: u32,
    floor: u32,
    buckets: [Bucket; KEPT],
    /// The latest bucket's number since the clock's beginning.
    latest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    number: u64,
    fresh: u32,
    retries: u32,
}

impl Default for RetryBudget {
    /// 10 % of the fresh dispatches, and always one a second.
    fn default() -> Self {
        RetryBudget::new(10, 10)
    }
}

impl RetryBudget {
    /// In every 10 s at most `percent` of the fresh dispatches, but `floor` in any case: a fleet
    /// with hardly any work must be able to retry at all.
    pub fn new(percent: u32, floor: u32) -> Self {
        RetryBudget { percent, floor, buckets: [Bucket::default(); KEPT], latest: 0 }
    }

    /// A job was dispatched for the first time.
    pub fn fresh(&mut self, now: Moment) {
        let bucket = self.bucket(now);
        bucket.fresh = bucket.fresh.saturating_add(1);
    }

    /// Takes one retry from the budget; `false` if there is none left, and nothing is taken.
    #[must_use = "without a yes the job is not retried"]
    pub fn try_retry(&mut self, now: Moment) -> bool {
        let allowed = self.left(now) > 0;
        if allowed {
            self.bucket(now).retries += 1;
        }
        allowed
    }

    /// Retries left at `now`.
    pub fn left(&mut self, now: Moment) -> u32 {
        self.bucket(now);
        let spanned = (WINDOW.as_millis() / BUCKET.as_millis()) as u64;
        let (mut fresh, mut retries) = (0u64, 0u64);
        for bucket in &self.buckets {
            let age = self.latest - bucket.number;
            fresh += if age < spanned { u64::from(bucket.fresh) } else { 0 };
            retries += if age <= spanned { u64::from(bucket.retries) } else { 0 };
        }
        let allowed = (fresh * u64::from(self.percent) / 100).max(u64::from(self.floor));
        u32::try_from(allowed.saturating_sub(retries)).unwrap_or(u32::MAX)
    }

    /// The bucket of `now`; a clock that steps back stays in the latest one.
    fn bucket(&mut self, now: Moment) -> &mut Bucket {
        let number = now.as_millis() / BUCKET.as_millis() as u64;
        self.latest = self.latest.max(number);
        let bucket = &mut self.buckets[(self.latest % KEPT as u64) as usize];
        if bucket.number != self.latest {
            *bucket = Bucket { number: self.latest, ..Bucket::default() };
        }
        bucket
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn taken(budget: &mut RetryBudget, now: Moment) -> u32 {
        (0..100_000).take_while(|_| budget.try_retry(now)).count() as u32
    }

    /// Flaw 28.
    #[test]
    fn an_outage_costs_at_most_a_tenth_more_dispatches() {
        let mut budget = RetryBudget::default();
        for ms in 0..5_000 {
            budget.fresh(at(ms));
        }
        assert_eq!(taken(&mut budget, at(5_000)), 500);
        assert_eq!(taken(&mut budget, at(5_001)), 0);
    }

    #[test]
    fn a_fleet_with_hardly_any_work_may_still_retry() {
        let mut budget = RetryBudget::new(10, 3);
        assert_eq!(taken(&mut budget, at(0)), 3);
        budget.fresh(at(1));
        assert_eq!(taken(&mut budget, at(1)), 0, "the floor is not on top of the share");
        assert_eq!(taken(&mut budget, at(11_000)), 3);
    }

    #[test]
    fn a_clock_that_steps_back_gives_no_new_budget() {
        let mut budget = RetryBudget::new(10, 2);
        assert_eq!(taken(&mut budget, at(60_000)), 2);
        assert_eq!(taken(&mut budget, at(1_000)), 0);
        assert_eq!(taken(&mut budget, at(0)), 0);
    }

    proptest! {
        /// I8, whatever the times: in the ten seconds before any retry the retries, this one
        /// counted, are within the floor or a tenth of the fresh dispatches.
        #[test]
        fn the_share_holds_over_any_ten_seconds(
            steps in prop::collection::vec((0u64..400, 0u32..10), 1..400),
        ) {
            let (mut budget, mut now) = (RetryBudget::new(10, 2), 0);
            let (mut fresh, mut retries) = (Vec::new(), Vec::new());
            for (pause, kind) in steps {
                now += pause;
                if kind > 3 {
                    budget.fresh(at(now));
                    fresh.push(now);
                } else if budget.try_retry(at(now)) {
                    retries.push(now);
                    let within = |times: &[u64]| times.iter().filter(|t| **t + 10_000 > now).count();
                    prop_assert!(within(&retries) <= (within(&fresh) / 10).max(2));
                }
            }
        }
    }
}
