//! Nodes of turns, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{NodeId, SessionKey, TurnId};

use super::connection::Link;
use super::keys;
use super::reply::text;
use crate::error::{Error, Result, checked_ms};
use crate::turns::TurnBindings;

pub(super) struct RedisTurns {
    link: Link,
}

impl RedisTurns {
    pub(super) fn new(link: Link) -> Self {
        RedisTurns { link }
    }
}

#[async_trait]
impl TurnBindings for RedisTurns {
    async fn bind(
        &self,
        session: &SessionKey,
        turn: &TurnId,
        node: &NodeId,
        lease: Duration,
    ) -> Result<()> {
        let mut set = redis::cmd("SET");
        set.arg(keys::turn(session, turn)).arg(node.as_str()).arg("PX").arg(checked_ms(lease)?);
        self.link.command(&set).await.map(drop)
    }

    async fn node(&self, session: &SessionKey, turn: &TurnId) -> Result<Option<NodeId>> {
        let mut get = redis::cmd("GET");
        get.arg(keys::turn(session, turn));
        let bound = text("a turn's binding", self.link.command(&get).await?)?;
        match bound.as_str() {
            "" => Ok(None),
            node => {
                NodeId::new(node).map(Some).map_err(|_| Error::corrupt("a turn's binding", node))
            }
        }
    }
}
