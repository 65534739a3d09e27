//! How long things took, counted so that parts of several instances can be added.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::histogram::Histogram;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Four steps to a doubling from 64 µs on, so a figure is right within a tenth; the last begins at
/// three minutes.
const STEPS: usize = 88;

/// How long something took, within a few per cent.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema, Debug, Default)]
pub struct Quantiles {
    /// How many there were.
    pub count: u64,
    /// Half took no longer, in milliseconds.
    #[schema(example = 1.2)]
    pub p50_ms: f64,
    /// Of twenty, nineteen took no longer.
    #[schema(example = 2.5)]
    pub p95_ms: f64,
    /// Of a hundred, ninety-nine took no longer.
    #[schema(example = 4.0)]
    pub p99_ms: f64,
}

/// A histogram for Prometheus, and beside it a finer one that can be read.
#[derive(Clone)]
pub(crate) struct Timed {
    histogram: Histogram,
    steps: Arc<[AtomicU64; STEPS]>,
}

impl Timed {
    pub fn of(histogram: Histogram) -> Self {
        Timed { histogram, steps: Arc::new([const { AtomicU64::new(0) }; STEPS]) }
    }

    pub fn observe(&self, seconds: f64) {
        self.histogram.observe(seconds);
        self.steps[step(seconds)].fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn counted(&self) -> Counts {
        let steps = self.steps.iter().map(|count| count.load(Ordering::Relaxed));
        Counts((0..).zip(steps).filter(|(_, count)| *count > 0).collect())
    }
}

/// Counts by step; most steps have none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts(BTreeMap<u16, u64>);

impl Counts {
    /// What came after `before`.
    pub fn since(&self, before: &Counts) -> Counts {
        let after = self.0.iter().map(|(step, count)| {
            (*step, count.saturating_sub(before.0.get(step).copied().unwrap_or(0)))
        });
        Counts(after.filter(|(_, count)| *count > 0).collect())
    }

    pub fn add(&mut self, other: &Counts) {
        // A step without a count would be divided by; sums stop at what fits: an instance may say anything.
        for (step, count) in other.0.iter().filter(|(_, count)| **count > 0) {
            let counted = self.0.entry((*step).min(STEPS as u16 - 1)).or_default();
            *counted = counted.saturating_add(*count);
        }
    }

    pub fn quantiles(&self) -> Quantiles {
        let count = self.0.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let at = |share: f64| self.quantile(count, share);
        Quantiles { count, p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99) }
    }

    fn quantile(&self, count: u64, share: f64) -> f64 {
        let rank = share * count as f64;
        let mut before = 0.0;
        for (step, here) in &self.0 {
            let here = *here as f64;
            if before + here >= rank {
                let (low, high) = (begin_ms(*step), begin_ms(step + 1));
                let ms = low + (high - low) * ((rank - before) / here);
                return (ms * 1_000.0).round() / 1_000.0;
            }
            before += here;
        }
        0.0
    }
}

fn step(seconds: f64) -> usize {
    let micros = (seconds * 1e6) as u64;
    if micros < 64 {
        return 0;
    }
    let doubling = micros.ilog2();
    let quarter = (micros >> (doubling - 2)) & 3;
    let step = (doubling as usize - 6) * 4 + quarter as usize + 1;
    step.min(STEPS - 1)
}

/// Where a step begins.
fn begin_ms(step: u16) -> f64 {
    let Some(from_first) = step.checked_sub(1) else { return 0.0 };
    let (doubling, quarter) = (u32::from(from_first / 4), u32::from(from_first % 4));
    let micros = 2f64.powi(doubling as i32 + 4) * f64::from(4 + quarter);
    micros / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed() -> Timed {
        Timed::of(Histogram::new([1.0]))
    }

    #[test]
    fn a_step_begins_where_the_one_before_ends() {
        for micros in [0, 1, 63, 64, 80, 99, 1_000, 1_500, 123_456, 9_999_999, 200_000_000] {
            let step = step(micros as f64 / 1e6) as u16;
            let ms = micros as f64 / 1_000.0;
            assert!(begin_ms(step) <= ms && (ms < begin_ms(step + 1) || step == 87), "{micros}");
        }
    }

    #[test]
    fn quantiles_are_right_within_a_tenth() {
        let timed = timed();
        for ms in 1..=1_000 {
            timed.observe(f64::from(ms) / 1_000.0);
        }
        let found = timed.counted().quantiles();
        assert_eq!(found.count, 1_000);
        for (is, want) in [(found.p50_ms, 500.0), (found.p95_ms, 950.0), (found.p99_ms, 990.0)] {
            assert!((is - want).abs() / want < 0.1, "{is} instead of {want}");
        }
        assert_eq!(Counts::default().quantiles(), Quantiles::default());
    }

    #[test]
    fn parts_can_be_taken_apart_and_added() {
        let timed = timed();
        timed.observe(0.010);
        let first = timed.counted();
        timed.observe(0.010);
        timed.observe(1.0);
        let second = timed.counted().since(&first);
        assert_eq!(second.quantiles().count, 2);
        let mut both = first.clone();
        both.add(&second);
        assert_eq!(both, timed.counted());
    }
}
