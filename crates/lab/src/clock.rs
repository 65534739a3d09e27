//! The date, for messages and logs that carry one.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Epoch milliseconds. One start for the whole process, counted on by a clock that never goes back:
/// what two nodes of one process wrote down can be put in order.
pub(crate) fn epoch_ms() -> u64 {
    static START: OnceLock<(Instant, u64)> = OnceLock::new();
    let (started, epoch_ms) = START.get_or_init(|| (Instant::now(), date_ms()));
    epoch_ms + millis(started.elapsed())
}

/// Microseconds on a clock that never goes back and that all processes of this machine share, so
/// that what one wrote down can be compared with what another did.
pub fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(now.tv_sec) * 1_000_000 + part(now.tv_nsec) / 1_000
}

/// Whole milliseconds of a duration; what does not fit is the largest that does.
pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "peers are told the date; read once a process")]
fn date_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
