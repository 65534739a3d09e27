//! A node that keeps failing is put aside: its owner reads why, and when it is tried again.
//!
//! To be put aside is a breaker that opened `breaker::PUT_ASIDE_AFTER` times without closing. While the breaker is open
//! the node is told to drain, and at the end of each pause to resume. Then it gets one job as a probe, and a
//! success closes the breaker.

use std::fmt;
use std::time::Duration;

use super::breaker::{Breaker, BreakerState};
use super::event::{Effect, Effects, Kinds, ToNode};
use super::machine::Machine;
use super::reputation::Reputation;
use crate::node::Order;
use crate::rate::Rate;
use crate::time::{Moment, millis};

/// Why a node is put aside, as its owner reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Aside {
    /// Failures since the last success.
    pub failures: u32,
    /// The code of the last one, if it is known.
    pub code: Option<String>,
    /// When one job goes to it as a probe; `None` now.
    pub probe_in: Option<Duration>,
}

impl fmt::Display for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "put aside after {} failures in a row", self.failures)?;
        if let Some(code) = &self.code {
            write!(f, ", the last one {code}")?;
        }
        match self.probe_in {
            Some(left) => {
                let seconds = millis(left).div_ceil(1_000);
                write!(
                    f,
                    ": it gets one job as a probe in {seconds} s, or when its owner resumes it"
                )
            }
            None => f.write_str(": it gets one job as a probe now"),
        }
    }
}

/// How often a probe may be requested: each may cost a job another attempt.
fn probe_requests() -> Rate {
    Rate::new(2, Duration::from_secs(60), 2)
}

impl Reputation {
    /// Why a node with this past and this breaker is put aside, if it is.
    pub fn aside(&self, breaker: &Breaker, now: Moment) -> Option<Aside> {
        let probe_in = match breaker.state() {
            _ if !breaker.is_aside() => return None,
            BreakerState::Open { until } => Some(now.until(until)),
            BreakerState::Closed | BreakerState::Probing => None,
        };
        let code = self.failures.back().map(|failure| failure.code.clone());
        Some(Aside { failures: breaker.failures(), code, probe_in })
    }
}

impl<K: Kinds> Machine<K> {
    /// Why the node is put aside, if it is.
    pub fn aside(&self) -> Option<Aside> {
        self.past.aside(&self.breaker, self.now)
    }

    /// Tells a node that is put aside to drain while its breaker is open, and to resume for a probe. An
    /// administrator's order comes first.
    pub(super) fn tell_aside(&self, out: &mut Effects<K>) {
        let Some(aside) = self.aside() else { return };
        if self.is_connected() && self.order == Order::Serve {
            let command = if aside.probe_in.is_some() { "drain" } else { "resume" };
            let reason = aside.to_string().into();
            out.push(Effect::Send(ToNode::Control { command, reason }));
        }
    }

    /// The owner or an operator says that the node works again: it gets one job as a probe at once.
    pub(super) fn on_probe_requested(&mut self, out: &mut Effects<K>) {
        if let Err(wait) = self.probe_requests.take(probe_requests(), 1, self.now) {
            return out.push(Effect::ProbeRefused { retry_after: wait });
        }
        if self.breaker.probe_now() {
            self.sync.pending.beat = true;
            self.sync.pending.reputation = true;
            self.tell_aside(out);
            out.push(Effect::FleetChanged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_what_failed_and_when_it_is_tried_again() {
        let aside = Aside {
            failures: 6,
            code: Some("NMT_TIMEOUT".into()),
            probe_in: Some(Duration::from_millis(15_200)),
        };
        assert_eq!(
            aside.to_string(),
            "put aside after 6 failures in a row, the last one NMT_TIMEOUT: it gets one job as a probe \
             in 16 s, or when its owner resumes it"
        );
        let now = Aside { code: None, probe_in: None, ..aside };
        assert_eq!(
            now.to_string(),
            "put aside after 6 failures in a row: it gets one job as a probe now"
        );
    }
}
