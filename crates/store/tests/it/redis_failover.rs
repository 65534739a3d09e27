//! Primaries that die, step down or hand over their slots: the link follows, a lost grant is never
//! given twice, and one shard's trouble is not another's.

use crate::faults;

use std::time::Duration;

use faults::load::Load;
use faults::switch::Switch;
use faults::*;
use lingua_core::LeaseToken;
use lingua_lab::{FaultProxy, RedisCluster, RedisConfig, RedisServer, SentinelGroup};
use lingua_store::bus::{Envelope, Posting};
use lingua_store::nodes::BeatReply;
use lingua_store::redis::Options;
use lingua_store::slots::Reserve;
use lingua_store::{Backend, Error, Status};
use tokio::time::{Instant, sleep};

const NOT_CONFIRMED: BeatReply = BeatReply::Kept { confirmed: false };

/// Waits until a server has the record of a node, as a replica has it a moment later.
async fn replicated(server: &RedisServer, key: &str) -> Outcome {
    eventually("the replica to have it", async || {
        Ok((server.command(&["EXISTS", key]).await?.int() == Some(1)).then_some(()))
    })
    .await
}

/// Flaws 65 and 67.
#[tokio::test]
async fn when_the_primary_dies_the_link_follows_the_sentinels_to_the_new_one() -> Outcome {
    let mut group = SentinelGroup::start(1, 3).await?;
    let store = open(&group.url()).await?;
    let node = Node::join(&store, 2).await?;
    let runs = node.run(&store).await?;
    let lease = ["ZSCORE", &node.leases_key(), &runs.to_string()];
    eventually("the replica to have the running lease", async || {
        let score = group.servers()[1].command(&lease).await?;
        Ok(score.text().ends_with('5').then_some(()))
    })
    .await?;

    group.kill_primary().await?;
    lost(&store).await?;
    let refused = node.ask(&store, token(), LONG).await;
    assert!(matches!(refused, Err(Error::Down(_))), "{refused:?}");
    reconnected(&store, 1).await?;

    assert_eq!(answered(|| node.beat(&store)).await?, NOT_CONFIRMED);
    assert_eq!(node.ask(&store, token(), LONG).await?, UNCONFIRMED);
    assert_eq!(node.usage(&store).await?, (0, 1), "what had come over is there");
    node.confirm(&store, &[runs]).await?;
    node.outwait_hold(&store).await?;
    node.reserve(&store, token()).await
}

/// Flaw 65.
#[tokio::test]
async fn a_primary_that_steps_down_is_left_for_its_successor() -> Outcome {
    let group = SentinelGroup::start(1, 3).await?;
    let store = open(&group.url()).await?;
    let node = Node::join(&store, 1).await?;
    replicated(&group.servers()[1], &node.record_key()).await?;
    let new = match group.failover().await {
        Ok(new) => new,
        // On a busy machine the sentinels give up an election now and then.
        Err(_) => group.failover().await?,
    };
    reconnected(&store, 1).await?;
    assert_eq!(answered(|| node.beat(&store)).await?, NOT_CONFIRMED);
    answered(|| node.assert_again(&store)).await?;
    let lives_on = group.servers()[new].command(&["EXISTS", &node.record_key()]).await?;
    assert_eq!(lives_on.int(), Some(1), "it was written to the new primary");
    node.confirm(&store, &[]).await?;
    node.outwait_hold(&store).await?;
    node.reserve(&store, token()).await
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_no_store_until_it_is_a_primary_again() -> Outcome {
    let (server, other) = (RedisServer::start().await?, RedisServer::start().await?);
    let store = open(&server.url()).await?;
    let node = Node::join(&store, 1).await?;
    let port = other.port().to_string();
    server.command(&["REPLICAOF", "127.0.0.1", &port]).await?.into_result()?;
    let refused = node.ask(&store, token(), LONG).await;
    assert!(!matches!(refused, Ok(Reserve::Granted { .. })), "{refused:?}");
    eventually("the reason to be known", async || {
        Ok(lost(&store).await?.contains("is a replica").then_some(()))
    })
    .await?;
    let refused = node.ask(&store, token(), LONG).await;
    assert!(matches!(refused, Err(Error::Down(_))), "{refused:?}");

    server.command(&["REPLICAOF", "NO", "ONE"]).await?.into_result()?;
    reconnected(&store, 1).await?;
    node.assert_again(&store).await?;
    assert_eq!(node.ask(&store, token(), LONG).await?, UNCONFIRMED);
    Ok(())
}

/// Flaw 65, with every connection in place: the server takes over the data of a replica that was
/// behind, and is a primary again.
#[tokio::test]
async fn a_primary_that_was_a_replica_for_a_while_grants_nothing_before_a_report() -> Outcome {
    let server = RedisServer::start().await?;
    let replication = FaultProxy::start(server.addr()).await?;
    let behind = RedisConfig::new().replica_of("127.0.0.1", replication.port()).start().await?;
    behind.wait_until_in_sync().await?;
    let store = open(&server.url()).await?;
    let node = Node::join(&store, 1).await?;
    replicated(&behind, &node.record_key()).await?;
    replication.black_hole();
    node.run(&store).await?;

    behind.command(&["REPLICAOF", "NO", "ONE"]).await?.into_result()?;
    let port = behind.port().to_string();
    server.command(&["REPLICAOF", "127.0.0.1", &port]).await?.into_result()?;
    let mut status = store.status.clone();
    status.wait_for(|status| !status.is_up()).await?;
    server.wait_until_in_sync().await?;
    server.command(&["REPLICAOF", "NO", "ONE"]).await?.into_result()?;
    status.wait_for(Status::is_up).await?;
    assert_eq!(node.ask(&store, token(), LONG).await?, UNCONFIRMED);
    Ok(())
}

/// A primary without replicas takes a new replication id when it gets its first one: the link sees
/// it at the next ping, its nodes owe a report, and are granted after it.
#[tokio::test]
async fn a_store_that_gets_its_first_replica_asks_for_reports_and_goes_on() -> Outcome {
    let server = RedisServer::start().await?;
    let store = open(&server.url()).await?;
    let node = Node::join(&store, 2).await?;
    let runs = node.run(&store).await?;
    let before = server.info("replication", "master_replid").await?;
    let replica = RedisConfig::new().replica_of("127.0.0.1", server.port()).start().await?;
    replica.wait_until_in_sync().await?;
    assert_ne!(server.info("replication", "master_replid").await?, before);
    let mut status = store.status.clone();
    status.wait_for(|status| connection(status) == Some(2)).await?;

    let new = Node::join(&store, 1).await?;
    new.reserve(&store, token()).await?;
    assert_eq!(node.beat(&store).await?, NOT_CONFIRMED);
    node.confirm(&store, &[runs]).await?;
    assert_eq!(node.beat(&store).await?, BeatReply::Kept { confirmed: true });
    node.outwait_hold(&store).await?;
    node.reserve(&store, token()).await?;
    Ok(())
}

/// A primary that granted the only slot of a node and died before its replica heard of it; the
/// replica is the primary now.
struct LostGrant {
    store: Backend,
    node: Node,
    runs: LeaseToken,
    promoted: RedisServer,
    _switch: Switch,
}

impl LostGrant {
    async fn happens() -> anyhow::Result<Self> {
        let mut primary = RedisServer::start().await?;
        let replication = FaultProxy::start(primary.addr()).await?;
        let replica =
            RedisConfig::new().replica_of("127.0.0.1", replication.port()).start().await?;
        replica.wait_until_in_sync().await?;
        let switch = Switch::to(primary.addr()).await?;
        let store = open(&switch.url()).await?;
        let node = Node::join(&store, 1).await?;
        replicated(&replica, &node.record_key()).await?;

        replication.black_hole();
        let runs = node.run(&store).await?;
        primary.kill()?;
        replica.command(&["REPLICAOF", "NO", "ONE"]).await?.into_result()?;
        switch.turn(replica.addr());
        reconnected(&store, 1).await?;
        Ok(LostGrant { store, node, runs, promoted: replica, _switch: switch })
    }
}

/// Flaw 65.
#[tokio::test]
async fn a_grant_lost_at_a_failover_is_not_given_to_another_job() -> Outcome {
    let LostGrant { store, node, runs, promoted, _switch } = LostGrant::happens().await?;
    assert_eq!(node.usage(&store).await?, (0, 0), "the new primary knows nothing of it");
    assert_eq!(node.ask(&store, token(), LONG).await?, UNCONFIRMED);
    assert_eq!(node.beat(&store).await?, NOT_CONFIRMED);
    assert_eq!(node.ask(&store, token(), LONG).await?, UNCONFIRMED, "a beat is no report");
    node.confirm(&store, &[runs]).await?;
    assert_eq!(node.usage(&store).await?, (0, 1), "the node brought it back");
    node.outwait_hold(&store).await?;
    assert_eq!(node.ask(&store, token(), LONG).await?, Reserve::Full { used: 1, max: 1 });
    assert!(store.slots.release(&node.id, runs).await?);
    node.reserve(&store, token()).await?;
    drop(promoted);
    Ok(())
}

/// Flaw 65: the test above bites. The loss is real, and only the mark of the server's generation keeps
/// the slot from being given twice.
#[tokio::test]
async fn without_the_mark_of_a_reign_the_lost_grant_would_be_given_twice() -> Outcome {
    let LostGrant { store, node, runs, promoted, _switch } = LostGrant::happens().await?;
    let generation =
        promoted.info("replication", "master_replid").await?.expect("every server has one");
    let generation = format!("master_replid:{generation}");
    promoted.command(&["HSET", &node.record_key(), "reign", &generation]).await?.into_result()?;
    node.reserve(&store, token()).await?;
    let renewed = store.slots.renew(&node.id, runs, LONG).await?;
    assert_eq!(renewed, None, "two jobs on one slot, and the store does not know of the first");
    Ok(())
}

/// The shard that a node is in: the index of its primary.
async fn shard_of(cluster: &RedisCluster, node: &Node) -> anyhow::Result<usize> {
    cluster.primary_of_key(&node.record_key()).await
}

/// Joins nodes until there is one in every shard, and gives one of each.
async fn one_per_shard(cluster: &RedisCluster, store: &Backend) -> anyhow::Result<Vec<Node>> {
    let mut nodes: Vec<Option<Node>> = vec![None; 3];
    while nodes.iter().any(Option::is_none) {
        let node = Node::join(store, 2).await?;
        let shard = shard_of(cluster, &node).await?;
        nodes[shard] = Some(node);
    }
    Ok(nodes.into_iter().flatten().collect())
}

/// Flaws 65 and 67.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_fails_over_under_load_grants_nothing_above_the_maximum() -> Outcome {
    let cluster = RedisCluster::start(3, 1).await?;
    let stores = [open(&cluster.url()).await?, open(&cluster.url()).await?];
    let nodes = one_per_shard(&cluster, &stores[0]).await?;
    let loads: Vec<_> = nodes.iter().map(|node| Load::start(&stores, node, 2)).collect();
    for load in &loads {
        load.more(20).await?;
    }
    cluster.failover_to(cluster.replica_of(0).await?).await?;
    let failed_over = Instant::now();
    assert_eq!(answered(|| nodes[0].beat(&stores[0])).await?, NOT_CONFIRMED);
    println!("the shard answers {:?} after its failover", failed_over.elapsed());
    assert_eq!(answered(|| nodes[0].ask(&stores[1], token(), LONG)).await?, UNCONFIRMED);
    for (node, load) in nodes.iter().zip(&loads).skip(1) {
        let beat = answered(|| node.beat(&stores[0])).await?;
        assert_eq!(beat, BeatReply::Kept { confirmed: true }, "another shard's nodes owe nothing");
        load.more(20).await?;
    }
    loads[0].recover(&stores[0], &nodes[0]).await?;
    loads[0].more(20).await?;
    for load in loads {
        assert_eq!(load.observer.peak(), 2, "every slot was used and none twice");
        load.stop().await?;
    }
    for node in &nodes {
        assert_eq!(answered(|| node.usage(&stores[1])).await?, (0, 0));
    }
    Ok(())
}

/// Checks that all nodes but the first are granted slots for a while, and the first is refused.
async fn others_go_on(store: &Backend, nodes: &[Node]) -> Outcome {
    let begun = Instant::now();
    let (mut granted, mut asked, mut down) = (0, 0, 0);
    while begun.elapsed() < Duration::from_secs(4) {
        for node in &nodes[1..] {
            let token = token();
            asked += 1;
            match node.ask(store, token, LONG).await {
                Ok(Reserve::Granted { .. }) => granted += 1,
                Err(error) if error.is_down() => {}
                other => anyhow::bail!("{other:?}"),
            }
            answered(|| store.slots.release(&node.id, token)).await?;
        }
        down += i32::from(!store.status.borrow().is_up());
        sleep(Duration::from_millis(50)).await;
    }
    println!("{granted} of {asked} wishes were granted while one shard did not answer");
    assert!(granted * 10 >= asked * 9 && asked >= 20, "{granted} of {asked}, {down} times down");
    assert_eq!(down, 0, "one shard is not the store");
    let asked = Instant::now();
    assert_down(&nodes[0].ask(store, token(), LONG).await);
    println!("the shard that does not answer was refused after {:?}", asked.elapsed());
    assert!(asked.elapsed() < Duration::from_secs(4), "took {:?}", asked.elapsed());
    Ok(())
}

/// Flaw 65.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_one_shard_hangs_the_nodes_of_the_others_are_granted() -> Outcome {
    let each = RedisConfig::new().line("cluster-require-full-coverage no");
    let cluster = RedisCluster::start_with(3, 0, each).await?;
    let hasty = Options { response_timeout: Duration::from_secs(1), ..patient() };
    let store = lingua_store::redis::open(&cluster.url(), hasty).await?;
    let nodes = one_per_shard(&cluster, &store).await?;
    cluster.servers()[0].pause()?;
    others_go_on(&store, &nodes).await?;
    cluster.servers()[0].resume()?;
    let beat = answered(|| nodes[0].beat(&store)).await?;
    assert_eq!(beat, BeatReply::Kept { confirmed: true }, "it lost nothing");
    Ok(())
}

/// Flaw 65.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_one_shard_is_dead_the_nodes_of_the_others_are_granted() -> Outcome {
    let each = RedisConfig::new().line("cluster-require-full-coverage no");
    let mut cluster = RedisCluster::start_with(3, 1, each).await?;
    let hasty = Options { response_timeout: Duration::from_secs(1), ..patient() };
    let store = lingua_store::redis::open(&cluster.url(), hasty).await?;
    let nodes = one_per_shard(&cluster, &store).await?;
    // The dead shard stays dead until the others have shown that they go on.
    let replica = cluster.replica_of(0).await?;
    cluster.server_mut(replica).kill()?;
    cluster.server_mut(0).kill()?;

    others_go_on(&store, &nodes).await?;
    cluster.server_mut(0).restart().await?;
    answered(|| nodes[0].assert_again(&store)).await?;
    assert_eq!(answered(|| nodes[0].ask(&store, token(), LONG)).await?, UNCONFIRMED);
    nodes[0].confirm(&store, &[]).await?;
    nodes[0].outwait_hold(&store).await?;
    nodes[0].reserve(&store, token()).await
}

/// Flaw 65.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_shard_is_taken_over_by_its_replica_and_wants_reports() -> Outcome {
    let each = RedisConfig::new().line("cluster-require-full-coverage no");
    let mut cluster = RedisCluster::start_with(3, 1, each).await?;
    let store = open(&cluster.url()).await?;
    let node = one_per_shard(&cluster, &store).await?.swap_remove(0);
    let runs = node.run(&store).await?;
    let replica = cluster.replica_of(0).await?;
    eventually("the replica to have it", async || {
        let offset = async |index: usize, field| {
            anyhow::Ok(cluster.servers()[index].info("replication", field).await?)
        };
        let same =
            offset(0, "master_repl_offset").await? == offset(replica, "slave_repl_offset").await?;
        Ok(same.then_some(()))
    })
    .await?;
    cluster.server_mut(0).kill()?;
    let killed = Instant::now();
    assert_eq!(answered(|| node.beat(&store)).await?, NOT_CONFIRMED);
    println!("the shard answers {:?} after its primary was killed", killed.elapsed());
    assert_eq!(answered(|| node.ask(&store, token(), LONG)).await?, UNCONFIRMED);
    assert_eq!(answered(|| node.usage(&store)).await?, (0, 1));
    answered(|| node.assert_again(&store)).await?;
    node.confirm(&store, &[runs]).await?;
    node.outwait_hold(&store).await?;
    node.reserve(&store, token()).await
}

/// Flaws 62 and 63.
#[tokio::test]
async fn a_slot_on_the_move_answers_rightly_or_not_at_all_and_arrives_whole() -> Outcome {
    let cluster = RedisCluster::start(3, 0).await?;
    let store = open(&cluster.url()).await?;
    let node = one_per_shard(&cluster, &store).await?.swap_remove(0);
    let runs = node.run(&store).await?;
    let reserved = token();
    node.reserve(&store, reserved).await?;
    let slot = cluster.slot_of_key(&node.record_key()).await?;

    cluster.migrate_slot_begin(slot, 0, 1).await?;
    let mut unanswered = 0;
    // With nothing moved yet, and after each of the two keys.
    for step in 0..3 {
        if step > 0 {
            assert_eq!(cluster.migrate_keys(slot, 0, 1, 1).await?, 1);
        }
        match node.ask(&store, token(), LONG).await {
            Ok(answer) => assert!(
                matches!(answer, Reserve::Full { used: 2, max: 2 }) || answer == UNCONFIRMED,
                "after {step} keys: {answer:?}"
            ),
            Err(Error::Down(_) | Error::Unknown(_)) => unanswered += 1,
            Err(error) => anyhow::bail!("after {step} keys: {error:?}"),
        }
        match node.usage(&store).await {
            Ok(usage) => assert_eq!(usage, (1, 1), "after {step} keys"),
            Err(error) => assert!(error.is_down(), "after {step} keys: {error:?}"),
        }
        match node.beat(&store).await {
            Ok(beat) => assert!(matches!(beat, BeatReply::Kept { .. }), "{beat:?}"),
            Err(error) => assert!(error.is_down(), "after {step} keys: {error:?}"),
        }
    }
    println!("{unanswered} of 3 reservations had no answer while the slot moved");
    cluster.migrate_slot_finish(slot, 0, 1).await?;

    assert_eq!(answered(|| node.usage(&store)).await?, (1, 1), "both leases came along");
    let again = answered(|| node.ask(&store, reserved, LONG)).await?;
    assert!(matches!(again, Reserve::Already { .. }), "{again:?}");
    assert_eq!(node.ask(&store, token(), LONG).await?, UNCONFIRMED, "it is another server");
    node.confirm(&store, &[runs]).await?;
    assert!(store.slots.release(&node.id, reserved).await?);
    node.outwait_hold(&store).await?;
    node.reserve(&store, token()).await
}

/// C3: the reader of an inbox blocks on a connection of its own, and goes to where the link goes.
async fn an_inbox_is_read_at_the_new_primary(old_hangs: bool) -> Outcome {
    let group = SentinelGroup::start(0, 1).await?;
    let new = RedisServer::start().await?;
    let store = open(&group.url()).await?;
    let (me, from) = (instance(), instance());
    store.presence.announce(&me, "http://me", LONG).await?;
    let (bus, reader) = (std::sync::Arc::clone(&store.bus), me.clone());
    let reading = tokio::spawn(async move {
        loop {
            match bus.receive(&reader, Duration::from_secs(10)).await {
                Ok(got) if !got.is_empty() => return got.len(),
                Ok(_) => {}
                Err(_) => {
                    sleep(Duration::from_millis(50)).await;
                    bus.rewind(&reader).await;
                }
            }
        }
    });
    sleep(Duration::from_millis(300)).await;

    // The old one lives on: nobody but the sentinels says that it is none any more.
    if old_hangs {
        group.servers()[0].pause()?;
    }
    let sentinel = &group.sentinels()[0];
    sentinel.command(&["SENTINEL", "REMOVE", "lingua"]).await?.into_result()?;
    let port = new.port().to_string();
    let monitor = ["SENTINEL", "MONITOR", "lingua", "127.0.0.1", &port, "1"];
    sentinel.command(&monitor).await?.into_result()?;
    reconnected(&store, 1).await?;
    answered(|| store.presence.announce(&me, "http://me", LONG)).await?;
    let body = b"hear this".to_vec();
    let envelope = Envelope { id: rand::random(), from, body, live_for: LONG };
    assert_eq!(answered(|| store.bus.send(&me, &envelope)).await?, Posting::Posted);
    // It hears at once; that of a reader that stays is the 10 s of its wait, and then for ever.
    let heard = tokio::time::timeout(Duration::from_secs(6), reading).await;
    assert_eq!(heard.expect("the inbox of the new primary is read")?, 1);
    Ok(())
}

#[tokio::test]
async fn the_reader_of_an_inbox_leaves_a_primary_that_lives_on() -> Outcome {
    an_inbox_is_read_at_the_new_primary(false).await
}

#[tokio::test]
async fn the_reader_of_an_inbox_leaves_a_primary_that_hangs() -> Outcome {
    an_inbox_is_read_at_the_new_primary(true).await
}
