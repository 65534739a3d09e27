//! Rate limits, as values: no clock, no lock.

use std::time::Duration;

use tokio::time::Instant;

/// How many in how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    /// From one to the next when they come evenly.
    interval: Duration,
    /// How many may come at once.
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
pub(crate) struct Gcra {
    /// When all that was taken so far would have come at an even pace.
    due: Option<Instant>,
}

impl Gcra {
    /// Takes `cost` units together, or none of them; the error says how long to wait. More than a
    /// burst is never granted.
    pub fn take(&mut self, rate: Rate, cost: u32, now: Instant) -> Result<(), Duration> {
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
    pub fn is_unused(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_burst_is_granted_and_then_what_time_brings() {
        let (mut now, rate) = (Instant::now(), Rate::new(10, SECOND, 20));
        let mut used = Gcra::default();
        let taken =
            |used: &mut Gcra, now| (0..1_000).filter(|_| used.take(rate, 1, now).is_ok()).count();
        assert_eq!(taken(&mut used, now), 20);
        now += Duration::from_millis(500);
        assert_eq!(taken(&mut used, now), 5);
        now += Duration::from_secs(3_600);
        assert_eq!(taken(&mut used, now), 20, "nothing is saved up");
    }

    #[tokio::test]
    async fn who_is_refused_is_told_how_long_to_wait_and_pays_nothing() {
        let (now, rate) = (Instant::now(), Rate::new(10, SECOND, 20));
        let mut used = Gcra::default();
        used.take(rate, 15, now).unwrap();
        let before = used;
        assert_eq!(used.take(rate, 10, now), Err(SECOND / 2));
        assert_eq!(used, before);
        used.take(rate, 10, now + SECOND / 2).unwrap();
    }

    #[tokio::test]
    async fn more_than_a_burst_is_never_granted() {
        let (now, rate) = (Instant::now(), Rate::new(10, SECOND, 20));
        assert!(Gcra::default().take(rate, 21, now).is_err());
        Gcra::default().take(rate, 20, now).unwrap();
    }

    #[tokio::test]
    async fn it_is_as_new_once_its_time_is_over() {
        let (now, rate) = (Instant::now(), Rate::new(1, SECOND, 5));
        let mut used = Gcra::default();
        assert!(used.is_unused(now));
        used.take(rate, 2, now).unwrap();
        assert!(!used.is_unused(now + SECOND));
        assert!(used.is_unused(now + 2 * SECOND));
    }
}
