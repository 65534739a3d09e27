//! What is known of nodes.

use async_trait::async_trait;
use lingua_core::{Moment, NodeId};

use super::MemoryStore;
use super::expiring::Expiring;
use super::sharded::Sharded;
use crate::error::Result;
use crate::journal::{Entry, Kind};
use crate::nodes::Fenced;
use crate::reputations::{REPUTATION_KEPT, Reputation, Reputations};

/// By node, with the moment at which it was written.
pub(super) type Known = Sharded<Expiring<NodeId, (Reputation, Moment)>, 16>;

#[async_trait]
impl Reputations for MemoryStore {
    async fn keep(&self, node: &NodeId, epoch: u64, known: &Reputation) -> Result<Fenced> {
        let now = self.change()?;
        // Held for the write too, so that who is superseded in between writes before that.
        let (hash, shard) = self.nodes.shards.of(node);
        let record = shard.nodes.get(hash, node).and_then(|known| known.record.as_ref());
        let fenced = match record {
            Some(record) if record.epoch > epoch => Fenced::Superseded { epoch: record.epoch },
            Some(record) if record.epoch == epoch => {
                let (hash, mut kept) = self.reputations.of(node);
                let until = now + REPUTATION_KEPT;
                self.note(|journal| {
                    journal.note(Kind::Reputation, &[node.as_str()], until, &(known, now));
                });
                kept.put(now, hash, node.clone(), (known.clone(), now), until);
                Fenced::Done
            }
            _ => Fenced::Unknown,
        };
        drop(shard);
        self.kept(fenced)
    }

    async fn read(&self, node: &NodeId) -> Result<Option<Reputation>> {
        let now = self.clock.now();
        let (hash, kept) = self.reputations.of(node);
        let found = kept.get(now, hash, node);
        Ok(found.map(|(known, at)| known.clone().aged(at.until(now))))
    }
}

impl MemoryStore {
    /// Puts back what was kept of a node's reputation; `None` if it cannot be read.
    pub(super) fn put_back_reputation(&self, now: Moment, entry: &Entry) -> Option<()> {
        let (node, known): (NodeId, (Reputation, Moment)) = (entry.id(0)?, entry.json()?);
        let (hash, mut kept) = self.reputations.of(&node);
        kept.put(now, hash, node, known, entry.until);
        Some(())
    }
}
