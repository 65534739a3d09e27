//! Whether a node's heartbeats come in time.

use std::time::Duration;

use crate::time::Moment;

/// Heartbeats that may be missed before a node is overdue.
pub const HEARTBEATS_UNTIL_OVERDUE: u32 = 3;

/// When a node's next heartbeat is overdue, and whether that was noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Freshness {
    /// The interval that the node was told.
    heartbeat: Duration,
    fresh_until: Moment,
    overdue: bool,
}

impl Freshness {
    pub fn new(heartbeat: Duration, now: Moment) -> Self {
        Freshness { heartbeat, fresh_until: now, overdue: false }
    }

    /// A heartbeat came.
    pub fn alive(&mut self, now: Moment) {
        self.fresh_until = now + self.fresh_for();
        self.overdue = false;
    }

    pub fn fresh_for(&self) -> Duration {
        self.heartbeat * HEARTBEATS_UNTIL_OVERDUE
    }

    pub fn heartbeat(&self) -> Duration {
        self.heartbeat
    }

    pub fn is_fresh(&self, now: Moment) -> bool {
        self.fresh_until > now
    }

    pub fn is_overdue(&self) -> bool {
        self.overdue
    }

    /// Notices that the heartbeat is overdue; `true` once.
    pub fn tick(&mut self, now: Moment) -> bool {
        let noticed = !self.overdue && !self.is_fresh(now);
        self.overdue |= noticed;
        noticed
    }

    /// When [`Freshness::tick`] has something to do.
    pub fn due(&self) -> Option<Moment> {
        (!self.overdue).then_some(self.fresh_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_overdue_after_three_intervals_and_that_is_noticed_once() {
        let at = Moment::from_millis;
        let mut freshness = Freshness::new(Duration::from_millis(100), at(0));
        freshness.alive(at(0));
        assert_eq!(freshness.due(), Some(at(300)));
        assert!(!freshness.tick(at(299)) && freshness.is_fresh(at(299)));
        assert!(freshness.tick(at(300)) && !freshness.is_fresh(at(300)));
        assert!(!freshness.tick(at(400)) && freshness.is_overdue() && freshness.due().is_none());
        freshness.alive(at(500));
        assert!(!freshness.is_overdue() && freshness.is_fresh(at(500)));
    }
}
