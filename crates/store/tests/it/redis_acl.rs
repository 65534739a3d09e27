//! The suite as the schedulers' user of `deploy/redis.conf`, who may do what it takes; and what that
//! user may not do.

use crate::acl;
use crate::suite::servers;
use crate::suite::shared;

use lingua_lab::RedisServer;
use lingua_store::redis::PREFIX;

static SERVER: shared::Shared<RedisServer> = shared::Shared::new();

pub async fn as_the_schedulers_user() -> anyhow::Result<servers::Served<RedisServer>> {
    let server = SERVER.get(acl::start).await?;
    let url = acl::url(&server);
    servers::Served::connect(server, &url).await
}

conformance!(crate::redis_acl::as_the_schedulers_user, model_cases = 50);

/// Every command of these is refused, whatever its arguments.
const DENIED: &[&str] = &[
    "KEYS *",
    "SCAN 0",
    "RANDOMKEY",
    "DBSIZE",
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB 0 1",
    "SELECT 1",
    "CONFIG GET *",
    "CONFIG SET maxmemory-policy allkeys-lru",
    "CONFIG REWRITE",
    "SCRIPT FLUSH",
    "SCRIPT KILL",
    "SCRIPT LOAD return",
    "FUNCTION LOAD x",
    "FUNCTION FLUSH",
    "FCALL x 0",
    "MODULE LIST",
    "DEBUG SLEEP 0",
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
    "LASTSAVE",
    "SHUTDOWN NOSAVE",
    "FAILOVER",
    "REPLICAOF NO ONE",
    "PSYNC ? -1",
    "SYNC",
    "ACL LIST",
    "ACL SETUSER lingua +@all",
    "ACL WHOAMI",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "CLIENT PAUSE 1",
    "CLUSTER NODES",
    "CLUSTER RESET",
    "COMMAND",
    "MONITOR",
    "SLOWLOG GET",
    "LATENCY DOCTOR",
    "MEMORY DOCTOR",
    "PUBLISH c x",
    "SUBSCRIBE c",
    "DUMP lingua:v1:schema",
    "RESTORE lingua:v1:x 0 x",
    "MIGRATE 127.0.0.1 1 lingua:v1:schema 0 1",
    "MOVE lingua:v1:schema 1",
    "RENAME lingua:v1:schema lingua:v1:x",
    "COPY lingua:v1:schema lingua:v1:x",
    "OBJECT ENCODING lingua:v1:schema",
    "SORT lingua:v1:x",
    "HGETALL lingua:v1:x",
    "XGROUP CREATE lingua:v1:x g $",
    // Allowed as such, but not on the keys of others.
    "GET other:key",
    "SET other:key x",
    "SET lingua:v2:key x",
    "DEL other:key",
    "HGET other:key f",
    "ZADD other:key 1 x",
    "XREAD STREAMS other:key 0",
    "EVAL return 1 other:key",
];

/// Scripts run with the rights of who sends them, also where they do not say what they touch.
const DENIED_SCRIPTS: &[&str] = &[
    "return redis.call('GET', 'other:key')",
    "return redis.call('SET', 'other:key', 'x')",
    "return redis.call('FLUSHALL')",
    "return redis.call('KEYS', '*')",
    "return redis.call('RANDOMKEY')",
    "return redis.call('PUBLISH', 'c', 'x')",
    "return redis.call('RENAME', 'lingua:v1:probe', 'other:key')",
    "return redis.call('HGETALL', 'lingua:v1:x')",
];

#[tokio::test]
async fn whatever_the_schedulers_do_not_need_is_denied() -> anyhow::Result<()> {
    let server = acl::start().await?;
    server.command(&["SET", "other:key", "canary"]).await?.into_result()?;
    let client = redis::Client::open(acl::url(&server))?;
    let mut user = client.get_multiplexed_async_connection().await?;
    let own = format!("{PREFIX}probe");
    let set: redis::Value = redis::cmd("SET").arg(&own).arg("x").query_async(&mut user).await?;
    assert_eq!(set, redis::Value::Okay, "the user may do something");

    for line in DENIED {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap_or_default());
        match *line {
            "EVAL return 1 other:key" => command.arg("return 1").arg(1).arg("other:key"),
            _ => command.arg(words.collect::<Vec<_>>()),
        };
        let said = command.query_async::<redis::Value>(&mut user).await;
        let code = said.as_ref().err().and_then(|error| error.code().map(str::to_owned));
        assert_eq!(code.as_deref(), Some("NOPERM"), "{line}: {said:?}");
    }
    for script in DENIED_SCRIPTS {
        let mut command = redis::cmd("EVAL");
        let said = command.arg(script).arg(0).query_async::<redis::Value>(&mut user).await;
        let error = said.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("can't") || error.contains("NOPERM"), "{script}: {error:?}");
    }

    let left = server.command(&["GET", "other:key"]).await?;
    assert_eq!(left.text(), "canary");
    let nobody = redis::Client::open(server.url())?;
    let refused = nobody.get_multiplexed_async_connection().await;
    let refused = match refused {
        Ok(mut nobody) => {
            redis::cmd("PING").query_async::<redis::Value>(&mut nobody).await.is_err()
        }
        Err(_) => true,
    };
    assert!(refused, "nobody comes in without a name");
    Ok(())
}
