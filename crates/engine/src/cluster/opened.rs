//! Which envelopes were opened: one whose deletion was lost is read again, and must not act again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use lingua_core::planted::{self, Flaw};
use tokio::time::Instant;

use crate::peers::outbox::LIVE_FOR;

/// Envelopes that are remembered; beyond it those go first whose time is over first.
const MAX_OPENED: usize = 65_536;

/// Ids of envelopes that were opened, each for as long as it can come again.
#[derive(Default)]
pub(super) struct OpenedEnvelopes {
    ids: HashSet<u128>,
    ends: BinaryHeap<Reverse<(Instant, u128)>>,
}

impl OpenedEnvelopes {
    /// Notes that an envelope is opened now, which lives until then; `false` if it was before.
    pub fn open(&mut self, id: u128, live_until: Instant, now: Instant) -> bool {
        while let Some(Reverse((end, _))) = self.ends.peek()
            && *end < now
        {
            self.forget_first();
        }
        let first = self.ids.insert(id);
        if first {
            // A promoted server whose clock is behind lets it live that much longer.
            self.ends.push(Reverse((live_until.max(now) + LIVE_FOR, id)));
        }
        if self.ends.len() > MAX_OPENED {
            self.forget_first();
        }
        first || planted::on(Flaw::EnvelopeActedOnTwice)
    }

    fn forget_first(&mut self) {
        if let Some(Reverse((_, id))) = self.ends.pop() {
            self.ids.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_envelope_that_is_read_twice_is_opened_once() {
        let (mut opened, now) = (OpenedEnvelopes::default(), Instant::now());
        let end = now + LIVE_FOR;
        assert!(opened.open(1, end, now) && opened.open(2, end, now));
        assert!(!opened.open(1, end, now) && !opened.open(1, end, end));
        let later = end + LIVE_FOR + Duration::from_millis(1);
        assert!(opened.open(3, later, later));
        assert_eq!(opened.ids.len(), 1, "nobody delivers the others any more");
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let (mut opened, now) = (OpenedEnvelopes::default(), Instant::now());
        for id in 0..MAX_OPENED as u128 + 10 {
            assert!(opened.open(id, now + LIVE_FOR, now));
        }
        assert_eq!((opened.ids.len(), opened.ends.len()), (MAX_OPENED, MAX_OPENED));
        let again = opened.open(10, now + LIVE_FOR, now);
        assert!(!again && opened.open(9, now + LIVE_FOR, now), "the oldest went first");
    }
}
