//! The circuit breaker of one node: when a failing node gets no jobs, and how it is probed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::{Moment, millis};

/// A node whose breaker opened so often, with no success in between, is put aside: its owner is told.
/// With the default pauses that is after some 15 s and 6 failures in a row, and few jobs had to be retried.
pub const PUT_ASIDE_AFTER: u32 = 4;

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

/// Failures in a row open it. After a pause one job goes through as a probe: its success closes the breaker, its
/// failure opens it for twice as long.
#[derive(Clone, Copy, Debug)]
pub struct Breaker {
    state: BreakerState,
    /// Failures since the last success.
    failures: u32,
    /// The next pause.
    pause: Duration,
    /// How often it opened since it was last closed.
    openings: u32,
    /// The epoch of the latest connection whose loss counted.
    last_break: Option<u64>,
}

/// A breaker as the store keeps it, for the next owner of the node's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BreakerMemory {
    /// Failures since the last success.
    pub failures: u32,
    /// How often it opened since it was last closed.
    pub openings: u32,
    /// It stays open for so long.
    pub open_ms: Option<u64>,
    /// The next pause.
    pub next_pause_ms: u64,
}

impl BreakerMemory {
    /// The same, so much later.
    pub(super) fn aged(self, age: Duration) -> Self {
        let open_ms = self.open_ms.map(|left| left.saturating_sub(millis(age)));
        BreakerMemory { open_ms, ..self }
    }
}

/// What counts against a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A job that it failed.
    Job,
    /// The loss of the connection of this epoch. However many jobs failed by it, it counts once.
    Break(u64),
}

/// Which jobs a node gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// All jobs.
    Closed,
    /// None until then.
    Open {
        /// When one job may go through as a probe.
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
            openings: 0,
            last_break: None,
        }
    }

    /// From what the store kept. If its pause is over, one job may go through as a probe.
    pub fn recalled(memory: BreakerMemory, now: Moment, policy: &BreakerPolicy) -> Self {
        let (first, longest) = (policy.first_pause_ms, policy.longest_pause_ms);
        let bounded = |ms: u64| Duration::from_millis(ms.min(longest));
        let state = match memory.open_ms.filter(|_| memory.openings > 0) {
            Some(left) if left > 0 => BreakerState::Open { until: now + bounded(left) },
            Some(_) => BreakerState::Probing,
            None if memory.openings > 0 => BreakerState::Probing,
            None => BreakerState::Closed,
        };
        Breaker {
            state,
            failures: memory.failures,
            pause: bounded(memory.next_pause_ms.max(first)),
            openings: memory.openings,
            last_break: None,
        }
    }

    /// What is to be remembered of it.
    pub fn memory(&self, now: Moment) -> BreakerMemory {
        let open_ms = match self.state {
            BreakerState::Open { until } => Some(millis(now.until(until))),
            BreakerState::Closed | BreakerState::Probing => None,
        };
        BreakerMemory {
            failures: self.failures,
            openings: self.openings,
            open_ms,
            next_pause_ms: millis(self.pause),
        }
    }

    /// Whether the node failed so often that it is put aside.
    pub fn is_aside(&self) -> bool {
        self.openings >= PUT_ASIDE_AFTER
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
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
            self.openings = self.openings.saturating_add(1);
        }
        opens
    }

    /// A job succeeded. Returns whether the state changed.
    pub fn success(&mut self, policy: &BreakerPolicy) -> bool {
        self.failures = 0;
        let closes = self.state == BreakerState::Probing;
        if closes {
            self.state = BreakerState::Closed;
            self.openings = 0;
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

    /// Ends a pause at once, because a probe was requested. Returns whether the state changed. If the probe
    /// fails, the next pause is as long as it would have been.
    pub fn probe_now(&mut self) -> bool {
        let is_open = matches!(self.state, BreakerState::Open { .. });
        if is_open {
            self.state = BreakerState::Probing;
        }
        is_open
    }

    /// When [`Breaker::tick`] has something to do.
    pub fn due(&self) -> Option<Moment> {
        match self.state {
            BreakerState::Open { until } => Some(until),
            BreakerState::Closed | BreakerState::Probing => None,
        }
    }
}

/// The state of a breaker, for people.
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

    #[test]
    fn a_node_that_keeps_failing_is_put_aside_until_a_probe_succeeds() {
        let (mut breaker, mut now) = (Breaker::new(POLICY), Moment::ZERO);
        for opening in 1..=PUT_ASIDE_AFTER + 2 {
            while !breaker.failure(now, Fault::Job, POLICY) {}
            assert_eq!(breaker.is_aside(), opening >= PUT_ASIDE_AFTER, "{opening}");
            now = now + Duration::from_secs(1);
            assert!(breaker.tick(now));
        }
        assert!(breaker.is_aside(), "a probe has not succeeded yet");
        assert!(breaker.success(POLICY) && !breaker.is_aside());
    }

    #[test]
    fn somebodys_word_ends_a_pause_and_nothing_else() {
        let mut breaker = Breaker::new(POLICY);
        assert!(!breaker.probe_now(), "nothing is in its way");
        while !breaker.failure(Moment::ZERO, Fault::Job, POLICY) {}
        assert!(breaker.probe_now() && !breaker.probe_now());
        assert_eq!(breaker.state(), BreakerState::Probing);
        assert!(breaker.failure(Moment::ZERO, Fault::Job, POLICY));
        let longer = Moment::ZERO + Duration::from_millis(200);
        assert_eq!(breaker.state(), BreakerState::Open { until: longer }, "as without the word");
    }

    #[test]
    fn what_is_remembered_is_what_was_and_pauses_go_on_meanwhile() {
        let (now, later) = (Moment::from_millis(50), Moment::from_millis(9_000));
        let mut breaker = Breaker::new(POLICY);
        let recall = |breaker: &Breaker, now, age_ms, later| {
            let memory = breaker.memory(now).aged(Duration::from_millis(age_ms));
            Breaker::recalled(memory, later, POLICY)
        };
        assert_eq!(recall(&breaker, now, 0, later).state(), BreakerState::Closed);
        breaker.failure(now, Fault::Job, POLICY);
        let mut next = recall(&breaker, now, 500, later);
        next.failure(later, Fault::Job, POLICY);
        assert!(next.failure(later, Fault::Job, POLICY), "the third in a row, wherever it was");
        let until = later + Duration::from_millis(60);
        assert_eq!(recall(&next, later, 40, later).state(), BreakerState::Open { until });
        assert_eq!(recall(&next, later, 100, later).state(), BreakerState::Probing);
        next.tick(later + Duration::from_millis(100));
        assert_eq!(recall(&next, later, 0, later).state(), BreakerState::Probing);
        // Another policy, or nonsense, never leaves a node alone for longer than is allowed.
        let wrong = BreakerMemory { openings: 1, open_ms: Some(u64::MAX), ..next.memory(later) };
        let until = later + Duration::from_millis(300);
        assert_eq!(Breaker::recalled(wrong, later, POLICY).state(), BreakerState::Open { until });
    }
}
