//! Start-up: a store that cannot be trusted with leases is refused at once, in one sentence that
//! says what to do, and one that can is used with no more rights than it takes.

mod round_trip;

use crate::acl;
use crate::faults;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use faults::*;
use futures_util::FutureExt;
use lingua_core::job::JobState;
use lingua_core::slots::Commit;
use lingua_core::{ModelId, RequestId, TurnId};
use lingua_lab::{RedisCluster, RedisConfig, RedisServer, SentinelGroup};
use lingua_store::bus::{Envelope, Posting, TakeOver};
use lingua_store::jobs::{Assign, Assignment, Create, EndedBy, Ending, Finish, NewJob};
use lingua_store::leaders::{Lead, Task};
use lingua_store::nodes::{BeatReply, Fenced, NODE_SHARDS};
use lingua_store::presence::Announce;
use lingua_store::rates::{Name, Rate, Take};
use lingua_store::{Backend, Error, OpenError, Options};
use round_trip::round_trip;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// What a Cluster takes beside them.
const CLUSTER_RIGHTS: &str = "+ping +cluster|slots +asking";

/// Opens a store that must be refused, and checks what every refusal owes.
async fn refused(url: &str) -> anyhow::Result<OpenError> {
    let error = match lingua_store::redis::open(url, Options::default()).await {
        Ok(store) => anyhow::bail!("{store:?} was opened"),
        Err(error) => error,
    };
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    assert!(text.contains("; "), "what to do follows what is the matter: {text}");
    assert!(!text.contains("secret"), "no password: {text}");
    Ok(error)
}

#[tokio::test]
async fn a_wrong_url_is_a_usage_error() -> Outcome {
    for url in [
        "",
        "localhost:6379",
        "http://127.0.0.1:6379",
        "redis://:secret@127.0.0.1:port",
        "redis://127.0.0.1:1,127.0.0.1:2",
        "redis://127.0.0.1/database",
        "redis+sentinel://127.0.0.1:1",
        "redis+cluster://127.0.0.1:1/1",
    ] {
        let error = refused(url).await?;
        assert!(matches!(error, OpenError::Url(_)), "{url}: {error:?}");
        assert_eq!(error.exit_code(), 2);
    }
    Ok(())
}

/// A port that nobody listens on any more.
async fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port())
}

#[tokio::test]
async fn a_store_that_is_not_there_is_out_of_reach() -> Outcome {
    let port = free_port().await?;
    for url in [
        format!("redis://:secret@127.0.0.1:{port}"),
        format!("redis+sentinel://127.0.0.1:{port}/lingua"),
        format!("redis+cluster://127.0.0.1:{port}"),
    ] {
        let error = refused(&url).await?;
        assert!(matches!(error, OpenError::Unreachable { .. }), "{url}: {error:?}");
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
        assert_eq!(error.exit_code(), 69);
    }
    Ok(())
}

#[tokio::test]
async fn a_store_that_never_answers_is_given_up_within_seconds() -> Outcome {
    // The kernel takes the connection; nobody ever reads from it.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    for url in [
        format!("redis://127.0.0.1:{port}"),
        format!("redis+sentinel://127.0.0.1:{port}/lingua"),
        format!("redis+cluster://127.0.0.1:{port}"),
    ] {
        let asked = Instant::now();
        let error = refused(&url).await?;
        assert!(matches!(error, OpenError::Unreachable { .. }), "{url}: {error:?}");
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(4), "{url} took {took:?}");
        println!("{url}: given up after {took:?}");
    }
    Ok(())
}

/// Flaw 18.
#[tokio::test]
async fn a_server_that_evicts_is_refused_with_the_command_that_mends_it() -> Outcome {
    let server = RedisServer::start().await?;
    for policy in ["allkeys-lru", "volatile-ttl"] {
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]).await?.into_result()?;
        let error = refused(&server.url()).await?;
        assert!(matches!(&error, OpenError::Evicts { policy: found, .. } if found == policy));
        assert_eq!(error.exit_code(), 78);
        assert!(error.to_string().contains("CONFIG SET maxmemory-policy noeviction"), "{error}");
    }
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await?.into_result()?;
    open(&server.url()).await?;
    Ok(())
}

/// Flaw 18.
#[tokio::test]
async fn a_store_that_begins_to_evict_is_not_used_after_the_next_reconnect() -> Outcome {
    let server = RedisServer::start().await?;
    let store = open(&server.url()).await?;
    let policy = async |policy| {
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]).await?.into_result()
    };
    policy("allkeys-lru").await?;
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).await?;
    eventually("the reason to be known", async || {
        let reason = lost(&store).await?;
        Ok(reason.contains("evicts").then_some(()))
    })
    .await?;
    policy("noeviction").await?;
    reconnected(&store, 1).await?;
    Node::join(&store, 1).await?;
    Ok(())
}

/// Answers every command of every connection as a server of that version would.
async fn pretend(listener: TcpListener, version: &'static str) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, version));
    }
}

async fn answer(mut stream: TcpStream, version: &str) -> std::io::Result<()> {
    let info = format!("redis_version:{version}\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n");
    let mut received = Vec::new();
    loop {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        // A client's small commands arrive whole, and every one begins with a star.
        let text = String::from_utf8_lossy(&received).into_owned();
        for command in text.split('*').skip(1) {
            let reply = if command.to_ascii_uppercase().contains("\r\nINFO\r\n") {
                format!("${}\r\n{info}\r\n", info.len())
            } else {
                "+OK\r\n".to_owned()
            };
            stream.write_all(reply.as_bytes()).await?;
        }
        received.clear();
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused_by_its_version() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("redis://{}", listener.local_addr()?);
    let old = tokio::spawn(pretend(listener, "6.0.16"));
    let error = refused(&url).await?;
    old.abort();
    assert!(matches!(&error, OpenError::TooOld { found, .. } if found == "6.0.16"), "{error:?}");
    assert_eq!(error.exit_code(), 78);
    assert!(error.to_string().contains("6.2"), "it says which one will do: {error}");
    Ok(())
}

#[tokio::test]
async fn a_replica_is_no_store() -> Outcome {
    let primary = RedisServer::start().await?;
    let replica = RedisConfig::new().replica_of("127.0.0.1", primary.port()).start().await?;
    replica.wait_until_in_sync().await?;
    let error = refused(&replica.url()).await?;
    assert!(matches!(error, OpenError::Replica { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 78);
    assert!(error.to_string().contains("redis+sentinel://"), "{error}");
    Ok(())
}

#[tokio::test]
async fn sentinels_that_do_not_know_the_primary_are_out_of_reach() -> Outcome {
    let group = SentinelGroup::start(0, 1).await?;
    let url = group.url().replace("/lingua", "/another");
    let error = refused(&url).await?;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("\"another\""), "{error}");
    Ok(())
}

/// Flaw 70.
#[tokio::test]
async fn data_of_another_major_schema_is_left_alone() -> Outcome {
    let server = RedisServer::start().await?;
    for (found, usable) in [("2.0", false), ("10.0", false), ("", false), ("1.7", true)] {
        server.command(&["SET", "lingua:v1:schema", found]).await?.into_result()?;
        if usable {
            open(&server.url()).await?;
        } else {
            let error = refused(&server.url()).await?;
            assert!(matches!(&error, OpenError::Schema { found: is, .. } if is == found));
            assert_eq!(error.exit_code(), 78);
        }
        let left = server.command(&["GET", "lingua:v1:schema"]).await?;
        assert_eq!(left.text(), found);
        assert_eq!(server.command(&["DBSIZE"]).await?.int(), Some(1), "nothing was written");
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_denied() -> Outcome {
    let server = RedisConfig::new().password("right").start().await?;
    let addr = server.addr();
    for url in [
        format!("redis://{addr}/"),
        format!("redis://:secret@{addr}/"),
        format!("redis://nobody:secret@{addr}/"),
    ] {
        let error = refused(&url).await?;
        assert!(matches!(error, OpenError::Denied { .. }), "{url}: {error:?}");
        assert_eq!(error.exit_code(), 69);
    }
    open(&format!("redis://:right@{addr}/")).await?;
    Ok(())
}

#[tokio::test]
async fn a_password_may_hold_any_character() -> Outcome {
    let password = "p@ss:/w%rd?#[&=+ ";
    let escaped = "p%40ss%3A%2Fw%25rd%3F%23%5B%26%3D%2B%20";
    let server = RedisConfig::new().password(password).start().await?;
    let store = open(&format!("redis://:{escaped}@{}/", server.addr())).await?;
    Node::join(&store, 1).await?;
    assert!(!store.description.contains(escaped), "{}", store.description);
    Ok(())
}

#[tokio::test]
async fn a_user_without_the_rights_is_denied_at_the_start() -> Outcome {
    let server = RedisServer::start().await?;
    let url = format!("redis://lingua:secret@{}/", server.addr());
    for rights in ["~* -@all", "~* +@all -info", "~* +@all -set", "~other:* +@all"] {
        user(&server, rights).await?;
        let error = refused(&url).await?;
        assert!(matches!(error, OpenError::Denied { .. }), "{rights}: {error:?}");
        assert_eq!(error.exit_code(), 69);
    }
    Ok(())
}

/// Gives the user `lingua` exactly these rights.
async fn user(server: &RedisServer, rights: &str) -> Outcome {
    let mut words = vec!["ACL", "SETUSER", "lingua", "reset", "on", ">secret"];
    words.extend(rights.split_whitespace());
    server.command(&words).await?.into_result()?;
    Ok(())
}

/// Flaw 71.
#[tokio::test]
async fn a_user_with_only_the_listed_rights_can_do_all_that_the_store_does() -> Outcome {
    let server = RedisServer::start().await?;
    user(&server, &acl::rights()).await?;
    let store = open(&format!("redis://lingua:secret@{}/", server.addr())).await?;
    round_trip(&store).await?;
    let denied = server.command(&["ACL", "LOG"]).await?.into_result()?;
    assert!(denied.items().is_empty(), "refused: {}", denied.text());
    Ok(())
}

/// Flaw 71.
#[tokio::test]
async fn a_user_with_only_the_listed_rights_can_use_a_cluster() -> Outcome {
    let cluster = RedisCluster::start(3, 0).await?;
    for server in cluster.servers() {
        user(server, &format!("{} {CLUSTER_RIGHTS}", acl::rights())).await?;
    }
    let url = cluster.url().replace("://", "://lingua:secret@");
    round_trip(&open(&url).await?).await?;
    for server in cluster.servers() {
        let denied = server.command(&["ACL", "LOG"]).await?.into_result()?;
        assert!(denied.items().is_empty(), "refused: {}", denied.text());
    }
    Ok(())
}

#[tokio::test]
async fn every_listed_right_is_needed() -> Outcome {
    let server = RedisServer::start().await?;
    let url = format!("redis://lingua:secret@{}/", server.addr());
    let rights = acl::rights();
    let listed = rights.split_whitespace().filter_map(|right| right.strip_prefix('+'));
    for right in listed {
        server.command(&["FLUSHALL"]).await?.into_result()?;
        server.command(&["SCRIPT", "FLUSH"]).await?.into_result()?;
        server.command(&["ACL", "LOG", "RESET"]).await?.into_result()?;
        user(&server, &format!("{rights} -{right}")).await?;
        let missed = eventually(right, async || {
            let log = server.command(&["ACL", "LOG"]).await?.into_result()?.text();
            Ok(log.contains(&format!("\n{right}\n")).then_some(()))
        });
        // A step that misses a right may well panic, or wait for what cannot come.
        let trip = AssertUnwindSafe(async { round_trip(&open(&url).await?).await }).catch_unwind();
        tokio::select! {
            missed = missed => missed?,
            Ok(Ok(())) = trip => anyhow::bail!("nobody missed {right}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_right_taken_away_later_is_a_refusal_and_not_an_outage() -> Outcome {
    let server = RedisServer::start().await?;
    user(&server, &acl::rights()).await?;
    let store = open(&format!("redis://lingua:secret@{}/", server.addr())).await?;
    let node = Node::join(&store, 1).await?;
    server.command(&["ACL", "SETUSER", "lingua", "-zadd"]).await?.into_result()?;
    let refused = node.ask(&store, token(), LONG).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert!(store.status.borrow().is_up());
    Ok(())
}
