//! Which node has the earlier parts of a turn.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{NodeId, SessionKey, TurnId};

use crate::error::Result;

/// Turns, each bound to a node for a time: the parts of one long utterance prefer one node.
#[async_trait]
pub trait TurnBindings: Send + Sync {
    /// Binds a turn to a node, softly: for `lease`, over any earlier binding.
    async fn bind(
        &self,
        session: &SessionKey,
        turn: &TurnId,
        node: &NodeId,
        lease: Duration,
    ) -> Result<()>;

    /// The node that a turn is bound to. Whether it is able and free is another question.
    async fn node(&self, session: &SessionKey, turn: &TurnId) -> Result<Option<NodeId>>;
}
