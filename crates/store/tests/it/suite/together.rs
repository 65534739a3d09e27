//! Two steps at once: a job begins and ends as its steps would one by one.

use anyhow::bail;
use lingua_core::job::JobState;
use lingua_core::{JobId, LeaseToken, Moment, SessionKey};
use lingua_store::Backend;
use lingua_store::jobs::{Assignment, Create, EndedBy, Finish, NewJob};
use lingua_store::slots::{HeldSlot, Refusal, Reserve};

use super::jobs::done;
use super::samples::*;
use super::{Outcome, StoreUnderTest};

/// A job of this session for this node.
fn job_on<'a>(node: &TestNode, session: &'a SessionKey) -> (NewJob<'a>, Assignment) {
    let job = job_of(session);
    let first = Assignment { node: node.id.clone(), token: token_of(job, 1) };
    (NewJob { first: Some(first.clone()), ..new_job(job, session) }, first)
}

async fn begin(
    store: &Backend,
    node: &TestNode,
    new: &NewJob<'_>,
    token: LeaseToken,
) -> anyhow::Result<(Create, Reserve)> {
    let wish = node.wish(token);
    let (created, reserved) = store.jobs.begin(new, &*store.slots, &wish).await;
    Ok((created?, reserved?))
}

/// Begins a job, and says when its slot was granted.
async fn begun(store: &Backend, node: &TestNode) -> anyhow::Result<(JobId, Assignment, Moment)> {
    let session = session();
    let (new, first) = job_on(node, &session);
    match begin(store, node, &new, first.token).await? {
        (Create::Created, Reserve::Granted { until, .. }) => {
            Ok((new.id, first.clone(), until - node.wish(first.token).lease))
        }
        other => bail!("{other:?}"),
    }
}

async fn end(store: &Backend, by: &Assignment, granted: Option<Moment>) -> anyhow::Result<Finish> {
    let slot = HeldSlot { node: &by.node, token: by.token, granted };
    let ended_by = EndedBy::Assignment(by.clone());
    let (finished, released) =
        store.jobs.end(&by.token.job, &ended_by, &done(), &*store.slots, &slot).await;
    released?;
    Ok(finished?)
}

pub async fn a_job_begins_with_its_record_and_its_slot(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 2).await?;
    let before = node.now(&a).await?;
    let (job, first, granted) = begun(&a, &node).await?;
    let after = node.now(&a).await?;
    assert!(before <= granted && granted <= after, "{before:?} {granted:?} {after:?}");
    let record = b.jobs.get(&job).await?.expect("written");
    assert_eq!((record.state, record.assignment), (JobState::Dispatched, Some(first)));
    assert_lasts(record.deadline, before, LONG, after);
    assert_eq!(node.usage(&b).await?, (1, 0));
    Ok(())
}

pub async fn a_job_that_is_there_begins_no_second_time(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (node, session) = (TestNode::ready(&a, 4).await?, session());
    let (new, first) = job_on(&node, &session);
    begin(&a, &node, &new, first.token).await?;
    let record = a.jobs.get(&new.id).await?.expect("written");
    let (created, reserved) = begin(&b, &node, &new, token_of(new.id, 1)).await?;
    assert_eq!(created, Create::Exists(record.clone()));
    assert!(matches!(reserved, Reserve::Granted { used: 2, .. }), "by itself: {reserved:?}");
    let (created, reserved) = begin(&b, &node, &new, first.token).await?;
    assert_eq!(created, Create::Exists(record), "a lost reply and its repetition");
    assert!(matches!(reserved, Reserve::Already { .. }), "{reserved:?}");
    assert_eq!(node.usage(&a).await?, (2, 0));
    Ok(())
}

pub async fn a_full_or_changed_node_refuses_and_the_job_is_written_all_the_same(
    store: &impl StoreUnderTest,
) -> Outcome {
    let backend = store.backend();
    let (node, session) = (TestNode::ready(&backend, 1).await?, session());
    begun(&backend, &node).await?;
    let (new, first) = job_on(&node, &session);
    let answers = begin(&backend, &node, &new, first.token).await?;
    assert_eq!(answers, (Create::Created, Reserve::Full { used: 1, max: 1 }));
    let (new, first) = job_on(&node, &session);
    let stranger = TestNode { id: node_id(), ..node };
    let answers = begin(&backend, &stranger, &new, first.token).await?;
    assert_eq!(answers, (Create::Created, Reserve::Refused(Refusal::UnknownNode)));
    Ok(())
}

pub async fn a_superseded_owner_begins_nothing(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (node, session) = (TestNode::ready(&a, 4).await?, session());
    let old = a.owners.claim(&session, &instance(), LONG).await?.epoch;
    let begin_as = async |store: &Backend, epoch| {
        let (new, first) = job_on(&node, &session);
        let new = NewJob { epoch: Some(epoch), ..new };
        let (created, _) = begin(store, &node, &new, first.token).await?;
        anyhow::Ok((created, store.jobs.get(&new.id).await?.is_some()))
    };
    assert_eq!(begin_as(&a, old).await?, (Create::Created, true));
    let new = b.owners.claim(&session, &instance(), LONG).await?.epoch;
    assert_eq!(begin_as(&a, old).await?, (Create::Superseded { epoch: new }, false));
    assert_eq!(begin_as(&b, new).await?, (Create::Created, true));
    Ok(())
}

pub async fn a_job_ends_and_its_slot_is_free(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 4).await?;
    for acked in [false, true] {
        let (job, first, granted) = begun(&a, &node).await?;
        if acked {
            a.slots.commit(&node.id, first.token, LONG).await?;
        }
        assert_eq!(end(&b, &first, Some(granted)).await?, Finish::Finished);
        assert_eq!(b.jobs.get(&job).await?.expect("written").state, JobState::Done);
        assert_eq!(node.usage(&a).await?, (0, 0));
        assert_eq!(a.slots.reserve(&node.wish(first.token)).await?, Reserve::Spent);
        let again = end(&a, &first, Some(granted)).await?;
        assert_eq!(again, Finish::Repeated, "a lost reply and its repetition");
        assert_eq!(end(&a, &first, None).await?, Finish::Repeated);
    }
    Ok(())
}

pub async fn an_attempt_that_counts_no_more_gives_its_slot_back_and_ends_nothing(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 4).await?;
    let (job, first, granted) = begun(&a, &node).await?;
    a.jobs.assign(&job, &assignment(job, 2), 3).await?;
    assert_eq!(end(&b, &first, Some(granted)).await?, Finish::Stale { attempt: 2 });
    assert_eq!(b.jobs.get(&job).await?.expect("written").state, JobState::Dispatched);
    assert_eq!(node.usage(&a).await?, (0, 0));
    Ok(())
}

pub async fn a_young_slot_given_back_is_free_and_its_token_spent(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let node = TestNode::ready(&a, 4).await?;
    let (_, first, granted) = begun(&a, &node).await?;
    let (_, other, _) = begun(&a, &node).await?;
    for _ in 0..2 {
        b.slots.release_young(&node.id, first.token, granted).await?;
        assert_eq!(node.usage(&a).await?, (1, 0), "said again it frees nobody else's");
        assert_eq!(a.slots.reserve(&node.wish(first.token)).await?, Reserve::Spent);
    }
    let unseen = token_of(other.token.job, 7);
    b.slots.release_young(&node.id, unseen, granted).await?;
    let late = a.slots.reserve(&node.wish(unseen)).await?;
    assert_eq!(late, Reserve::Spent, "a reservation that comes after its release");
    Ok(())
}
