//! Forgets what is long gone.
//!
//! Almost everything in the store ends by itself or is taken away by whoever finds it on its way. What
//! is left is the record of a node that its instance could not forget because it died first: it
//! would be read by every instance for ever.

use std::time::Duration;

use lingua_core::NodeId;
use lingua_store::Backend;
use lingua_store::nodes::{NODE_SHARDS, NodeRecord};

use crate::nodes::FORGET_AFTER;

/// One of the shards of nodes in so long; all of them in ten minutes.
const SHARD_EVERY: Duration = Duration::from_millis(9_400);

/// Runs for as long as this instance leads.
pub(crate) async fn tidy(store: Backend) {
    let mut tick = tokio::time::interval(SHARD_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for shard in (0..NODE_SHARDS).cycle() {
        tick.tick().await;
        match tidy_shard(&store, shard).await {
            Ok(0) => {}
            Ok(nodes) => tracing::info!(nodes, "nodes long gone were forgotten"),
            Err(error) => tracing::debug!(%error, "what is gone is forgotten later"),
        }
    }
}

async fn tidy_shard(store: &Backend, shard: u32) -> lingua_store::Result<usize> {
    let gone = |record: NodeRecord| -> Option<NodeId> {
        (record.fresh_until + FORGET_AFTER <= record.read_at).then_some(record.node)
    };
    let mut forgotten = 0;
    for node in store.feed.shard(shard).await?.into_iter().filter_map(gone) {
        // The store looks again: a node that came back in between stays.
        forgotten += usize::from(store.nodes.forget(&node, FORGET_AFTER).await?);
    }
    Ok(forgotten)
}

#[cfg(test)]
mod tests {

    use lingua_core::lang::LangSet;
    use lingua_core::node::{Declaration, Health, NodeProfile};
    use lingua_store::memory::MemoryStore;
    use lingua_store::nodes::{Claim, Registration, Vitals};
    use lingua_store::{Clock, Instance};

    use super::*;

    fn registration() -> Registration {
        let english = LangSet::new(["en".parse().unwrap()]).unwrap();
        let declaration = Declaration { semantic: english, max_slots: 1, ..Declaration::default() };
        Registration {
            claim: Claim::Newest,
            owner: Instance { id: "dead".parse().unwrap(), boot: 1 },
            profile: NodeProfile::from_declaration(declaration).unwrap(),
            vitals: Vitals {
                max: 1,
                health: Health::Ready,
                overloaded: false,
                fresh_for: Duration::from_secs(45),
            },
            known: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_whose_instance_died_is_forgotten_and_a_living_one_is_not() {
        let clock = Clock::manual();
        let store = MemoryStore::open(clock.clone());
        let (gone, here): (NodeId, NodeId) = ("gone".parse().unwrap(), "here".parse().unwrap());
        store.nodes.put(&gone, &registration()).await.unwrap();
        let janitor = tokio::spawn(tidy(store.clone()));
        let round = SHARD_EVERY * (NODE_SHARDS + 1);
        tokio::time::sleep(round).await;
        assert!(store.nodes.get(&gone).await.unwrap().is_some(), "it may come back");
        clock.advance(FORGET_AFTER + Duration::from_secs(46));
        store.nodes.put(&here, &registration()).await.unwrap();
        tokio::time::sleep(round).await;
        assert_eq!(store.nodes.get(&gone).await.unwrap(), None);
        assert!(store.nodes.get(&here).await.unwrap().is_some());
        janitor.abort();
    }
}
