//! Series of points.

use std::time::Duration;

use lingua_store::Error;
use lingua_store::history::{MAX_POINT_BYTES, MAX_POINTS, Series};
use lingua_store::rates::Name;

use super::samples::*;
use super::{Outcome, StoreUnderTest};

fn series(step: Duration, points: u32) -> anyhow::Result<Series> {
    Ok(Series { name: Name::new(format!("series:{}", chance()))?, step, points })
}

/// Longer than any test takes, so that its points are of one step.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

pub async fn a_step_has_one_point_whoever_appends(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let one = series(WEEK, 10)?;
    assert!(a.history.last(&one, 10).await?.is_empty(), "an unknown series has no points");
    assert!(a.history.append(&one, b"{\"one\": 1}").await?);
    assert!(!b.history.append(&one, b"another").await?);
    assert!(!a.history.append(&one, b"{\"one\": 1}").await?, "again changes nothing");
    assert_eq!(b.history.last(&one, 10).await?, [b"{\"one\": 1}"]);
    assert!(a.history.append(&series(WEEK, 10)?, b"x").await?, "another series is another matter");
    Ok(())
}

pub async fn the_last_so_many_points_come_back_in_order(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let one = series(store.lease(), 3)?;
    // Two of them are alike, and still two points.
    for (backend, point) in [(&b, "first"), (&a, "same"), (&b, "third"), (&a, "same")] {
        assert!(backend.history.append(&one, point.as_bytes()).await?);
        store.pass(one.step).await;
    }
    let last = |count| a.history.last(&one, count);
    assert_eq!(last(10).await?, [&b"same"[..], b"third", b"same"], "of four, three are kept");
    assert_eq!(last(2).await?, [&b"third"[..], b"same"]);
    assert!(last(0).await?.is_empty());
    Ok(())
}

pub async fn a_series_ends_when_nothing_was_appended_for_its_length(
    store: &impl StoreUnderTest,
) -> Outcome {
    let backend = store.backend();
    let one = series(store.lease(), 2)?;
    backend.history.append(&one, b"x").await?;
    assert_eq!(backend.history.last(&one, 1).await?.len(), 1);
    store.pass(one.step * 2 + Duration::from_millis(20)).await;
    assert!(backend.history.last(&one, 1).await?.is_empty());
    Ok(())
}

pub async fn a_series_outside_its_bounds_is_refused(store: &impl StoreUnderTest) -> Outcome {
    let backend = store.backend();
    let large = vec![b'x'; MAX_POINT_BYTES + 1];
    let most = series(WEEK, MAX_POINTS)?;
    assert!(backend.history.append(&most, &large[1..]).await?);
    let wrong = [
        (most, &large[..]),
        (series(WEEK, MAX_POINTS + 1)?, b"x"),
        (series(WEEK, 0)?, b"x"),
        (series(Duration::ZERO, 1)?, b"x"),
    ];
    for (series, point) in wrong {
        let refused = backend.history.append(&series, point).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{series:?}: {refused:?}");
    }
    Ok(())
}
