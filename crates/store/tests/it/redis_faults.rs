//! A standalone Redis that is flushed, cut off, killed, restarted and paused: nothing is granted
//! twice, nothing is lost for longer than a lease, and nobody waits for a dead store.

mod cut_replies;

use crate::faults;

use std::time::Duration;

use faults::load::Load;
use faults::*;
use lingua_core::job::JobState;
use lingua_core::slots::Commit;
use lingua_lab::{FaultProxy, RedisConfig, RedisServer};
use lingua_store::bus::{Envelope, Posting};
use lingua_store::jobs::{Assign, Assignment, Create, EndedBy, Ending, Finish, NewJob};
use lingua_store::nodes::{BeatReply, Fenced, Put};
use lingua_store::presence::Announce;
use lingua_store::slots::{Refusal, Report, Reserve};
use lingua_store::{Backend, Error, Options};
use tokio::time::{Instant, sleep};

/// A dead store is refused within a second; the rest is for a busy machine.
const FAST: Duration = Duration::from_secs(2);

/// One that is known to be dead is refused at once.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Only the calls of the test go over the wire: nothing else can be hit by a cut.
async fn open_quiet(proxy: &FaultProxy) -> anyhow::Result<Backend> {
    let quiet = Options { ping_interval: LONG, ..patient() };
    Ok(lingua_store::redis::open(&proxy.url(), quiet).await?)
}

/// Has the server learn every script that a job's life needs.
async fn warm_up(store: &Backend) -> Outcome {
    let node = Node::join(store, 2).await?;
    let token = node.run(store).await?;
    node.assert_again(store).await?;
    store.slots.renew(&node.id, token, LONG).await?;
    store.slots.release(&node.id, token).await?;
    let session = session();
    let epoch = store.owners.claim(&session, &instance(), LONG).await?.epoch;
    store.owners.renew(&session, &instance(), epoch, LONG).await?;
    let job = NewJob {
        id: job_of(&session),
        session: &session,
        epoch: Some(epoch),
        first: None,
        deadline_in: LONG,
        keep_for: LONG,
    };
    store.jobs.create(&job).await?;
    let assignment = Assignment { node: node.id, token };
    store.jobs.assign(&job.id, &assignment, 2).await?;
    let ending = Ending { state: JobState::Done, code: String::new() };
    store.jobs.finish(&job.id, &EndedBy::Assignment(assignment), &ending).await?;
    let peer = instance();
    store.presence.announce(&peer, "here:1", LONG).await?;
    store.bus.send(&peer, &envelope()).await?;
    Ok(())
}

fn envelope() -> Envelope {
    Envelope { id: rand::random(), from: instance(), body: b"hello".to_vec(), live_for: LONG }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_at_the_store_are_timed_and_calls_without_an_answer_counted() -> Outcome {
    let mut server = RedisServer::start().await?;
    let store = open(&server.url()).await?;
    store.presence.peers().await?;
    let looked = async || Ok((store.pulse.ping() > Duration::ZERO).then_some(()));
    eventually("a look at the store", looked).await?;
    assert_eq!(store.pulse.errors(), [0; 3], "all is well");
    server.kill()?;
    lost(&store).await?;
    let before = store.pulse.errors()[0];
    assert_down(&store.presence.peers().await);
    assert!(store.pulse.errors()[0] > before, "{before} before");
    Ok(())
}

/// Flaw 67.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushing_the_scripts_under_load_changes_no_answer() -> Outcome {
    let server = RedisServer::start().await?;
    let store = open(&server.url()).await?;
    let node = Node::join(&store, 3).await?;
    let load = Load::start(std::slice::from_ref(&store), &node, 8);
    for _ in 0..30 {
        server.command(&["SCRIPT", "FLUSH"]).await?.into_result()?;
        load.more(3).await?;
    }
    assert_eq!(load.errors(), 0);
    assert_eq!(load.observer.peak(), 3, "every slot was used and none twice");
    load.stop().await?;
    assert_eq!(node.usage(&store).await?, (0, 0));
    assert_eq!(connection(&store.status.borrow()), Some(1), "no reason to reconnect");
    Ok(())
}

/// Flaws 51 and 66.
#[tokio::test]
async fn a_flushed_store_grants_nothing_until_the_node_has_reported_and_the_hold_is_over() -> Outcome
{
    let server = RedisServer::start().await?;
    let (store, other) = (open(&server.url()).await?, open(&server.url()).await?);
    let node = Node::join(&store, 2).await?;
    let runs = [node.run(&store).await?, node.run(&store).await?];

    server.command(&["FLUSHALL"]).await?.into_result()?;
    assert_eq!(
        node.ask(&other, token(), LONG).await?,
        Reserve::Refused(Refusal::UnknownNode),
        "there is nothing to grant on"
    );
    assert_eq!(node.beat(&store).await?, BeatReply::PutAgain);
    let put = node.assert_again(&store).await?;
    assert_eq!(put, Put::Stored { epoch: node.epoch, replaced: None });
    assert_eq!(node.ask(&other, token(), LONG).await?, UNCONFIRMED);
    assert_eq!(node.beat(&store).await?, BeatReply::Kept { confirmed: false });
    assert_eq!(node.ask(&other, token(), LONG).await?, UNCONFIRMED, "a beat is no report");

    node.confirm(&store, &runs).await?;
    assert_eq!(node.usage(&other).await?, (0, 2), "what it runs is back");
    node.outwait_hold(&other).await?;
    assert_eq!(node.ask(&other, token(), LONG).await?, Reserve::Full { used: 2, max: 2 });
    assert!(store.slots.release(&node.id, runs[0]).await?);
    node.reserve(&other, token()).await
}

/// Flaws 51 and 66.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_flushed_under_load_never_lets_a_node_run_more_than_its_maximum() -> Outcome {
    let server = RedisServer::start().await?;
    let stores = [open(&server.url()).await?, open(&server.url()).await?];
    let node = Node::join(&stores[0], 3).await?;
    let load = Load::start(&stores, &node, 4);
    load.more(50).await?;
    for _ in 0..3 {
        server.command(&["FLUSHALL"]).await?.into_result()?;
        load.recover(&stores[0], &node).await?;
        load.more(50).await?;
    }
    assert_eq!(load.observer.peak(), 3, "every slot was used and none twice");
    load.stop().await?;
    assert_eq!(node.usage(&stores[1]).await?, (0, 0));
    Ok(())
}

/// Flaw 66.
#[tokio::test]
async fn a_node_that_cannot_say_what_it_runs_waits_the_whole_quarantine() -> Outcome {
    let server = RedisServer::start().await?;
    let store = open(&server.url()).await?;
    let node = Node::join(&store, 1).await?;
    server.command(&["FLUSHALL"]).await?.into_result()?;
    node.assert_again(&store).await?;
    let quarantine = Duration::from_millis(1500);
    let silent =
        Report { reserve_lease: Duration::from_millis(1), quarantine, ..node.report(None) };
    let before = store.nodes.get(&node.id).await?.expect("asserted").read_at;
    store.slots.confirm(&node.id, &silent).await?;
    let until = node.outwait_hold(&store).await?;
    assert!(until >= before + quarantine, "{until:?} is too soon after {before:?}");
    node.reserve(&store, token()).await
}

/// Flaw 72, over a loss of data.
#[tokio::test]
async fn after_a_loss_the_newest_owner_prevails_whoever_asserts_first() -> Outcome {
    let server = RedisServer::start().await?;
    let (a, b) = (open(&server.url()).await?, open(&server.url()).await?);
    let old = Node::join(&a, 1).await?;
    let new = Node::join_as(&b, old.id.clone(), profile(8), 1).await?;
    let (session, left, right) = (session(), instance(), instance());
    let lost_epoch = a.owners.claim(&session, &left, LONG).await?.epoch;
    let epoch = b.owners.claim(&session, &right, LONG).await?.epoch;
    assert!(new.epoch > old.epoch && epoch > lost_epoch);
    server.command(&["FLUSHALL"]).await?.into_result()?;

    assert!(matches!(old.assert_again(&a).await?, Put::Stored { .. }), "nobody knows better yet");
    assert!(matches!(new.assert_again(&b).await?, Put::Stored { .. }));
    let superseded = Put::Superseded { epoch: new.epoch };
    assert_eq!(old.assert_again(&a).await?, superseded);
    assert_eq!(old.beat(&a).await?, BeatReply::Superseded { epoch: new.epoch });
    let fenced = Fenced::Superseded { epoch: new.epoch };
    assert_eq!(a.nodes.offline(&old.id, old.epoch).await?, fenced);

    assert_eq!(a.owners.renew(&session, &left, lost_epoch, LONG).await?, Fenced::Done);
    assert_eq!(b.owners.renew(&session, &right, epoch, LONG).await?, Fenced::Done);
    let fenced = Fenced::Superseded { epoch };
    assert_eq!(a.owners.renew(&session, &left, lost_epoch, LONG).await?, fenced);
    assert!(a.owners.claim(&session, &left, LONG).await?.epoch > epoch, "it rises over a loss");
    Ok(())
}

/// Flaw 76.
#[tokio::test]
async fn an_envelope_whose_delivery_was_cut_off_comes_again() -> Outcome {
    let server = RedisServer::start().await?;
    let proxy = FaultProxy::start(server.addr()).await?;
    let (store, sure) = (open(&proxy.url()).await?, open(&server.url()).await?);
    let me = instance();
    sure.presence.announce(&me, "here:1", LONG).await?;
    assert_eq!(store.bus.receive(&me, Duration::from_millis(1)).await?, []);
    let waiting = tokio::spawn({
        let (store, me) = (store.clone(), me.clone());
        async move { store.bus.receive(&me, LONG).await }
    });
    eventually("the reader to wait", async || {
        Ok((server.info("clients", "blocked_clients").await?.as_deref() == Some("1")).then_some(()))
    })
    .await?;
    proxy.black_hole_downstream();
    let envelope = envelope();
    assert_eq!(sure.bus.send(&me, &envelope).await?, Posting::Posted);
    eventually("the server to deliver", async || {
        Ok((server.info("clients", "blocked_clients").await?.as_deref() == Some("0")).then_some(()))
    })
    .await?;
    proxy.cut();
    proxy.pass();
    assert_down(&waiting.await?);
    let came = answered(|| store.bus.receive(&me, LONG)).await?;
    assert_eq!(came.iter().map(|one| one.id).collect::<Vec<_>>(), [envelope.id]);
    store.bus.rewind(&me).await;
    assert_eq!(answered(|| store.bus.receive(&me, LONG)).await?.len(), 1, "until it is dealt with");
    store.bus.ack(&me, &[came[0].entry.clone()]).await?;
    store.bus.rewind(&me).await;
    assert_eq!(store.bus.receive(&me, Duration::from_millis(1)).await?, []);
    Ok(())
}

/// Flaws 66 and 69.
#[tokio::test]
async fn a_killed_store_is_refused_fast_and_found_again_when_it_is_back() -> Outcome {
    let mut server = RedisServer::start().await?;
    let store = lingua_store::redis::open(&server.url(), Options::default()).await?;
    let node = Node::join(&store, 1).await?;
    let runs = node.run(&store).await?;
    server.kill()?;
    for _ in 0..5 {
        let asked = Instant::now();
        assert_down(&node.ask(&store, token(), LONG).await);
        assert_down(&store.owners.claim(&session(), &instance(), LONG).await);
        assert!(asked.elapsed() < FAST, "took {:?}", asked.elapsed());
    }
    let reason = lost(&store).await?;
    assert!(!reason.is_empty());
    let asked = Instant::now();
    let refused = node.ask(&store, token(), LONG).await;
    assert!(matches!(refused, Err(Error::Down(_))), "{refused:?}");
    assert!(asked.elapsed() < AT_ONCE, "took {:?}", asked.elapsed());

    server.restart().await?;
    assert!(reconnected(&store, 1).await? > 1);
    let store = open(&server.url()).await?;
    assert_eq!(node.beat(&store).await?, BeatReply::PutAgain, "it is empty");
    node.assert_again(&store).await?;
    assert_eq!(node.ask(&store, token(), LONG).await?, UNCONFIRMED);
    node.confirm(&store, &[runs]).await?;
    assert_eq!(node.usage(&store).await?, (0, 1));
    node.outwait_hold(&store).await?;
    assert_eq!(node.ask(&store, token(), LONG).await?, Reserve::Full { used: 1, max: 1 });
    Ok(())
}

/// Flaw 66.
#[tokio::test]
async fn a_store_restarted_from_its_file_has_the_leases_and_still_wants_a_report() -> Outcome {
    let config = RedisConfig::new().line("appendonly yes").line("appendfsync always");
    let mut server = config.start().await?;
    let store = open(&server.url()).await?;
    let node = Node::join(&store, 2).await?;
    let runs = node.run(&store).await?;
    let reserved = token();
    node.reserve(&store, reserved).await?;
    server.restart().await?;
    reconnected(&store, 1).await?;

    assert_eq!(node.usage(&store).await?, (1, 1), "the leases are there");
    let beat = node.beat(&store).await?;
    assert_eq!(beat, BeatReply::Kept { confirmed: false }, "the last second may be missing");
    assert_eq!(node.ask(&store, token(), LONG).await?, UNCONFIRMED);
    let again = node.ask(&store, reserved, LONG).await?;
    assert!(matches!(again, Reserve::Already { .. }), "a grant it knows stands: {again:?}");
    node.confirm(&store, &[runs]).await?;
    assert!(store.slots.release(&node.id, reserved).await?);
    node.outwait_hold(&store).await?;
    node.reserve(&store, token()).await
}

/// Flaws 10 and 69.
#[tokio::test]
async fn a_paused_store_is_refused_fast_and_goes_on_by_itself_without_losing_a_slot() -> Outcome {
    let server = RedisServer::start().await?;
    let a = lingua_store::redis::open(&server.url(), Options::default()).await?;
    let b = lingua_store::redis::open(&server.url(), Options::default()).await?;
    let node = Node::join(&open(&server.url()).await?, 1).await?;
    let late = token();

    server.pause()?;
    let asked = Instant::now();
    let (granted, released) =
        tokio::join!(node.ask(&a, late, LONG), b.slots.release(&node.id, late));
    assert_down(&granted);
    assert_down(&released);
    assert!(asked.elapsed() < FAST, "took {:?}", asked.elapsed());
    lost(&a).await?;
    let paused = Instant::now();
    while paused.elapsed() < Duration::from_millis(2200) {
        let asked = Instant::now();
        let refused = node.ask(&a, token(), LONG).await;
        assert!(matches!(refused, Err(Error::Down(_))), "{refused:?}");
        assert!(asked.elapsed() < AT_ONCE, "took {:?}", asked.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    server.resume()?;

    // Whatever order the two were executed in, a released token has no slot and gets none.
    answered(|| b.slots.release(&node.id, late)).await?;
    assert_eq!(answered(|| node.ask(&a, late, LONG)).await?, Reserve::Spent);
    assert_eq!(answered(|| node.usage(&a)).await?, (0, 0));
    let next = token();
    let granted = answered(|| node.ask(&a, next, LONG)).await?;
    assert!(matches!(granted, Reserve::Granted { .. } | Reserve::Already { .. }), "{granted:?}");
    assert_eq!(answered(|| node.usage(&b)).await?, (1, 0), "one slot, once");
    Ok(())
}

/// Flaws 5 and 10.
#[tokio::test]
async fn a_reservation_that_arrives_after_its_release_gets_no_slot() -> Outcome {
    let server = RedisServer::start().await?;
    let proxy = FaultProxy::start(server.addr()).await?;
    let sure = open(&server.url()).await?;
    warm_up(&sure).await?;
    let hasty = Options { response_timeout: Duration::from_millis(100), ..Options::default() };
    let store = eventually("a connection", async || {
        Ok(Some(lingua_store::redis::open(&proxy.url(), hasty.clone()).await?))
    })
    .await?;
    let node = Node::join(&sure, 1).await?;
    let late = token();
    eventually("the reservation to get stuck", async || {
        proxy.black_hole_upstream();
        match node.ask(&store, late, LONG).await {
            Err(Error::Unknown(_)) => Ok(Some(())),
            // The machine was so busy that the link was down before.
            _ => {
                proxy.pass();
                Ok(None)
            }
        }
    })
    .await?;
    let calls = || calls_of(&server, "evalsha");
    assert!(!sure.slots.release(&node.id, late).await?, "it had nothing yet");
    let before = calls().await?;
    proxy.pass();
    eventually("the late reservation to arrive", async || {
        Ok((calls().await? > before).then_some(()))
    })
    .await?;
    assert_eq!(node.usage(&sure).await?, (0, 0));
    assert_eq!(node.ask(&sure, late, LONG).await?, Reserve::Spent);
    node.reserve(&sure, token()).await
}

/// How many calls of a command a server has executed.
async fn calls_of(server: &RedisServer, command: &str) -> anyhow::Result<u64> {
    let stats = server.info("commandstats", &format!("cmdstat_{command}")).await?;
    let calls = stats.as_deref().and_then(|stats| stats.strip_prefix("calls=")?.split(',').next());
    Ok(calls.unwrap_or("0").parse()?)
}

/// Whoever listed a node may die before it writes the record, or after it forgot it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_listed_and_is_not_there_is_taken_off_the_list() -> Outcome {
    let server = RedisServer::start().await?;
    let store = lingua_store::redis::open(&server.url(), patient()).await?;
    let node = Node::join(&store, 1).await?;
    for shard in 0..lingua_store::nodes::NODE_SHARDS {
        let key = format!("lingua:v1:{{nodes:{shard}}}");
        server.command(&["SADD", &key, "ghost"]).await?.into_result()?;
    }
    let me = instance();
    store.presence.announce(&me, "here:1", LONG).await?;
    server.command(&["SADD", "lingua:v1:instances", "long-gone"]).await?.into_result()?;
    let (mut listed, mut ghosts) = (0, 0);
    for shard in 0..lingua_store::nodes::NODE_SHARDS {
        listed += store.feed.shard(shard).await?.len();
        let key = format!("lingua:v1:{{nodes:{shard}}}");
        ghosts += server.command(&["SISMEMBER", &key, "ghost"]).await?.int().unwrap_or(0);
    }
    assert_eq!(ghosts, 63, "off the only list that it could be on");
    assert_eq!(listed, 1, "{} stays", node.id);
    store.bus.orphans().await?;
    let names = server.command(&["SCARD", "lingua:v1:instances"]).await?.int();
    assert_eq!(names, Some(1), "only the living one is left");
    assert_eq!(store.presence.peers().await?.len(), 1);
    Ok(())
}

/// A store that answers and writes nothing down is no store: it is said to be down, with its own
/// words, until it writes again.
#[tokio::test]
async fn a_store_that_is_full_is_down_until_it_has_room() -> Outcome {
    let server = RedisServer::start().await?;
    let store = lingua_store::redis::open(&server.url(), Options::default()).await?;
    let node = Node::join(&store, 2).await?;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await?.into_result()?;
    let mut status = store.status.clone();
    let refused = node.ask(&store, token(), LONG).await;
    assert!(matches!(&refused, Err(Error::Down(why)) if why.contains("OOM")), "{refused:?}");
    status.wait_for(|status| !status.is_up()).await?;
    // It answers pings all the time.
    sleep(Duration::from_millis(700)).await;
    assert!(!store.status.borrow().is_up());
    assert!(matches!(node.ask(&store, token(), LONG).await, Err(Error::Down(_))));
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await?.into_result()?;
    tokio::time::timeout(Duration::from_secs(5), status.wait_for(|status| status.is_up()))
        .await??;
    assert!(matches!(node.ask(&store, token(), LONG).await?, Reserve::Granted { .. }));
    Ok(())
}
