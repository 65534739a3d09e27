//! Flaws of sharing: clocks, owners, inboxes, leaders and job identity.

use std::time::Duration;

use lingua_core::TurnId;
use lingua_core::node::Health;
use lingua_core::slots::Commit;
use lingua_store::bus::{Envelope, Posting, TakeOver};
use lingua_store::jobs::{Assignment, Create, EndedBy, Finish, NewJob};
use lingua_store::leaders::{Lead, Task};
use lingua_store::nodes::{BeatReply, Claim, Fenced, Put, Registration};
use lingua_store::presence::Announce;
use lingua_store::slots::{Refusal, Report, Reserve};

use crate::suite::bus::{alive, bodies, fill, post, take};
use crate::suite::jobs::done;
use crate::suite::owners::{LEADING, lead};
use crate::suite::samples::*;
use crate::suite::{Outcome, StoreUnderTest};

/// Flaw 64.
pub async fn a_turn_has_one_binding_and_is_found_without_knowing_its_node(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, turn) = (session(), TurnId::new(chance())?);
    for store in [&a, &b] {
        // Nodes are spread over the whole store; none of them decides where the binding is.
        for _ in 0..8 {
            let node = node_id();
            store.turns.bind(&session, &turn, &node, LONG).await?;
            assert_eq!(a.turns.node(&session, &turn).await?.as_ref(), Some(&node));
            assert_eq!(b.turns.node(&session, &turn).await?.as_ref(), Some(&node));
        }
    }
    Ok(())
}

/// Flaws 65 and 66, as far as they show without a server that dies.
pub async fn a_lost_record_grants_nothing_until_lost_leases_are_over(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::lost(&a, 1).await?;
    let ran_before = token();
    let refused = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(refused, Reserve::Refused(Refusal::Unconfirmed));
    let reported = [ran_before];
    let report = Report { reserve_lease: store.lease(), ..node.report(&reported) };
    b.slots.confirm(&node.id, &report).await?;
    store.lapse().await;
    let full = a.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 1, max: 1 }, "what ran before is counted again");
    Ok(())
}

/// Flaw 68.
pub async fn all_moments_are_on_the_stores_clock_whichever_instance_asks(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let clock = TestNode::ready(&a, 1).await?;
    let mut last = clock.now(&a).await?;
    for store in [&b, &a, &b] {
        let node = TestNode::ready(store, 1).await?;
        let now = clock.now(&a).await?;
        let record = node.record(store).await?;
        assert_lasts(record.fresh_until, last, LONG, now);
        let until = node.reserve(store, token(), LONG).await?;
        last = clock.now(&b).await?;
        assert_lasts(until, now, LONG, last);
    }
    Ok(())
}

/// Flaw 69.
pub async fn a_result_and_a_release_that_come_after_the_lease_still_count(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let session = session();
    let job = job_of(&session);
    let first = Assignment { node: node.id.clone(), token: token_of(job, 1) };
    a.jobs.create(&NewJob { first: Some(first.clone()), ..new_job(job, &session) }).await?;
    node.reserve(&a, first.token, LONG).await?;
    a.slots.commit(&node.id, first.token, store.lease()).await?;
    store.lapse().await;
    // The store was away while the node finished; both steps are tried again.
    for expected in [Finish::Finished, Finish::Repeated] {
        let by = EndedBy::Assignment(first.clone());
        assert_eq!(b.jobs.finish(&job, &by, &done()).await?, expected);
        assert!(!b.slots.release(&node.id, first.token).await?);
    }
    node.reserve(&b, token(), LONG).await?;
    Ok(())
}

/// Flaw 72.
pub async fn a_stale_owner_of_a_node_neither_removes_it_nor_steals_it_back(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let old = TestNode::ready(&a, 1).await?;
    let new = old.taken_over(&b).await?;
    let before = new.record(&b).await?;
    let epoch = new.epoch;
    assert_eq!(a.nodes.offline(&old.id, old.epoch).await?, Fenced::Superseded { epoch });
    let beat = a.nodes.beat(&old.id, &old.beat(vitals(1))).await?;
    assert_eq!(beat, BeatReply::Superseded { epoch });
    let again = Registration { claim: Claim::Again(old.epoch), ..old.registration.clone() };
    assert_eq!(a.nodes.put(&old.id, &again).await?, Put::Superseded { epoch });
    assert_eq!(new.record(&a).await?, before);
    assert_eq!(before.health, Health::Ready);
    new.reserve(&a, token(), LONG).await?;
    Ok(())
}

/// Flaws 72 and 78.
pub async fn a_stale_owner_of_a_session_neither_removes_nor_steals_it(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, mine, yours) = (session(), instance(), instance());
    let old = a.owners.claim(&session, &mine, LONG).await?.epoch;
    let epoch = b.owners.claim(&session, &yours, LONG).await?.epoch;
    let before = b.owners.owner(&session).await?;
    let superseded = Fenced::Superseded { epoch };
    assert_eq!(a.owners.renew(&session, &mine, old, LONG).await?, superseded);
    assert_eq!(a.owners.save(&session, old, b"stale", LONG).await?, superseded);
    assert_eq!(a.owners.release(&session, old).await?, superseded);
    let job = NewJob { epoch: Some(old), ..new_job(job_of(&session), &session) };
    assert_eq!(a.jobs.create(&job).await?, Create::Superseded { epoch });
    assert_eq!(a.owners.owner(&session).await?, before);
    assert_eq!(a.owners.load(&session).await?, None);
    Ok(())
}

/// Flaw 76.
pub async fn what_a_crashed_receiver_left_is_taken_over_and_what_is_too_late_is_not(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (crashed, successor) = (alive(&a, LONG).await?, alive(&b, LONG).await?);
    let brief = |body| Envelope { live_for: store.lease(), ..envelope(body) };
    post(&b, &crashed, &["pending"]).await?;
    assert_eq!(bodies(&take(&a, &crashed, 1).await?), ["pending"]);
    b.bus.send(&crashed, &brief("too late")).await?;
    post(&b, &crashed, &["unread"]).await?;
    let slow = b.bus.take_over(&crashed, &successor, LONG).await?;
    assert_eq!(slow, TakeOver::Alive, "slow is not dead: nothing is run twice");
    // It is gone only when its word has lapsed.
    a.presence.announce(&crashed, "10.0.0.1:5010", store.lease()).await?;
    store.pass(store.lease() + Duration::from_millis(5)).await;
    assert!(b.bus.orphans().await?.contains(&crashed));
    let left = b.bus.take_over(&crashed, &successor, LONG).await?;
    let TakeOver::Entries(left) = left else { anyhow::bail!("{left:?}") };
    assert_eq!(bodies(&left), ["pending", "unread"]);
    Ok(())
}

/// Flaw 76.
pub async fn a_full_inbox_is_refused_to_the_sender_and_loses_nothing(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    let first = envelope("first");
    b.bus.send(&me, &first).await?;
    let taken = take(&a, &me, 1).await?;
    a.bus.ack(&me, &[taken[0].entry.clone()]).await?;
    fill(store, &me).await?;
    for _ in 0..3 {
        assert_eq!(b.bus.send(&me, &envelope("more")).await?, Posting::Full);
    }
    let taken = take(&a, &me, lingua_store::bus::INBOX_CAPACITY).await?;
    assert_eq!(taken.len(), lingua_store::bus::INBOX_CAPACITY, "nothing was pushed out");
    Ok(())
}

/// Flaw 77.
pub async fn two_processes_of_one_name_never_share_an_inbox(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    let clone = reborn(&me);
    let taken = b.presence.announce(&clone, "10.0.0.2:1", LONG).await?;
    assert!(matches!(taken, Announce::Taken { .. }), "a clone is refused at its start: {taken:?}");
    post(&b, &me, &["old"]).await?;
    a.presence.withdraw(&me).await?;
    assert_eq!(b.presence.announce(&clone, "10.0.0.2:1", LONG).await?, Announce::Announced);
    assert_eq!(b.bus.send(&me, &envelope("late")).await?, Posting::Gone);
    post(&a, &clone, &["new"]).await?;
    assert_eq!(bodies(&take(&b, &clone, 1).await?), ["new"], "each life has an inbox of its own");
    assert!(b.bus.orphans().await?.contains(&me), "and the old one is not forgotten");
    let left = b.bus.take_over(&me, &clone, LONG).await?;
    let TakeOver::Entries(left) = left else { anyhow::bail!("{left:?}") };
    assert_eq!(bodies(&left), ["old"]);
    Ok(())
}

/// Flaw 80.
pub async fn a_leader_that_overslept_neither_leads_nor_ends_the_next_lead(
    store: &impl StoreUnderTest,
) -> Outcome {
    let _turn = LEADING.lock().await;
    let (a, b) = (store.backend(), store.second());
    let (sleeper, next, task) = (instance(), instance(), Task::Deadlines);
    let old = lead(&a, task, &sleeper, store.lease()).await?;
    store.lapse().await;
    let new = lead(&b, task, &next, LONG).await?;
    assert!(new > old, "its effects carry a lower number than the next leader's");
    a.leaders.resign(task, &sleeper, old).await?;
    a.leaders.resign(task, &sleeper, new).await?;
    let held = a.leaders.lead(task, &sleeper, LONG).await?;
    assert_eq!(held, Lead::Held { by: next.clone() });
    assert_eq!(lead(&b, task, &next, LONG).await?, new);
    b.leaders.resign(task, &next, new).await?;
    Ok(())
}

/// Flaw 85, and flaw 10 for jobs.
pub async fn the_same_job_created_on_two_instances_is_one_job(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let session = session();
    let job = job_of(&session);
    let node = TestNode::ready(&a, 2).await?;
    let first = |nonce| Assignment {
        node: node.id.clone(),
        token: lingua_core::LeaseToken { job, attempt: 1, nonce },
    };
    let create = |nonce| NewJob { first: Some(first(nonce)), ..new_job(job, &session) };
    let created = a.jobs.create(&create(1)).await?;
    assert!(matches!(created, Create::Created), "{created:?}");
    for (store, nonce) in [(&b, 2), (&a, 1)] {
        let Create::Exists(record) = store.jobs.create(&create(nonce)).await? else {
            anyhow::bail!("a second job");
        };
        assert_eq!(record.assignment, Some(first(1)), "whoever comes later learns who works on it");
    }
    let stray = EndedBy::Assignment(first(2));
    assert_eq!(b.jobs.finish(&job, &stray, &done()).await?, Finish::Stale { attempt: 1 });
    assert_eq!(b.slots.commit(&node.id, first(2).token, LONG).await?, Commit::Lost);
    Ok(())
}
