//! Points in time, as milliseconds on whichever clock the caller owns.
//!
//! The store's clock gives the moments of leases and deadlines, an instance's own clock those of its
//! timers. The two are never compared with each other.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since an epoch that the clock's owner chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(u64);

impl Moment {
    /// The clock's own beginning.
    pub const ZERO: Moment = Moment(0);

    /// The moment `ms` milliseconds after the clock's beginning.
    pub const fn from_millis(ms: u64) -> Self {
        Moment(ms)
    }

    /// Milliseconds since the clock's beginning.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// How long until `later`; zero if it has passed.
    pub fn until(self, later: Moment) -> Duration {
        later.since(self)
    }
}

/// Whole milliseconds of a duration, never more than a moment can hold.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(millis(duration)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_sub(millis(duration)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stops_at_the_ends_instead_of_wrapping() {
        assert_eq!(Moment::ZERO - Duration::from_secs(1), Moment::ZERO);
        assert_eq!(Moment(u64::MAX) + Duration::from_secs(1), Moment(u64::MAX));
        assert_eq!(Moment(5).since(Moment(9)), Duration::ZERO);
        assert_eq!(Moment(5).until(Moment(9)), Duration::from_millis(4));
    }
}
