//! The revocation list.

use std::time::Duration;

use lingua_store::rates::Name;
use lingua_store::revocations::MAX_REVOCATIONS;
use lingua_store::{Backend, Error};

use super::rates::name;
use super::samples::*;
use super::{Outcome, StoreUnderTest};

/// One test: there is only one list, and the last part fills it.
pub async fn revocations_are_seen_by_all_until_they_are_over_and_are_bounded(
    store: &impl StoreUnderTest,
) -> Outcome {
    a_mark_is_seen_by_all_until_it_is_over(store).await?;
    a_mark_that_is_put_again_stays_for_the_longer_of_the_two(store).await?;
    marks_are_bounded(store).await
}

async fn a_mark_is_seen_by_all_until_it_is_over(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (short, long) = (name()?, name()?);
    assert!(!has(&a, &short).await?);
    assert!(a.revocations.add(&short, store.lease()).await?);
    assert!(b.revocations.add(&long, Duration::from_secs(300 * 24 * 3600)).await?);
    for store in [&a, &b] {
        assert!(has(store, &short).await? && has(store, &long).await?);
    }
    store.lapse().await;
    assert!(!has(&b, &short).await? && has(&b, &long).await?);
    for wrong in [Duration::ZERO, Duration::from_secs(401 * 24 * 3600)] {
        assert!(matches!(a.revocations.add(&short, wrong).await, Err(Error::Invalid(_))));
    }
    Ok(())
}

async fn a_mark_that_is_put_again_stays_for_the_longer_of_the_two(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let mark = name()?;
    assert!(a.revocations.add(&mark, LONG).await?);
    assert!(b.revocations.add(&mark, store.lease()).await?);
    store.lapse().await;
    assert!(has(&a, &mark).await?, "a shorter one takes nothing away");
    Ok(())
}

async fn marks_are_bounded(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let known = name()?;
    assert!(backend.revocations.add(&known, LONG).await?);
    let stay = store.lease() * 40;
    let mut put = 0;
    'full: for hundred in 0..=MAX_REVOCATIONS / 100 {
        let names = (0..100).map(|n| Name::new(format!("bound:{}", hundred * 100 + n)));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let marks = names.iter().map(|name| backend.revocations.add(name, stay));
        for taken in futures_util::future::try_join_all(marks).await? {
            if !taken {
                break 'full;
            }
            put += 1;
        }
    }
    assert!((MAX_REVOCATIONS / 2..MAX_REVOCATIONS).contains(&put), "{put}");
    assert!(backend.revocations.add(&known, LONG).await?, "one that is there can be put again");
    assert!(backend.revocations.list().await?.len() <= MAX_REVOCATIONS);
    store.pass(stay).await;
    assert!(backend.revocations.add(&name()?, LONG).await?, "there is room again");
    Ok(())
}

async fn has(store: &Backend, mark: &Name) -> anyhow::Result<bool> {
    Ok(store.revocations.list().await?.contains(mark))
}
