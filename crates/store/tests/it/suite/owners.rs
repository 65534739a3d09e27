//! The table of owners.

use std::time::Duration;

use anyhow::bail;
use lingua_store::leaders::{Lead, Task};
use lingua_store::nodes::Fenced;
use lingua_store::owners::{Claimed, Owner};
use lingua_store::snapshots::MAX_PUBLISHED_BYTES;
use lingua_store::{Backend, Instance};
use tokio::sync::Mutex;

use super::samples::*;
use super::{Outcome, StoreUnderTest};

const TICK: Duration = Duration::from_millis(5);

/// There are three tasks for all tests of a binary: those that lead take turns.
pub static LEADING: Mutex<()> = Mutex::const_new(());

pub async fn every_claim_wins_and_raises_the_epoch(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, clock) = (session(), TestNode::ready(&a, 1).await?);
    let (mine, yours) = (instance(), instance());
    let mut last = 0;
    for (store, instance) in [(&a, &mine), (&b, &yours), (&b, &yours), (&a, &mine)] {
        let before = clock.now(&a).await?;
        let epoch = store.owners.claim(&session, instance, LONG).await?.epoch;
        let after = clock.now(&a).await?;
        assert!(epoch > last, "{epoch} after {last}");
        last = epoch;
        let Some(owner) = a.owners.owner(&session).await? else { bail!("no owner") };
        assert_lasts(owner.until, before, LONG, after);
        assert_eq!(owner, Owner { instance: instance.clone(), epoch, until: owner.until });
    }
    Ok(())
}

pub async fn a_claim_names_the_live_owner_it_replaced_and_nobody_else(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, mine, yours) = (session(), instance(), instance());
    let first = a.owners.claim(&session, &mine, LONG).await?;
    assert_eq!(first.replaced, None, "nobody was there");
    let again = a.owners.claim(&session, &mine, LONG).await?;
    assert_eq!(again.replaced, None, "itself is not another one");
    let other = b.owners.claim(&session, &yours, LONG).await?;
    assert_eq!(other.replaced, Some(mine.clone()));
    let life = b.owners.claim(&session, &reborn(&yours), LONG).await?;
    assert_eq!(life.replaced, Some(yours), "another life of an instance is another one");
    b.owners.release(&session, life.epoch).await?;
    let after = a.owners.claim(&session, &mine, store.lease()).await?;
    assert_eq!(after.replaced, None, "it had released");
    store.lapse().await;
    let lapsed = b.owners.claim(&session, &instance(), LONG).await?;
    assert_eq!(lapsed.replaced, None, "it had lapsed");
    assert!(lapsed.epoch > after.epoch);
    Ok(())
}

pub async fn an_epoch_is_never_below_the_stores_time(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let clock = TestNode::ready(&store, 1).await?;
    let before = clock.now(&store).await?;
    let Claimed { epoch, .. } = store.owners.claim(&session(), &instance(), LONG).await?;
    let possible = before.as_millis()..=clock.now(&store).await?.as_millis();
    assert!(possible.contains(&epoch), "{epoch} is not in {possible:?}");
    Ok(())
}

pub async fn a_renewal_extends_the_ownership(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, mine) = (session(), instance());
    let epoch = a.owners.claim(&session, &mine, store.lease()).await?.epoch;
    for _ in 0..2 {
        assert_eq!(a.owners.renew(&session, &mine, epoch, LONG).await?, Fenced::Done);
    }
    store.lapse().await;
    let owner = b.owners.owner(&session).await?;
    assert_eq!(owner.map(|o| (o.instance, o.epoch)), Some((mine, epoch)));
    Ok(())
}

pub async fn a_lapsed_owner_that_nobody_replaced_renews(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, mine) = (session(), instance());
    let epoch = a.owners.claim(&session, &mine, store.lease()).await?.epoch;
    store.lapse().await;
    assert_eq!(b.owners.owner(&session).await?, None);
    assert_eq!(a.owners.renew(&session, &mine, epoch, LONG).await?, Fenced::Done);
    let owner = b.owners.owner(&session).await?;
    assert_eq!(owner.map(|o| (o.instance, o.epoch)), Some((mine, epoch)));
    Ok(())
}

pub async fn an_owner_that_the_store_lost_is_back_by_its_renewal(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, mine) = (session(), instance());
    let ahead = TestNode::ready(&a, 1).await?.now(&a).await? + LONG;
    let epoch = ahead.as_millis();
    assert_eq!(a.owners.renew(&session, &mine, epoch, LONG).await?, Fenced::Done);
    let owner = b.owners.owner(&session).await?;
    assert_eq!(owner.map(|o| (o.instance, o.epoch)), Some((mine, epoch)));
    let next = b.owners.claim(&session, &instance(), LONG).await?.epoch;
    assert_eq!(next, epoch + 1, "above every earlier epoch, also one ahead of the clock");
    Ok(())
}

/// A session that went from one instance to another, and the stale owner.
struct Moved {
    session: lingua_core::SessionKey,
    old: (Instance, u64),
    new: (Instance, u64),
}

impl Moved {
    async fn make(store: &impl StoreUnderTest, ttl: Duration) -> anyhow::Result<Moved> {
        let (session, mine, yours) = (session(), instance(), instance());
        let old = store.backend().owners.claim(&session, &mine, LONG).await?.epoch;
        let new = store.second().owners.claim(&session, &yours, ttl).await?.epoch;
        Ok(Moved { session, old: (mine, old), new: (yours, new) })
    }

    fn superseded(&self) -> Fenced {
        Fenced::Superseded { epoch: self.new.1 }
    }

    async fn owner(&self, store: &Backend) -> anyhow::Result<Option<(Instance, u64)>> {
        Ok(store.owners.owner(&self.session).await?.map(|o| (o.instance, o.epoch)))
    }
}

pub async fn a_stale_owner_renews_nothing(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let moved = Moved::make(store, LONG).await?;
    let (mine, old) = &moved.old;
    let until = backend.owners.owner(&moved.session).await?.map(|o| o.until);
    store.pass(TICK).await;
    let renew = backend.owners.renew(&moved.session, mine, *old, 2 * LONG).await?;
    assert_eq!(renew, moved.superseded());
    assert_eq!(moved.owner(&backend).await?, Some(moved.new.clone()));
    assert_eq!(backend.owners.owner(&moved.session).await?.map(|o| o.until), until);

    let moved = Moved::make(store, store.lease()).await?;
    let (mine, old) = &moved.old;
    store.lapse().await;
    let renew = backend.owners.renew(&moved.session, mine, *old, LONG).await?;
    assert_eq!(renew, moved.superseded(), "also when the new owner lapsed");
    assert_eq!(moved.owner(&backend).await?, None);
    Ok(())
}

pub async fn a_stale_owner_releases_nothing(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let moved = Moved::make(store, LONG).await?;
    let release = backend.owners.release(&moved.session, moved.old.1).await?;
    assert_eq!(release, moved.superseded());
    assert_eq!(moved.owner(&backend).await?, Some(moved.new.clone()));
    Ok(())
}

pub async fn a_release_ends_the_ownership_and_keeps_the_epoch(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (session, mine) = (session(), instance());
    let old = a.owners.claim(&session, &mine, LONG).await?.epoch;
    let new = a.owners.claim(&session, &mine, LONG).await?.epoch;
    for _ in 0..2 {
        assert_eq!(a.owners.release(&session, new).await?, Fenced::Done);
        assert_eq!(b.owners.owner(&session).await?, None);
    }
    let superseded = Fenced::Superseded { epoch: new };
    assert_eq!(a.owners.release(&session, old).await?, superseded);
    assert_eq!(a.owners.renew(&session, &mine, old, LONG).await?, superseded);
    assert!(b.owners.claim(&session, &mine, LONG).await?.epoch > new);
    Ok(())
}

pub async fn a_session_never_claimed_has_no_owner_and_no_state(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (store, session) = (store.backend(), session());
    assert_eq!(store.owners.owner(&session).await?, None);
    assert_eq!(store.owners.load(&session).await?, None);
    assert_eq!(store.owners.release(&session, 1).await?, Fenced::Unknown);
    assert_eq!(store.owners.owner(&session).await?, None);
    Ok(())
}

pub async fn the_next_owner_loads_what_the_last_one_saved(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let session = session();
    let epoch = a.owners.claim(&session, &instance(), LONG).await?.epoch;
    for state in [&b"first"[..], b"", &[0, 255, 10, 13]] {
        assert_eq!(a.owners.save(&session, epoch, state, LONG).await?, Fenced::Done);
        assert_eq!(b.owners.load(&session).await?.as_deref(), Some(state));
    }
    a.owners.save(&session, epoch, b"last", LONG).await?;
    a.owners.release(&session, epoch).await?;
    let next = b.owners.claim(&session, &instance(), LONG).await?.epoch;
    assert_eq!(b.owners.load(&session).await?.as_deref(), Some(&b"last"[..]));
    assert_eq!(b.owners.save(&session, next, b"next", LONG).await?, Fenced::Done);
    assert_eq!(a.owners.load(&session).await?.as_deref(), Some(&b"next"[..]));
    Ok(())
}

pub async fn a_stale_owner_saves_nothing(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let moved = Moved::make(store, LONG).await?;
    let save = a.owners.save(&moved.session, moved.old.1, b"stale", LONG).await?;
    assert_eq!(save, moved.superseded());
    assert_eq!(b.owners.load(&moved.session).await?, None);
    b.owners.save(&moved.session, moved.new.1, b"new", LONG).await?;
    a.owners.save(&moved.session, moved.old.1, b"stale", LONG).await?;
    assert_eq!(b.owners.load(&moved.session).await?.as_deref(), Some(&b"new"[..]));
    Ok(())
}

pub async fn a_saved_state_is_forgotten_in_its_time(store: &impl StoreUnderTest) -> Outcome {
    let (backend, session) = (store.backend(), session());
    let epoch = backend.owners.claim(&session, &instance(), LONG).await?.epoch;
    backend.owners.save(&session, epoch, b"state", LONG).await?;
    backend.owners.save(&session, epoch, b"brief", store.lease()).await?;
    store.pass(store.lease() + TICK).await;
    assert_eq!(backend.owners.load(&session).await?, None);
    assert!(backend.owners.owner(&session).await?.is_some(), "the ownership is another matter");
    Ok(())
}

/// The fence of a lead that must be given.
pub async fn lead(
    store: &Backend,
    task: Task,
    instance: &Instance,
    ttl: Duration,
) -> anyhow::Result<u64> {
    match store.leaders.lead(task, instance, ttl).await? {
        Lead::Leading { fence } => Ok(fence),
        Lead::Held { by } => bail!("{task:?} is led by {by}"),
    }
}

pub async fn one_instance_leads_and_extends_its_lead_under_one_fence(
    store: &impl StoreUnderTest,
) -> Outcome {
    let _turn = LEADING.lock().await;
    let (a, b) = (store.backend(), store.second());
    let (mine, yours) = (instance(), instance());
    for task in Task::ALL {
        let fence = lead(&a, task, &mine, store.lease()).await?;
        assert_eq!(lead(&a, task, &mine, LONG).await?, fence, "the same lead goes on");
        store.lapse().await;
        for other in [&yours, &reborn(&mine)] {
            let held = b.leaders.lead(task, other, LONG).await?;
            assert_eq!(held, Lead::Held { by: mine.clone() });
        }
        a.leaders.resign(task, &mine, fence).await?;
        let next = lead(&b, task, &yours, LONG).await?;
        assert!(next > fence, "{next} after {fence}");
        b.leaders.resign(task, &yours, next).await?;
    }
    Ok(())
}

pub async fn a_lapsed_leader_gets_a_new_fence(store: &impl StoreUnderTest) -> Outcome {
    let _turn = LEADING.lock().await;
    let (a, b) = (store.backend(), store.second());
    let (mine, task) = (instance(), Task::Janitor);
    let first = lead(&a, task, &mine, store.lease()).await?;
    store.lapse().await;
    let second = lead(&a, task, &mine, store.lease()).await?;
    assert!(second > first, "its lead had ended: {second} after {first}");
    store.lapse().await;
    let yours = instance();
    let third = lead(&b, task, &yours, LONG).await?;
    assert!(third > second, "{third} after {second}");
    b.leaders.resign(task, &yours, third).await?;
    Ok(())
}

pub async fn only_the_present_leader_resigns(store: &impl StoreUnderTest) -> Outcome {
    let _turn = LEADING.lock().await;
    let (a, b) = (store.backend(), store.second());
    let (mine, yours, task) = (instance(), instance(), Task::Snapshot);
    let old = lead(&a, task, &mine, store.lease()).await?;
    store.lapse().await;
    let new = lead(&a, task, &mine, LONG).await?;
    a.leaders.resign(task, &mine, old).await?;
    a.leaders.resign(task, &yours, new).await?;
    let held = b.leaders.lead(task, &yours, LONG).await?;
    assert_eq!(held, Lead::Held { by: mine.clone() }, "neither was the present leader's word");
    for _ in 0..2 {
        a.leaders.resign(task, &mine, new).await?;
    }
    let next = lead(&b, task, &yours, LONG).await?;
    a.leaders.resign(task, &mine, new).await?;
    assert_eq!(lead(&b, task, &yours, LONG).await?, next, "a late word ends nobody else's lead");
    b.leaders.resign(task, &yours, next).await?;
    Ok(())
}

pub async fn what_the_newest_leader_published_stays_until_it_is_replaced(
    store: &impl StoreUnderTest,
) -> Outcome {
    let _turn = LEADING.lock().await;
    let (a, b) = (store.backend(), store.second());
    let (mine, yours, task) = (instance(), instance(), Task::Snapshot);
    let old = lead(&a, task, &mine, store.lease()).await?;
    for what in [&b"first"[..], &[0, 255, 10]] {
        assert_eq!(a.snapshots.publish(task, old, what).await?, Fenced::Done);
        assert_eq!(b.snapshots.published(task).await?.as_deref(), Some(what));
    }
    lead(&a, task, &mine, store.lease()).await?;
    assert_eq!(b.snapshots.published(task).await?.as_deref(), Some(&[0, 255, 10][..]));
    store.lapse().await;
    assert_eq!(a.snapshots.publish(task, old, b"late").await?, Fenced::Done, "nobody led it since");
    let new = lead(&b, task, &yours, LONG).await?;
    let superseded = Fenced::Superseded { epoch: new };
    assert_eq!(a.snapshots.publish(task, old, b"stale").await?, superseded);
    assert_eq!(b.snapshots.published(task).await?.as_deref(), Some(&b"late"[..]));
    assert_eq!(b.snapshots.publish(task, new, b"new").await?, Fenced::Done);
    assert_eq!(b.snapshots.publish(task, new + 1, b"nobody").await?, Fenced::Unknown);
    let large = vec![0; MAX_PUBLISHED_BYTES + 1];
    assert!(b.snapshots.publish(task, new, &large).await.is_err());
    assert_eq!(a.snapshots.published(task).await?.as_deref(), Some(&b"new"[..]));
    b.leaders.resign(task, &yours, new).await?;
    Ok(())
}
