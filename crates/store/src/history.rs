//! Series of points, one per step of the store's clock: the long memory of charts.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result, checked_ms};
use crate::rates::Name;

/// Points of one series at most: a day by the minute.
pub const MAX_POINTS: u32 = 1_440;

/// Bytes of one point.
pub const MAX_POINT_BYTES: usize = 4 * 1024;

/// A named series.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: Name,
    /// One point for each.
    pub step: Duration,
    /// So many are kept; the oldest go first.
    pub points: u32,
}

impl Series {
    /// How everything stood, by the minute, for a day.
    pub fn snapshots() -> Self {
        let name = Name::new("snapshots").expect("within the letters of a name");
        Series { name, step: Duration::from_secs(60), points: MAX_POINTS }
    }

    /// The step in milliseconds, if the series is within its bounds.
    pub(crate) fn checked(&self) -> Result<u64> {
        if self.points == 0 || self.points > MAX_POINTS {
            return Err(Error::Invalid("a series has 1 to 1440 points"));
        }
        checked_ms(self.step)
    }

    /// How long it is kept after its last point.
    pub(crate) fn keep(&self) -> Duration {
        self.step * self.points
    }
}

/// Series of points.
#[async_trait]
pub trait History: Send + Sync {
    /// Appends a point, unless the series has one of the present step of the store's clock already;
    /// says whether it did. So a step has one point, however many instances write. A series ends
    /// when nothing was appended for as long as it reaches back.
    async fn append(&self, series: &Series, point: &[u8]) -> Result<bool>;

    /// The last `count` points at most, the oldest first.
    async fn last(&self, series: &Series, count: u32) -> Result<Vec<Vec<u8>>>;
}

/// Refuses what is too large for a point.
pub(crate) fn check_point(point: &[u8]) -> Result<()> {
    if point.len() > MAX_POINT_BYTES {
        return Err(Error::Invalid("a point of a series has at most 4 KiB"));
    }
    Ok(())
}
