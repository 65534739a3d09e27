//! Windows and rates.

use std::time::Duration;

use anyhow::bail;
use lingua_store::rates::{Name, Rate, Take};
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
    assert!(a.rates.first(&name, LONG).await?);
    for store in [&a, &b, &b] {
        assert!(!store.rates.first(&name, LONG).await?);
    }
    Ok(())
}

pub async fn a_new_window_begins_when_the_old_one_is_over(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let name = name()?;
    assert!(a.rates.first(&name, store.lease()).await?);
    // A call within the window does not prolong it.
    b.rates.first(&name, LONG).await?;
    store.pass(store.lease() + TICK).await;
    assert!(b.rates.first(&name, LONG).await?);
    assert!(!a.rates.first(&name, LONG).await?);
    Ok(())
}

pub async fn windows_of_different_names_do_not_meet(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let one = name()?;
    let rate = Rate { interval: LONG, burst: 1 };
    assert!(store.rates.first(&one, LONG).await?);
    assert!(store.rates.first(&name()?, LONG).await?);
    let taken = store.rates.take(&one, rate).await?;
    assert_eq!(taken, Take::Allowed, "a window and a rate of one name are two things");
    assert_eq!(store.rates.take(&name()?, rate).await?, Take::Allowed);
    Ok(())
}

async fn burst(store: &Backend, name: &Name, rate: Rate, calls: u32) -> anyhow::Result<u32> {
    let mut allowed = 0;
    for _ in 0..calls {
        allowed += u32::from(store.rates.take(name, rate).await? == Take::Allowed);
    }
    Ok(allowed)
}

pub async fn a_burst_fits_and_one_more_does_not(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (name, rate) = (name()?, Rate { interval: LONG, burst: 3 });
    for store in [&a, &b, &a] {
        assert_eq!(store.rates.take(&name, rate).await?, Take::Allowed);
    }
    let limited = b.rates.take(&name, rate).await?;
    let Take::Limited { retry_after } = limited else { bail!("{limited:?}") };
    assert!(retry_after > LONG - Duration::from_secs(20) && retry_after <= LONG, "{retry_after:?}");
    Ok(())
}

pub async fn an_event_that_does_not_fit_is_not_counted(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let (name, rate) = (name()?, Rate { interval: store.lease(), burst: 1 });
    assert_eq!(backend.rates.take(&name, rate).await?, Take::Allowed);
    burst(&backend, &name, rate, 20).await?;
    store.lapse().await;
    assert_eq!(backend.rates.take(&name, rate).await?, Take::Allowed);
    Ok(())
}

pub async fn a_rate_lets_one_more_through_per_interval(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let (name, rate) = (name()?, Rate { interval: LONG, burst: 2 });
    assert_eq!(burst(&backend, &name, rate, 5).await?, 2);
    let quick = Rate { interval: store.lease(), burst: 1 };
    let name = self::name()?;
    for _ in 0..3 {
        assert_eq!(backend.rates.take(&name, quick).await?, Take::Allowed);
        let limited = backend.rates.take(&name, quick).await?;
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
        let take = store.rates.take(&name, rate).await;
        assert!(matches!(take, Err(Error::Invalid(_))), "{rate:?}: {take:?}");
    }
    let rate = Rate { interval: LONG, burst: 1 };
    assert_eq!(store.rates.take(&name, rate).await?, Take::Allowed, "nothing was counted");
    Ok(())
}
