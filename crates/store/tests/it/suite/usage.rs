//! What was used, by day.

use std::sync::atomic::{AtomicU32, Ordering};

use lingua_store::usage::{Day, MAX_USAGE_BYTES, MAX_WRITERS, Posted};
use lingua_store::{Backend, Error, Instance};

use super::samples::*;
use super::{Outcome, StoreUnderTest};

/// Days that no other test uses, and that are not forgotten by any clock.
static NEXT: AtomicU32 = AtomicU32::new(4_000_000);

fn day() -> Day {
    Day(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn process(number: u64) -> anyhow::Result<Instance> {
    Ok(Instance { id: format!("u-{}", chance()).parse()?, boot: number })
}

async fn sorted(store: &Backend, day: Day) -> anyhow::Result<Vec<String>> {
    let posted = store.usage.posted(day).await?;
    let mut texts: Vec<_> = posted.into_iter().map(String::from_utf8).collect::<Result<_, _>>()?;
    texts.sort();
    Ok(texts)
}

pub async fn what_a_process_posts_twice_or_late_counts_once(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b, day) = (store.backend(), store.second(), day());
    let (one, other) = (process(1)?, process(2)?);
    assert!(sorted(&a, day).await?.is_empty());
    assert_eq!(a.usage.post(day, &one, 1, b"{\"n\": 1}").await?, Posted::Kept);
    assert_eq!(b.usage.post(day, &one, 2, b"{\"n\": 2}").await?, Posted::Kept);
    assert_eq!(a.usage.post(day, &one, 2, b"{\"n\": 2}").await?, Posted::Older);
    assert_eq!(a.usage.post(day, &one, 1, b"{\"n\": 1}").await?, Posted::Older);
    assert_eq!(a.usage.post(day, &other, 1, b"{\"n\": 7}").await?, Posted::Kept);
    assert_eq!(sorted(&b, day).await?, ["{\"n\": 2}", "{\"n\": 7}"]);
    assert!(sorted(&b, Day(day.0 + 10_000)).await?.is_empty(), "another day");
    Ok(())
}

pub async fn another_life_of_an_instance_is_another_process(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (backend, day) = (store.backend(), day());
    let one = process(1)?;
    let next = Instance { boot: 2, ..one.clone() };
    assert_eq!(backend.usage.post(day, &one, 9, b"first").await?, Posted::Kept);
    assert_eq!(backend.usage.post(day, &next, 1, b"second").await?, Posted::Kept);
    assert_eq!(sorted(&backend, day).await?, ["first", "second"], "the dead one's is kept");
    Ok(())
}

pub async fn a_day_has_room_for_so_many_processes(store: &impl StoreUnderTest) -> Outcome {
    let (backend, day) = (store.backend(), day());
    let first = process(0)?;
    for boot in 0..MAX_WRITERS as u64 {
        let one = Instance { boot, ..first.clone() };
        assert_eq!(backend.usage.post(day, &one, 1, b"x").await?, Posted::Kept);
    }
    assert_eq!(backend.usage.post(day, &process(7)?, 1, b"x").await?, Posted::Full);
    assert_eq!(backend.usage.post(day, &first, 2, b"y").await?, Posted::Kept, "it has its place");
    assert_eq!(backend.usage.posted(day).await?.len(), MAX_WRITERS);
    Ok(())
}

pub async fn what_is_too_large_is_refused(store: &impl StoreUnderTest) -> Outcome {
    let (backend, day) = (store.backend(), day());
    let large = vec![b'x'; MAX_USAGE_BYTES + 1];
    let refused = backend.usage.post(day, &process(1)?, 1, &large).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(backend.usage.post(day, &process(1)?, 1, &large[1..]).await?, Posted::Kept);
    Ok(())
}
