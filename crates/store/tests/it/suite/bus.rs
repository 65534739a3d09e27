//! The bus between instances.

mod takeover;

pub use takeover::*;

use std::time::Duration;

use anyhow::bail;
use lingua_store::bus::{
    Delivery, Envelope, INBOX_CAPACITY, MAX_ENVELOPE_BYTES, Posting, TakeOver,
};
use lingua_store::presence::{Announce, Peer};
use lingua_store::snapshots::MAX_PART_BYTES;
use lingua_store::{Backend, Error, Instance};
use tokio::time::Instant;

use super::samples::*;
use super::{Outcome, StoreUnderTest};

const TICK: Duration = Duration::from_millis(5);

/// Longer than a test that waits for something to come would like to wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// An instance that says it is alive for `ttl`.
pub async fn alive(store: &Backend, ttl: Duration) -> anyhow::Result<Instance> {
    let me = instance();
    announce(store, &me, ttl).await?;
    Ok(me)
}

async fn announce(store: &Backend, me: &Instance, ttl: Duration) -> Outcome {
    let announce = store.presence.announce(me, "10.0.0.1:5010", ttl).await?;
    assert_eq!(announce, Announce::Announced);
    Ok(())
}

/// Sends envelopes with these bodies, which must be posted.
pub async fn post(store: &Backend, to: &Instance, bodies: &[&str]) -> Outcome {
    for body in bodies {
        assert_eq!(store.bus.send(to, &envelope(body)).await?, Posting::Posted);
    }
    Ok(())
}

/// Takes `number` envelopes out of the inbox, and looks once more for one too many.
pub async fn take(store: &Backend, me: &Instance, number: usize) -> anyhow::Result<Vec<Delivery>> {
    let (mut taken, give_up_at) = (Vec::new(), Instant::now() + PATIENCE);
    while taken.len() < number {
        taken.extend(store.bus.receive(me, Duration::from_millis(200)).await?);
        if Instant::now() > give_up_at {
            bail!("{} of {number} envelopes came", taken.len());
        }
    }
    taken.extend(store.bus.receive(me, Duration::ZERO).await?);
    Ok(taken)
}

pub fn bodies(taken: &[Delivery]) -> Vec<&str> {
    taken.iter().map(|d| std::str::from_utf8(&d.body).unwrap_or("not text")).collect()
}

pub async fn an_announced_instance_is_a_peer_until_its_word_lapses(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let lasting = alive(&a, LONG).await?;
    let lapsing = alive(&a, store.lease()).await?;
    let peer = Peer { instance: lasting.clone(), address: "10.0.0.1:5010".to_owned() };
    assert!(b.presence.peers().await?.contains(&peer));
    store.pass(store.lease() + TICK).await;
    let peers = b.presence.peers().await?;
    assert_eq!(peers.iter().filter(|p| p.instance == lasting).count(), 1);
    assert!(!peers.iter().any(|p| p.instance == lapsing));
    Ok(())
}

pub async fn announcing_again_moves_the_address(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, store.lease()).await?;
    assert_eq!(a.presence.announce(&me, "10.0.0.2:1", LONG).await?, Announce::Announced);
    store.pass(store.lease() + TICK).await;
    let peers = b.presence.peers().await?;
    let found: Vec<_> = peers.iter().filter(|p| p.instance == me).collect();
    assert_eq!(found, [&Peer { instance: me, address: "10.0.0.2:1".to_owned() }]);
    Ok(())
}

pub async fn a_name_is_taken_while_another_life_of_it_lives(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    let clone = reborn(&me);
    let taken = b.presence.announce(&clone, "10.0.0.2:1", LONG).await?;
    let Announce::Taken { address, lasting } = taken else { bail!("{taken:?}") };
    assert_eq!(address, "10.0.0.1:5010");
    assert!(lasting > LONG - Duration::from_secs(20) && lasting <= LONG, "{lasting:?}");
    let peers = b.presence.peers().await?;
    assert!(peers.iter().any(|p| p.instance == me), "the first one is as it was");
    assert!(!peers.iter().any(|p| p.instance == clone));
    a.presence.withdraw(&clone).await?;
    let still = b.presence.announce(&clone, "10.0.0.2:1", LONG).await?;
    assert!(matches!(still, Announce::Taken { .. }), "only its own life withdraws it: {still:?}");
    announce(&a, &me, store.lease()).await?;
    store.pass(store.lease() + TICK).await;
    announce(&b, &clone, LONG).await?;
    let late = a.presence.announce(&me, "10.0.0.1:5010", LONG).await?;
    assert!(matches!(late, Announce::Taken { .. }), "the old life is over: {late:?}");
    Ok(())
}

pub async fn an_instance_that_withdrew_is_gone(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    for _ in 0..2 {
        a.presence.withdraw(&me).await?;
        assert!(!b.presence.peers().await?.iter().any(|p| p.instance == me));
        assert_eq!(b.bus.send(&me, &envelope("late")).await?, Posting::Gone);
    }
    announce(&b, &reborn(&me), LONG).await?;
    Ok(())
}

pub async fn an_envelope_reaches_exactly_the_life_it_was_sent_to(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    assert_eq!(a.bus.send(&instance(), &envelope("nobody")).await?, Posting::Gone);
    let (me, other) = (alive(&a, LONG).await?, alive(&a, LONG).await?);
    let sent = envelope("for me");
    assert_eq!(a.bus.send(&reborn(&me), &sent).await?, Posting::Gone, "another life of it");
    assert_eq!(b.bus.send(&me, &sent).await?, Posting::Posted);
    let taken = take(&a, &me, 1).await?;
    let [delivery] = &taken[..] else { bail!("{taken:?}") };
    assert_eq!((delivery.id, &delivery.from, &delivery.body), (sent.id, &sent.from, &sent.body));
    assert_eq!(a.bus.receive(&other, Duration::ZERO).await?, []);
    let lapsing = alive(&a, store.lease()).await?;
    store.pass(store.lease() + TICK).await;
    assert_eq!(b.bus.send(&lapsing, &sent).await?, Posting::Gone, "its word lapsed");
    Ok(())
}

pub async fn envelopes_come_in_the_order_of_sending_and_once(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    let sent: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    post(&b, &me, &sent[..200]).await?;
    assert_eq!(bodies(&take(&a, &me, 200).await?), sent[..200]);
    post(&b, &me, &sent[200..]).await?;
    assert_eq!(
        bodies(&take(&a, &me, 100).await?),
        sent[200..],
        "what was given is not given again"
    );
    Ok(())
}

pub async fn the_same_envelope_sent_again_is_delivered_once(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    let sent = envelope("once");
    for store in [&a, &b, &a] {
        assert_eq!(store.bus.send(&me, &sent).await?, Posting::Posted);
    }
    let taken = take(&a, &me, 1).await?;
    assert_eq!(bodies(&taken), ["once"]);
    assert_eq!(b.bus.send(&me, &sent).await?, Posting::Posted);
    a.bus.ack(&me, &[taken[0].entry.clone()]).await?;
    assert_eq!(b.bus.send(&me, &sent).await?, Posting::Posted);
    post(&b, &me, &["next"]).await?;
    let taken = take(&a, &me, 1).await?;
    assert_eq!(bodies(&taken), ["next"], "also after it was dealt with");
    Ok(())
}

pub async fn an_envelope_is_not_delivered_after_its_time(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    let brief = Envelope { live_for: store.lease(), ..envelope("brief") };
    b.bus.send(&me, &brief).await?;
    post(&b, &me, &["lasting"]).await?;
    store.pass(store.lease() + TICK).await;
    assert_eq!(bodies(&take(&a, &me, 1).await?), ["lasting"]);
    a.bus.rewind(&me).await;
    assert_eq!(bodies(&take(&a, &me, 1).await?), ["lasting"], "it was removed");
    Ok(())
}

pub async fn a_delivery_says_how_much_of_its_time_is_left(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    post(&b, &me, &["x"]).await?;
    store.pass(TICK).await;
    let until = take(&a, &me, 1).await?[0].live_until;
    let left = until - tokio::time::Instant::now();
    assert!(left > LONG - Duration::from_secs(20) && left <= LONG - TICK, "{left:?}");
    Ok(())
}

pub async fn a_receiver_waits_no_longer_than_asked(store: &impl StoreUnderTest) -> Outcome {
    let store = store.backend();
    let me = alive(&store, LONG).await?;
    let started = Instant::now();
    assert_eq!(store.bus.receive(&me, Duration::ZERO).await?, []);
    assert_eq!(store.bus.receive(&me, Duration::from_millis(60)).await?, []);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(50) && waited < PATIENCE, "{waited:?}");
    Ok(())
}

pub async fn a_waiting_receiver_is_woken(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    let waiting = {
        let (a, me) = (a.clone(), me.clone());
        tokio::spawn(async move { a.bus.receive(&me, LONG).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    let started = Instant::now();
    // A receiver that waits holds up nobody else on the same connection.
    assert!(a.presence.peers().await?.iter().any(|p| p.instance == me));
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    post(&b, &me, &["wake"]).await?;
    let taken = tokio::time::timeout(PATIENCE, waiting).await???;
    assert_eq!(bodies(&taken), ["wake"]);
    Ok(())
}

pub async fn unacknowledged_envelopes_come_again_after_a_rewind(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    post(&b, &me, &["1", "2", "3"]).await?;
    let taken = take(&a, &me, 3).await?;
    for _ in 0..2 {
        a.bus.ack(&me, &[taken[1].entry.clone()]).await?;
    }
    post(&b, &me, &["4"]).await?;
    a.bus.rewind(&me).await;
    let taken = take(&a, &me, 3).await?;
    assert_eq!(bodies(&taken), ["1", "3", "4"]);
    let entries: Vec<_> = taken.iter().map(|d| d.entry.clone()).collect();
    a.bus.ack(&me, &entries).await?;
    a.bus.rewind(&me).await;
    assert_eq!(a.bus.receive(&me, Duration::ZERO).await?, []);
    Ok(())
}

/// Fills the inbox to the brim, many senders at a time, and says what was sent last.
pub async fn fill(store: &impl StoreUnderTest, me: &Instance) -> anyhow::Result<Envelope> {
    const SENDERS: usize = 64;
    let mut tasks = Vec::new();
    for sender in 0..SENDERS {
        let number = INBOX_CAPACITY / SENDERS + usize::from(sender < INBOX_CAPACITY % SENDERS);
        let backend = if sender % 2 == 0 { store.backend() } else { store.second() };
        let me = me.clone();
        tasks.push(tokio::spawn(async move {
            let mut last = envelope("x");
            for _ in 0..number {
                last = envelope("x");
                assert_eq!(backend.bus.send(&me, &last).await?, Posting::Posted);
            }
            anyhow::Ok(last)
        }));
    }
    let mut last = envelope("x");
    for task in tasks {
        last = task.await??;
    }
    Ok(last)
}

pub async fn a_full_inbox_refuses_until_something_is_acknowledged(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (me, other) = (alive(&a, LONG).await?, alive(&a, LONG).await?);
    let last = fill(store, &me).await?;
    let more = envelope("more");
    assert_eq!(b.bus.send(&me, &more).await?, Posting::Full);
    assert_eq!(b.bus.send(&me, &last).await?, Posting::Posted, "it is in the inbox already");
    assert_eq!(b.bus.send(&other, &more).await?, Posting::Posted, "other inboxes have room");
    let taken = a.bus.receive(&me, Duration::ZERO).await?;
    assert_eq!(b.bus.send(&me, &more).await?, Posting::Full, "given is not yet dealt with");
    a.bus.ack(&me, &[taken[0].entry.clone()]).await?;
    assert_eq!(b.bus.send(&me, &more).await?, Posting::Posted, "the refusal left no trace");
    let rest = take(&a, &me, INBOX_CAPACITY + 1 - taken.len()).await?;
    assert_eq!(taken.len() + rest.len(), INBOX_CAPACITY + 1);
    assert_eq!(rest.last().map(|d| d.id), Some(more.id));
    Ok(())
}

pub async fn an_oversized_body_is_refused(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    let body = |bytes| Envelope { body: vec![7; bytes], ..envelope("") };
    let refused = b.bus.send(&me, &body(MAX_ENVELOPE_BYTES + 1)).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let largest = body(MAX_ENVELOPE_BYTES);
    assert_eq!(b.bus.send(&me, &largest).await?, Posting::Posted);
    let taken = take(&a, &me, 1).await?;
    assert_eq!(taken.len(), 1);
    assert!(taken[0].body == largest.body, "byte for byte");
    Ok(())
}

pub async fn an_inbox_says_how_deep_it_is(store: &impl StoreUnderTest) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let me = alive(&a, LONG).await?;
    assert_eq!(b.bus.depth(&me).await?, 0);
    for body in ["one", "two"] {
        b.bus.send(&me, &envelope(body)).await?;
    }
    assert_eq!(b.bus.depth(&me).await?, 2);
    let got = a.bus.receive(&me, LONG).await?;
    assert_eq!(b.bus.depth(&me).await?, 2, "handed out is not dealt with");
    let entries: Vec<_> = got.into_iter().map(|delivery| delivery.entry).collect();
    a.bus.ack(&me, &entries).await?;
    assert_eq!(b.bus.depth(&me).await?, 2 - entries.len());
    assert_eq!(b.bus.depth(&instance()).await?, 0);
    Ok(())
}

pub async fn what_an_instance_says_of_itself_is_kept_for_its_time(
    store: &impl StoreUnderTest,
) -> Outcome {
    let (a, b) = (store.backend(), store.second());
    let (mine, yours) = (alive(&a, LONG).await?, alive(&b, LONG).await?);
    let of = |what: &str| format!("{what} of {}", mine.id).into_bytes();
    a.snapshots.post_part(&mine, &of("first"), LONG).await?;
    a.snapshots.post_part(&mine, &of("second"), LONG).await?;
    b.snapshots.post_part(&yours, &of("brief"), store.lease()).await?;
    let parts = b.snapshots.parts().await?;
    assert!(parts.contains(&of("second")) && parts.contains(&of("brief")));
    assert!(!parts.contains(&of("first")), "it was replaced");
    store.lapse().await;
    let parts = a.snapshots.parts().await?;
    assert!(parts.contains(&of("second")) && !parts.contains(&of("brief")));
    let large = vec![0; MAX_PART_BYTES + 1];
    assert!(a.snapshots.post_part(&mine, &large, LONG).await.is_err());
    Ok(())
}
