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
    let (me, heir) = (alive(&a, LONG).await?, alive(&b, LONG).await?);
    post(&b, &me, &["mine"]).await?;
    assert_eq!(b.bus.inherit(&me, &heir, LONG).await?, Inherit::Alive);
    assert_eq!(bodies(&take(&a, &me, 1).await?), ["mine"]);
    Ok(())
}

/// What `heir` gets of the inbox of `dead`, which it must get.
async fn inherit(
    store: &Backend,
    dead: &Instance,
    heir: &Instance,
    ttl: Duration,
) -> anyhow::Result<Vec<Delivery>> {
    match store.bus.inherit(dead, heir, ttl).await? {
        Inherit::Entries(entries) => Ok(entries),
        inherit => bail!("not inherited: {inherit:?}"),
    }
}

pub async fn one_heir_at_a_time_takes_what_was_left(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (heir, other) = (alive(&a, LONG).await?, alive(&b, LONG).await?);
    let dead = dead(store, &["1", "2", "3"]).await?;
    let entries = inherit(&a, &dead, &heir, LONG).await?;
    assert_eq!(bodies(&entries), ["1", "2", "3"], "also what was given and not acknowledged");
    assert_eq!(b.bus.inherit(&dead, &other, LONG).await?, Inherit::Held);
    a.bus.ack(&dead, &[entries[0].entry.clone()]).await?;
    assert_eq!(bodies(&inherit(&a, &dead, &heir, LONG).await?), ["2", "3"]);
    assert_eq!(b.bus.inherit(&dead, &other, LONG).await?, Inherit::Held);
    assert_eq!(b.bus.send(&dead, &envelope("late")).await?, Posting::Gone);
    Ok(())
}

pub async fn an_heir_that_stopped_is_followed_by_another(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (heir, other) = (alive(&a, LONG).await?, alive(&b, LONG).await?);
    let dead = dead(store, &["1", "2"]).await?;
    let entries = inherit(&a, &dead, &heir, store.lease()).await?;
    a.bus.ack(&dead, &[entries[0].entry.clone()]).await?;
    store.pass(store.lease() + TICK).await;
    assert!(b.bus.orphans().await?.contains(&dead), "somebody has still to take it");
    assert_eq!(bodies(&inherit(&b, &dead, &other, LONG).await?), ["2"]);
    assert_eq!(a.bus.inherit(&dead, &heir, LONG).await?, Inherit::Held);
    Ok(())
}

pub async fn an_emptied_inbox_is_removed(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let heir = alive(&a, LONG).await?;
    let left: Vec<String> = (0..700).map(|n| n.to_string()).collect();
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    let dead = dead(store, &left).await?;
    let mut inherited = Vec::new();
    loop {
        let entries = inherit(&a, &dead, &heir, LONG).await?;
        if entries.is_empty() {
            break;
        }
        assert!(entries.len() < left.len(), "at most a few hundred at a time");
        assert!(inherited.len() < left.len(), "what was acknowledged came again");
        inherited.extend(entries.iter().map(|d| String::from_utf8_lossy(&d.body).into_owned()));
        let entries: Vec<_> = entries.into_iter().map(|d| d.entry).collect();
        a.bus.ack(&dead, &entries).await?;
    }
    assert_eq!(inherited, left);
    assert!(!b.bus.orphans().await?.contains(&dead));
    Ok(())
}
