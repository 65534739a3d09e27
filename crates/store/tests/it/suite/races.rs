//! Many callers on two instances at once.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_core::slots::Commit;
use lingua_core::{LeaseToken, RequestId};
use lingua_store::Backend;
use lingua_store::bus::{Posting, TakeOver};
use lingua_store::jobs::{Assign, Assignment, Create, EndedBy, Finish};
use lingua_store::leaders::{Lead, Task};
use lingua_store::rates::{Rate, Take};
use lingua_store::slots::Reserve;

use super::samples::*;
use super::{Outcome, StoreUnderTest};

const CALLERS: usize = 64;

/// Runs `call` for each number at the same time, by turns on either instance.
async fn at_once<T, C, F>(
    store: &impl StoreUnderTest,
    callers: usize,
    call: C,
) -> anyhow::Result<Vec<T>>
where
    T: Send + 'static,
    C: Fn(usize, Backend) -> F,
    F: Future<Output = lingua_store::Result<T>> + Send + 'static,
{
    let tasks: Vec<_> = (0..callers)
        .map(|n| call(n, if n % 2 == 0 { store.backend() } else { store.second() }))
        .map(tokio::spawn)
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await??);
    }
    Ok(answers)
}

async fn reserve(
    store: Backend,
    node: TestNode,
    token: LeaseToken,
) -> lingua_store::Result<Reserve> {
    store.slots.reserve(&node.wish(token)).await
}

pub async fn many_reservations_on_two_instances_never_exceed_the_maximum(
    store: &impl StoreUnderTest,
) -> Outcome {
    let node = TestNode::ready(&store.backend(), 3).await?;
    let wish = |_, store| reserve(store, node.clone(), token());
    let answers = at_once(store, CALLERS, wish).await?;
    let mut used: Vec<u32> = Vec::new();
    for answer in answers {
        match answer {
            Reserve::Granted { used: now, .. } => used.push(now),
            refused => assert_eq!(refused, Reserve::Full { used: 3, max: 3 }),
        }
    }
    used.sort_unstable();
    assert_eq!(used, [1, 2, 3]);
    assert_eq!(node.usage(&store.second()).await?, (3, 0));
    Ok(())
}

pub async fn many_reservations_of_one_token_take_one_slot(store: &impl StoreUnderTest) -> Outcome {
    let (node, wished) = (TestNode::ready(&store.backend(), 3).await?, token());
    let answers = at_once(store, CALLERS, |_, store| reserve(store, node.clone(), wished)).await?;
    let granted = answers.iter().filter(|a| matches!(a, Reserve::Granted { used: 1, .. })).count();
    let already = answers.iter().filter(|a| matches!(a, Reserve::Already { .. })).count();
    assert_eq!((granted, already), (1, CALLERS - 1));
    assert_eq!(node.usage(&store.backend()).await?, (1, 0));
    Ok(())
}

pub async fn late_acks_never_regain_more_than_the_maximum(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let node = TestNode::ready(&backend, 8).await?;
    let late = tokens(8);
    for token in &late {
        node.reserve(&backend, *token, store.lease()).await?;
    }
    store.lapse().await;
    backend.nodes.beat(&node.id, &node.beat(vitals(3))).await?;
    let answers = at_once(store, 32, |n, store| {
        let (id, token) = (node.id.clone(), late[n % 8]);
        async move { store.slots.commit(&id, token, LONG).await }
    });
    let regained = answers.await?.iter().filter(|a| matches!(a, Commit::Regained(_))).count();
    assert_eq!(regained, 3);
    assert_eq!(node.usage(&backend).await?, (0, 3));
    Ok(())
}

pub async fn reservations_and_releases_at_once_never_exceed_the_maximum(
    store: &impl StoreUnderTest,
) -> Outcome {
    let node = TestNode::ready(&store.backend(), 3).await?;
    let answers = at_once(store, 16, |_, store| {
        let node = node.clone();
        async move {
            let mut most = 0;
            for _ in 0..10 {
                let wished = token();
                if let Reserve::Granted { used, .. } =
                    store.slots.reserve(&node.wish(wished)).await?
                {
                    most = most.max(used);
                    most = most.max(store.slots.usage(&node.id).await?.used());
                    store.slots.commit(&node.id, wished, LONG).await?;
                    store.slots.release(&node.id, wished).await?;
                }
            }
            Ok(most)
        }
    });
    let most = answers.await?.into_iter().max();
    assert!((Some(1)..=Some(3)).contains(&most), "{most:?}");
    assert_eq!(node.usage(&store.backend()).await?, (0, 0), "every slot came back");
    Ok(())
}

pub async fn exactly_one_of_many_finishers_is_told_so(store: &impl StoreUnderTest) -> Outcome {
    let (job, first) = super::jobs::dispatched(&store.backend()).await?;
    let answers = at_once(store, 16, |n, store| {
        let by = if n < 8 { EndedBy::Owner } else { EndedBy::Assignment(first.clone()) };
        let ending = super::jobs::failed(&format!("E{n}"));
        async move { Ok((store.jobs.finish(&job, &by, &ending).await?, ending.code)) }
    });
    let mut finished = Vec::new();
    for (answer, code) in answers.await? {
        match answer {
            Finish::Finished => finished.push(code),
            late => assert!(matches!(late, Finish::Ended(JobState::Failed) | Finish::Repeated)),
        }
    }
    let record = store.second().jobs.get(&job).await?;
    assert_eq!(record.map(|record| vec![record.code]), Some(finished), "whose ending stands");
    Ok(())
}

pub async fn exactly_one_of_many_creators_is_told_so(store: &impl StoreUnderTest) -> Outcome {
    let session = session();
    let job = job_of(&session);
    let answers = at_once(store, 16, |_, store| {
        let session = session.clone();
        async move { store.jobs.create(&new_job(job, &session)).await }
    });
    let answers = answers.await?;
    let created = answers.iter().filter(|a| matches!(a, Create::Created)).count();
    let exists = answers.iter().filter(|a| matches!(a, Create::Exists(_))).count();
    assert_eq!((created, exists), (1, 15));
    Ok(())
}

pub async fn every_attempt_number_is_assigned_at_most_once(store: &impl StoreUnderTest) -> Outcome {
    let (job, _) = super::jobs::dispatched(&store.backend()).await?;
    let answers = at_once(store, 32, |n, store| {
        let next: Assignment = assignment(job, 2 + n as u32 % 4);
        async move { Ok((store.jobs.assign(&job, &next, 5).await?, next)) }
    });
    let mut assigned = Vec::new();
    for (answer, next) in answers.await? {
        match answer {
            Assign::Assigned => assigned.push(next),
            stale => assert!(matches!(stale, Assign::Stale { attempt: 2..=5 }), "{stale:?}"),
        }
    }
    assigned.sort_by_key(|a| a.token.attempt);
    let mut once = assigned.clone();
    once.dedup_by_key(|a| a.token.attempt);
    assert_eq!(assigned, once);
    let record = store.second().jobs.get(&job).await?;
    assert_eq!(record.and_then(|r| r.assignment).as_ref(), assigned.last());
    assert_eq!(assigned.last().map(|a| a.token.attempt), Some(5), "the highest one stands");
    Ok(())
}

pub async fn every_claim_gets_an_epoch_of_its_own(store: &impl StoreUnderTest) -> Outcome {
    let (session, node) = (session(), node_id());
    let answers = at_once(store, 32, |_, store| {
        let (session, node) = (session.clone(), node.clone());
        async move {
            let claimed = store.owners.claim(&session, &instance(), LONG).await?.epoch;
            Ok((claimed, store.nodes.put(&node, &registration(1)).await?))
        }
    });
    let (mut claims, mut puts) = (Vec::new(), Vec::new());
    for (claim, put) in answers.await? {
        claims.push(claim);
        match put {
            lingua_store::nodes::Put::Stored { epoch, .. } => puts.push(epoch),
            put => anyhow::bail!("{put:?}"),
        }
    }
    for epochs in [&mut claims, &mut puts] {
        epochs.sort_unstable();
        epochs.dedup();
        assert_eq!(epochs.len(), 32, "no epoch twice");
    }
    let owner = store.backend().owners.owner(&session).await?.map(|o| o.epoch);
    assert_eq!(owner, claims.last().copied(), "the highest one owns it");
    let record = store.backend().nodes.get(&node).await?.map(|r| r.epoch);
    assert_eq!(record, puts.last().copied());
    Ok(())
}

pub async fn exactly_one_of_many_candidates_leads(store: &impl StoreUnderTest) -> Outcome {
    let _turn = super::owners::LEADING.lock().await;
    let task = Task::Janitor;
    let answers = at_once(store, 16, |_, store| async move {
        let me = instance();
        Ok((store.leaders.lead(task, &me, LONG).await?, me))
    });
    let answers = answers.await?;
    let leaders: Vec<_> = answers
        .iter()
        .filter_map(|(lead, me)| match lead {
            Lead::Leading { fence } => Some((me, *fence)),
            Lead::Held { .. } => None,
        })
        .collect();
    let [(leader, fence)] = leaders[..] else { anyhow::bail!("{leaders:?}") };
    let held = answers.iter().filter(|(l, _)| *l == Lead::Held { by: leader.clone() }).count();
    assert_eq!(held, 15, "the others are told who leads");
    store.backend().leaders.resign(task, leader, fence).await?;
    Ok(())
}

pub async fn exactly_one_of_many_heirs_inherits(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let dead = super::bus::alive(&backend, LONG).await?;
    super::bus::post(&backend, &dead, &["left"]).await?;
    backend.presence.withdraw(&dead).await?;
    let answers = at_once(store, 16, |_, store| {
        let dead = dead.clone();
        async move { store.bus.take_over(&dead, &instance(), LONG).await }
    });
    let answers = answers.await?;
    let successors =
        answers.iter().filter(|a| matches!(a, TakeOver::Entries(e) if e.len() == 1)).count();
    let held = answers.iter().filter(|a| **a == TakeOver::Held).count();
    assert_eq!((successors, held), (1, 15));
    Ok(())
}

pub async fn envelopes_sent_at_once_all_arrive_once(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let me = super::bus::alive(&backend, LONG).await?;
    let answers = at_once(store, CALLERS, |n, store| {
        let me = me.clone();
        let envelope = envelope(&format!("{n:02}"));
        async move {
            assert_eq!(store.bus.send(&me, &envelope).await?, Posting::Posted);
            store.bus.send(&me, &envelope).await
        }
    });
    assert_eq!(answers.await?, [Posting::Posted; CALLERS]);
    let taken = super::bus::take(&backend, &me, CALLERS).await?;
    let mut came = super::bus::bodies(&taken);
    came.sort_unstable();
    let sent: Vec<String> = (0..CALLERS).map(|n| format!("{n:02}")).collect();
    assert_eq!(came, sent);
    Ok(())
}

pub async fn a_burst_is_shared_by_all_instances(store: &impl StoreUnderTest) -> Outcome {
    let (name, rate) = (super::rates::name()?, Rate { interval: LONG, burst: 5 });
    let answers = at_once(store, 32, |_, store| {
        let name = name.clone();
        async move { store.rates.take(&name, rate).await }
    });
    let allowed = answers.await?.iter().filter(|t| **t == Take::Allowed).count();
    assert_eq!(allowed, 5);
    Ok(())
}

pub async fn exactly_one_of_many_callers_is_the_first(store: &impl StoreUnderTest) -> Outcome {
    let name = super::rates::name()?;
    let answers = at_once(store, 32, |_, store| {
        let name = name.clone();
        async move { store.rates.first(&name, Duration::from_secs(60)).await }
    });
    assert_eq!(answers.await?.iter().filter(|first| **first).count(), 1);
    Ok(())
}

pub async fn one_request_gets_one_job(store: &impl StoreUnderTest) -> Outcome {
    let (tenant, request) = (tenant(), RequestId::new(chance())?);
    let answers = at_once(store, 16, |_, store| {
        let (tenant, request, job) = (tenant.clone(), request.clone(), job_of(&session()));
        async move { store.requests.claim(&tenant, &request, &job, LONG).await }
    });
    let answers = answers.await?;
    assert!(answers.iter().all(|job| *job == answers[0]), "{answers:?}");
    Ok(())
}
