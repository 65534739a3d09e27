//! One primary, its replicas and the sentinels that watch them.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures_util::future::try_join_all;

use crate::redis_config::RedisConfig;
use crate::redis_server::RedisServer;
use crate::resp::Reply;
use crate::wait::until;

/// The name under which the sentinels know the group.
pub const MASTER_NAME: &str = "lingua";

const FORM_LIMIT: Duration = Duration::from_secs(20);

/// One second until the primary counts as down, then votes, promotion and news: some three seconds,
/// and after a failed election another `failover-timeout` and more.
const FAILOVER_LIMIT: Duration = Duration::from_secs(30);

/// Sentinels look around every 10 s and greet every 2 s; a test would wait for that. And one that
/// lost the CPU for two seconds does nothing for the next 30: on a busy machine that is too shy.
const HASTE: [&str; 8] =
    ["info-period", "500", "publish-period", "200", "ping-period", "200", "tilt-period", "1000"];

/// A primary with replicas, under real sentinels that fail over when it is gone for a second.
/// Dropping it kills them all.
#[derive(Debug)]
pub struct SentinelGroup {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl SentinelGroup {
    /// Starts one primary, `replicas` replicas and `sentinels` sentinels with a majority as quorum,
    /// and waits until the replicas are in sync and all sentinels know of all.
    pub async fn start(replicas: usize, sentinels: usize) -> anyhow::Result<Self> {
        Self::start_with(replicas, sentinels, RedisConfig::new()).await
    }

    /// The same, with `each` as the configuration of the primary and of every replica. Not for
    /// servers with a password, a fixed port or a directory of the caller.
    pub async fn start_with(
        replicas: usize,
        sentinels: usize,
        each: RedisConfig,
    ) -> anyhow::Result<Self> {
        ensure!(sentinels > 0, "a group needs a sentinel");
        let primary = each.clone().start().await?;
        let replica = each.replica_of("127.0.0.1", primary.port());
        let mut servers = vec![primary];
        servers.extend(try_join_all((0..replicas).map(|_| replica.clone().start())).await?);
        // A sentinel learns the replicas from the primary, so these come first.
        try_join_all(servers[1..].iter().map(RedisServer::wait_until_in_sync)).await?;

        let config = sentinel_config(servers[0].port(), sentinels / 2 + 1);
        let sentinels = try_join_all((0..sentinels).map(|_| config.clone().start())).await?;
        let group = Self { servers, sentinels };
        group.hurry().await?;
        group.wait_until_formed().await?;
        Ok(group)
    }

    /// `redis+sentinel://127.0.0.1:PORT,127.0.0.1:PORT/lingua`, with the ports of the sentinels.
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.sentinels.iter().map(|one| one.addr().to_string()).collect();
        format!("redis+sentinel://{}/{MASTER_NAME}", addrs.join(","))
    }

    /// The first primary and the replicas, in this order whoever is primary now.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// One of [`Self::servers`], to be killed and restarted.
    pub fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// One of [`Self::sentinels`], to be killed and restarted.
    pub fn sentinel_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.sentinels[index]
    }

    /// The index of the primary, as the first sentinel that runs has it. It may be dead already.
    pub async fn primary(&self) -> anyhow::Result<usize> {
        let sentinel = self.running_sentinels().next().context("no sentinel runs")?;
        self.primary_by(sentinel).await
    }

    /// Kills the primary and tells its index. The sentinels take a second to notice.
    pub async fn kill_primary(&mut self) -> anyhow::Result<usize> {
        let index = self.primary().await?;
        self.servers[index].kill()?;
        Ok(index)
    }

    /// Has the sentinels move the primary while all is well, and tells the index of the new one.
    pub async fn failover(&self) -> anyhow::Result<usize> {
        let old = self.servers[self.primary().await?].port();
        let sentinel = self.running_sentinels().next().context("no sentinel runs")?;
        // Refused while another failover ends, or while no replica has been seen well.
        until(FAILOVER_LIMIT, "a sentinel to begin the failover", async || {
            sentinel.command(&["SENTINEL", "FAILOVER", MASTER_NAME]).await?.into_result()?;
            Ok(Some(()))
        })
        .await?;
        self.wait_for_new_primary(old).await
    }

    /// Waits until every running sentinel names one server other than `old_port` as the primary,
    /// and that server agrees. Tells its index.
    pub async fn wait_for_new_primary(&self, old_port: u16) -> anyhow::Result<usize> {
        let what = format!("another primary than {old_port}");
        until(FAILOVER_LIMIT, &what, async || {
            let mut agreed = None;
            for sentinel in self.running_sentinels() {
                let named = self.primary_by(sentinel).await?;
                if self.servers[named].port() == old_port || *agreed.get_or_insert(named) != named {
                    return Ok(None);
                }
            }
            let index = agreed.context("no sentinel runs")?;
            let role = self.servers[index].command(&["ROLE"]).await?.into_result()?;
            Ok(role.items().first().is_some_and(|role| role.text() == "master").then_some(index))
        })
        .await
    }

    async fn primary_by(&self, sentinel: &RedisServer) -> anyhow::Result<usize> {
        let named = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME]).await?;
        let named = named.into_result()?;
        let [_, port] = named.items() else { bail!("the sentinel knows no primary") };
        let index = self.servers.iter().position(|one| Some(i64::from(one.port())) == port.int());
        index.with_context(|| format!("port {} is none of our servers", port.text()))
    }

    fn running_sentinels(&self) -> impl Iterator<Item = &RedisServer> {
        self.sentinels.iter().filter(|sentinel| sentinel.pid().is_some())
    }

    async fn hurry(&self) -> anyhow::Result<()> {
        let mut words = vec!["SENTINEL", "DEBUG"];
        words.extend(HASTE);
        for sentinel in &self.sentinels {
            sentinel.command(&words).await?.into_result()?;
        }
        Ok(())
    }

    async fn wait_until_formed(&self) -> anyhow::Result<()> {
        let replicas = self.servers.len() - 1;
        let other_sentinels = self.sentinels.len() - 1;
        let all = [("num-slaves", replicas), ("num-other-sentinels", other_sentinels)];
        until(FORM_LIMIT, "the sentinels to know each other and the replicas", async || {
            for sentinel in &self.sentinels {
                let seen = sentinel.command(&["SENTINEL", "MASTER", MASTER_NAME]).await?;
                let seen = seen.into_result()?;
                for (field, wanted) in all {
                    let count = seen.field(field).and_then(Reply::int);
                    ensure!(count == Some(i64::try_from(wanted)?), "{field} is {count:?}");
                }
            }
            Ok(Some(()))
        })
        .await
    }
}

fn sentinel_config(primary_port: u16, quorum: usize) -> RedisConfig {
    RedisConfig::new()
        .sentinel()
        .line(format!("sentinel monitor {MASTER_NAME} 127.0.0.1 {primary_port} {quorum}"))
        .line(format!("sentinel down-after-milliseconds {MASTER_NAME} 1000"))
        .line(format!("sentinel failover-timeout {MASTER_NAME} 3000"))
        .line(format!("sentinel parallel-syncs {MASTER_NAME} 1"))
}
