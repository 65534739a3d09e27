//! Rate limits (token bucket), as values: no clock, no lock.

use std::time::Duration;

use crate::time::Moment;

/// The rate and burst of a token bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Time between two events at an even pace.
    interval: Duration,
    /// How many events may come at once.
    burst: u32,
}

impl Rate {
    /// `count` in `window`, and `burst` at once. Zero counts as one: a limit of nothing would lock
    /// everybody out.
    pub fn new(count: u32, window: Duration, burst: u32) -> Self {
        Rate { interval: window / count.max(1), burst: burst.max(1) }
    }
}

/// One peer's use of a [`Rate`], by the generic cell rate algorithm: one moment and no counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gcra {
    /// When all that was taken so far would have come at an even pace, since the clock's beginning.
    /// Finer than a [`Moment`]: intervals may be fractions of a millisecond.
    due: Option<Duration>,
}

impl Gcra {
    /// Takes `cost` units together, or none of them; the error says how long to wait. More than a
    /// burst is never granted.
    pub fn take(&mut self, rate: Rate, cost: u32, now: Moment) -> Result<(), Duration> {
        let now = since_zero(now);
        let next = self.due.map_or(now, |due| due.max(now)) + rate.interval * cost;
        let most = rate.interval * rate.burst;
        let ahead = next - now;
        if ahead > most {
            return Err(ahead - most);
        }
        self.due = Some(next);
        Ok(())
    }

    /// Whether it is as one that was never used.
    pub fn is_unused(&self, now: Moment) -> bool {
        self.due.is_none_or(|due| due <= since_zero(now))
    }
}

fn since_zero(now: Moment) -> Duration {
    Duration::from_millis(now.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Moment = Moment::from_millis(7);

    #[test]
    fn a_burst_is_granted_and_then_what_time_brings() {
        let (mut now, rate) = (NOW, Rate::new(10, SECOND, 20));
        let mut used = Gcra::default();
        let taken =
            |used: &mut Gcra, now| (0..1_000).filter(|_| used.take(rate, 1, now).is_ok()).count();
        assert_eq!(taken(&mut used, now), 20);
        now = now + Duration::from_millis(500);
        assert_eq!(taken(&mut used, now), 5);
        now = now + Duration::from_secs(3_600);
        assert_eq!(taken(&mut used, now), 20, "nothing is saved up");
    }

    #[test]
    fn who_is_refused_is_told_how_long_to_wait_and_pays_nothing() {
        let rate = Rate::new(10, SECOND, 20);
        let mut used = Gcra::default();
        used.take(rate, 15, NOW).unwrap();
        let before = used;
        assert_eq!(used.take(rate, 10, NOW), Err(SECOND / 2));
        assert_eq!(used, before);
        used.take(rate, 10, NOW + SECOND / 2).unwrap();
    }

    #[test]
    fn more_than_a_burst_is_never_granted() {
        let rate = Rate::new(10, SECOND, 20);
        assert!(Gcra::default().take(rate, 21, NOW).is_err());
        Gcra::default().take(rate, 20, NOW).unwrap();
    }

    #[test]
    fn it_is_as_new_once_its_time_is_over() {
        let rate = Rate::new(1, SECOND, 5);
        let mut used = Gcra::default();
        assert!(used.is_unused(NOW));
        used.take(rate, 2, NOW).unwrap();
        assert!(!used.is_unused(NOW + SECOND));
        assert!(used.is_unused(NOW + 2 * SECOND));
    }
}
