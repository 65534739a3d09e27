//! The circuit breaker of one node: when a failing node gets no jobs, and how it comes back.

use std::time::Duration;

use crate::time::{Moment, millis};

/// When a failing node gets no jobs, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakerPolicy {
    /// Failures in a row that open the breaker.
    pub failures: u32,
    /// The first pause.
    pub first_pause_ms: u64,
    /// Each pause is twice the one before, up to this.
    pub longest_pause_ms: u64,
}

/// Failures in a row open it; after a pause one job is let through; its success closes it and its
/// failure opens it for twice as long.
#[derive(Clone, Copy, Debug)]
pub struct Breaker {
    state: BreakerState,
    /// Failures since the last success.
    failures: u32,
    /// The next pause.
    pause: Duration,
    /// The epoch of the latest connection whose break counted.
    last_break: Option<u64>,
}

/// What counts against a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A job that it failed.
    Job,
    /// The break of the connection of this epoch. However many jobs it cost, it counts once.
    Break(u64),
}

/// Which jobs a node gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// All jobs.
    Closed,
    /// None until then.
    Open {
        /// When one job may go through.
        until: Moment,
    },
    /// One, as a probe.
    Probing,
}

impl Breaker {
    /// Of a node that has not failed.
    pub fn new(policy: &BreakerPolicy) -> Self {
        Breaker {
            state: BreakerState::Closed,
            failures: 0,
            pause: Duration::from_millis(policy.first_pause_ms),
            last_break: None,
        }
    }

    /// Which jobs the node gets.
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// A job failed by the node's fault. Returns whether the state changed.
    pub fn failure(&mut self, now: Moment, fault: Fault, policy: &BreakerPolicy) -> bool {
        if let Fault::Break(epoch) = fault {
            if self.last_break.is_some_and(|counted| epoch <= counted) {
                return false;
            }
            self.last_break = Some(epoch);
        }
        self.failures = self.failures.saturating_add(1);
        let opens = match self.state {
            BreakerState::Closed => self.failures >= policy.failures,
            BreakerState::Probing => true,
            BreakerState::Open { .. } => false,
        };
        if opens {
            self.state = BreakerState::Open { until: now + self.pause };
            let longest = Duration::from_millis(policy.longest_pause_ms);
            self.pause = (self.pause * 2).min(longest);
        }
        opens
    }

    /// A job succeeded. Returns whether the state changed.
    pub fn success(&mut self, policy: &BreakerPolicy) -> bool {
        self.failures = 0;
        let closes = self.state == BreakerState::Probing;
        if closes {
            self.state = BreakerState::Closed;
            self.pause = Duration::from_millis(policy.first_pause_ms);
        }
        closes
    }

    /// Ends a pause that is over. Returns whether the state changed.
    pub fn tick(&mut self, now: Moment) -> bool {
        let over = matches!(self.state, BreakerState::Open { until } if until <= now);
        if over {
            self.state = BreakerState::Probing;
        }
        over
    }

    /// When [`Breaker::tick`] has something to do.
    pub fn due(&self) -> Option<Moment> {
        match self.state {
            BreakerState::Open { until } => Some(until),
            BreakerState::Closed | BreakerState::Probing => None,
        }
    }
}

/// What a node's failures brought it, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerView {
    /// It gets jobs.
    Closed,
    /// It gets none.
    Open {
        /// For so long.
        left_ms: u64,
    },
    /// It gets one job.
    Probing,
}

impl BreakerView {
    /// The view of this state.
    pub fn of(state: BreakerState, now: Moment) -> Self {
        match state {
            BreakerState::Closed => BreakerView::Closed,
            BreakerState::Probing => BreakerView::Probing,
            BreakerState::Open { until } => BreakerView::Open { left_ms: millis(now.until(until)) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &BreakerPolicy =
        &BreakerPolicy { failures: 3, first_pause_ms: 100, longest_pause_ms: 300 };

    #[test]
    fn pauses_grow_until_a_probe_succeeds() {
        let mut breaker = Breaker::new(POLICY);
        let mut now = Moment::ZERO;
        let fail = |breaker: &mut Breaker, now| breaker.failure(now, Fault::Job, POLICY);
        assert!(!fail(&mut breaker, now) && !fail(&mut breaker, now));
        assert!(fail(&mut breaker, now), "the third in a row opens it");
        for pause in [100, 200, 300, 300] {
            assert!(!breaker.tick(now + Duration::from_millis(pause - 1)));
            now = now + Duration::from_millis(pause);
            assert_eq!(breaker.due(), Some(now));
            assert!(breaker.tick(now));
            assert_eq!(breaker.state(), BreakerState::Probing);
            assert!(fail(&mut breaker, now), "a failed probe opens it again");
        }
        now = now + Duration::from_millis(300);
        assert!(breaker.tick(now) && breaker.success(POLICY));
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(!fail(&mut breaker, now), "and all begins anew");
    }

    #[test]
    fn a_success_between_failures_begins_the_count_anew() {
        let mut breaker = Breaker::new(POLICY);
        for _ in 0..10 {
            for _ in 0..2 {
                assert!(!breaker.failure(Moment::ZERO, Fault::Job, POLICY));
            }
            assert!(!breaker.success(POLICY));
        }
    }

    #[test]
    fn one_break_of_a_connection_counts_once_however_many_jobs_it_costs() {
        let mut breaker = Breaker::new(POLICY);
        let mut fail = |epoch| breaker.failure(Moment::ZERO, Fault::Break(epoch), POLICY);
        for epoch in [4, 5] {
            for _ in 0..10 {
                assert!(!fail(epoch));
            }
        }
        assert!(!fail(4), "of an earlier connection");
        assert!(fail(6), "the third break");
    }
}
