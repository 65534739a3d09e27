//! Agents that cannot list what they run, and only say how many jobs that are.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::link::{Counted, Reconciled, by_count};
use tokio::time::Instant;

use super::Nodes;
use super::state::{Held, NodeState, Running};

impl Nodes {
    /// Gives back what cannot run, as the node runs so many jobs. Says what it runs, if that is clear.
    pub(super) async fn reconcile_count(
        self: &Arc<Self>,
        node: &Arc<NodeState>,
        running: u32,
        said: Instant,
    ) -> lingua_store::Result<Option<Running>> {
        let timing = &self.shared.settings.timing;
        let crossing = Duration::from_millis(timing.send_ms + timing.ack_ms);
        let Reconciled { running, freed } = by_count(&node.counted(said, crossing), running);
        for token in freed {
            self.shared.store.slots.release(&node.id, token).await?;
            if node.dropped(token) {
                self.slot_came_back(node);
            }
        }
        Ok(running.map(|known| Running { said, known, foreign: Vec::new() }))
    }
}

impl NodeState {
    /// What the node was sent, the oldest first; nothing without a connection.
    fn counted(&self, said: Instant, crossing: Duration) -> Vec<Counted> {
        let inner = self.lock();
        let Some(serial) = inner.link.as_ref().map(|link| link.serial) else { return Vec::new() };
        let mut held: Vec<&Held> = inner.held.values().collect();
        held.sort_unstable_by_key(|held| held.sent);
        held.into_iter().map(|held| held.counted(said, serial, crossing)).collect()
    }
}
