//! The inbox of an instance that is dead.

use super::*;

/// A dead instance with these envelopes in its inbox, the first of them given and not acknowledged.
async fn dead(store: &impl StoreUnderTest, left: &[&str]) -> anyhow::Result<Instance> {
    let backend = store.backend();
    let me = alive(&backend, LONG).await?;
    post(&store.second(), &me, &left[..1]).await?;
    take(&backend, &me, 1).await?;
    post(&store.second(), &me, &left[1..]).await?;
    backend.presence.withdraw(&me).await?;
    Ok(me)
}

pub async fn the_inbox_of_a_dead_instance_is_an_orphan(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let living = alive(&a, LONG).await?;
    let lapsing = alive(&a, LONG).await?;
    post(&b, &living, &["x"]).await?;
    post(&b, &lapsing, &["x"]).await?;
    let withdrawn = dead(store, &["x"]).await?;
    announce(&a, &lapsing, store.lease()).await?;
    store.pass(store.lease() + TICK).await;
    let orphans = b.bus.orphans().await?;
    assert!(!orphans.contains(&living));
    for gone in [withdrawn, lapsing] {
        assert_eq!(orphans.iter().filter(|o| **o == gone).count(), 1, "{gone} in {orphans:?}");
    }
    Ok(())
}

pub async fn nobody_inherits_from_the_living(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (me, successor) = (alive(&a, LONG).await?, alive(&b, LONG).await?);
    post(&b, &me, &["mine"]).await?;
    assert_eq!(b.bus.take_over(&me, &successor, LONG).await?, TakeOver::Alive);
    assert_eq!(bodies(&take(&a, &me, 1).await?), ["mine"]);
    Ok(())
}

/// What `successor` gets of the inbox of `dead`, which it must get.
async fn take_over(
    store: &Backend,
    dead: &Instance,
    successor: &Instance,
    ttl: Duration,
) -> anyhow::Result<Vec<Delivery>> {
    match store.bus.take_over(dead, successor, ttl).await? {
        TakeOver::Entries(entries) => Ok(entries),
        other => bail!("not taken over: {other:?}"),
    }
}

pub async fn one_heir_at_a_time_takes_what_was_left(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (successor, other) = (alive(&a, LONG).await?, alive(&b, LONG).await?);
    let dead = dead(store, &["1", "2", "3"]).await?;
    let entries = take_over(&a, &dead, &successor, LONG).await?;
    assert_eq!(bodies(&entries), ["1", "2", "3"], "also what was given and not acknowledged");
    assert_eq!(b.bus.take_over(&dead, &other, LONG).await?, TakeOver::Held);
    a.bus.ack(&dead, &[entries[0].entry.clone()]).await?;
    assert_eq!(bodies(&take_over(&a, &dead, &successor, LONG).await?), ["2", "3"]);
    assert_eq!(b.bus.take_over(&dead, &other, LONG).await?, TakeOver::Held);
    assert_eq!(b.bus.send(&dead, &envelope("late")).await?, Posting::Gone);
    Ok(())
}

pub async fn an_heir_that_stopped_is_followed_by_another(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (successor, other) = (alive(&a, LONG).await?, alive(&b, LONG).await?);
    let dead = dead(store, &["1", "2"]).await?;
    let entries = take_over(&a, &dead, &successor, store.lease()).await?;
    a.bus.ack(&dead, &[entries[0].entry.clone()]).await?;
    store.pass(store.lease() + TICK).await;
    assert!(b.bus.orphans().await?.contains(&dead), "somebody has still to take it");
    assert_eq!(bodies(&take_over(&b, &dead, &other, LONG).await?), ["2"]);
    assert_eq!(a.bus.take_over(&dead, &successor, LONG).await?, TakeOver::Held);
    Ok(())
}

pub async fn an_emptied_inbox_is_removed(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let successor = alive(&a, LONG).await?;
    let left: Vec<String> = (0..700).map(|n| n.to_string()).collect();
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    let dead = dead(store, &left).await?;
    let mut taken = Vec::new();
    loop {
        let entries = take_over(&a, &dead, &successor, LONG).await?;
        if entries.is_empty() {
            break;
        }
        assert!(entries.len() < left.len(), "at most a few hundred at a time");
        assert!(taken.len() < left.len(), "what was acknowledged came again");
        taken.extend(entries.iter().map(|d| String::from_utf8_lossy(&d.body).into_owned()));
        let entries: Vec<_> = entries.into_iter().map(|d| d.entry).collect();
        a.bus.ack(&dead, &entries).await?;
    }
    assert_eq!(taken, left);
    assert!(!b.bus.orphans().await?.contains(&dead));
    Ok(())
}
