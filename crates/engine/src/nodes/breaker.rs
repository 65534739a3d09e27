//! When a failing node is left alone, and how it comes back.

use std::time::Duration;

use tokio::time::Instant;

use crate::settings::BreakerPolicy;

/// Failures in a row open it; after a pause one job is let through; its success closes it and its
/// failure opens it for twice as long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Breaker {
    policy: BreakerPolicy,
    state: State,
    /// Failures since the last success.
    failures: u32,
    /// The next pause.
    pause: Duration,
    /// The latest connection whose break counted.
    last_break: Option<u64>,
}

/// What counts against a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A job that it failed.
    Job,
    /// The break of a connection, by the serial of that. However many jobs it cost, it counts once.
    Break(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Jobs go through.
    Closed,
    /// None do, until then.
    Open {
        /// When one may.
        until: Instant,
    },
    /// One does, to see.
    Probing,
}

impl Breaker {
    pub fn new(policy: BreakerPolicy) -> Self {
        let pause = Duration::from_millis(policy.first_pause_ms);
        Breaker { policy, state: State::Closed, failures: 0, pause, last_break: None }
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// A job failed by the node's fault. Says whether the state changed.
    pub fn failure(&mut self, now: Instant, fault: Fault) -> bool {
        if let Fault::Break(serial) = fault {
            if self.last_break.is_some_and(|counted| serial <= counted) {
                return false;
            }
            self.last_break = Some(serial);
        }
        self.failures = self.failures.saturating_add(1);
        let opens = match self.state {
            State::Closed => self.failures >= self.policy.failures,
            State::Probing => true,
            State::Open { .. } => false,
        };
        if opens {
            self.state = State::Open { until: now + self.pause };
            let longest = Duration::from_millis(self.policy.longest_pause_ms);
            self.pause = (self.pause * 2).min(longest);
        }
        opens
    }

    /// A job succeeded. Says whether the state changed.
    pub fn success(&mut self) -> bool {
        self.failures = 0;
        let closes = self.state == State::Probing;
        if closes {
            self.state = State::Closed;
            self.pause = Duration::from_millis(self.policy.first_pause_ms);
        }
        closes
    }

    /// Time went on. Says whether the state changed.
    pub fn tick(&mut self, now: Instant) -> bool {
        let over = matches!(self.state, State::Open { until } if until <= now);
        if over {
            self.state = State::Probing;
        }
        over
    }
}

/// What a node's failures brought it, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerView {
    /// Nothing.
    Closed,
    /// It is left alone.
    Open {
        /// For so long.
        left_ms: u64,
    },
    /// It gets one job.
    Probing,
}

impl BreakerView {
    pub(crate) fn of(state: State, now: Instant) -> Self {
        match state {
            State::Closed => BreakerView::Closed,
            State::Probing => BreakerView::Probing,
            State::Open { until } => {
                let left = until.saturating_duration_since(now);
                BreakerView::Open { left_ms: lingua_core::time::millis(left) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: BreakerPolicy =
        BreakerPolicy { failures: 3, first_pause_ms: 100, longest_pause_ms: 300 };

    #[tokio::test]
    async fn pauses_grow_until_a_probe_succeeds() {
        let mut breaker = Breaker::new(POLICY);
        let mut now = Instant::now();
        assert!(!breaker.failure(now, Fault::Job) && !breaker.failure(now, Fault::Job));
        assert!(breaker.failure(now, Fault::Job), "the third in a row opens it");
        for pause in [100, 200, 300, 300] {
            assert!(!breaker.tick(now + Duration::from_millis(pause - 1)));
            now += Duration::from_millis(pause);
            assert!(breaker.tick(now));
            assert_eq!(breaker.state(), State::Probing);
            assert!(breaker.failure(now, Fault::Job), "a failed probe opens it again");
        }
        now += Duration::from_millis(300);
        assert!(breaker.tick(now) && breaker.success());
        assert_eq!(breaker.state(), State::Closed);
        assert!(!breaker.failure(now, Fault::Job), "and all begins anew");
    }

    #[tokio::test]
    async fn a_success_between_failures_begins_the_count_anew() {
        let mut breaker = Breaker::new(POLICY);
        let now = Instant::now();
        for _ in 0..10 {
            assert!(!breaker.failure(now, Fault::Job) && !breaker.failure(now, Fault::Job));
            assert!(!breaker.success());
        }
    }

    #[tokio::test]
    async fn one_break_of_a_connection_counts_once_however_many_jobs_it_costs() {
        let mut breaker = Breaker::new(POLICY);
        let now = Instant::now();
        for serial in [4, 5] {
            for _ in 0..10 {
                assert!(!breaker.failure(now, Fault::Break(serial)));
            }
        }
        assert!(!breaker.failure(now, Fault::Break(4)), "of an earlier connection");
        assert!(breaker.failure(now, Fault::Break(6)), "the third break");
    }
}
