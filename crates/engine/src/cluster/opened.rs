//! Which envelopes were opened: one whose deletion was lost is read again, and must not act again.

use std::collections::{HashSet, VecDeque};

use tokio::time::Instant;

use crate::peers::outbox::LIVE_FOR;

/// Envelopes that are remembered; beyond it the oldest go first.
const MAX_OPENED: usize = 65_536;

/// Ids of envelopes that were opened, each for as long as it can come again.
#[derive(Default)]
pub(super) struct OpenedEnvelopes {
    ids: HashSet<u128>,
    order: VecDeque<(Instant, u128)>,
}

impl OpenedEnvelopes {
    /// Notes that an envelope is opened now; `false` if it was before.
    pub fn open(&mut self, id: u128, now: Instant) -> bool {
        while let Some((at, oldest)) = self.order.front()
            && now - *at > LIVE_FOR
        {
            self.ids.remove(oldest);
            self.order.pop_front();
        }
        let first = self.ids.insert(id);
        if first {
            self.order.push_back((now, id));
        }
        if self.order.len() > MAX_OPENED
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_envelope_that_is_read_twice_is_opened_once() {
        let (mut opened, now) = (OpenedEnvelopes::default(), Instant::now());
        assert!(opened.open(1, now) && opened.open(2, now));
        assert!(!opened.open(1, now) && !opened.open(1, now + LIVE_FOR));
        let later = now + LIVE_FOR + Duration::from_millis(1);
        assert!(opened.open(3, later));
        assert_eq!(opened.ids.len(), 1, "nobody delivers the others any more");
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let (mut opened, now) = (OpenedEnvelopes::default(), Instant::now());
        for id in 0..MAX_OPENED as u128 + 10 {
            assert!(opened.open(id, now));
        }
        assert_eq!((opened.ids.len(), opened.order.len()), (MAX_OPENED, MAX_OPENED));
        assert!(!opened.open(10, now) && opened.open(9, now), "the oldest went first");
    }
}
