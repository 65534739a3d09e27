//! What happens once per window, or at most at a rate.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::Moment;
use lingua_core::time::millis;

use super::MemoryStore;
use super::expiring::Expiring;
use super::sharded::Sharded;
use crate::error::{Result, checked_ms};
use crate::journal::{Entry, Kind};
use crate::rates::{Name, Rate, RateLimits, Take};

/// Windows and rates do not know each other: the same name may be used for both.
#[derive(Clone, Default)]
pub(super) struct Windows {
    begun: Sharded<Expiring<Name, ()>, 16>,
    rates: Sharded<Expiring<Name, Moment>, 16>,
}

#[async_trait]
impl RateLimits for MemoryStore {
    async fn first(&self, name: &Name, window: Duration) -> Result<bool> {
        checked_ms(window)?;
        let now = self.change()?;
        let (hash, mut begun) = self.rates.begun.of(name);
        // Looked up first: a window is begun once and asked for often, and that needs no own name.
        if begun.get(now, hash, name).is_some() {
            return Ok(false);
        }
        begun.put(now, hash, name.clone(), (), now + window);
        self.note(|journal| journal.note_bytes(Kind::Window, &[name.as_str()], now + window, &[]));
        drop(begun);
        self.kept(true)
    }

    async fn take(&self, name: &Name, rate: Rate) -> Result<Take> {
        let rate = rate.checked()?;
        let now = self.change()?;
        let (hash, mut rates) = self.rates.rates.of(name);
        let due = rates.get(now, hash, name).copied().unwrap_or(now);
        match conforms(now, due, rate) {
            Ok(next) => {
                rates.put(now, hash, name.clone(), next, next);
                self.note(|journal| journal.note_bytes(Kind::Rate, &[name.as_str()], next, &[]));
                drop(rates);
                self.kept(Take::Allowed)
            }
            Err(retry_after) => Ok(Take::Limited { retry_after }),
        }
    }
}

impl MemoryStore {
    /// Puts back a window or a rate that was kept; `None` if it cannot be read.
    pub(super) fn put_back_rate(&self, now: Moment, entry: &Entry) -> Option<()> {
        let (name, until) = (Name::new(entry.key.first()?).ok()?, entry.until);
        if entry.kind == Kind::Window {
            let (hash, mut begun) = self.rates.begun.of(&name);
            begun.put(now, hash, name, (), until);
        } else {
            let (hash, mut rates) = self.rates.rates.of(&name);
            rates.put(now, hash, name, until, until);
        }
        Some(())
    }
}

/// GCRA: `due` is when the next event would come if all came evenly. An event may be early by all of
/// a burst but itself. Gives the next `due`, or how long to wait.
fn conforms(now: Moment, due: Moment, rate: Rate) -> std::result::Result<Moment, Duration> {
    let interval = Duration::from_millis(millis(rate.interval));
    let earliest = due - interval * (rate.burst - 1);
    if earliest <= now { Ok(due + interval) } else { Err(now.until(earliest)) }
}

#[cfg(test)]
impl Windows {
    /// Entries that take room, of windows and of rates.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let begun = (0..16).filter_map(|n| Some(self.begun.at(n)?.len())).sum();
        let rates = (0..16).filter_map(|n| Some(self.rates.at(n)?.len())).sum();
        (begun, rates)
    }
}
