//! Who is there: the nodes of all instances, as the store knows them.
//!
//! The feed of changes makes it quick, and reading everything again now and then makes it true.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::hash::HashSet;
use lingua_store::nodes::{FeedCursor, NODE_SHARDS};
use tokio::time::Instant;

use super::Cluster;

/// How often everything is read again.
const RESYNC_EVERY: Duration = Duration::from_secs(30);

/// How long one look at the feed waits for a change.
const WAIT: Duration = Duration::from_secs(2);

/// After a store that did not answer.
const PAUSE: Duration = Duration::from_millis(300);

impl Cluster {
    /// Runs until the engine ends.
    pub async fn follow(self: Arc<Self>) {
        let mut cursor: Option<FeedCursor> = None;
        let mut resync_at = Instant::now();
        let mut status = self.shared.store.status.clone();
        loop {
            if resync_at <= Instant::now() {
                // From the present end of the feed on, so that nothing falls in between.
                cursor = match self.shared.store.feed.changes(None, Duration::ZERO).await {
                    Ok(changes) => Some(changes.cursor),
                    Err(_) => None,
                };
                let read = self.resync().await && cursor.is_some();
                resync_at = Instant::now() + if read { RESYNC_EVERY } else { PAUSE };
            }
            let Some(from) = &cursor else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let changes = tokio::select! {
                biased;
                changed = status.changed() => match changed {
                    Ok(()) => {
                        resync_at = Instant::now();
                        continue;
                    }
                    Err(_) => return,
                },
                changes = self.shared.store.feed.changes(Some(from), WAIT) => changes,
            };
            match changes {
                Ok(changes) => {
                    for node in &changes.nodes {
                        match self.shared.store.nodes.get(node).await {
                            Ok(Some(record)) => self.router.apply_record(record),
                            Ok(None) => self.router.remote.remove(node),
                            Err(_) => resync_at = Instant::now(),
                        }
                    }
                    if changes.resync {
                        resync_at = Instant::now();
                    }
                    cursor = Some(changes.cursor);
                }
                Err(error) => {
                    tracing::debug!(%error, "changes of nodes are read later");
                    resync_at = Instant::now() + PAUSE;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Reads what the store knows of every node; says whether it could.
    pub(super) async fn resync(&self) -> bool {
        let mut missed: HashSet<_> = self.router.remote.ids().into_iter().collect();
        for shard in 0..NODE_SHARDS {
            let records = match self.shared.store.feed.shard(shard).await {
                Ok(records) => records,
                Err(error) => {
                    tracing::debug!(%error, "the nodes of others are read later");
                    return false;
                }
            };
            for record in records {
                missed.remove(&record.node);
                self.router.apply_record(record);
            }
        }
        for node in missed {
            self.router.remote.remove(&node);
        }
        self.router.remote.forget_lost();
        true
    }
}
