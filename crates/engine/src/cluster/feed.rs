//! Follows the node records of all instances.
//!
//! The feed of changes is fast, and a full read now and then corrects what it missed. During a full read, changes
//! are applied in between.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use lingua_core::NodeId;
use lingua_core::hash::HashSet;
use lingua_core::planted::{self, Flaw};
use lingua_store::nodes::{Changes, FeedCursor, NODE_SHARDS};
use tokio::time::Instant;

use super::Cluster;

/// How often all records are read again.
const RESYNC_EVERY: Duration = Duration::from_secs(30);

/// How long one read of the feed waits for a change.
const WAIT: Duration = Duration::from_secs(2);

/// After a store that did not answer.
const PAUSE: Duration = Duration::from_millis(300);

/// Shards read before changes are applied in between. Each read of the feed may take the store some milliseconds, and
/// an instance that starts waits for the whole of it.
const SHARDS_IN_A_ROW: u32 = 8;

/// Records read at the same time, of nodes that changed.
const READS_AT_ONCE: usize = 32;

/// A full read that is under way.
struct Resync {
    /// The shard that is read next.
    shard: u32,
    /// Known nodes that the full read has not found yet.
    missed: HashSet<NodeId>,
}

/// How far the records have been followed.
struct Follower {
    cursor: Option<FeedCursor>,
    resync: Option<Resync>,
    resync_at: Instant,
}

impl Cluster {
    /// Runs until the engine ends.
    pub async fn follow(self: Arc<Self>) {
        let mut status = self.shared.store.status.clone();
        let mut connection = status.borrow_and_update().connection();
        let mut follower = Follower { cursor: None, resync: None, resync_at: Instant::now() };
        loop {
            let step = tokio::select! {
                biased;
                changed = status.changed() => match changed {
                    Ok(()) => {
                        let now = status.borrow_and_update().connection();
                        // After a late answer on the same connection nothing is lost.
                        let late = planted::on(Flaw::LateAnswerReasserts);
                        if now.is_some() && (now != connection || late) {
                            connection = now;
                            follower.resync_at = Instant::now();
                        }
                        continue;
                    }
                    Err(_) => return,
                },
                step = self.follow_on(&mut follower) => step,
            };
            if let Err(error) = step {
                tracing::debug!(%error, "the records of nodes are read later");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// One step. It may be cancelled anywhere: what it did not finish is repeated.
    async fn follow_on(&self, follower: &mut Follower) -> lingua_store::Result<()> {
        if follower.resync_at <= Instant::now() || follower.cursor.is_none() {
            // From the present end of the feed on, so that no change is missed.
            let end = self.shared.store.feed.changes(None, Duration::ZERO).await?;
            follower.cursor = Some(end.cursor);
            let missed = self.router.remote.ids().into_iter().collect();
            follower.resync = Some(Resync { shard: 0, missed });
            follower.resync_at = Instant::now() + RESYNC_EVERY;
        }
        let mut wait = WAIT.min(follower.resync_at - Instant::now());
        if let Some(resync) = &mut follower.resync {
            wait = Duration::ZERO;
            let mut is_last = false;
            for _ in 0..SHARDS_IN_A_ROW {
                is_last = is_last || self.read_shard(resync).await?;
            }
            if is_last {
                follower.resync = None;
                self.known.send_if_modified(|known| !std::mem::replace(&mut known.fleet, true));
            }
        }
        let changes = self.shared.store.feed.changes(follower.cursor.as_ref(), wait).await?;
        let Changes { nodes, cursor, resync } = changes;
        let read = |node: NodeId| {
            let store = self.shared.store.clone();
            async move { (store.nodes.get(&node).await, node) }
        };
        let mut reads = stream::iter(nodes).map(read).buffered(READS_AT_ONCE);
        while let Some((record, node)) = reads.next().await {
            match record? {
                Some(record) => self.router.apply_record(record),
                None => self.router.remote.remove(&node),
            }
        }
        if resync {
            follower.resync_at = Instant::now();
        }
        follower.cursor = Some(cursor);
        Ok(())
    }

    /// Reads one shard of all records again. Returns whether it was the last.
    async fn read_shard(&self, resync: &mut Resync) -> lingua_store::Result<bool> {
        for record in self.shared.store.feed.shard(resync.shard).await? {
            resync.missed.remove(&record.node);
            self.router.apply_record(record);
        }
        resync.shard += 1;
        let is_last = resync.shard == NODE_SHARDS;
        if is_last {
            for node in resync.missed.drain() {
                self.router.remote.remove(&node);
            }
            self.router.remote.forget_lost();
        }
        Ok(is_last)
    }
}
