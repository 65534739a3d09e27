//! Windows and rates.

use std::time::Duration;

use anyhow::bail;
use lingua_store::once::{MAX_MARKS, Name, Rate, Take};
use lingua_store::{Backend, Error};

use super::samples::*;
use super::{Outcome, StoreUnderTest};

const TICK: Duration = Duration::from_millis(5);

pub fn name() -> anyhow::Result<Name> {
    Ok(Name::new(format!("model@{}:1.0", chance()))?)
}

pub async fn exactly_the_first_caller_within_a_window_is_told_so(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let name = name()?;
    assert!(a.once.first(&name, LONG).await?);
    for store in [&a, &b, &b] {
        assert!(!store.once.first(&name, LONG).await?);
    }
    Ok(())
}

pub async fn a_new_window_begins_when_the_old_one_is_over(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let name = name()?;
    assert!(a.once.first(&name, store.lease()).await?);
    // A call within the window does not prolong it.
    b.once.first(&name, LONG).await?;
    store.pass(store.lease() + TICK).await;
    assert!(b.once.first(&name, LONG).await?);
    assert!(!a.once.first(&name, LONG).await?);
    Ok(())
}

pub async fn windows_of_different_names_do_not_meet(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let one = name()?;
    let rate = Rate { interval: LONG, burst: 1 };
    assert!(store.once.first(&one, LONG).await?);
    assert!(store.once.first(&name()?, LONG).await?);
    let taken = store.once.take(&one, rate).await?;
    assert_eq!(taken, Take::Allowed, "a window and a rate of one name are two things");
    assert_eq!(store.once.take(&name()?, rate).await?, Take::Allowed);
    Ok(())
}

async fn burst(store: &Backend, name: &Name, rate: Rate, calls: u32) -> anyhow::Result<u32> {
    let mut allowed = 0;
    for _ in 0..calls {
        allowed += u32::from(store.once.take(name, rate).await? == Take::Allowed);
    }
    Ok(allowed)
}

pub async fn a_burst_fits_and_one_more_does_not(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (name, rate) = (name()?, Rate { interval: LONG, burst: 3 });
    for store in [&a, &b, &a] {
        assert_eq!(store.once.take(&name, rate).await?, Take::Allowed);
    }
    let limited = b.once.take(&name, rate).await?;
    let Take::Limited { retry_after } = limited else { bail!("{limited:?}") };
    assert!(retry_after > LONG - Duration::from_secs(20) && retry_after <= LONG, "{retry_after:?}");
    Ok(())
}

pub async fn an_event_that_does_not_fit_is_not_counted(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let (name, rate) = (name()?, Rate { interval: store.lease(), burst: 1 });
    assert_eq!(backend.once.take(&name, rate).await?, Take::Allowed);
    burst(&backend, &name, rate, 20).await?;
    store.lapse().await;
    assert_eq!(backend.once.take(&name, rate).await?, Take::Allowed);
    Ok(())
}

pub async fn a_rate_lets_one_more_through_per_interval(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let (name, rate) = (name()?, Rate { interval: LONG, burst: 2 });
    assert_eq!(burst(&backend, &name, rate, 5).await?, 2);
    let quick = Rate { interval: store.lease(), burst: 1 };
    let name = self::name()?;
    for _ in 0..3 {
        assert_eq!(backend.once.take(&name, quick).await?, Take::Allowed);
        let limited = backend.once.take(&name, quick).await?;
        let Take::Limited { retry_after } = limited else { bail!("{limited:?}") };
        assert!(retry_after <= store.lease(), "{retry_after:?}");
        store.pass(retry_after).await;
    }
    Ok(())
}

pub async fn there_is_no_double_burst_at_the_edge_of_a_window(
    store: &impl StoreUnderTest,
) -> Outcome {
    let backend = store.backend();
    let (name, rate) = (name()?, Rate { interval: 20 * store.lease(), burst: 4 });
    assert_eq!(burst(&backend, &name, rate, 4).await?, 4);
    store.lapse().await;
    let more = burst(&backend, &name, rate, 8).await?;
    assert_eq!(more, 0, "a fixed window would begin anew");
    Ok(())
}

pub async fn a_rate_outside_its_bounds_is_refused(store: &impl StoreUnderTest) -> Outcome {
    let (store, name) = (store.backend(), name()?);
    let rates = [
        Rate { interval: Duration::ZERO, burst: 1 },
        Rate { interval: Duration::from_secs(86_401), burst: 1 },
        Rate { interval: LONG, burst: 0 },
        Rate { interval: LONG, burst: 1_000_001 },
    ];
    for rate in rates {
        let take = store.once.take(&name, rate).await;
        assert!(matches!(take, Err(Error::Invalid(_))), "{rate:?}: {take:?}");
    }
    let rate = Rate { interval: LONG, burst: 1 };
    assert_eq!(store.once.take(&name, rate).await?, Take::Allowed, "nothing was counted");
    Ok(())
}

async fn has(store: &Backend, mark: &Name) -> anyhow::Result<bool> {
    Ok(store.once.marks().await?.contains(mark))
}

/// One test: there is only one list, and the last part fills it.
pub async fn marks_are_seen_by_all_until_they_are_over_and_are_bounded(
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
    assert!(a.once.mark(&short, store.lease()).await?);
    assert!(b.once.mark(&long, Duration::from_secs(300 * 24 * 3600)).await?);
    for store in [&a, &b] {
        assert!(has(store, &short).await? && has(store, &long).await?);
    }
    store.lapse().await;
    assert!(!has(&b, &short).await? && has(&b, &long).await?);
    for wrong in [Duration::ZERO, Duration::from_secs(401 * 24 * 3600)] {
        assert!(matches!(a.once.mark(&short, wrong).await, Err(Error::Invalid(_))));
    }
    Ok(())
}

async fn a_mark_that_is_put_again_stays_for_the_longer_of_the_two(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let mark = name()?;
    assert!(a.once.mark(&mark, LONG).await?);
    assert!(b.once.mark(&mark, store.lease()).await?);
    store.lapse().await;
    assert!(has(&a, &mark).await?, "a shorter one takes nothing away");
    Ok(())
}

async fn marks_are_bounded(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let known = name()?;
    assert!(backend.once.mark(&known, LONG).await?);
    let stay = store.lease() * 40;
    let mut put = 0;
    'full: for hundred in 0..=MAX_MARKS / 100 {
        let names = (0..100).map(|n| Name::new(format!("bound:{}", hundred * 100 + n)));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let marks = names.iter().map(|name| backend.once.mark(name, stay));
        for taken in futures_util::future::try_join_all(marks).await? {
            if !taken {
                break 'full;
            }
            put += 1;
        }
    }
    assert!((MAX_MARKS / 2..MAX_MARKS).contains(&put), "{put}");
    assert!(backend.once.mark(&known, LONG).await?, "one that is there can be put again");
    assert!(backend.once.marks().await?.len() <= MAX_MARKS);
    store.pass(stay).await;
    assert!(backend.once.mark(&name()?, LONG).await?, "there is room again");
    Ok(())
}
