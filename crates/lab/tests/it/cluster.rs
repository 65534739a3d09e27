//! A cluster that changes while it is used.

use lingua_lab::{RedisCluster, RedisConfig};

#[tokio::test]
async fn a_replica_takes_over_and_a_slot_moves_with_its_keys() {
    let cluster = RedisCluster::start(3, 1).await.unwrap();
    assert_eq!(cluster.servers().len(), 6);
    assert!(cluster.url().starts_with("redis+cluster://127.0.0.1:"));

    let key = "{tag}0";
    let old = cluster.primary_of_key(key).await.unwrap();
    assert!(old < 3);
    let replica = cluster.replica_of(old).await.unwrap();
    cluster.failover_to(replica).await.unwrap();
    assert_eq!(cluster.primary_of_key(key).await.unwrap(), replica);
    assert_eq!(cluster.replica_of(replica).await.unwrap(), old);

    move_slot_with_its_keys(&cluster, replica).await;
}

async fn move_slot_with_its_keys(cluster: &RedisCluster, from: usize) {
    for number in 0..250 {
        let key = format!("{{tag}}{number}");
        let set = cluster.servers()[from].command(&["SET", &key, "v"]).await.unwrap();
        assert_eq!(set.text(), "OK");
    }
    let slot = cluster.slot_of_key("{tag}").await.unwrap();
    // Slot 0 and the last slot have different owners, so one of them is not `from`.
    let first = cluster.primary_of_slot(0).await.unwrap();
    let last = cluster.primary_of_slot(lingua_lab::cluster::SLOTS - 1).await.unwrap();
    let to = if first == from { last } else { first };

    cluster.migrate_slot_begin(slot, from, to).await.unwrap();
    assert_eq!(cluster.migrate_keys(slot, from, to, 10).await.unwrap(), 10);
    let asked = cluster.servers()[from].command(&["GET", "{tag}nothing"]).await.unwrap().text();
    let target = cluster.servers()[to].port();
    assert_eq!(asked, format!("ASK {slot} 127.0.0.1:{target}"));
    assert_eq!(cluster.primary_of_slot(slot).await.unwrap(), from);

    cluster.migrate_slot_finish(slot, from, to).await.unwrap();
    assert_eq!(cluster.primary_of_slot(slot).await.unwrap(), to);
    let moved = cluster.servers()[from].command(&["GET", "{tag}7"]).await.unwrap().text();
    assert_eq!(moved, format!("MOVED {slot} 127.0.0.1:{target}"));
    let count = ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()];
    assert_eq!(cluster.servers()[to].command(&count).await.unwrap().int(), Some(250));
}

#[tokio::test]
async fn the_replica_of_a_dead_primary_is_promoted_and_the_dead_returns_as_its_replica() {
    let mut cluster = RedisCluster::start(3, 1).await.unwrap();
    cluster.server_mut(0).kill().unwrap();
    cluster.failover_to(3).await.unwrap();
    assert_eq!(cluster.primary_of_slot(0).await.unwrap(), 3);

    cluster.server_mut(0).restart().await.unwrap();
    cluster.servers()[0].wait_until_in_sync().await.unwrap();
    assert_eq!(cluster.replica_of(3).await.unwrap(), 0);
}

#[tokio::test]
async fn passwords_and_full_coverage_are_as_the_caller_says() {
    let each = RedisConfig::new().password("secret").line("cluster-require-full-coverage no");
    let cluster = RedisCluster::start_with(2, 0, each).await.unwrap();
    let slot = cluster.slot_of_key("k").await.unwrap();
    let from = cluster.primary_of_slot(slot).await.unwrap();
    cluster.servers()[from].command(&["SET", "k", "v"]).await.unwrap().into_result().unwrap();
    cluster.migrate_slot_begin(slot, from, 1 - from).await.unwrap();
    cluster.migrate_slot_finish(slot, from, 1 - from).await.unwrap();
    let coverage =
        cluster.servers()[0].command(&["CONFIG", "GET", "cluster-require-full-coverage"]);
    assert_eq!(coverage.await.unwrap().items()[1].text(), "no");
}
