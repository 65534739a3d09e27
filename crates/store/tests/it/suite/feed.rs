//! The feed of changed nodes.

use std::time::Duration;

use anyhow::bail;
use lingua_core::NodeId;
use lingua_core::node::Health;
use lingua_store::Backend;
use lingua_store::nodes::{Claim, FeedCursor, Registration, Vitals};
use tokio::sync::Mutex;

use super::samples::*;
use super::{Outcome, StoreUnderTest};

/// The feed is one for all: tests of it take turns, so that none makes another fall behind.
static FEED: Mutex<()> = Mutex::const_new(());

/// Follows the feed until it names `node`, which must be soon.
async fn announced(
    store: &Backend,
    mut cursor: FeedCursor,
    node: &NodeId,
) -> anyhow::Result<FeedCursor> {
    for _ in 0..100 {
        let changes = store.feed.changes(Some(&cursor), Duration::from_millis(200)).await?;
        assert!(!changes.resync, "a reader that keeps up misses nothing");
        let mut once = changes.nodes.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), changes.nodes.len(), "each node once");
        cursor = changes.cursor;
        if once.contains(node) {
            return Ok(cursor);
        }
    }
    bail!("the feed never named {node}")
}

pub async fn the_feed_begins_at_its_present_end(store: &impl StoreUnderTest) -> Outcome {
    let _turn = FEED.lock().await;
    let (a, b) = (store.backend(), store.second());
    let before = TestNode::ready(&a, 1).await?;
    let end = b.feed.changes(None, Duration::from_secs(5)).await?;
    assert_eq!(end.nodes, []);
    let after = TestNode::ready(&a, 1).await?;
    let mut cursor = end.cursor;
    loop {
        let changes = b.feed.changes(Some(&cursor), Duration::from_secs(5)).await?;
        assert!(!changes.nodes.contains(&before.id), "it was there before the reader came");
        if changes.nodes.contains(&after.id) {
            return Ok(());
        }
        assert!(!changes.nodes.is_empty(), "the new node was never named");
        cursor = changes.cursor;
    }
}

pub async fn the_feed_names_nodes_that_were_put_or_went_offline_or_changed_health(
    store: &impl StoreUnderTest,
) -> Outcome {
    let _turn = FEED.lock().await;
    let (a, b) = (store.backend(), store.second());
    let cursor = b.feed.changes(None, Duration::ZERO).await?.cursor;
    let node = TestNode::ready(&a, 1).await?;
    let cursor = announced(&b, cursor, &node.id).await?;
    let again = Registration { claim: Claim::Again(node.epoch), ..node.registration.clone() };
    a.nodes.put(&node.id, &again).await?;
    let cursor = announced(&b, cursor, &node.id).await?;
    let said = Vitals { health: Health::Draining, ..vitals(1) };
    a.nodes.beat(&node.id, &node.beat(said)).await?;
    let cursor = announced(&b, cursor, &node.id).await?;
    a.nodes.offline(&node.id, node.epoch).await?;
    announced(&b, cursor, &node.id).await?;
    Ok(())
}

pub async fn the_feed_wakes_a_waiting_reader(store: &impl StoreUnderTest) -> Outcome {
    let _turn = FEED.lock().await;
    let (a, b) = (store.backend(), store.second());
    let mut cursor = b.feed.changes(None, Duration::ZERO).await?.cursor;
    let id = node_id();
    let writer = {
        let id = id.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            TestNode::put(&a, id, registration(1)).await
        })
    };
    let woken = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let changes = b.feed.changes(Some(&cursor), LONG).await?;
            if changes.nodes.contains(&id) {
                return anyhow::Ok(());
            }
            cursor = changes.cursor;
        }
    });
    woken.await??;
    writer.await??;
    Ok(())
}

pub async fn a_reader_that_waits_holds_up_no_other(store: &impl StoreUnderTest) -> Outcome {
    let _turn = FEED.lock().await;
    let b = store.second();
    let before = b.feed.changes(None, Duration::ZERO).await?.cursor;
    let node = TestNode::ready(&store.backend(), 1).await?;
    let end = b.feed.changes(None, Duration::ZERO).await?.cursor;
    let waiting = {
        let b = b.clone();
        tokio::spawn(async move { b.feed.changes(Some(&end), LONG).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    // A wait lasts ten seconds at the longest, and this must not take one.
    let named = announced(&b, before, &node.id);
    tokio::time::timeout(Duration::from_secs(5), named).await??;
    waiting.abort();
    Ok(())
}

pub async fn a_reader_that_fell_behind_is_told_to_resync(store: &impl StoreUnderTest) -> Outcome {
    let _turn = FEED.lock().await;
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let cursor = b.feed.changes(None, Duration::ZERO).await?.cursor;
    for _ in 0..100 {
        let changing = (0..16).map(|_| {
            let (a, node) = (a.clone(), node.clone());
            tokio::spawn(async move {
                for health in [Health::Draining, Health::Ready].repeat(32) {
                    let beat = node.beat(Vitals { health, ..vitals(1) });
                    a.nodes.beat(&node.id, &beat).await?;
                }
                anyhow::Ok(())
            })
        });
        for task in changing.collect::<Vec<_>>() {
            task.await??;
        }
        let changes = b.feed.changes(Some(&cursor), Duration::ZERO).await?;
        if changes.resync {
            a.nodes.offline(&node.id, node.epoch).await?;
            announced(&b, changes.cursor, &node.id).await?;
            return Ok(());
        }
    }
    bail!("100 000 changes and no resync: the feed is not bounded")
}
