//! What is known of nodes, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::NodeId;
use lingua_core::time::millis;

use super::keys;
use super::nodes::RedisNodes;
use super::scripts::{REPUTATION_KEEP, REPUTATION_READ};
use crate::error::{Error, Result};
use crate::nodes::Fenced;
use crate::reputations::{REPUTATION_KEPT, Reputation, Reputations};

#[async_trait]
impl Reputations for RedisNodes {
    async fn keep(&self, node: &NodeId, epoch: u64, known: &Reputation) -> Result<Fenced> {
        let json = serde_json::to_vec(known).expect("it has only string keys");
        let keys = [keys::node_record(node), keys::node_reputation(node)];
        let call = self
            .link
            .call(&REPUTATION_KEEP, keys)?
            .arg(epoch)
            .arg(json)
            .arg(millis(REPUTATION_KEPT));
        call.run().await?.fenced()
    }

    async fn read(&self, node: &NodeId) -> Result<Option<Reputation>> {
        let call = self.link.call(&REPUTATION_READ, [keys::node_reputation(node)])?;
        let mut reply = call.run().await?;
        match reply.word() {
            "known" => {
                let age = Duration::from_millis(reply.number()?);
                let json = reply.text()?;
                let known: Reputation = serde_json::from_str(&json)
                    .map_err(|e| Error::corrupt("a node's reputation", e.to_string()))?;
                Ok(Some(known.aged(age)))
            }
            "unknown" => Ok(None),
            _ => Err(reply.unexpected()),
        }
    }
}
