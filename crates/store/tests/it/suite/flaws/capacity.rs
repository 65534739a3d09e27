//! Flaws of counting capacity.

use std::time::Duration;

use anyhow::bail;
use lingua_core::TurnId;
use lingua_core::job::JobState;
use lingua_core::node::Health;
use lingua_core::slots::Commit;
use lingua_store::jobs::{Assign, Assignment, EndedBy, Finish, NewJob};
use lingua_store::memory::MemoryStore;
use lingua_store::nodes::{BeatReply, Registration, Vitals};
use lingua_store::slots::{Reserve, Wish};
use lingua_store::{Backend, Clock, Error};

use crate::suite::jobs::{dispatched, done, failed};
use crate::suite::samples::*;
use crate::suite::{Outcome, StoreUnderTest};

/// Flaws 1, 17 and 69.
pub async fn a_reservation_whose_maker_crashed_frees_itself(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let crashed = [token(), token()];
    node.reserve(&a, crashed[0], store.lease()).await?;
    node.reserve(&b, crashed[1], store.lease()).await?;
    store.lapse().await;
    // Nobody acted; the late release finds nothing and harms nothing.
    assert_eq!(node.usage(&a).await?, (0, 0));
    assert!(!b.slots.release(&node.id, crashed[0]).await?);
    node.reserve(&b, token(), LONG).await?;
    node.reserve(&b, token(), LONG).await?;
    Ok(())
}

/// What a fixed history of one node and one job is answered with, apart from moments.
async fn story(store: &Backend) -> anyhow::Result<Vec<String>> {
    let mut told = Vec::new();
    let node = TestNode::ready(store, 2).await?;
    let (session, all) = (session(), tokens(4));
    let job = job_of(&session);
    for token in &all[..3] {
        told.push(match store.slots.reserve(&node.wish(*token)).await? {
            Reserve::Granted { used, .. } => format!("granted {used}"),
            other => format!("{other:?}"),
        });
    }
    for token in &all {
        told.push(match store.slots.commit(&node.id, *token, LONG).await? {
            Commit::Committed(_) => "committed".to_owned(),
            other => format!("{other:?}"),
        });
    }
    told.push(format!("{:?}", store.slots.release(&node.id, all[0]).await?));
    told.push(format!("{:?}", store.slots.release(&node.id, all[0]).await?));
    told.push(format!("{:?}", store.slots.reserve(&node.wish(all[0])).await?));
    told.push(format!("{:?}", store.slots.usage(&node.id).await?));
    let late = assignment(job, 1);
    told.push(format!("{:?}", store.jobs.assign(&job, &late, 2).await?));
    store.jobs.create(&new_job(job, &session)).await?;
    for attempt in [1, 1, 2, 3] {
        let next = Assignment { token: token_of(job, attempt), ..late.clone() };
        told.push(format!("{:?}", store.jobs.assign(&job, &next, 2).await?));
        let by = EndedBy::Assignment(late.clone());
        told.push(format!("{:?}", store.jobs.finish(&job, &by, &done()).await?));
    }
    told.push(format!("{:?}", store.jobs.finish(&job, &EndedBy::Owner, &failed("X")).await?));
    told.push(format!("{:?}", store.jobs.assign(&job, &assignment(job, 2), 2).await?));
    Ok(told)
}

/// Flaw 2.
pub async fn the_embedded_store_and_this_one_tell_the_same_story(
    store: &impl StoreUnderTest,
) -> Outcome {
    let embedded = story(&MemoryStore::open(Clock::system())).await?;
    assert_eq!(story(&store.backend()).await?, embedded);
    assert_eq!(story(&store.second()).await?, embedded);
    Ok(())
}

/// Flaw 3.
pub async fn a_late_ack_without_a_free_slot_is_refused_and_its_end_frees_nobody_elses_slot(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let late = token();
    node.run(&a, token(), LONG).await?;
    node.reserve(&a, late, store.lease()).await?;
    store.lapse().await;
    node.run(&b, token(), LONG).await?;
    assert_eq!(a.slots.commit(&node.id, late, LONG).await?, Commit::Lost, "the node must stop it");
    assert!(!a.slots.release(&node.id, late).await?);
    assert_eq!(node.usage(&b).await?, (0, 2));
    let full = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 2, max: 2 });
    Ok(())
}

/// Flaws 4 and 14.
pub async fn a_repeated_end_frees_nobody_elses_slot(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let (first, next) = (token(), token());
    node.run(&a, first, LONG).await?;
    assert!(a.slots.release(&node.id, first).await?);
    node.run(&b, next, LONG).await?;
    assert!(!a.slots.release(&node.id, first).await?, "the reply was lost, the end comes again");
    let full = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 1, max: 1 });
    Ok(())
}

/// Flaw 5.
pub async fn an_end_that_overtakes_its_ack_leaves_no_slot_behind(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let session = session();
    let job = job_of(&session);
    let first = Assignment { node: node.id.clone(), token: token_of(job, 1) };
    a.jobs.create(&NewJob { first: Some(first.clone()), ..new_job(job, &session) }).await?;
    node.reserve(&a, first.token, LONG).await?;
    let by = EndedBy::Assignment(first.clone());
    assert_eq!(b.jobs.finish(&job, &by, &done()).await?, Finish::Finished, "an end implies an ack");
    assert!(b.slots.release(&node.id, first.token).await?);
    assert_eq!(a.slots.commit(&node.id, first.token, LONG).await?, Commit::Lost);
    assert_eq!(a.jobs.assign(&job, &first, 3).await?, Assign::Ended(JobState::Done));
    node.reserve(&a, token(), LONG).await?;
    Ok(())
}

/// Flaw 6.
pub async fn a_node_that_lost_power_after_its_ack_gets_its_slots_back(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let (dead, renewed) = (token(), token());
    node.run(&a, dead, store.lease()).await?;
    node.run(&a, renewed, store.lease()).await?;
    a.slots.renew(&node.id, renewed, LONG).await?;
    store.lapse().await;
    assert_eq!(node.usage(&b).await?, (0, 1), "the lease covers the whole execution");
    assert_eq!(b.slots.renew(&node.id, dead, LONG).await?, None);
    node.reserve(&b, token(), LONG).await?;
    Ok(())
}

/// Flaw 7.
pub async fn registering_again_neither_frees_nor_forgets_what_runs(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let (run, on_its_way) = (token(), token());
    node.run(&a, run, LONG).await?;
    node.reserve(&a, on_its_way, LONG).await?;
    let node = node.taken_over(&b).await?;
    assert_eq!(node.usage(&a).await?, (1, 1));
    let commit = a.slots.commit(&node.id, on_its_way, LONG).await?;
    assert!(matches!(commit, Commit::Committed(_)), "{commit:?}");
    let full = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 2, max: 2 });
    // What the node no longer runs after its restart is reconciled by its word, token by token.
    store.pass(Duration::from_millis(5)).await;
    b.slots.confirm(&node.id, &node.report(&[on_its_way])).await?;
    assert_eq!(node.usage(&b).await?, (0, 1));
    assert_eq!(a.slots.reserve(&node.wish(run)).await?, Reserve::Spent);
    Ok(())
}

/// Flaws 8 and 19.
pub async fn what_a_node_says_of_its_load_never_changes_what_is_taken(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    node.run(&a, token(), LONG).await?;
    for overloaded in [true, false] {
        let said = Vitals { overloaded, ..vitals(2) };
        let kept = b.nodes.beat(&node.id, &node.beat(said)).await?;
        assert_eq!(kept, BeatReply::Kept { confirmed: true });
        assert_eq!(node.usage(&a).await?, (0, 1));
    }
    node.reserve(&b, token(), LONG).await?;
    let full = a.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 2, max: 2 }, "the leases have the last word");
    Ok(())
}

/// Flaw 9.
pub async fn a_lease_without_time_is_refused_before_anything_is_written(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let (node, wished) = (TestNode::ready(&store, 1).await?, token());
    let none = Wish { lease: Duration::ZERO, ..node.wish(wished) };
    let refused = store.slots.reserve(&none).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(node.usage(&store).await?, (0, 0));
    node.reserve(&store, wished, LONG).await?;
    Ok(())
}

/// Flaw 10.
pub async fn a_step_repeated_after_a_lost_reply_gets_its_slot_and_not_another(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 3).await?;
    let wished = token();
    for n in 0..16 {
        let answer = a.slots.reserve(&node.wish(wished)).await?;
        match answer {
            Reserve::Granted { .. } if n == 0 => {}
            Reserve::Already { .. } if n > 0 => {}
            other => bail!("call {n}: {other:?}"),
        }
    }
    for n in 0..16 {
        match b.slots.commit(&node.id, wished, LONG).await? {
            Commit::Committed(_) if n == 0 => {}
            Commit::Already(_) if n > 0 => {}
            other => bail!("call {n}: {other:?}"),
        }
    }
    assert_eq!(node.usage(&a).await?, (0, 1));
    Ok(())
}

/// Flaw 11.
pub async fn an_attempt_given_up_after_its_ack_can_do_nothing_more(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let session = session();
    let job = job_of(&session);
    let first = Assignment { node: node.id.clone(), token: token_of(job, 1) };
    a.jobs.create(&NewJob { first: Some(first.clone()), ..new_job(job, &session) }).await?;
    node.reserve(&a, first.token, LONG).await?;
    // The ack reaches the other instance; this one's timer fires and tries elsewhere.
    b.slots.commit(&node.id, first.token, LONG).await?;
    assert!(a.slots.release(&node.id, first.token).await?, "it says that a live slot was given up");
    let second = assignment(job, 2);
    assert_eq!(a.jobs.assign(&job, &second, 3).await?, Assign::Assigned);
    assert_eq!(b.slots.renew(&node.id, first.token, LONG).await?, None);
    assert_eq!(b.slots.commit(&node.id, first.token, LONG).await?, Commit::Lost);
    let finish = b.jobs.finish(&job, &EndedBy::Assignment(first), &done()).await?;
    assert_eq!(finish, Finish::Stale { attempt: 2 });
    let finish = b.jobs.finish(&job, &EndedBy::Assignment(second), &done()).await?;
    assert_eq!(finish, Finish::Finished);
    Ok(())
}

/// Flaw 12.
pub async fn the_ack_of_an_earlier_dispatch_does_not_commit_a_later_one(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 1).await?;
    let job = job_of(&session());
    let (first, second) = (token_of(job, 1), token_of(job, 1));
    node.reserve(&a, first, LONG).await?;
    a.slots.release(&node.id, first).await?;
    node.reserve(&a, second, LONG).await?;
    assert_eq!(b.slots.commit(&node.id, first, LONG).await?, Commit::Lost);
    assert!(!b.slots.release(&node.id, first).await?);
    assert_eq!(node.usage(&b).await?, (1, 0), "the second dispatch still waits for its own ack");
    Ok(())
}

/// Flaws 13 and 12.
pub async fn of_two_nodes_with_the_same_attempt_only_the_assigned_one_counts(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (job, first) = dispatched(&a).await?;
    let same_attempt = assignment(job, 1);
    assert_eq!(b.jobs.assign(&job, &same_attempt, 3).await?, Assign::Stale { attempt: 1 });
    let finish = b.jobs.finish(&job, &EndedBy::Assignment(same_attempt), &done()).await?;
    assert_eq!(finish, Finish::Stale { attempt: 1 });
    let finish = a.jobs.finish(&job, &EndedBy::Assignment(first), &done()).await?;
    assert_eq!(finish, Finish::Finished);
    Ok(())
}

/// Flaw 14.
pub async fn releasing_one_job_twice_is_not_releasing_another(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 3).await?;
    let all = tokens(3);
    for token in &all {
        node.run(&a, *token, LONG).await?;
    }
    for (n, token) in all.iter().enumerate() {
        for store in [&a, &b, &a] {
            store.slots.release(&node.id, *token).await?;
            assert_eq!(node.usage(&b).await?, (0, 2 - n as u32));
        }
    }
    Ok(())
}

/// Flaw 15.
pub async fn a_node_record_is_never_read_half_written(store: &impl StoreUnderTest) -> Outcome {
    let id = node_id();
    let small = registration(1);
    let large = Registration {
        owner: instance(),
        profile: profile(&["de", "fr"], 4),
        vitals: Vitals { health: Health::Degraded, overloaded: true, ..vitals(4) },
        ..small.clone()
    };
    let (first, second) = (store.backend(), store.second());
    first.nodes.put(&id, &small).await?;
    let writers: Vec<_> = [(first, small.clone()), (second, large.clone())]
        .map(|(store, registration)| {
            let id = id.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    store.nodes.put(&id, &registration).await?;
                }
                Ok::<_, Error>(())
            })
        })
        .into_iter()
        .collect();
    let reader = store.second();
    for _ in 0..100 {
        let Some(record) = reader.nodes.get(&id).await? else { bail!("the record vanished") };
        let whole = if record.max == 1 { &small } else { &large };
        assert_eq!(record.owner, whole.owner);
        assert_eq!(record.profile, whole.profile);
        assert_eq!(record.health, whole.vitals.health);
        assert_eq!(record.overloaded, whole.vitals.overloaded);
    }
    for writer in writers {
        writer.await??;
    }
    Ok(())
}

/// Flaw 16.
pub async fn grants_follow_the_trusted_maximum_and_not_the_declared_one(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let declared = Registration { profile: profile(&["en"], 200), ..registration(1) };
    let node = TestNode::put(&a, node_id(), declared).await?;
    node.reserve(&a, token(), LONG).await?;
    let full = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 1, max: 1 });
    a.nodes.beat(&node.id, &node.beat(vitals(2))).await?;
    node.reserve(&b, token(), LONG).await?;
    let full = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 2, max: 2 }, "trust grows slowly");
    Ok(())
}

/// Flaw 17.
pub async fn rebinding_a_turn_neither_takes_nor_frees_a_slot(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (x, y) = (TestNode::ready(&a, 1).await?, TestNode::ready(&a, 1).await?);
    let (session, turn) = (session(), TurnId::new(chance())?);
    x.run(&a, token(), LONG).await?;
    a.turns.bind(&session, &turn, &x.id, store.lease()).await?;
    store.lapse().await;
    b.turns.bind(&session, &turn, &y.id, LONG).await?;
    assert_eq!((x.usage(&a).await?, y.usage(&a).await?), ((0, 1), (0, 0)));
    Ok(())
}

/// Flaw 19.
pub async fn a_rejected_job_frees_its_slot_at_once_and_the_node_stays_full_otherwise(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let rejected = token();
    node.run(&a, token(), LONG).await?;
    node.reserve(&a, rejected, LONG).await?;
    let full = b.slots.reserve(&node.wish(token())).await?;
    assert_eq!(full, Reserve::Full { used: 2, max: 2 });
    assert!(a.slots.release(&node.id, rejected).await?);
    let granted = b.slots.reserve(&node.wish(token())).await?;
    assert!(matches!(granted, Reserve::Granted { used: 2, .. }), "{granted:?}");
    assert_eq!(a.slots.commit(&node.id, rejected, LONG).await?, Commit::Lost);
    Ok(())
}
