//! What is special to the embedded store; what all stores owe is in the conformance suite.

use std::time::Duration;

use lingua_core::job::JobState;
use lingua_core::lang::{Lang, LangSet};
use lingua_core::node::{Declaration, Health, NodeProfile};
use lingua_core::slots::SPENT_RETENTION;
use lingua_core::{InstanceId, JobId, LeaseToken, NodeId, SessionId, SessionKey, TenantId};

use super::*;
use crate::bus::Inboxes;
use crate::instance::Instance;
use crate::jobs::{Assignment, Create, EndedBy, Ending, Finish, JobRecords, NewJob};
use crate::nodes::{Claim, NodeRecords, ProfileVersion, Put, Registration, Vitals};
use crate::presence::{Announce, Presence};
use crate::rates::{Name, Rate, RateLimits, Take};
use crate::slots::{Reserve, SlotLeases, Wish};
use crate::usage::{Day, KEPT_DAYS, Posted, UsageDays};

const SECOND: Duration = Duration::from_secs(1);

fn job(n: u64) -> JobId {
    format!("00000000{n:018}").parse().unwrap()
}

fn token(n: u64) -> LeaseToken {
    LeaseToken { job: job(n), attempt: 1, nonce: n.into() }
}

fn session() -> SessionKey {
    let (tenant, session) = (TenantId::new("t").unwrap(), SessionId::new("s").unwrap());
    SessionKey::new(tenant, session)
}

fn instance(name: &str) -> Instance {
    Instance { id: InstanceId::new(name).unwrap(), boot: 1 }
}

fn registration() -> Registration {
    let semantic = LangSet::new([Lang::new("en").unwrap()]).unwrap();
    let declared = Declaration { semantic, max_slots: 2, ..Declaration::default() };
    Registration {
        claim: Claim::Newest,
        owner: instance("a"),
        profile: NodeProfile::from_declaration(declared).unwrap(),
        vitals: Vitals { max: 2, health: Health::Ready, overloaded: false, fresh_for: SECOND },
        known: false,
    }
}

#[tokio::test]
async fn two_clones_are_two_instances_of_one_store() {
    let first = MemoryStore::open(Clock::manual());
    let second = first.clone();
    let (node, registration) = (NodeId::new("n").unwrap(), registration());
    let put = first.nodes.put(&node, &registration).await.unwrap();
    assert!(matches!(put, Put::Stored { replaced: None, .. }));
    let wish = Wish {
        node: &node,
        token: token(1),
        version: ProfileVersion::of(&registration.profile),
        models: &[],
        lease: SECOND,
    };
    assert!(matches!(second.slots.reserve(&wish).await.unwrap(), Reserve::Granted { used: 1, .. }));
    assert!(matches!(first.slots.reserve(&wish).await.unwrap(), Reserve::Already { .. }));
    assert_eq!(first.description.as_ref(), "embedded (memory)");
}

#[tokio::test]
async fn the_status_is_up_and_those_who_wait_for_a_change_wait() {
    let mut backend = MemoryStore::open(Clock::manual());
    assert_eq!(*backend.status.borrow(), Status::Up { connection: 1 });
    let change = tokio::time::timeout(Duration::from_millis(20), backend.status.changed()).await;
    assert!(change.is_err(), "it neither changes nor ends");
}

#[tokio::test]
async fn forgotten_jobs_make_room_for_new_ones() {
    let clock = Clock::manual();
    let (store, session) = (MemoryStore::new(clock.clone()), session());
    for n in 0..20_000 {
        clock.advance(Duration::from_millis(10));
        let new = NewJob {
            id: job(n),
            session: &session,
            epoch: None,
            first: None,
            deadline_in: SECOND,
            keep_for: SECOND,
        };
        assert!(matches!(store.create(&new).await.unwrap(), Create::Created));
    }
    assert!(store.jobs.size() < 600, "2 s of 100 a second, and some: {}", store.jobs.size());
}

#[tokio::test]
async fn a_record_tells_an_assignment_as_it_was_given() {
    let (store, session) = (MemoryStore::new(Clock::manual()), session());
    for (n, token_job) in [(1, 1), (2, 99)] {
        let first = Assignment {
            node: NodeId::new("n").unwrap(),
            token: LeaseToken { job: job(token_job), ..token(n) },
        };
        let new = NewJob {
            id: job(n),
            session: &session,
            epoch: None,
            first: Some(first.clone()),
            deadline_in: SECOND,
            keep_for: SECOND,
        };
        assert!(matches!(store.create(&new).await.unwrap(), Create::Created));
        let other =
            Assignment { token: LeaseToken { job: job(77), ..first.token }, ..first.clone() };
        let failed = Ending { state: JobState::Failed, code: "WHY".to_owned() };
        let by = EndedBy::Assignment(other);
        assert_eq!(
            store.finish(&job(n), &by, &failed).await.unwrap(),
            Finish::Stale { attempt: 1 }
        );
        let by = EndedBy::Assignment(first.clone());
        assert_eq!(store.finish(&job(n), &by, &failed).await.unwrap(), Finish::Finished);
        let record = JobRecords::get(&store, &job(n)).await.unwrap().unwrap();
        assert_eq!((record.assignment, record.code.as_str()), (Some(first), "WHY"));
    }
}

#[tokio::test]
async fn windows_and_rates_that_are_over_make_room_for_new_ones() {
    let clock = Clock::manual();
    let store = MemoryStore::new(clock.clone());
    let rate = Rate { interval: SECOND, burst: 1 };
    for n in 0..20_000 {
        clock.advance(Duration::from_millis(10));
        let name = Name::new(format!("name-{n}")).unwrap();
        assert!(store.first(&name, SECOND).await.unwrap());
        assert_eq!(store.take(&name, rate).await.unwrap(), Take::Allowed);
    }
    let (windows, rates) = store.rates.sizes();
    assert!(windows < 500 && rates < 500, "1 s of 100 a second, and some: {windows} {rates}");
}

#[tokio::test]
async fn nodes_known_only_by_spent_tokens_are_forgotten_with_them() {
    let clock = Clock::manual();
    let store = MemoryStore::new(clock.clone());
    let kept = NodeId::new("kept").unwrap();
    store.release(&kept, token(0)).await.unwrap();
    store.put(&kept, &registration()).await.unwrap();
    for n in 0..10_000 {
        clock.advance(SPENT_RETENTION / 100);
        let node = NodeId::new(format!("node-{n}")).unwrap();
        assert!(!store.release(&node, token(n)).await.unwrap());
    }
    assert!(store.nodes.size() < 300, "100 within a retention, and some: {}", store.nodes.size());
    assert!(NodeRecords::get(&store, &kept).await.unwrap().is_some(), "it has a record");
}

#[tokio::test]
async fn lapsed_names_of_instances_make_room() {
    let clock = Clock::manual();
    let store = MemoryStore::new(clock.clone());
    for n in 0..100 {
        let me = instance(&format!("i{n}"));
        assert_eq!(store.announce(&me, "here", SECOND).await.unwrap(), Announce::Announced);
        clock.advance(SECOND);
        let successor = instance("successor");
        store.take_over(&me, &successor, SECOND).await.unwrap();
    }
    assert_eq!(store.bus.sizes(), (1, 0), "the last presence until the next announcement");
}

#[tokio::test]
async fn a_fork_has_what_was_there_and_grants_nothing_before_a_report() {
    let clock = Clock::manual();
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let first = Arc::clone(&store).backend();
    let node = NodeId::new("n").unwrap();
    first.nodes.put(&node, &registration()).await.unwrap();
    let version = ProfileVersion::of(&registration().profile);
    let wish = |n| Wish { node: &node, token: token(n), version, models: &[], lease: SECOND };
    assert!(matches!(first.slots.reserve(&wish(1)).await.unwrap(), Reserve::Granted { .. }));
    let second = store.fork(clock.clone()).backend();
    assert!(matches!(first.slots.reserve(&wish(2)).await.unwrap(), Reserve::Granted { .. }));
    assert_eq!(second.slots.usage(&node).await.unwrap().used(), 1, "what came later is lost");
    let refused = second.slots.reserve(&wish(3)).await.unwrap();
    assert_eq!(refused, Reserve::Refused(crate::slots::Refusal::Unconfirmed));
}

#[tokio::test]
async fn what_was_used_on_a_day_is_forgotten_after_31_days() {
    let clock = Clock::manual();
    let store = MemoryStore::new(clock.clone());
    let (me, day) = (instance("a"), Day::of(clock.now()));
    assert_eq!(store.post(day, &me, 1, b"x").await.unwrap(), Posted::Kept);
    let last = Day(day.0 + KEPT_DAYS).start() - Duration::from_millis(1);
    clock.advance(clock.now().until(last));
    assert_eq!(store.posted(day).await.unwrap().len(), 1);
    clock.advance(Duration::from_millis(1));
    assert!(store.posted(day).await.unwrap().is_empty());
    assert_eq!(store.post(day, &me, 2, b"y").await.unwrap(), Posted::Kept, "and not kept");
    assert!(store.posted(day).await.unwrap().is_empty() && store.usage.lock().is_empty());
}
