//! Which node has the earlier parts of a turn.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{NodeId, SessionKey, TurnId};

use super::MemoryStore;
use super::expiring::Expiring;
use super::sharded::Sharded;
use crate::error::{Result, checked_ms};
use crate::turns::TurnBindings;

pub(super) type Turns = Sharded<Expiring<(SessionKey, TurnId), NodeId>, 16>;

#[async_trait]
impl TurnBindings for MemoryStore {
    async fn bind(
        &self,
        session: &SessionKey,
        turn: &TurnId,
        node: &NodeId,
        lease: Duration,
    ) -> Result<()> {
        checked_ms(lease)?;
        let now = self.clock.now();
        let key = (session.clone(), turn.clone());
        let (hash, mut turns) = self.turns.of(&key);
        turns.put(now, hash, key, node.clone(), now + lease);
        Ok(())
    }

    async fn node(&self, session: &SessionKey, turn: &TurnId) -> Result<Option<NodeId>> {
        let now = self.clock.now();
        let key = (session.clone(), turn.clone());
        let (hash, turns) = self.turns.of(&key);
        Ok(turns.get(now, hash, &key).cloned())
    }
}
