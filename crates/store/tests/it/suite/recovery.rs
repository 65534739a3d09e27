//! After the store lost its data: no grant until the node has said what it runs, and a while more.

use lingua_core::Moment;
use lingua_core::slots::{Commit, Confirmed};
use lingua_store::Backend;
use lingua_store::nodes::{BeatReply, Claim, Registration};
use lingua_store::slots::{Confirm, Refusal, Report, Reserve};

use super::samples::*;
use super::{Outcome, StoreUnderTest};

const UNCONFIRMED: Reserve = Reserve::Refused(Refusal::Unconfirmed);

pub async fn a_new_node_is_trusted_at_once(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    node.reserve(&b, token(), LONG).await?;
    Ok(())
}

pub async fn a_known_node_without_a_record_waits_for_its_report(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::lost(&a, 1).await?;
    for store in [&a, &b] {
        assert_eq!(store.slots.reserve(&node.wish(token())).await?, UNCONFIRMED);
    }
    store.lapse().await;
    let later = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(later, UNCONFIRMED, "time alone does not lift it");
    assert_eq!(node.usage(&a).await?, (0, 0));
    Ok(())
}

pub async fn a_record_that_is_there_keeps_its_trust_whatever_the_owner_says(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let known = Registration { known: true, ..node.registration.clone() };
    let node = TestNode::put(&b, node.id.clone(), known.clone()).await?;
    node.reserve(&a, token(), LONG).await?;
    let again = Registration { claim: Claim::Again(node.epoch), ..known };
    b.nodes.put(&node.id, &again).await?;
    node.reserve(&a, token(), LONG).await?;
    Ok(())
}

pub async fn neither_a_put_nor_a_beat_lifts_the_wait_for_a_report(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::lost(&a, 1).await?;
    a.nodes.beat(&node.id, &node.beat(vitals(1))).await?;
    assert_eq!(b.slots.reserve(&node.wish(token())).await?, UNCONFIRMED);
    let new = Registration { known: false, ..node.registration.clone() };
    let node = TestNode::put(&b, node.id.clone(), new).await?;
    assert_eq!(a.slots.reserve(&node.wish(token())).await?, UNCONFIRMED);
    Ok(())
}

pub async fn a_beat_says_whether_the_node_owes_a_report(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::lost(&a, 1).await?;
    let beat = node.beat(vitals(1));
    for store in [&a, &b] {
        let kept = store.nodes.beat(&node.id, &beat).await?;
        assert_eq!(kept, BeatReply::Kept { confirmed: false });
    }
    b.slots.confirm(&node.id, &node.report(&[])).await?;
    for store in [&a, &b] {
        let kept = store.nodes.beat(&node.id, &beat).await?;
        assert_eq!(kept, BeatReply::Kept { confirmed: true }, "held, and nothing owed");
    }
    Ok(())
}

/// When the hold that the node is under ends.
async fn held(store: &Backend, node: &TestNode) -> anyhow::Result<Moment> {
    match store.slots.reserve(&node.wish(token())).await? {
        Reserve::Refused(Refusal::Held(until)) => Ok(until),
        reserve => anyhow::bail!("not held: {reserve:?}"),
    }
}

/// Checks that the hold begun by `report` ends `store.lease()` after it.
async fn held_for_a_lease(
    store: &impl StoreUnderTest,
    node: &TestNode,
    report: &Report<'_>,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let before = node.now(&a).await?;
    let confirm = a.slots.confirm(&node.id, report).await?;
    let after = node.now(&a).await?;
    assert_eq!(confirm, Confirm::Confirmed(Confirmed::default()));
    assert_lasts(held(&b, node).await?, before, store.lease(), after);
    store.lapse().await;
    node.reserve(&b, token(), LONG).await?;
    Ok(())
}

pub async fn a_reporting_node_is_held_for_one_reserve_lease(
    store: &impl StoreUnderTest,
) -> Outcome {
    let node = TestNode::lost(&store.backend(), 1).await?;
    let report = Report { reserve_lease: store.lease(), ..node.report(&[]) };
    held_for_a_lease(store, &node, &report).await
}

pub async fn a_node_that_cannot_say_is_held_for_the_quarantine(
    store: &impl StoreUnderTest,
) -> Outcome {
    let node = TestNode::lost(&store.backend(), 1).await?;
    let report = Report { running: None, quarantine: store.lease(), ..node.report(&[]) };
    held_for_a_lease(store, &node, &report).await
}

pub async fn a_repeated_report_does_not_prolong_the_hold(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::lost(&a, 1).await?;
    a.slots.confirm(&node.id, &node.report(&[])).await?;
    let until = held(&a, &node).await?;
    store.pass(std::time::Duration::from_millis(5)).await;
    b.slots.confirm(&node.id, &node.report(&[])).await?;
    assert_eq!(held(&b, &node).await?, until);
    let silent = Report { running: None, quarantine: 4 * LONG, ..node.report(&[]) };
    b.slots.confirm(&node.id, &silent).await?;
    assert_eq!(held(&b, &node).await?, until);
    Ok(())
}

pub async fn a_superseded_owners_report_lifts_nothing(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let old = TestNode::lost(&a, 1).await?;
    let new = old.taken_over(&b).await?;
    let stale = a.slots.confirm(&old.id, &old.report(&[token()])).await?;
    assert_eq!(stale, Confirm::Superseded { epoch: new.epoch });
    assert_eq!(b.slots.reserve(&new.wish(token())).await?, UNCONFIRMED);
    assert_eq!(new.usage(&b).await?, (0, 0));
    Ok(())
}

pub async fn a_report_after_a_loss_puts_leases_back_also_above_the_maximum(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::lost(&a, 2).await?;
    let run = tokens(3);
    for _ in 0..2 {
        let report = Report { reserve_lease: store.lease(), ..node.report(&run) };
        let confirm = a.slots.confirm(&node.id, &report).await?;
        assert_eq!(confirm, Confirm::Confirmed(Confirmed::default()));
        assert_eq!(node.usage(&b).await?, (0, 3), "what runs, runs");
    }
    store.lapse().await;
    let full = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 3, max: 2 });
    assert!(a.slots.renew(&node.id, run[2], LONG).await?.is_some(), "it is a lease like others");
    Ok(())
}

pub async fn spent_tokens_do_not_come_back_after_a_loss(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::lost(&a, 2).await?;
    let spent = token();
    a.slots.release(&node.id, spent).await?;
    assert_eq!(b.slots.commit(&node.id, spent, LONG).await?, Commit::Lost);
    let confirm = b.slots.confirm(&node.id, &node.report(&[spent])).await?;
    let stopped = Confirmed { unknown: vec![spent], dropped: vec![] };
    assert_eq!(confirm, Confirm::Confirmed(stopped));
    assert_eq!(node.usage(&a).await?, (0, 0));
    Ok(())
}

pub async fn an_ack_regains_a_lost_token_only_below_the_maximum(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::lost(&a, 2).await?;
    let commit = a.slots.commit(&node.id, token(), LONG).await?;
    assert!(matches!(commit, Commit::Regained(_)), "before the report: {commit:?}");
    let silent = Report { running: None, ..node.report(&[]) };
    a.slots.confirm(&node.id, &silent).await?;
    let commit = b.slots.commit(&node.id, token(), LONG).await?;
    assert!(matches!(commit, Commit::Regained(_)), "during the hold: {commit:?}");
    assert_eq!(b.slots.commit(&node.id, token(), LONG).await?, Commit::Lost, "above the maximum");
    assert_eq!(node.usage(&a).await?, (0, 2));
    Ok(())
}

pub async fn an_ack_regains_a_lost_token_only_until_the_hold_is_over(
    store: &impl StoreUnderTest,
) -> Outcome {
    let backend = store.backend();
    let node = TestNode::lost(&backend, 2).await?;
    let report = Report { reserve_lease: store.lease(), ..node.report(&[]) };
    backend.slots.confirm(&node.id, &report).await?;
    store.lapse().await;
    assert_eq!(backend.slots.commit(&node.id, token(), LONG).await?, Commit::Lost);
    assert_eq!(node.usage(&backend).await?, (0, 0));
    Ok(())
}
