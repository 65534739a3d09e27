//! The directory of nodes.

use std::time::Duration;

use anyhow::bail;
use lingua_core::node::Health;
use lingua_core::{Moment, NodeId};
use lingua_store::Backend;
use lingua_store::nodes::{
    BeatReply, Claim, Fenced, MAX_GAPS_PER_NODE, NODE_SHARDS, NodeRecord, Order, ProfileVersion,
    Put, Registration, Vitals,
};

use super::samples::*;
use super::{Outcome, StoreUnderTest};

pub async fn the_newest_claim_owns_the_record_under_a_higher_epoch(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (node, first, next) = (node_id(), registration(2), registration(2));
    let Put::Stored { epoch: e1, replaced: None } = a.nodes.put(&node, &first).await? else {
        bail!("a new node replaces nobody");
    };
    let put = b.nodes.put(&node, &next).await?;
    let Put::Stored { epoch: e2, replaced: Some(replaced) } = put else { bail!("{put:?}") };
    assert_eq!(replaced, first.owner);
    let put = b.nodes.put(&node, &next).await?;
    let Put::Stored { epoch: e3, replaced: None } = put else {
        bail!("an owner does not replace itself: {put:?}");
    };
    assert!(e1 < e2 && e2 < e3, "{e1} {e2} {e3}");
    let record = a.nodes.get(&node).await?.expect("it was put");
    assert_eq!((record.epoch, record.owner), (e3, next.owner));
    Ok(())
}

pub async fn an_epoch_is_never_below_the_stores_time_so_it_rises_over_a_loss_of_data(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let before = TestNode::ready(&store, 1).await?.now(&store).await?;
    let node = TestNode::ready(&store, 1).await?;
    let after = node.now(&store).await?;
    let possible = before.as_millis()..=after.as_millis();
    assert!(possible.contains(&node.epoch), "{} is not in {possible:?}", node.epoch);
    Ok(())
}

pub async fn an_owner_that_asserts_again_keeps_its_epoch_and_changes_the_record(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 2).await?;
    let again = Registration {
        claim: Claim::Again(node.epoch),
        profile: profile(&["de", "fr"], 4),
        vitals: Vitals { health: Health::Draining, ..vitals(3) },
        ..node.registration.clone()
    };
    let put = store.nodes.put(&node.id, &again).await?;
    assert_eq!(put, Put::Stored { epoch: node.epoch, replaced: None });
    let record = node.record(&store).await?;
    assert_eq!((record.max, record.health), (3, Health::Draining));
    assert_eq!(record.version, ProfileVersion::of(&again.profile));
    assert_eq!(record.profile, again.profile);
    Ok(())
}

pub async fn a_superseded_owner_that_asserts_again_changes_nothing(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let old = TestNode::ready(&a, 2).await?;
    let new = old.taken_over(&b).await?;
    let before = new.record(&b).await?;
    let again = Registration {
        claim: Claim::Again(old.epoch),
        profile: profile(&["de"], 1),
        vitals: Vitals { health: Health::Offline, ..vitals(1) },
        ..old.registration.clone()
    };
    let put = a.nodes.put(&old.id, &again).await?;
    assert_eq!(put, Put::Superseded { epoch: new.epoch });
    assert_eq!(new.record(&a).await?, before);
    Ok(())
}

pub async fn a_lost_record_is_asserted_again_under_its_own_epoch(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let ahead = TestNode::ready(&store, 1).await?.now(&store).await? + LONG;
    let claim = Claim::Again(ahead.as_millis());
    let again = Registration { claim, known: true, ..registration(2) };
    let node = TestNode::put(&store, node_id(), again).await?;
    assert_eq!(node.epoch, ahead.as_millis());
    assert_eq!(node.record(&store).await?.epoch, ahead.as_millis());
    let next = node.taken_over(&store).await?;
    assert_eq!(
        next.epoch,
        node.epoch + 1,
        "above every earlier epoch, also one ahead of the clock"
    );
    Ok(())
}

pub async fn a_record_is_read_as_it_was_written_by_every_instance(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    assert_eq!(a.nodes.get(&node_id()).await?, None);
    let clock = TestNode::ready(&a, 1).await?;
    let before = clock.now(&a).await?;
    let mut written = registration(3);
    written.vitals =
        Vitals { health: Health::Degraded, overloaded: true, fresh_for: LONG, ..vitals(3) };
    let node = TestNode::put(&a, node_id(), written.clone()).await?;
    let after = clock.now(&a).await?;
    let record = b.nodes.get(&node.id).await?.expect("it was put");
    assert!(record.read_at >= after);
    assert_lasts(record.fresh_until, before, LONG, after);
    let expected = NodeRecord {
        node: node.id.clone(),
        epoch: node.epoch,
        owner: written.owner,
        profile: written.profile,
        version: node.version,
        max: 3,
        health: Health::Degraded,
        overloaded: true,
        fresh_until: record.fresh_until,
        gaps: Vec::new(),
        order: Order::Serve,
        read_at: record.read_at,
    };
    assert_eq!(record, expected);
    Ok(())
}

pub async fn a_beat_of_the_current_owner_is_kept(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let mut written = registration(2);
    written.vitals.fresh_for = store.lease();
    let node = TestNode::put(&a, node_id(), written).await?;
    let said = Vitals { health: Health::Degraded, overloaded: true, ..vitals(1) };
    let before = node.now(&a).await?;
    let kept = a.nodes.beat(&node.id, &node.beat(said)).await?;
    assert_eq!(kept, BeatReply::Kept { confirmed: true });
    let after = node.now(&a).await?;
    let record = node.record(&b).await?;
    assert_eq!((record.max, record.health, record.overloaded), (1, Health::Degraded, true));
    assert_lasts(record.fresh_until, before, LONG, after);
    assert_eq!((record.epoch, record.profile), (node.epoch, node.registration.profile));
    Ok(())
}

pub async fn a_beat_for_another_profile_or_a_missing_record_asks_for_the_record_again(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 2).await?;
    let before = node.record(&store).await?;
    let mut beat = node.beat(Vitals { health: Health::Draining, ..vitals(1) });
    beat.version = ProfileVersion::of(&profile(&["de"], 1));
    assert_eq!(store.nodes.beat(&node.id, &beat).await?, BeatReply::PutAgain);
    assert_eq!(node.record(&store).await?, before);
    let ahead = lingua_store::nodes::Beat { epoch: node.epoch + 1, ..node.beat(vitals(1)) };
    assert_eq!(
        store.nodes.beat(&node.id, &ahead).await?,
        BeatReply::PutAgain,
        "the store lost a later epoch"
    );
    assert_eq!(node.record(&store).await?, before);
    let missing = node_id();
    assert_eq!(store.nodes.beat(&missing, &beat).await?, BeatReply::PutAgain);
    assert_eq!(store.nodes.get(&missing).await?, None, "a beat makes no record");
    Ok(())
}

pub async fn a_beat_of_a_superseded_owner_changes_nothing(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let old = TestNode::ready(&a, 2).await?;
    let new = old.taken_over(&b).await?;
    let before = new.record(&b).await?;
    store.pass(Duration::from_millis(5)).await;
    let mut beat = old.beat(Vitals { health: Health::Offline, ..vitals(1) });
    let superseded = BeatReply::Superseded { epoch: new.epoch };
    assert_eq!(a.nodes.beat(&old.id, &beat).await?, superseded);
    beat.version = ProfileVersion::of(&profile(&["de"], 1));
    assert_eq!(a.nodes.beat(&old.id, &beat).await?, superseded, "whatever profile it holds");
    assert_eq!(new.record(&b).await?, before);
    Ok(())
}

pub async fn only_the_current_owner_takes_a_node_offline(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let old = TestNode::ready(&a, 2).await?;
    let new = old.taken_over(&b).await?;
    let superseded = Fenced::Superseded { epoch: new.epoch };
    assert_eq!(a.nodes.offline(&old.id, old.epoch).await?, superseded);
    assert_eq!(new.record(&a).await?.health, Health::Ready);
    for _ in 0..2 {
        assert_eq!(b.nodes.offline(&new.id, new.epoch).await?, Fenced::Done);
        assert_eq!(new.record(&a).await?.health, Health::Offline);
    }
    assert_eq!(a.nodes.offline(&node_id(), 1).await?, Fenced::Unknown);
    Ok(())
}

pub async fn offline_and_put_leave_the_leases_as_they_are(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 3).await?;
    node.run(&store, token(), LONG).await?;
    node.reserve(&store, token(), LONG).await?;
    store.nodes.offline(&node.id, node.epoch).await?;
    assert_eq!(node.usage(&store).await?, (1, 1));
    let again = Registration { claim: Claim::Again(node.epoch), ..node.registration.clone() };
    store.nodes.put(&node.id, &again).await?;
    assert_eq!(node.usage(&store).await?, (1, 1));
    node.taken_over(&store).await?;
    assert_eq!(node.usage(&store).await?, (1, 1));
    Ok(())
}

async fn short_lived(store: &impl StoreUnderTest, backend: &Backend) -> anyhow::Result<TestNode> {
    let mut registration = registration(2);
    registration.vitals.fresh_for = store.lease();
    TestNode::put(backend, node_id(), registration).await
}

pub async fn a_node_is_forgotten_only_when_long_unseen(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let fresh = TestNode::ready(&backend, 1).await?;
    let node = short_lived(store, &backend).await?;
    let soon = Duration::from_millis(1);
    assert!(!backend.nodes.forget(&fresh.id, soon).await?, "it is fresh");
    store.lapse().await;
    assert!(!backend.nodes.forget(&node.id, LONG).await?, "it was fresh not long ago");
    assert!(backend.nodes.get(&node.id).await?.is_some());
    store.pass(store.lease()).await;
    assert!(store.second().nodes.forget(&node.id, store.lease()).await?);
    assert_eq!(backend.nodes.get(&node.id).await?, None);
    assert!(!backend.nodes.forget(&node.id, soon).await?, "a second time changes nothing");
    assert!(!backend.nodes.forget(&node_id(), soon).await?);
    Ok(())
}

pub async fn a_node_that_holds_a_lease_is_not_forgotten(store: &impl StoreUnderTest) -> Outcome {
    let (backend, soon) = (store.backend(), Duration::from_millis(1));
    let (reserving, running) =
        (short_lived(store, &backend).await?, short_lived(store, &backend).await?);
    let (reserved, run) = (token(), token());
    reserving.reserve(&backend, reserved, LONG).await?;
    running.run(&backend, run, LONG).await?;
    store.pass(store.lease() + soon).await;
    for (node, token) in [(reserving, reserved), (running, run)] {
        assert!(!backend.nodes.forget(&node.id, soon).await?);
        assert!(backend.nodes.get(&node.id).await?.is_some());
        backend.slots.release(&node.id, token).await?;
        assert!(backend.nodes.forget(&node.id, soon).await?, "nothing is held any more");
    }
    Ok(())
}

pub async fn a_node_that_came_back_is_not_forgotten(store: &impl StoreUnderTest) -> Outcome {
    let (a, b, soon) = (store.backend(), store.second(), Duration::from_millis(1));
    let node = short_lived(store, &a).await?;
    store.pass(store.lease() + soon).await;
    b.nodes.beat(&node.id, &node.beat(vitals(2))).await?;
    assert!(!a.nodes.forget(&node.id, soon).await?);
    assert!(a.nodes.get(&node.id).await?.is_some());
    Ok(())
}

pub async fn an_order_is_read_by_everybody_until_the_next_one(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    assert_eq!(node.record(&b).await?.order, Order::Serve);
    for order in [Order::Drain, Order::Block, Order::Drain, Order::Serve, Order::Serve] {
        assert!(a.orders.set(&node.id, order).await?);
        assert_eq!(b.orders.get(&node.id).await?, order);
        assert_eq!(node.record(&b).await?.order, order);
    }
    a.orders.set(&node.id, Order::Drain).await?;
    let moved = node.taken_over(&b).await?;
    assert_eq!(moved.record(&a).await?.order, Order::Drain, "a new connection does not undo it");
    let nobody = node_id();
    assert!(!a.orders.set(&nobody, Order::Block).await?, "nobody knows such a node");
    assert_eq!(b.orders.get(&nobody).await?, Order::Serve);
    Ok(())
}

pub async fn an_order_outlives_the_record(store: &impl StoreUnderTest) -> Outcome {
    let (a, soon) = (store.backend(), Duration::from_millis(1));
    let node = short_lived(store, &a).await?;
    a.orders.set(&node.id, Order::Block).await?;
    store.pass(store.lease() + soon).await;
    assert!(a.nodes.forget(&node.id, soon).await?);
    assert_eq!(a.nodes.get(&node.id).await?, None);
    assert_eq!(store.second().orders.get(&node.id).await?, Order::Block);
    assert!(a.orders.set(&node.id, Order::Serve).await?, "it can still be let in");
    assert_eq!(a.orders.get(&node.id).await?, Order::Serve);
    assert!(!a.orders.set(&node.id, Order::Drain).await?, "now it is forgotten");
    Ok(())
}

fn live_gaps(record: &NodeRecord) -> Vec<(lingua_core::ModelId, Moment)> {
    record.gaps.iter().filter(|(_, until)| *until > record.read_at).cloned().collect()
}

pub async fn a_gap_is_remembered_and_ends_by_itself(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let (lasting, ending) = (model_id(), model_id());
    let before = node.now(&a).await?;
    a.nodes.note_gap(&node.id, &lasting, LONG).await?;
    let after = node.now(&a).await?;
    a.nodes.note_gap(&node.id, &ending, store.lease()).await?;
    store.lapse().await;
    let record = b.nodes.get(&node.id).await?.expect("it was put");
    let [(model, until)] = &live_gaps(&record)[..] else { bail!("{:?}", record.gaps) };
    assert_eq!(*model, lasting);
    assert_lasts(*until, before, LONG, after);
    Ok(())
}

pub async fn a_repeated_gap_never_ends_earlier(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let (node, model) = (TestNode::ready(&backend, 1).await?, model_id());
    let mut ends = Vec::new();
    for lasting in [LONG, store.lease(), 2 * LONG] {
        backend.nodes.note_gap(&node.id, &model, lasting).await?;
        let record = backend.nodes.get(&node.id).await?.expect("it was put");
        let [(_, until)] = &live_gaps(&record)[..] else { bail!("{:?}", record.gaps) };
        ends.push(*until);
    }
    assert_eq!(ends[0], ends[1], "a shorter gap changes nothing");
    assert!(ends[2] >= ends[1] + LONG, "a longer one does: {ends:?}");
    Ok(())
}

pub async fn of_too_many_gaps_those_that_end_soonest_are_forgotten(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 1).await?;
    let mut models: Vec<_> = (0..MAX_GAPS_PER_NODE + 3).map(|_| model_id()).collect();
    // Noted in no order of their ends.
    for (n, model) in models.iter().enumerate().rev() {
        store.nodes.note_gap(&node.id, model, LONG + Duration::from_secs(n as u64)).await?;
    }
    let mut kept: Vec<_> = node.record(&store).await?.gaps.into_iter().map(|(m, _)| m).collect();
    models.drain(..3);
    models.sort_unstable();
    kept.sort_unstable();
    assert_eq!(kept, models);
    Ok(())
}

async fn shards_of(store: &Backend, node: &NodeId) -> anyhow::Result<Vec<NodeRecord>> {
    let mut found = Vec::new();
    for shard in 0..NODE_SHARDS {
        found.extend(store.feed.shard(shard).await?.into_iter().filter(|r| r.node == *node));
    }
    Ok(found)
}

pub async fn a_node_is_listed_in_exactly_one_shard_until_it_is_forgotten(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b, soon) = (store.backend(), store.second(), Duration::from_millis(1));
    let node = short_lived(store, &a).await?;
    let other = TestNode::ready(&a, 1).await?;
    a.nodes.put(&node.id, &node.registration).await?;
    let listed = shards_of(&b, &node.id).await?;
    let [record] = &listed[..] else { bail!("{} times in the shards", listed.len()) };
    let read = NodeRecord { read_at: Moment::ZERO, ..record.clone() };
    assert_eq!(read, node.record(&a).await?, "the same as by `get`");
    store.pass(store.lease() + soon).await;
    assert!(a.nodes.forget(&node.id, soon).await?);
    assert_eq!(shards_of(&b, &node.id).await?, []);
    assert_eq!(shards_of(&b, &other.id).await?.len(), 1);
    Ok(())
}
