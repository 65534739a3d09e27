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
    /// Moves only when told to.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock, read once for the date and from then on never going back.
    // The only place that may ask the operating system for the date.
    #[allow(clippy::disallowed_methods)]
    pub fn system() -> Self {
        let date = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let epoch_ms = millis(date.unwrap_or_default());
        Clock(Source::Running { started: tokio::time::Instant::now(), epoch_ms })
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
            Source::Manual(ms) => ms.load(Ordering::SeqCst),
        })
    }

    /// Moves a manual clock on; a running one moves by itself.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Running { .. } => panic!("only a manual clock is moved by hand"),
            Source::Manual(ms) => {
                ms.fetch_add(millis(by), Ordering::SeqCst);
            }
        }
    }
}
