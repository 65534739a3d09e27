//! The wish for a slot, and every reason against it.

use lingua_core::node::Health;
use lingua_core::slots::Commit;
use lingua_store::Backend;
use lingua_store::nodes::{ProfileVersion, Registration, Vitals};
use lingua_store::slots::{Refusal, Report, Reserve, Wish};

use super::samples::*;
use super::{Outcome, StoreUnderTest};

pub async fn a_grant_lasts_one_lease_and_counts_at_once(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    for used in 1..=2 {
        let before = node.now(&a).await?;
        let reserve = a.slots.reserve(&node.wish(token())).await?;
        let after = node.now(&a).await?;
        let Reserve::Granted { until, used: told } = reserve else {
            anyhow::bail!("{reserve:?}");
        };
        assert_lasts(until, before, LONG, after);
        assert_eq!(told, used);
        assert_eq!(node.usage(&b).await?, (used, 0));
    }
    Ok(())
}

pub async fn a_full_node_says_how_full_it_is(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    node.reserve(&a, token(), LONG).await?;
    node.run(&b, token(), LONG).await?;
    for store in [&a, &b] {
        let refused = store.slots.reserve(&node.wish(token())).await?;
        assert_eq!(refused, Reserve::Full { used: 2, max: 2 });
    }
    assert_eq!(node.usage(&a).await?, (1, 1));
    Ok(())
}

pub async fn the_same_token_is_granted_once_and_told_so(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let wished = token();
    let until = node.reserve(&a, wished, LONG).await?;
    store.pass(std::time::Duration::from_millis(5)).await;
    assert_eq!(b.slots.reserve(&node.wish(wished)).await?, Reserve::Already { until });
    assert_eq!(node.usage(&a).await?, (1, 0));
    Ok(())
}

pub async fn a_running_token_is_told_that_it_has_its_slot(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 1).await?;
    let run = token();
    let until = node.run(&store, run, 2 * LONG).await?;
    assert_eq!(store.slots.reserve(&node.wish(run)).await?, Reserve::Already { until });
    store.nodes.offline(&node.id, node.epoch).await?;
    let whatever = store.slots.reserve(&node.wish(run)).await?;
    assert_eq!(whatever, Reserve::Already { until }, "whatever became of the node since");
    assert_eq!(node.usage(&store).await?, (0, 1));
    Ok(())
}

pub async fn a_lapsed_token_is_spent(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let node = TestNode::ready(&backend, 2).await?;
    let (reserved, run) = (token(), token());
    node.reserve(&backend, reserved, store.lease()).await?;
    node.run(&backend, run, store.lease()).await?;
    store.lapse().await;
    for lapsed in [reserved, run] {
        assert_eq!(backend.slots.reserve(&node.wish(lapsed)).await?, Reserve::Spent);
    }
    assert_eq!(node.usage(&backend).await?, (0, 0));
    Ok(())
}

pub async fn a_released_token_is_spent(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let (reserved, run) = (token(), token());
    node.reserve(&a, reserved, LONG).await?;
    node.run(&a, run, LONG).await?;
    for released in [reserved, run] {
        assert!(a.slots.release(&node.id, released).await?);
        assert_eq!(b.slots.reserve(&node.wish(released)).await?, Reserve::Spent);
    }
    assert_eq!(node.usage(&a).await?, (0, 0));
    Ok(())
}

pub async fn a_release_that_overtakes_its_reservation_wins(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let early = token();
    assert!(!a.slots.release(&node.id, early).await?);
    assert_eq!(b.slots.reserve(&node.wish(early)).await?, Reserve::Spent);
    assert_eq!(node.usage(&a).await?, (0, 0));
    Ok(())
}

pub async fn a_token_released_on_an_unknown_node_is_spent_there(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let (id, early) = (node_id(), token());
    assert!(!store.slots.release(&id, early).await?);
    let version = ProfileVersion::of(&profile(&["en"], 1));
    let wish = Wish { node: &id, token: early, version, models: &[], lease: LONG };
    assert_eq!(store.slots.reserve(&wish).await?, Reserve::Spent, "before all other reasons");
    let node = TestNode::put(&store, id.clone(), registration(1)).await?;
    assert_eq!(store.slots.reserve(&node.wish(early)).await?, Reserve::Spent);
    node.reserve(&store, token(), LONG).await?;
    Ok(())
}

/// Checks that `wish` is refused for `why` and takes no slot.
async fn refused(store: &Backend, wish: &Wish<'_>, why: Refusal) -> Outcome {
    let before = store.slots.usage(wish.node).await?;
    assert_eq!(store.slots.reserve(wish).await?, Reserve::Refused(why));
    assert_eq!(store.slots.usage(wish.node).await?, before);
    Ok(())
}

pub async fn an_unknown_node_grants_nothing(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let (id, version) = (node_id(), ProfileVersion::of(&profile(&["en"], 1)));
    let wish = Wish { node: &id, token: token(), version, models: &[], lease: LONG };
    refused(&store, &wish, Refusal::UnknownNode).await?;
    assert_eq!(store.nodes.get(&id).await?, None);
    Ok(())
}

pub async fn a_changed_profile_refuses_and_names_the_present_version(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let now = Registration { profile: profile(&["de"], 8), ..node.registration.clone() };
    let now = TestNode::put(&b, node.id.clone(), now).await?;
    refused(&a, &node.wish(token()), Refusal::Changed(now.version)).await?;
    now.reserve(&a, token(), LONG).await?;
    Ok(())
}

pub async fn only_a_ready_node_grants_and_overload_is_no_refusal(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 8).await?;
    for health in Health::ALL {
        for overloaded in [false, true] {
            let said = Vitals { health, overloaded, ..vitals(8) };
            a.nodes.beat(&node.id, &node.beat(said)).await?;
            match health {
                Health::Ready => drop(node.reserve(&b, token(), LONG).await?),
                _ => refused(&b, &node.wish(token()), Refusal::Closed).await?,
            }
        }
    }
    Ok(())
}

pub async fn a_stale_node_grants_nothing(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let mut written = registration(1);
    written.vitals.fresh_for = store.lease();
    let node = TestNode::put(&backend, node_id(), written).await?;
    store.lapse().await;
    refused(&backend, &node.wish(token()), Refusal::Stale).await?;
    backend.nodes.beat(&node.id, &node.beat(vitals(1))).await?;
    node.reserve(&backend, token(), LONG).await?;
    Ok(())
}

pub async fn a_missing_model_refuses_only_the_jobs_that_want_it(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 8).await?;
    let models = [model_id(), model_id(), model_id()];
    a.nodes.note_gap(&node.id, &models[1], LONG).await?;
    a.nodes.note_gap(&node.id, &models[2], store.lease()).await?;
    let missing = Wish { models: &models[..2], ..node.wish(token()) };
    refused(&b, &missing, Refusal::MissingModel).await?;
    let other = Wish { models: &models[..1], ..node.wish(token()) };
    assert!(matches!(b.slots.reserve(&other).await?, Reserve::Granted { .. }));
    node.reserve(&b, token(), LONG).await?;
    store.lapse().await;
    let ended = Wish { models: &models[2..], ..node.wish(token()) };
    assert!(matches!(b.slots.reserve(&ended).await?, Reserve::Granted { .. }));
    Ok(())
}

pub async fn a_token_on_one_node_says_nothing_about_another_node(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let (a, b) = (TestNode::ready(&store, 1).await?, TestNode::ready(&store, 1).await?);
    let shared = token();
    a.reserve(&store, shared, LONG).await?;
    assert_eq!(b.usage(&store).await?, (0, 0));
    assert_eq!(store.slots.commit(&b.id, shared, LONG).await?, Commit::Lost);
    store.slots.release(&b.id, shared).await?;
    assert_eq!(a.usage(&store).await?, (1, 0));
    assert_eq!(b.usage(&store).await?, (0, 0));
    Ok(())
}

pub async fn refusals_come_in_the_order_of_the_contract(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let (run, spent, models) = (token(), token(), [model_id()]);
    let mut written = Registration { known: true, ..registration(1) };
    written.vitals = Vitals { health: Health::Draining, fresh_for: store.lease(), ..vitals(1) };
    let node = TestNode::put(&backend, node_id(), written).await?;
    backend.nodes.note_gap(&node.id, &models[0], 2 * LONG).await?;
    backend.slots.release(&node.id, spent).await?;
    store.lapse().await;

    // Everything speaks against this wish; one reason after the other is taken away.
    let wish = Wish { models: &models, ..node.wish(token()) };
    let old = Wish { version: ProfileVersion::of(&profile(&["de"], 1)), ..wish };
    assert_eq!(backend.slots.reserve(&Wish { token: spent, ..old }).await?, Reserve::Spent);
    refused(&backend, &old, Refusal::Changed(node.version)).await?;
    refused(&backend, &wish, Refusal::Closed).await?;
    let ready = Vitals { fresh_for: store.lease(), ..vitals(1) };
    backend.nodes.beat(&node.id, &node.beat(ready)).await?;
    store.lapse().await;
    refused(&backend, &wish, Refusal::Stale).await?;
    let fresh = Vitals { fresh_for: 4 * LONG, ..vitals(1) };
    backend.nodes.beat(&node.id, &node.beat(fresh)).await?;
    refused(&backend, &wish, Refusal::Unconfirmed).await?;

    let running = [run];
    let report = Report { reserve_lease: store.lease(), ..node.report(&running) };
    backend.slots.confirm(&node.id, &report).await?;
    let held = backend.slots.reserve(&wish).await?;
    assert!(matches!(held, Reserve::Refused(Refusal::Held(_))), "{held:?}");
    let already = backend.slots.reserve(&Wish { token: run, ..old }).await?;
    assert!(matches!(already, Reserve::Already { .. }), "{already:?}");
    store.lapse().await;
    refused(&backend, &wish, Refusal::MissingModel).await?;
    let full = backend.slots.reserve(&Wish { models: &[], ..wish }).await?;
    assert_eq!(full, Reserve::Full { used: 1, max: 1 });
    Ok(())
}
