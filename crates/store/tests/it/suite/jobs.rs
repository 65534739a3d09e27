//! The book of jobs.

use std::time::Duration;

use anyhow::bail;
use lingua_core::job::JobState;
use lingua_core::{JobId, RequestId, SessionKey, TurnId};
use lingua_store::jobs::{Assign, Assignment, Create, EndedBy, Ending, Finish, JobRecord, NewJob};
use lingua_store::{Backend, Error};

use super::samples::*;
use super::{Outcome, StoreUnderTest};

const MAX_ATTEMPTS: u32 = 3;

pub fn done() -> Ending {
    Ending { state: JobState::Done, code: String::new() }
}

pub fn failed(code: &str) -> Ending {
    Ending { state: JobState::Failed, code: code.to_owned() }
}

/// An open job with this first assignment.
pub async fn dispatched(store: &Backend) -> anyhow::Result<(JobId, Assignment)> {
    let session = session();
    let job = job_of(&session);
    let first = assignment(job, 1);
    let new = NewJob { first: Some(first.clone()), ..new_job(job, &session) };
    match store.jobs.create(&new).await? {
        Create::Created => Ok((job, first)),
        create => bail!("not created: {create:?}"),
    }
}

async fn record(store: &Backend, job: &JobId) -> anyhow::Result<JobRecord> {
    match store.jobs.get(job).await? {
        Some(record) => Ok(record),
        None => bail!("{job} is not known"),
    }
}

pub async fn a_job_is_written_down_once(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (clock, session) = (TestNode::ready(&a, 1).await?, session());
    let job = job_of(&session);
    assert_eq!(b.jobs.get(&job).await?, None);
    let before = clock.now(&a).await?;
    let create = a.jobs.create(&new_job(job, &session)).await?;
    let after = clock.now(&a).await?;
    assert_eq!(create, Create::Created);
    let deadline = record(&b, &job).await?.deadline;
    assert_lasts(deadline, before, LONG, after);
    let written = JobRecord {
        session: session.clone(),
        state: JobState::New,
        assignment: None,
        deadline,
        code: String::new(),
    };
    assert_eq!(record(&b, &job).await?, written);
    let first = Some(assignment(job, 1));
    let again = NewJob { first, deadline_in: 2 * LONG, ..new_job(job, &session) };
    assert_eq!(b.jobs.create(&again).await?, Create::Exists(written.clone()));
    assert_eq!(record(&a, &job).await?, written, "the second call changed nothing");
    Ok(())
}

pub async fn a_job_with_its_first_assignment_is_dispatched(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (job, first) = dispatched(&a).await?;
    let written = record(&b, &job).await?;
    assert_eq!((written.state, written.assignment), (JobState::Dispatched, Some(first.clone())));
    let same = b.jobs.assign(&job, &first, MAX_ATTEMPTS).await?;
    assert_eq!(same, Assign::Assigned, "it is the current one already");
    Ok(())
}

pub async fn a_superseded_session_epoch_creates_nothing(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let session = session();
    let old = a.owners.claim(&session, &instance(), LONG).await?.epoch;
    let jobs: Vec<JobId> = (0..4).map(|_| job_of(&session)).collect();
    let create = |epoch, job| NewJob { epoch, ..new_job(job, &session) };
    let created = a.jobs.create(&create(Some(old), jobs[0])).await?;
    assert!(matches!(created, Create::Created), "{created:?}");
    let new = b.owners.claim(&session, &instance(), LONG).await?.epoch;
    let superseded = Create::Superseded { epoch: new };
    assert_eq!(a.jobs.create(&create(Some(old), jobs[1])).await?, superseded);
    assert_eq!(b.jobs.get(&jobs[1]).await?, None);
    let created = b.jobs.create(&create(Some(new), jobs[1])).await?;
    assert!(matches!(created, Create::Created), "{created:?}");
    b.owners.release(&session, new).await?;
    let late = a.jobs.create(&create(Some(old), jobs[2])).await?;
    assert_eq!(late, superseded, "the epoch is remembered after its release");
    let created = a.jobs.create(&create(None, jobs[3])).await?;
    assert!(matches!(created, Create::Created), "no session actor, no epoch: {created:?}");
    Ok(())
}

pub async fn a_later_attempt_becomes_the_current_one(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let session = session();
    let job = job_of(&session);
    a.jobs.create(&new_job(job, &session)).await?;
    // A number may be left out: an attempt that was never granted.
    for attempt in [1, 3] {
        let next = assignment(job, attempt);
        assert_eq!(a.jobs.assign(&job, &next, MAX_ATTEMPTS).await?, Assign::Assigned);
        assert_eq!(b.jobs.assign(&job, &next, MAX_ATTEMPTS).await?, Assign::Assigned);
        let written = record(&b, &job).await?;
        assert_eq!((written.state, written.assignment), (JobState::Dispatched, Some(next)));
    }
    Ok(())
}

pub async fn an_earlier_or_equal_attempt_is_stale(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (job, first) = dispatched(&a).await?;
    let second = assignment(job, 2);
    a.jobs.assign(&job, &second, MAX_ATTEMPTS).await?;
    let before = record(&a, &job).await?;
    let same_node = Assignment { node: second.node.clone(), ..assignment(job, 2) };
    let same_token = Assignment { node: node_id(), ..second };
    for stale in [first, assignment(job, 1), assignment(job, 2), same_node, same_token] {
        let assign = b.jobs.assign(&job, &stale, MAX_ATTEMPTS).await?;
        assert_eq!(assign, Assign::Stale { attempt: 2 });
    }
    assert_eq!(record(&b, &job).await?, before);
    Ok(())
}

pub async fn an_attempt_above_the_maximum_is_refused(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let (job, first) = dispatched(&store).await?;
    let beyond = assignment(job, MAX_ATTEMPTS + 1);
    assert_eq!(store.jobs.assign(&job, &beyond, MAX_ATTEMPTS).await?, Assign::Exhausted);
    assert_eq!(record(&store, &job).await?.assignment, Some(first));
    let last = assignment(job, MAX_ATTEMPTS);
    assert_eq!(store.jobs.assign(&job, &last, MAX_ATTEMPTS).await?, Assign::Assigned);
    Ok(())
}

pub async fn an_ended_job_is_not_assigned_again(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    for ending in [done(), failed("X"), Ending { state: JobState::Cancelled, code: String::new() }]
    {
        let (job, first) = dispatched(&a).await?;
        a.jobs.finish(&job, &EndedBy::Owner, &ending).await?;
        let before = record(&a, &job).await?;
        assert_eq!((before.state, &before.code), (ending.state, &ending.code));
        for next in [first, assignment(job, 2)] {
            let assign = b.jobs.assign(&job, &next, MAX_ATTEMPTS).await?;
            assert_eq!(assign, Assign::Ended(ending.state));
        }
        assert_eq!(record(&b, &job).await?, before);
    }
    Ok(())
}

pub async fn an_unknown_job_is_neither_assigned_nor_finished(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let job = job_of(&session());
    let stray = assignment(job, 1);
    assert_eq!(store.jobs.assign(&job, &stray, MAX_ATTEMPTS).await?, Assign::Unknown);
    for by in [EndedBy::Owner, EndedBy::Assignment(stray)] {
        assert_eq!(store.jobs.finish(&job, &by, &done()).await?, Finish::Unknown);
    }
    assert_eq!(store.jobs.get(&job).await?, None);
    Ok(())
}

pub async fn the_current_assignment_finishes_the_job(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    for ending in [done(), failed("MODEL_NOT_AVAILABLE")] {
        let (job, _) = dispatched(&a).await?;
        let second = assignment(job, 2);
        a.jobs.assign(&job, &second, MAX_ATTEMPTS).await?;
        let open = record(&a, &job).await?;
        let by = EndedBy::Assignment(second);
        assert_eq!(b.jobs.finish(&job, &by, &ending).await?, Finish::Finished);
        let ended = JobRecord { state: ending.state, code: ending.code, ..open };
        assert_eq!(record(&a, &job).await?, ended);
    }
    Ok(())
}

pub async fn the_same_ending_again_is_repeated_without_effect(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (job, first) = dispatched(&a).await?;
    let by = EndedBy::Assignment(first);
    a.jobs.finish(&job, &by, &failed("X")).await?;
    let before = record(&a, &job).await?;
    for store in [&a, &b, &a] {
        assert_eq!(store.jobs.finish(&job, &by, &failed("X")).await?, Finish::Repeated);
    }
    assert_eq!(record(&b, &job).await?, before);
    Ok(())
}

pub async fn another_ending_of_an_ended_job_changes_nothing(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (job, first) = dispatched(&a).await?;
    let by = EndedBy::Assignment(first);
    assert_eq!(a.jobs.finish(&job, &by, &failed("X")).await?, Finish::Finished);
    let before = record(&a, &job).await?;
    for (by, ending) in [(by.clone(), done()), (EndedBy::Owner, done())] {
        let finish = b.jobs.finish(&job, &by, &ending).await?;
        assert_eq!(finish, Finish::Ended(JobState::Failed), "{by:?} {ending:?}");
    }
    let again = b.jobs.finish(&job, &by, &failed("Y")).await?;
    assert_eq!(again, Finish::Repeated, "an attempt fails once, whatever it says the second time");
    for attempt in [1, 2] {
        let by = EndedBy::Assignment(assignment(job, attempt));
        let stray = b.jobs.finish(&job, &by, &failed("X")).await?;
        assert_eq!(stray, Finish::Stale { attempt: 1 }, "it never was the current one");
    }
    assert_eq!(record(&b, &job).await?, before);
    Ok(())
}

pub async fn an_assignment_that_is_not_current_finishes_nothing(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (job, first) = dispatched(&a).await?;
    let second = assignment(job, 2);
    a.jobs.assign(&job, &second, MAX_ATTEMPTS).await?;
    let before = record(&a, &job).await?;
    let other_node = Assignment { node: node_id(), ..second.clone() };
    let other_token = Assignment { token: token_of(job, 2), ..second };
    for stale in [first, other_node, other_token, assignment(job, 3)] {
        let by = EndedBy::Assignment(stale);
        assert_eq!(b.jobs.finish(&job, &by, &done()).await?, Finish::Stale { attempt: 2 });
    }
    assert_eq!(record(&b, &job).await?, before);

    let session = session();
    let unassigned = job_of(&session);
    a.jobs.create(&new_job(unassigned, &session)).await?;
    let by = EndedBy::Assignment(assignment(unassigned, 1));
    let finish = b.jobs.finish(&unassigned, &by, &done()).await?;
    assert_eq!(finish, Finish::Stale { attempt: 0 }, "there is no attempt yet");
    assert_eq!(record(&b, &unassigned).await?.state, JobState::New);
    Ok(())
}

pub async fn the_owner_ends_a_job_whatever_its_assignment(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (job, first) = dispatched(&a).await?;
    let ending = failed("DEADLINE");
    assert_eq!(a.jobs.finish(&job, &EndedBy::Owner, &ending).await?, Finish::Finished);
    let before = record(&a, &job).await?;
    let again = b.jobs.finish(&job, &EndedBy::Owner, &ending).await?;
    assert_eq!(again, Finish::Repeated);
    let other = b.jobs.finish(&job, &EndedBy::Owner, &failed("CANCELLED")).await?;
    assert_eq!(other, Finish::Ended(JobState::Failed));
    let late = b.jobs.finish(&job, &EndedBy::Assignment(first), &done()).await?;
    assert_eq!(late, Finish::Ended(JobState::Failed));
    assert_eq!(record(&b, &job).await?, before);
    Ok(())
}

pub async fn an_ending_must_be_terminal(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let (job, _) = dispatched(&store).await?;
    let before = record(&store, &job).await?;
    for state in JobState::ALL.into_iter().filter(|state| !state.is_terminal()) {
        let ending = Ending { state, code: String::new() };
        let finish = store.jobs.finish(&job, &EndedBy::Owner, &ending).await;
        assert!(matches!(finish, Err(Error::Invalid(_))), "{state:?}: {finish:?}");
    }
    assert_eq!(record(&store, &job).await?, before);
    Ok(())
}

pub async fn a_job_is_forgotten_some_time_after_its_deadline(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let session = session();
    let (short, kept) = (job_of(&session), job_of(&session));
    let lease = store.lease();
    let new = NewJob { deadline_in: lease, keep_for: lease, ..new_job(short, &session) };
    a.jobs.create(&new).await?;
    a.jobs.create(&NewJob { deadline_in: lease, ..new_job(kept, &session) }).await?;
    store.pass(2 * lease + Duration::from_millis(5)).await;
    assert_eq!(b.jobs.get(&short).await?, None);
    assert_eq!(b.jobs.assign(&short, &assignment(short, 1), 3).await?, Assign::Unknown);
    assert_eq!(record(&b, &kept).await?.state, JobState::New, "remembered past its deadline");
    let create = b.jobs.create(&new).await?;
    assert!(matches!(create, Create::Created), "{create:?}");
    Ok(())
}

/// More than any number of jobs that tests leave due at the same time.
const ALL_DUE: usize = 10_000;

pub async fn a_watched_job_is_due_to_everybody_after_its_deadline_until_unwatched(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (soon, later) = (job_of(&session()), job_of(&session()));
    a.deadlines.watch(&soon, store.lease()).await?;
    a.deadlines.watch(&later, LONG).await?;
    assert!(!b.deadlines.due(ALL_DUE).await?.contains(&later));
    store.lapse().await;
    for store in [&a, &b, &a] {
        let due = store.deadlines.due(ALL_DUE).await?;
        assert!(due.contains(&soon), "everybody gets it");
        assert!(!due.contains(&later));
    }
    for store in [&a, &b] {
        store.deadlines.unwatch(&soon).await?;
        assert!(!b.deadlines.due(ALL_DUE).await?.contains(&soon));
    }
    Ok(())
}

pub async fn a_watch_may_begin_before_the_job_is_written(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let session = session();
    let job = job_of(&session);
    a.deadlines.watch(&job, store.lease()).await?;
    a.jobs.create(&NewJob { deadline_in: store.lease(), ..new_job(job, &session) }).await?;
    store.lapse().await;
    assert!(b.deadlines.due(ALL_DUE).await?.contains(&job));
    let ending = failed("DEADLINE");
    assert_eq!(b.jobs.finish(&job, &EndedBy::Owner, &ending).await?, Finish::Finished);
    b.deadlines.unwatch(&job).await?;
    Ok(())
}

pub async fn the_first_claim_of_a_request_wins_until_it_is_forgotten(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (tenant, request) = (tenant(), RequestId::new(chance())?);
    let jobs = [job_of(&session()), job_of(&session())];
    let (kept, brief) = (LONG, store.lease());
    assert_eq!(a.requests.claim(&tenant, &request, &jobs[0], kept).await?, jobs[0]);
    assert_eq!(b.requests.claim(&tenant, &request, &jobs[1], kept).await?, jobs[0]);
    assert_eq!(a.requests.claim(&tenant, &request, &jobs[0], kept).await?, jobs[0]);
    let request = RequestId::new(chance())?;
    a.requests.claim(&tenant, &request, &jobs[0], brief).await?;
    store.pass(brief + Duration::from_millis(5)).await;
    assert_eq!(b.requests.claim(&tenant, &request, &jobs[1], kept).await?, jobs[1]);
    Ok(())
}

pub async fn a_request_is_released_by_the_job_it_is_bound_to_and_by_no_other(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (tenant, request) = (tenant(), RequestId::new(chance())?);
    let jobs = [job_of(&session()), job_of(&session())];
    a.requests.release(&tenant, &request, &jobs[0]).await?;
    a.requests.claim(&tenant, &request, &jobs[0], LONG).await?;
    b.requests.release(&tenant, &request, &jobs[1]).await?;
    assert_eq!(b.requests.claim(&tenant, &request, &jobs[1], LONG).await?, jobs[0]);
    for _ in 0..2 {
        b.requests.release(&tenant, &request, &jobs[0]).await?;
    }
    assert_eq!(a.requests.claim(&tenant, &request, &jobs[1], LONG).await?, jobs[1]);
    Ok(())
}

pub async fn the_same_request_id_of_two_tenants_is_two_requests(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let request = RequestId::new(chance())?;
    for _ in 0..2 {
        let (tenant, job) = (tenant(), job_of(&session()));
        assert_eq!(store.requests.claim(&tenant, &request, &job, LONG).await?, job);
    }
    Ok(())
}

pub async fn a_turn_is_bound_to_the_last_node_until_the_binding_lapses(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, turn, nodes) = (session(), TurnId::new(chance())?, [node_id(), node_id()]);
    assert_eq!(a.turns.node(&session, &turn).await?, None);
    a.turns.bind(&session, &turn, &nodes[0], LONG).await?;
    assert_eq!(b.turns.node(&session, &turn).await?, Some(nodes[0].clone()));
    b.turns.bind(&session, &turn, &nodes[1], LONG).await?;
    assert_eq!(a.turns.node(&session, &turn).await?, Some(nodes[1].clone()));
    a.turns.bind(&session, &turn, &nodes[0], store.lease()).await?;
    store.pass(store.lease() + Duration::from_millis(5)).await;
    assert_eq!(b.turns.node(&session, &turn).await?, None);
    Ok(())
}

pub async fn a_turn_belongs_to_its_session(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let (mine, turn, node) = (session(), TurnId::new(chance())?, node_id());
    store.turns.bind(&mine, &turn, &node, LONG).await?;
    assert_eq!(store.turns.node(&session(), &turn).await?, None);
    let other_tenant = SessionKey::new(tenant(), mine.session().clone());
    assert_eq!(store.turns.node(&other_tenant, &turn).await?, None);
    assert_eq!(store.turns.node(&mine, &TurnId::new(chance())?).await?, None);
    Ok(())
}
