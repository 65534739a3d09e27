//! The one door through which time comes in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lingua_core::Moment;
use lingua_core::time::millis;

/// A clock that an instance or the embedded store reads.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Epoch milliseconds at the start, counted on by a clock that never goes back.
    Running { started: tokio::time::Instant, epoch_ms: u64 },
    /// The machine's date, asked each time.
    Date,
    /// Moves only when told to.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock, read once for the date and from then on never going back: for a store.
    pub fn system() -> Self {
        Clock(Source::Running { started: tokio::time::Instant::now(), epoch_ms: date_ms() })
    }

    /// The machine's date, whatever happens to it: for what others are told and tell of a date. A machine
    /// that slept, or that was told the time late, is right again at once.
    pub fn date() -> Self {
        Clock(Source::Date)
    }

    /// A clock that shows this time of day now, in epoch milliseconds: a machine's of a simulation.
    pub fn showing(epoch_ms: u64) -> Self {
        Clock(Source::Running { started: tokio::time::Instant::now(), epoch_ms })
    }

    /// A clock that stands still until [`Clock::advance`] moves it.
    pub fn manual() -> Self {
        Clock(Source::Manual(Arc::new(AtomicU64::new(1_000_000))))
    }

    /// The same clock, moved on to `floor` if it is behind: for a store whose time must never go back, whatever the
    /// machine's date does.
    pub fn not_before(self, floor: Moment) -> Self {
        let behind = self.now().until(floor);
        if behind.is_zero() {
            return self;
        }
        Clock(match self.0 {
            Source::Running { started, epoch_ms } => {
                Source::Running { started, epoch_ms: epoch_ms + millis(behind) }
            }
            Source::Date => {
                let started = tokio::time::Instant::now();
                Source::Running { started, epoch_ms: floor.as_millis() }
            }
            Source::Manual(ms) => {
                ms.fetch_max(floor.as_millis(), Ordering::SeqCst);
                Source::Manual(ms)
            }
        })
    }

    /// The time.
    pub fn now(&self) -> Moment {
        Moment::from_millis(match &self.0 {
            Source::Running { started, epoch_ms } => epoch_ms + millis(started.elapsed()),
            Source::Date => date_ms(),
            Source::Manual(ms) => ms.load(Ordering::SeqCst),
        })
    }

    /// Moves a manual clock on; a running one moves by itself.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Running { .. } | Source::Date => {
                panic!("only a manual clock is moved by hand")
            }
            Source::Manual(ms) => {
                ms.fetch_add(millis(by), Ordering::SeqCst);
            }
        }
    }
}

// The only place that may ask the operating system for the date.
#[allow(clippy::disallowed_methods)]
fn date_ms() -> u64 {
    let date = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    millis(date.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6: the runtime's clock stands still while a machine sleeps, and its date does not.
    #[tokio::test(start_paused = true)]
    async fn a_date_is_the_machines_own_and_not_counted_from_the_start() {
        let (system, date) = (Clock::system(), Clock::date());
        tokio::time::advance(Duration::from_secs(3_600)).await;
        let ahead = date.now().until(system.now());
        assert!(ahead > Duration::from_secs(3_000), "the runtime's clock was moved: {ahead:?}");
        assert!(date.now().since(Clock::date().now()) < Duration::from_secs(60));
    }
}
