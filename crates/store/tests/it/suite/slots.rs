//! The life of a slot: ack, renewal, release, lapse, and the node's word on what it runs.

use std::time::Duration;

use anyhow::bail;
use lingua_core::LeaseToken;
use lingua_core::slots::{Commit, Confirmed, Usage};
use lingua_store::Backend;
use lingua_store::slots::{Confirm, Report, Reserve};

use super::samples::*;
use super::{Outcome, StoreUnderTest};

const TICK: Duration = Duration::from_millis(5);

pub async fn an_ack_makes_the_reserved_slot_a_running_one(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let acked = token();
    node.reserve(&a, acked, LONG).await?;
    let before = node.now(&a).await?;
    let commit = b.slots.commit(&node.id, acked, 2 * LONG).await?;
    let after = node.now(&a).await?;
    let Commit::Committed(until) = commit else { bail!("{commit:?}") };
    assert_lasts(until, before, 2 * LONG, after);
    assert_eq!(node.usage(&a).await?, (0, 1));
    Ok(())
}

pub async fn an_ack_again_extends_the_running_lease(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let acked = token();
    let first = node.run(&a, acked, LONG).await?;
    store.pass(TICK).await;
    let again = b.slots.commit(&node.id, acked, LONG).await?;
    let Commit::Already(until) = again else { bail!("{again:?}") };
    assert!(until >= first + TICK, "{until:?} is not after {first:?}");
    assert_eq!(node.usage(&a).await?, (0, 1));
    Ok(())
}

pub async fn a_late_ack_regains_a_free_slot(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let node = TestNode::ready(&backend, 2).await?;
    let (reserved, run) = (token(), token());
    node.reserve(&backend, reserved, store.lease()).await?;
    node.run(&backend, run, store.lease()).await?;
    store.lapse().await;
    for late in [reserved, run] {
        let commit = backend.slots.commit(&node.id, late, LONG).await?;
        assert!(matches!(commit, Commit::Regained(_)), "{commit:?}");
    }
    assert_eq!(node.usage(&backend).await?, (0, 2));
    Ok(())
}

pub async fn a_late_ack_is_lost_when_the_slot_is_taken(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let (late, next) = (token(), token());
    node.reserve(&a, late, store.lease()).await?;
    store.lapse().await;
    node.reserve(&b, next, LONG).await?;
    assert_eq!(a.slots.commit(&node.id, late, LONG).await?, Commit::Lost);
    assert_eq!(node.usage(&a).await?, (1, 0), "the next job's slot is untouched");
    b.slots.release(&node.id, next).await?;
    let commit = a.slots.commit(&node.id, late, LONG).await?;
    assert!(matches!(commit, Commit::Regained(_)), "a slot is free again: {commit:?}");
    Ok(())
}

pub async fn an_ack_for_a_token_never_seen_is_lost(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 2).await?;
    assert_eq!(store.slots.commit(&node.id, token(), LONG).await?, Commit::Lost);
    assert_eq!(node.usage(&store).await?, (0, 0));
    Ok(())
}

pub async fn an_ack_for_a_spent_token_is_lost(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 3).await?;
    let (reserved, run, unseen) = (token(), token(), token());
    node.reserve(&a, reserved, LONG).await?;
    node.run(&a, run, LONG).await?;
    for spent in [reserved, run, unseen] {
        a.slots.release(&node.id, spent).await?;
        assert_eq!(b.slots.commit(&node.id, spent, LONG).await?, Commit::Lost);
    }
    assert_eq!(node.usage(&a).await?, (0, 0));
    Ok(())
}

pub async fn an_ack_on_an_unknown_node_is_lost(store: &impl StoreUnderTest) -> Outcome {
    let (store, node) = (store.backend(), node_id());
    assert_eq!(store.slots.commit(&node, token(), LONG).await?, Commit::Lost);
    assert_eq!(store.slots.usage(&node).await?, Usage::default());
    Ok(())
}

pub async fn a_live_running_lease_is_renewed(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let run = token();
    node.run(&a, run, LONG).await?;
    let before = node.now(&a).await?;
    let until = b.slots.renew(&node.id, run, store.lease()).await?;
    let after = node.now(&a).await?;
    let Some(until) = until else { bail!("not renewed") };
    assert_lasts(until, before, store.lease(), after);
    store.lapse().await;
    assert_eq!(node.usage(&a).await?, (0, 0), "the renewal is what counts");
    Ok(())
}

pub async fn nothing_else_is_renewed(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let node = TestNode::ready(&backend, 4).await?;
    let (reserved, lapsed, released) = (token(), token(), token());
    node.reserve(&backend, reserved, LONG).await?;
    node.run(&backend, lapsed, store.lease()).await?;
    node.run(&backend, released, LONG).await?;
    backend.slots.release(&node.id, released).await?;
    store.lapse().await;
    for other in [reserved, lapsed, released, token()] {
        assert_eq!(backend.slots.renew(&node.id, other, LONG).await?, None);
    }
    assert_eq!(backend.slots.renew(&node_id(), reserved, LONG).await?, None);
    assert_eq!(node.usage(&backend).await?, (1, 0));
    Ok(())
}

pub async fn a_release_frees_the_slot_once(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let (reserved, run) = (token(), token());
    node.reserve(&a, reserved, LONG).await?;
    node.run(&a, run, LONG).await?;
    for (released, left) in [(reserved, (0, 1)), (run, (0, 0))] {
        assert!(b.slots.release(&node.id, released).await?);
        assert_eq!(node.usage(&a).await?, left);
        assert!(!a.slots.release(&node.id, released).await?, "a second time frees nothing");
        assert_eq!(node.usage(&a).await?, left);
    }
    Ok(())
}

pub async fn a_release_of_a_lapsed_lease_frees_nothing(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let node = TestNode::ready(&backend, 1).await?;
    let lapsed = token();
    node.reserve(&backend, lapsed, store.lease()).await?;
    store.lapse().await;
    assert!(!backend.slots.release(&node.id, lapsed).await?);
    assert_eq!(backend.slots.commit(&node.id, lapsed, LONG).await?, Commit::Lost, "it is spent");
    Ok(())
}

pub async fn slots_that_nobody_renews_are_free_one_lease_later(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    node.reserve(&a, token(), store.lease()).await?;
    node.run(&b, token(), store.lease()).await?;
    store.lapse().await;
    assert_eq!(node.usage(&a).await?, (0, 0));
    node.reserve(&b, token(), LONG).await?;
    node.reserve(&a, token(), LONG).await?;
    let full = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 2, max: 2 });
    Ok(())
}

pub async fn an_unknown_node_has_no_slot_taken(store: &impl StoreUnderTest) -> Outcome {
    let (store, node) = (store.backend(), node_id());
    assert_eq!(store.slots.usage(&node).await?, Usage::default());
    Ok(())
}

pub async fn a_lowered_maximum_keeps_what_runs_and_grants_nothing_new(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 3).await?;
    let run = tokens(3);
    for token in &run {
        node.run(&a, *token, LONG).await?;
    }
    b.nodes.beat(&node.id, &node.beat(vitals(2))).await?;
    assert_eq!(node.usage(&a).await?, (0, 3));
    for (i, token) in run.iter().enumerate() {
        let full = a.slots.reserve(&node.wish(super::samples::token())).await?;
        if i < 2 {
            assert_eq!(full, Reserve::Full { used: 3 - i as u32, max: 2 });
        } else {
            assert!(matches!(full, Reserve::Granted { used: 2, .. }), "{full:?}");
        }
        a.slots.release(&node.id, *token).await?;
    }
    Ok(())
}

async fn confirm(
    store: &Backend,
    node: &TestNode,
    report: &Report<'_>,
) -> anyhow::Result<Confirmed> {
    match store.slots.confirm(&node.id, report).await? {
        Confirm::Confirmed(confirmed) => Ok(confirmed),
        confirm => bail!("not confirmed: {confirm:?}"),
    }
}

pub async fn a_report_renews_what_the_node_runs(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let reported = tokens(2);
    node.run(&a, reported[0], store.lease()).await?;
    node.reserve(&a, reported[1], store.lease()).await?;
    assert_eq!(confirm(&b, &node, &node.report(&reported)).await?, Confirmed::default());
    store.lapse().await;
    assert_eq!(
        node.usage(&a).await?,
        (0, 2),
        "what it runs is running, whether its ack came or not"
    );
    Ok(())
}

/// A node with running leases of `LONG`, given long enough ago for a report to drop them.
async fn settled(
    store: &impl StoreUnderTest,
    run: &[LeaseToken],
) -> anyhow::Result<(Backend, TestNode)> {
    let backend = store.backend();
    let node = TestNode::ready(&backend, 8).await?;
    for token in run {
        node.run(&backend, *token, LONG).await?;
    }
    store.pass(TICK).await;
    Ok((backend, node))
}

pub async fn a_report_drops_what_the_node_no_longer_runs(store: &impl StoreUnderTest) -> Outcome {
    let run = tokens(3);
    let (backend, node) = settled(store, &run).await?;
    let confirmed = confirm(&backend, &node, &node.report(&run[..1])).await?;
    assert_eq!(confirmed.unknown, []);
    let mut dropped = confirmed.dropped.clone();
    dropped.sort_by_key(|token| *token != run[1]);
    assert_eq!(dropped, run[1..]);
    assert_eq!(node.usage(&backend).await?, (0, 1));
    for gone in &run[1..] {
        assert_eq!(backend.slots.reserve(&node.wish(*gone)).await?, Reserve::Spent);
    }
    let again = confirm(&backend, &node, &node.report(&run[..1])).await?;
    assert_eq!(again, Confirmed::default(), "a second time drops nothing");
    Ok(())
}

pub async fn a_report_spares_what_was_renewed_within_the_grace(
    store: &impl StoreUnderTest,
) -> Outcome {
    let run = tokens(2);
    let (backend, node) = settled(store, &run).await?;
    store.lapse().await;
    backend.slots.renew(&node.id, run[1], LONG).await?;
    let report = Report { grace: store.lease(), ..node.report(&[]) };
    let confirmed = confirm(&backend, &node, &report).await?;
    assert_eq!(confirmed, Confirmed { unknown: vec![], dropped: vec![run[0]] });
    assert_eq!(node.usage(&backend).await?, (0, 1));
    Ok(())
}

pub async fn a_report_does_not_drop_a_reservation_on_its_way(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (backend, node) = settled(store, &[]).await?;
    let under_way = token();
    node.reserve(&backend, under_way, LONG).await?;
    store.pass(TICK).await;
    assert_eq!(confirm(&backend, &node, &node.report(&[])).await?, Confirmed::default());
    assert_eq!(node.usage(&backend).await?, (1, 0));
    Ok(())
}

pub async fn a_report_names_the_tokens_that_must_stop(store: &impl StoreUnderTest) -> Outcome {
    let run = tokens(2);
    let (backend, node) = settled(store, &run).await?;
    backend.slots.release(&node.id, run[1]).await?;
    let reported = [run[0], run[1], token()];
    let confirmed = confirm(&backend, &node, &node.report(&reported)).await?;
    assert_eq!(confirmed, Confirmed { unknown: reported[1..].to_vec(), dropped: vec![] });
    assert_eq!(node.usage(&backend).await?, (0, 1));
    Ok(())
}

pub async fn a_report_regains_lapsed_leases_only_while_slots_are_free(
    store: &impl StoreUnderTest,
) -> Outcome {
    let backend = store.backend();
    let node = TestNode::ready(&backend, 2).await?;
    let (lapsed, next) = (tokens(2), token());
    for token in &lapsed {
        node.run(&backend, *token, store.lease()).await?;
    }
    store.lapse().await;
    node.run(&backend, next, LONG).await?;
    let reported = [next, lapsed[0], lapsed[1]];
    let confirmed = confirm(&backend, &node, &node.report(&reported)).await?;
    assert_eq!(confirmed, Confirmed { unknown: vec![lapsed[1]], dropped: vec![] });
    assert_eq!(node.usage(&backend).await?, (0, 2));
    Ok(())
}

pub async fn what_a_report_drops_makes_room_for_what_it_names(
    store: &impl StoreUnderTest,
) -> Outcome {
    let backend = store.backend();
    let node = TestNode::ready(&backend, 1).await?;
    let (lapsed, dropped) = (token(), token());
    node.run(&backend, lapsed, store.lease()).await?;
    store.lapse().await;
    node.run(&backend, dropped, LONG).await?;
    store.pass(TICK).await;
    let running = [lapsed];
    let confirmed = confirm(&backend, &node, &node.report(&running)).await?;
    assert_eq!(confirmed, Confirmed { unknown: vec![], dropped: vec![dropped] });
    assert_eq!(node.usage(&backend).await?, (0, 1));
    let again = confirm(&backend, &node, &node.report(&running)).await?;
    assert_eq!(again, Confirmed::default(), "a second time changes nothing");
    assert_eq!(node.usage(&backend).await?, (0, 1));
    Ok(())
}

pub async fn a_node_that_cannot_say_loses_nothing_in_quiet_times(
    store: &impl StoreUnderTest,
) -> Outcome {
    let run = tokens(2);
    let (backend, node) = settled(store, &run).await?;
    let silent = Report { running: None, ..node.report(&[]) };
    assert_eq!(confirm(&backend, &node, &silent).await?, Confirmed::default());
    assert_eq!(node.usage(&backend).await?, (0, 2));
    node.reserve(&backend, token(), LONG).await?;
    Ok(())
}

pub async fn a_report_with_nothing_lost_starts_no_hold(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    assert_eq!(confirm(&a, &node, &node.report(&[])).await?, Confirmed::default());
    node.reserve(&b, token(), LONG).await?;
    Ok(())
}

pub async fn a_report_of_a_superseded_owner_changes_nothing(
    store: &impl StoreUnderTest,
) -> Outcome {
    let run = tokens(2);
    let (backend, old) = settled(store, &run).await?;
    let new = old.taken_over(&backend).await?;
    let stale = store.second().slots.confirm(&old.id, &old.report(&[])).await?;
    assert_eq!(stale, Confirm::Superseded { epoch: new.epoch });
    assert_eq!(new.usage(&backend).await?, (0, 2));
    Ok(())
}

pub async fn a_report_on_an_unknown_node_says_so(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let node = TestNode { id: node_id(), ..TestNode::ready(&backend, 1).await? };
    let confirm = backend.slots.confirm(&node.id, &node.report(&[token()])).await?;
    assert_eq!(confirm, Confirm::Unknown);
    assert_eq!(node.usage(&backend).await?, (0, 0));
    Ok(())
}
