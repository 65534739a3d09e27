//! One private server through its whole life.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lingua_lab::ports::free_port;
use lingua_lab::{RedisConfig, RedisServer, Reply, TlsFiles};
use tokio::time::timeout;

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_server_has_the_defaults_of_the_lab_and_answers_every_kind_of_reply() {
    let server = RedisServer::start().await.unwrap();
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}/", server.port()));
    assert_eq!(server.command(&["SET", "k", "v"]).await.unwrap().text(), "OK");
    assert_eq!(server.command(&["GET", "k"]).await.unwrap(), Reply::Bulk(Some(b"v".to_vec())));
    assert!(server.command(&["GET", "nothing"]).await.unwrap().is_nil());
    assert_eq!(server.command(&["INCR", "n"]).await.unwrap().int(), Some(1));
    let policy = server.command(&["CONFIG", "GET", "maxmemory-policy"]).await.unwrap();
    assert_eq!(policy.text(), "maxmemory-policy\nnoeviction");
    let refused = server.command(&["INCR", "k"]).await.unwrap();
    assert!(refused.clone().into_result().is_err(), "{refused:?}");
    let slept = server.command(&["DEBUG", "SLEEP", "0"]).await.unwrap();
    assert_eq!(slept.text(), "OK", "tests may use DEBUG");
}

#[tokio::test]
async fn a_killed_server_restarts_on_its_port_with_its_append_only_file() {
    let config = RedisConfig::new().line("appendonly yes").line("appendfsync always");
    let mut server = config.start().await.unwrap();
    let (port, pid) = (server.port(), server.pid().unwrap());
    server.command(&["SET", "k", "v"]).await.unwrap().into_result().unwrap();

    server.kill().unwrap();
    assert!(!is_alive(pid) && server.pid().is_none());
    assert!(server.command(&["PING"]).await.is_err());
    server.kill().expect("killing twice is no error");

    server.restart().await.unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(server.command(&["GET", "k"]).await.unwrap().text(), "v");
}

#[tokio::test]
async fn a_restart_without_a_kill_is_a_crash() {
    let mut server = RedisServer::start().await.unwrap();
    let pid = server.pid().unwrap();
    server.command(&["SET", "k", "v"]).await.unwrap().into_result().unwrap();
    server.restart().await.unwrap();
    assert!(!is_alive(pid));
    assert!(server.command(&["GET", "k"]).await.unwrap().is_nil(), "nothing was on disk");
}

#[tokio::test]
async fn a_shut_down_server_has_written_its_data_and_another_finds_it() {
    let dir = tempfile::tempdir().unwrap();
    let config = RedisConfig::new().dir(dir.path()).line("save 3600 1").port(free_port().unwrap());
    let mut first = config.clone().start().await.unwrap();
    first.command(&["SET", "k", "v"]).await.unwrap().into_result().unwrap();
    first.pause().unwrap();
    first.shutdown().await.unwrap();
    assert!(first.pid().is_none());

    let second = config.start().await.unwrap();
    assert_eq!(second.port(), first.port());
    assert_eq!(second.command(&["GET", "k"]).await.unwrap().text(), "v");
}

#[tokio::test]
async fn a_paused_server_answers_when_it_is_resumed() {
    let server = RedisServer::start().await.unwrap();
    server.pause().unwrap();
    let ping = server.command(&["PING"]);
    tokio::pin!(ping);
    assert!(timeout(Duration::from_millis(200), &mut ping).await.is_err());
    server.resume().unwrap();
    assert_eq!(ping.await.unwrap().text(), "PONG");
}

#[tokio::test]
async fn a_test_that_panics_leaves_no_process_behind_not_even_a_paused_one() {
    let (pid, told) = tokio::sync::oneshot::channel();
    let panicked = tokio::spawn(async move {
        let server = RedisServer::start().await.unwrap();
        server.pause().unwrap();
        pid.send(server.pid().unwrap()).unwrap();
        panic!("on purpose");
    });
    let pid = told.await.unwrap();
    assert!(panicked.await.unwrap_err().is_panic());
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_missing_program_is_named_with_the_package_that_has_it() {
    let config = RedisConfig::new().binary("redis-server-that-is-not-there");
    let error = config.start().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the program `redis-server-that-is-not-there` is missing: install the Debian package \
         `redis-server` (`apt-get install redis-server`)"
    );
}

#[tokio::test]
async fn a_wrong_line_is_an_error_with_what_the_server_said() {
    let error = RedisConfig::new().line("no-such-directive 1").start().await.unwrap_err();
    assert!(error.to_string().contains("no-such-directive"), "{error:#}");
}

#[tokio::test]
async fn a_port_in_use_is_an_error_and_never_somebody_elses_server() {
    let owner = RedisServer::start().await.unwrap();
    let error = RedisConfig::new().port(owner.port()).start().await.unwrap_err();
    assert!(error.to_string().contains("the port was taken"), "{error:#}");
    assert_eq!(owner.command(&["PING"]).await.unwrap().text(), "PONG");
}

#[tokio::test]
async fn passwords_and_users_are_asked_for_and_used() {
    let server = RedisConfig::new().password("two words").start().await.unwrap();
    assert_eq!(server.command(&["PING"]).await.unwrap().text(), "PONG");

    let config =
        RedisConfig::new().line("user default off").line("user lab on >secret ~* &* +@all");
    let stranger = config.clone().start().await.unwrap();
    assert!(stranger.command(&["PING"]).await.unwrap().text().starts_with("NOAUTH"));
    let known = config.login("lab", "secret").start().await.unwrap();
    assert_eq!(known.command(&["ACL", "WHOAMI"]).await.unwrap().text(), "lab");
}

#[tokio::test]
async fn tls_has_a_port_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .arg("-out")
        .arg(&cert)
        .arg("-keyout")
        .arg(&key)
        .output()
        .expect("this test makes its certificate with openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    let files = TlsFiles { cert: cert.clone(), key, client_ca: None };
    let server = RedisConfig::new().tls(files).start().await.unwrap();
    let port = server.tls_port().unwrap();
    assert_eq!(server.tls_url().unwrap(), format!("rediss://127.0.0.1:{port}/"));
    let pong = Command::new("redis-cli")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "--tls", "--cacert"])
        .arg(&cert)
        .arg("PING")
        .output()
        .expect("redis-cli comes with redis-server");
    assert_eq!(String::from_utf8_lossy(&pong.stdout).trim(), "PONG", "{pong:?}");
}

#[tokio::test]
async fn a_replica_in_sync_has_what_its_primary_had() {
    let primary = RedisServer::start().await.unwrap();
    primary.command(&["SET", "k", "v"]).await.unwrap().into_result().unwrap();
    let replica = RedisConfig::new().replica_of("127.0.0.1", primary.port()).start().await.unwrap();
    replica.wait_until_in_sync().await.unwrap();
    assert_eq!(replica.command(&["GET", "k"]).await.unwrap().text(), "v");
    assert_eq!(replica.info("replication", "role").await.unwrap().as_deref(), Some("slave"));
}

#[test]
fn everything_can_be_started_from_a_spawned_task() {
    fn sendable<T: Send>(_: T) {}
    sendable(RedisServer::start());
    sendable(lingua_lab::RedisCluster::start(1, 0));
    sendable(lingua_lab::SentinelGroup::start(1, 1));
    sendable(async {
        let cluster = lingua_lab::RedisCluster::start(3, 1).await?;
        cluster.failover_to(3).await?;
        cluster.migrate_slot_finish(0, 0, 1).await?;
        let group = lingua_lab::SentinelGroup::start(1, 3).await?;
        group.wait_for_new_primary(group.servers()[group.failover().await?].port()).await
    });
}
