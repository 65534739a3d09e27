//! What is known of nodes beyond their connections.

use lingua_core::JobId;
use lingua_core::link::BreakerMemory;
use lingua_store::nodes::Fenced;
use lingua_store::reputations::Reputation;

use super::samples::*;
use super::{Outcome, StoreUnderTest};

fn known(done: u64) -> Reputation {
    let job: JobId = "0000000000000000000000000a".parse().expect("an id");
    let mut known = Reputation { since_ms: 1_700_000_000_000, done, ..Reputation::default() };
    known.note_failure(1_700_000_000_001, job, "NMT \"TIMEOUT\"");
    known
}

pub async fn what_is_known_of_a_node_is_read_by_every_instance(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    assert_eq!(b.reputations.read(&node.id).await?, None, "a stranger");
    for done in [1, 2, 2] {
        let kept = a.reputations.keep(&node.id, node.epoch, &known(done)).await?;
        assert_eq!(kept, Fenced::Done);
        assert_eq!(b.reputations.read(&node.id).await?, Some(known(done)));
    }
    Ok(())
}

pub async fn only_the_current_owner_keeps_what_is_known_of_a_node(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let stranger = node_id();
    assert_eq!(a.reputations.keep(&stranger, 1, &known(1)).await?, Fenced::Unknown);
    let ahead = a.reputations.keep(&node.id, node.epoch + 1, &known(1)).await?;
    assert_eq!(ahead, Fenced::Unknown);
    let next = node.taken_over(&b).await?;
    b.reputations.keep(&node.id, next.epoch, &known(7)).await?;
    let late = a.reputations.keep(&node.id, node.epoch, &known(1)).await?;
    assert_eq!(late, Fenced::Superseded { epoch: next.epoch });
    assert_eq!(a.reputations.read(&node.id).await?, Some(known(7)));
    assert_eq!(a.reputations.read(&stranger).await?, None);
    Ok(())
}

pub async fn what_is_known_of_a_node_outlives_its_record(store: &impl StoreUnderTest) -> Outcome {
    let a = store.backend();
    let registration = lingua_store::nodes::Registration {
        vitals: lingua_store::nodes::Vitals { fresh_for: store.lease(), ..vitals(1) },
        ..registration(1)
    };
    let node = TestNode::put(&a, node_id(), registration).await?;
    a.reputations.keep(&node.id, node.epoch, &known(3)).await?;
    store.pass(store.lease() * 2).await;
    assert!(a.nodes.forget(&node.id, store.lease() / 2).await?);
    assert_eq!(a.nodes.get(&node.id).await?, None);
    assert_eq!(a.reputations.read(&node.id).await?, Some(known(3)));
    Ok(())
}

pub async fn a_pause_goes_on_while_nobody_has_the_node(store: &impl StoreUnderTest) -> Outcome {
    let a = store.backend();
    let node = TestNode::ready(&a, 1).await?;
    let open = BreakerMemory { openings: 4, open_ms: Some(100_000), ..BreakerMemory::default() };
    let paused = Reputation { breaker: open, ..known(1) };
    a.reputations.keep(&node.id, node.epoch, &paused).await?;
    let passed = store.lease();
    store.pass(passed).await;
    let read = a.reputations.read(&node.id).await?.expect("it is kept");
    let left = read.breaker.open_ms.expect("it is open");
    let most = 100_000 - u64::try_from(passed.as_millis())?;
    assert!((most - 30_000..=most).contains(&left), "{left} of {most} ms");
    assert_eq!(read.breaker, BreakerMemory { open_ms: Some(left), ..open });
    Ok(())
}
