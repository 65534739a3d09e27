//! Arguments outside their bounds: refused before anything is written.
//!
//! A duration of zero is an expiry in the past, which a server refuses only after the earlier writes of a step.

use std::fmt::Debug;
use std::time::Duration;

use lingua_core::job::JobState;
use lingua_core::limits::{MAX_ATTEMPTS, MAX_MODELS_PER_JOB, MAX_SLOTS};
use lingua_core::slots::Commit;
use lingua_core::{RequestId, TurnId};
use lingua_store::bus::{Envelope, Posting};
use lingua_store::error::MAX_DURATION;
use lingua_store::jobs::{EndedBy, Ending, NewJob};
use lingua_store::leaders::Task;
use lingua_store::nodes::{NODE_SHARDS, Registration, Vitals};
use lingua_store::owners::MAX_STATE_BYTES;
use lingua_store::slots::{Report, Wish};
use lingua_store::{Error, Result};

use super::samples::*;
use super::{Outcome, StoreUnderTest};

const WRONG: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_micros(999),
    Duration::from_millis(MAX_DURATION.as_millis() as u64 + 1),
    Duration::MAX,
];

fn invalid<T: Debug>(answer: Result<T>) {
    assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
}

pub async fn node_steps_refuse_durations_outside_their_bounds(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 1).await?;
    let before = node.record(&store).await?;
    let missing = node_id();
    for wrong in WRONG {
        let vitals = Vitals { fresh_for: wrong, ..vitals(2) };
        let registration = Registration { vitals, ..registration(2) };
        invalid(store.nodes.put(&node.id, &registration).await);
        invalid(store.nodes.put(&missing, &registration).await);
        invalid(store.nodes.beat(&node.id, &node.beat(vitals)).await);
        invalid(store.nodes.note_gap(&node.id, &model_id(), wrong).await);
    }
    assert_eq!(node.record(&store).await?, before);
    assert_eq!(store.nodes.get(&missing).await?, None);
    let longest = Vitals { fresh_for: MAX_DURATION, ..vitals(1) };
    store.nodes.beat(&node.id, &node.beat(longest)).await?;
    Ok(())
}

pub async fn slot_steps_refuse_durations_outside_their_bounds(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 4).await?;
    let (reserved, run, fresh) = (token(), token(), token());
    let until = node.reserve(&store, reserved, LONG).await?;
    node.run(&store, run, LONG).await?;
    for wrong in WRONG {
        invalid(store.slots.reserve(&Wish { lease: wrong, ..node.wish(fresh) }).await);
        invalid(store.slots.commit(&node.id, reserved, wrong).await);
        invalid(store.slots.renew(&node.id, run, wrong).await);
        let report = node.report(&[]);
        for report in [
            Report { lease: wrong, ..report },
            Report { reserve_lease: wrong, ..report },
            Report { quarantine: wrong, ..report },
        ] {
            invalid(store.slots.confirm(&node.id, &report).await);
        }
        assert_eq!(node.usage(&store).await?, (1, 1));
    }
    let again = store.slots.reserve(&node.wish(reserved)).await?;
    assert_eq!(again, lingua_store::slots::Reserve::Already { until });
    node.reserve(&store, fresh, MAX_DURATION).await?;
    let commit = store.slots.commit(&node.id, fresh, Duration::from_millis(1)).await?;
    assert!(matches!(commit, Commit::Committed(_)), "{commit:?}");
    Ok(())
}

pub async fn job_steps_refuse_durations_outside_their_bounds(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let (session, tenant) = (session(), tenant());
    let (request, turn) = (RequestId::new(chance())?, TurnId::new(chance())?);
    let (job, other) = (job_of(&session), job_of(&session));
    for wrong in WRONG {
        let new = new_job(job, &session);
        invalid(store.jobs.create(&NewJob { deadline_in: wrong, ..new.clone() }).await);
        invalid(store.jobs.create(&NewJob { keep_for: wrong, ..new }).await);
        invalid(store.deadlines.watch(&job, wrong).await);
        invalid(store.requests.claim(&tenant, &request, &job, wrong).await);
        invalid(store.turns.bind(&session, &turn, &node_id(), wrong).await);
    }
    assert_eq!(store.jobs.get(&job).await?, None);
    assert!(!store.deadlines.due(10_000).await?.contains(&job));
    assert_eq!(store.requests.claim(&tenant, &request, &other, LONG).await?, other);
    assert_eq!(store.turns.node(&session, &turn).await?, None);
    Ok(())
}

pub async fn owner_steps_refuse_durations_outside_their_bounds(
    store: &impl StoreUnderTest,
) -> Outcome {
    let _turn = super::owners::LEADING.lock().await;
    let store = store.backend();
    let (session, mine, task) = (session(), instance(), Task::Deadlines);
    for wrong in WRONG {
        invalid(store.owners.claim(&session, &mine, wrong).await);
        invalid(store.owners.renew(&session, &mine, 1, wrong).await);
        invalid(store.leaders.lead(task, &mine, wrong).await);
    }
    assert_eq!(store.owners.owner(&session).await?, None);
    let epoch = store.owners.claim(&session, &mine, LONG).await?.epoch;
    let owner = store.owners.owner(&session).await?;
    for wrong in WRONG {
        invalid(store.owners.renew(&session, &mine, epoch, wrong).await);
        invalid(store.owners.save(&session, epoch, b"state", wrong).await);
    }
    assert_eq!(store.owners.owner(&session).await?, owner);
    assert_eq!(store.owners.load(&session).await?, None);
    let yours = instance();
    let fence = super::owners::lead(&store, task, &yours, LONG).await?;
    store.leaders.resign(task, &yours, fence).await?;
    Ok(())
}

pub async fn bus_and_once_steps_refuse_durations_outside_their_bounds(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let (me, window) = (instance(), super::rates::name()?);
    for wrong in WRONG {
        invalid(store.presence.announce(&me, "a", wrong).await);
        invalid(store.rates.first(&window, wrong).await);
    }
    assert!(!store.presence.peers().await?.iter().any(|p| p.instance == me));
    assert!(store.rates.first(&window, LONG).await?);
    let me = super::bus::alive(&store, LONG).await?;
    let dead = super::bus::alive(&store, LONG).await?;
    super::bus::post(&store, &dead, &["left"]).await?;
    store.presence.withdraw(&dead).await?;
    for wrong in WRONG {
        let brief = Envelope { live_for: wrong, ..envelope("x") };
        invalid(store.bus.send(&me, &brief).await);
        invalid(store.bus.take_over(&dead, &me, wrong).await);
    }
    assert_eq!(store.bus.receive(&me, Duration::ZERO).await?, []);
    assert_eq!(store.bus.send(&me, &envelope("x")).await?, Posting::Posted);
    Ok(())
}

pub async fn lists_and_texts_outside_their_bounds_are_refused(
    store: &impl StoreUnderTest,
) -> Outcome {
    let store = store.backend();
    let node = TestNode::ready(&store, 1).await?;
    let before = node.record(&store).await?;
    for max in [0, MAX_SLOTS + 1] {
        let again = Registration { vitals: vitals(max), ..node.registration.clone() };
        invalid(store.nodes.put(&node.id, &again).await);
        invalid(store.nodes.beat(&node.id, &node.beat(vitals(max))).await);
    }
    assert_eq!(node.record(&store).await?, before);
    invalid(store.feed.shard(NODE_SHARDS).await);

    let models: Vec<_> = (0..=MAX_MODELS_PER_JOB).map(|_| model_id()).collect();
    invalid(store.slots.reserve(&Wish { models: &models, ..node.wish(token()) }).await);
    let many = tokens(MAX_SLOTS as usize + 1);
    invalid(store.slots.confirm(&node.id, &node.report(&many)).await);
    assert_eq!(node.usage(&store).await?, (0, 0));

    let (job, _) = super::jobs::dispatched(&store).await?;
    invalid(store.jobs.assign(&job, &assignment(job, 2), MAX_ATTEMPTS + 1).await);
    for code in ["a\nb".to_owned(), "é".to_owned(), "x".repeat(65)] {
        let ending = Ending { state: JobState::Failed, code };
        invalid(store.jobs.finish(&job, &EndedBy::Owner, &ending).await);
    }
    let open = store.jobs.get(&job).await?.map(|job| job.state);
    assert_eq!(open, Some(JobState::Dispatched));

    let (session, me) = (session(), instance());
    let epoch = store.owners.claim(&session, &me, LONG).await?.epoch;
    let state = vec![0; MAX_STATE_BYTES + 1];
    invalid(store.owners.save(&session, epoch, &state, LONG).await);
    assert_eq!(store.owners.load(&session).await?, None);
    store.owners.save(&session, epoch, &state[1..], LONG).await?;
    for address in [String::new(), "a\nb".to_owned(), "x".repeat(257)] {
        invalid(store.presence.announce(&me, &address, LONG).await);
    }
    assert!(!store.presence.peers().await?.iter().any(|p| p.instance == me));
    Ok(())
}
