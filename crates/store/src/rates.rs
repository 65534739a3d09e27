//! What happens once per window, or at most at a rate.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};

/// Longest name of a window.
pub const MAX_NAME_CHARS: usize = 200;

/// Windows and rate limits shared by all instances. Every entry expires by itself.
#[async_trait]
pub trait RateLimits: Send + Sync {
    /// Whether this is the first call for `name` within `window`. Exactly one of any number of
    /// callers is told so.
    async fn first(&self, name: &Name, window: Duration) -> Result<bool>;

    /// Whether one more event fits into the rate of `name` (GCRA: no double burst at the edge of a
    /// window). An event that does not fit is not counted.
    async fn take(&self, name: &Name, rate: Rate) -> Result<Take>;
}

/// A checked name: `[A-Za-z0-9._:@-]{1,200}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Name(String);

impl Name {
    /// Checks the text.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let known = |c: char| c.is_ascii_alphanumeric() || "._:@-".contains(c);
        if text.is_empty() || text.len() > MAX_NAME_CHARS || !text.chars().all(known) {
            return Err(Error::Invalid("a window's name is 1 to 200 of A-Z a-z 0-9 . _ : @ -"));
        }
        Ok(Name(text))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// At most `burst` at once and one more every `interval`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Between two events in the long run.
    pub interval: Duration,
    /// Events at once; at least one.
    pub burst: u32,
}

impl Rate {
    /// Checks the bounds: interval from 1 ms to a day, burst from 1 to a million.
    pub fn checked(self) -> Result<Self> {
        let interval = (1..=86_400_000).contains(&self.interval.as_millis());
        if !interval || !(1..=1_000_000).contains(&self.burst) {
            return Err(Error::Invalid(
                "a rate needs an interval of 1 ms to a day and a burst of 1 to 1000000",
            ));
        }
        Ok(self)
    }
}

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// It fits.
    Allowed,
    /// It does not yet.
    Limited {
        /// It will after so long.
        retry_after: Duration,
    },
}
