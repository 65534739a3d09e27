//! Which node has the earlier parts of a turn.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{Moment, NodeId, SessionKey, TurnId};

use super::MemoryStore;
use super::expiring::Expiring;
use super::sharded::Sharded;
use crate::error::{Result, checked_ms};
use crate::journal::{Entry, Kind};
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
        let now = self.change()?;
        let key = (session.clone(), turn.clone());
        let (hash, mut turns) = self.turns.of(&key);
        turns.put(now, hash, key, node.clone(), now + lease);
        self.note(|journal| {
            let [tenant, session] = [session.tenant().as_str(), session.session().as_str()];
            let key = [tenant, session, turn.as_str()];
            journal.note_bytes(Kind::Turn, &key, now + lease, node.as_str().as_bytes());
        });
        drop(turns);
        self.kept(())
    }

    async fn node(&self, session: &SessionKey, turn: &TurnId) -> Result<Option<NodeId>> {
        let now = self.clock.now();
        let key = (session.clone(), turn.clone());
        let (hash, turns) = self.turns.of(&key);
        Ok(turns.get(now, hash, &key).cloned())
    }
}

impl MemoryStore {
    /// Puts back a turn that was kept; `None` if it cannot be read.
    pub(super) fn put_back_turn(&self, now: Moment, entry: &Entry) -> Option<()> {
        let key = (SessionKey::new(entry.id(0)?, entry.id(1)?), entry.id(2)?);
        let node = std::str::from_utf8(&entry.value).ok()?.parse().ok()?;
        let (hash, mut turns) = self.turns.of(&key);
        turns.put(now, hash, key, node, entry.until);
        Some(())
    }
}
