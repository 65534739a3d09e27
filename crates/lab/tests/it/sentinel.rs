//! Sentinels that move the primary, asked to or because it died.

use lingua_lab::SentinelGroup;

#[tokio::test]
async fn a_dead_primary_is_replaced_and_comes_back_as_a_replica() {
    let mut group = SentinelGroup::start(2, 3).await.unwrap();
    let ports: Vec<_> =
        group.sentinels().iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
    assert_eq!(group.url(), format!("redis+sentinel://{}/lingua", ports.join(",")));
    assert_eq!(group.primary().await.unwrap(), 0);

    let old = group.kill_primary().await.unwrap();
    let old_port = group.servers()[old].port();
    let new = group.wait_for_new_primary(old_port).await.unwrap();
    assert_ne!(new, old);
    assert_eq!(group.primary().await.unwrap(), new);
    let set = group.servers()[new].command(&["SET", "k", "v"]).await.unwrap();
    assert_eq!(set.text(), "OK");

    group.server_mut(old).restart().await.unwrap();
    let back = &group.servers()[old];
    back.wait_until_in_sync().await.unwrap();
    assert_eq!(back.command(&["GET", "k"]).await.unwrap().text(), "v");
}

#[tokio::test]
async fn a_primary_is_moved_while_all_is_well() {
    let group = SentinelGroup::start(1, 3).await.unwrap();
    assert_eq!(group.failover().await.unwrap(), 1);
    let set = group.servers()[1].command(&["SET", "k", "v"]).await.unwrap();
    assert_eq!(set.text(), "OK");
}
