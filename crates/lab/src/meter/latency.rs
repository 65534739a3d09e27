//! Times of sentences, and their percentiles.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::speaker::Answered;

/// An hour, in microseconds: nothing takes longer here.
const LONGEST_US: u64 = 3_600_000_000;

/// The three latencies.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    /// From the final of a sentence to its job on a node's socket.
    pub to_node: Histogram<u64>,
    /// From the node's result to the speaker who has it.
    pub to_speaker: Histogram<u64>,
    /// From the final to the ending, with the node's own time.
    pub whole: Histogram<u64>,
}

/// Percentiles of a time in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many there were.
    pub count: u64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Latencies {
    pub fn new(digits: u8) -> Self {
        Self { to_node: histogram(digits), to_speaker: histogram(digits), whole: histogram(digits) }
    }

    pub fn record(&mut self, answered: &Answered) {
        let &Answered { said_us, answered_us, echo, .. } = answered;
        self.whole.saturating_record(answered_us.saturating_sub(said_us));
        let Some(echo) = echo else { return };
        if let Some(assigned_us) = echo.assigned_us {
            self.to_node.saturating_record(assigned_us.saturating_sub(said_us));
        }
        if let Some(result_us) = echo.answered_us {
            self.to_speaker.saturating_record(answered_us.saturating_sub(result_us));
        }
    }

    pub fn clear(&mut self) {
        self.to_node.reset();
        self.to_speaker.reset();
        self.whole.reset();
    }
}

impl Percentiles {
    /// Of times in microseconds.
    pub(super) fn of(micros: &Histogram<u64>) -> Self {
        let at = |quantile| micros.value_at_quantile(quantile) as f64 / 1_000.0;
        match micros.len() {
            0 => Self::default(),
            count => {
                let max = micros.max() as f64 / 1_000.0;
                Self { count, p50: at(0.5), p90: at(0.9), p99: at(0.99), max }
            }
        }
    }
}

pub(super) fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, digits).expect("the bounds are fixed")
}
