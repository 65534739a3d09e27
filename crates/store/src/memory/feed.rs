//! The feed of changed nodes: a ring of the last ones.

use std::collections::VecDeque;
use std::time::Duration;

use lingua_core::NodeId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::expiring::Map;
use super::fork::copied;
use super::waiting;
use crate::nodes::{Changes, FeedCursor};

/// Changes kept. Whoever falls further behind reads everything again.
const CAPACITY: usize = 10_000;

/// A cursor is the number of changes that its reader has seen.
#[derive(Default)]
pub(super) struct Feed {
    ring: Mutex<Ring>,
    news: Notify,
}

#[derive(Clone, Default)]
struct Ring {
    /// Changes there ever were.
    count: u64,
    /// The last of them, oldest first.
    last: VecDeque<NodeId>,
}

impl Feed {
    /// The same changes once more.
    pub(super) fn copy(&self) -> Self {
        Feed { ring: copied(&self.ring), news: Notify::new() }
    }

    /// Tells every reader that the node changed.
    pub(super) fn push(&self, node: &NodeId) {
        let mut ring = self.ring.lock();
        if ring.last.len() == CAPACITY {
            ring.last.pop_front();
        }
        ring.last.push_back(node.clone());
        ring.count += 1;
        drop(ring);
        self.news.notify_waiters();
    }

    /// What changed after `cursor`, waiting for the first change.
    pub(super) async fn after(&self, cursor: Option<&FeedCursor>, wait: Duration) -> Changes {
        let Some(cursor) = cursor else { return self.end() };
        let Ok(seen) = cursor.0.parse() else { return self.end() };
        let found = waiting::within(wait, &self.news, || self.ring.lock().after(seen)).await;
        found.unwrap_or_else(|| Changes {
            nodes: Vec::new(),
            cursor: cursor.clone(),
            resync: false,
        })
    }

    /// For a reader that knows nothing yet, or no longer what it missed.
    fn end(&self) -> Changes {
        self.ring.lock().end(true)
    }
}

impl Ring {
    fn end(&self, resync: bool) -> Changes {
        Changes { nodes: Vec::new(), cursor: FeedCursor(self.count.to_string()), resync }
    }

    /// `None` if nothing changed.
    fn after(&self, seen: u64) -> Option<Changes> {
        if seen == self.count {
            return None;
        }
        // A cursor from beyond the end is not of this store.
        let missed = self.count.checked_sub(seen).and_then(|n| usize::try_from(n).ok());
        let Some(first) = missed.and_then(|missed| self.last.len().checked_sub(missed)) else {
            return Some(self.end(true));
        };
        let mut told = Map::default();
        let nodes = self.last.range(first..).filter(|node| told.insert(*node, ()).is_none());
        Some(Changes { nodes: nodes.cloned().collect(), ..self.end(false) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: usize) -> NodeId {
        NodeId::new(format!("node-{n}")).unwrap()
    }

    #[tokio::test]
    async fn a_reader_that_fell_behind_the_ring_is_told_to_resync() {
        let feed = Feed::default();
        let start = feed.after(None, Duration::ZERO).await.cursor;
        (0..CAPACITY).for_each(|n| feed.push(&node(n)));
        let all = feed.after(Some(&start), Duration::ZERO).await;
        assert_eq!((all.nodes.len(), all.resync), (CAPACITY, false));
        feed.push(&node(0));
        let late = feed.after(Some(&start), Duration::ZERO).await;
        assert!(late.resync && late.nodes.is_empty());
        assert_eq!(feed.ring.lock().last.len(), CAPACITY);
        let next = feed.after(Some(&late.cursor), Duration::ZERO).await;
        assert_eq!((next.nodes.len(), next.resync), (0, false));
    }
}
