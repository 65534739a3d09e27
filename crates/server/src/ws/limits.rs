//! Limits of one peer: the rate limit of its messages, and the number of invalid ones.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Invalid messages within [`OFFENCE_WINDOW`] after which the socket is closed.
const MAX_OFFENCES: usize = 20;
const OFFENCE_WINDOW: Duration = Duration::from_secs(10);

/// Token bucket: at most `per_second` messages a second, bursts of `most`.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: f64,
    most: f64,
    left: f64,
    at: Instant,
}

impl Rate {
    /// A rate of `messages` per second, with bursts of twice as many.
    pub(super) fn per_second(messages: u32, now: Instant) -> Self {
        let per_second = f64::from(messages);
        Rate { per_second, most: 2.0 * per_second, left: 2.0 * per_second, at: now }
    }

    /// Takes so many; `false` if they are not there.
    pub(super) fn take(&mut self, now: Instant, messages: u32) -> bool {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.left = (self.left + gained).min(self.most);
        self.at = now;
        let allowed = self.left >= f64::from(messages);
        if allowed {
            self.left -= f64::from(messages);
        }
        allowed
    }

    /// Takes so many, whether or not they are there; how long to wait until they would have been.
    pub(super) fn owe(&mut self, now: Instant, cost: f64) -> Option<Duration> {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.left = (self.left + gained).min(self.most) - cost;
        self.at = now;
        (self.left < 0.0).then(|| Duration::from_secs_f64(-self.left / self.per_second))
    }

    /// The peer was asked something: so many messages more are expected of it.
    pub(super) fn expect(&mut self, messages: u32) {
        self.left = (self.left + f64::from(messages)).min(self.most);
    }
}

/// When a peer last sent something that cannot be understood.
#[derive(Debug, Default)]
pub(super) struct Offences(VecDeque<Instant>);

impl Offences {
    /// Notes one; `true` if it was one too many.
    pub(super) fn note(&mut self, now: Instant) -> bool {
        self.0.push_back(now);
        if self.0.len() > MAX_OFFENCES {
            self.0.pop_front();
        }
        let first = self.0.front().copied().unwrap_or(now);
        self.0.len() == MAX_OFFENCES && now - first < OFFENCE_WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_rate_allows_a_burst_and_then_what_time_brings() {
        let mut now = Instant::now();
        let mut rate = Rate::per_second(100, now);
        assert_eq!((0..1_000).filter(|_| rate.take(now, 1)).count(), 200);
        now += Duration::from_millis(500);
        assert_eq!((0..1_000).filter(|_| rate.take(now, 1)).count(), 50);
        rate.expect(8);
        assert_eq!((0..1_000).filter(|_| rate.take(now, 1)).count(), 8);
        now += Duration::from_secs(3_600);
        rate.expect(1_000);
        assert_eq!((0..1_000).filter(|_| rate.take(now, 1)).count(), 200, "nothing is saved up");
    }

    #[tokio::test]
    async fn twenty_bad_messages_in_ten_seconds_are_too_many() {
        let mut now = Instant::now();
        let mut quick = Offences::default();
        let noted: Vec<bool> = (0..21).map(|_| quick.note(now)).collect();
        assert_eq!(noted.iter().position(|too_many| *too_many), Some(19));
        let mut slow = Offences::default();
        for _ in 0..100 {
            now += Duration::from_millis(600);
            assert!(!slow.note(now));
        }
    }
}
