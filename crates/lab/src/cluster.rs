//! A Redis Cluster, with failover and slots in the middle of a move.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;

use crate::redis_config::RedisConfig;
use crate::redis_server::{RedisServer, value_of};
use crate::resp::Reply;
use crate::wait::until;

mod nodes;

use nodes::{Node, parse_nodes};

/// How many slots a cluster has, by the protocol.
pub const SLOTS: u16 = 16384;

const FORM_LIMIT: Duration = Duration::from_secs(20);
const FAILOVER_LIMIT: Duration = Duration::from_secs(20);

/// News of a new owner travel by gossip within a second.
const GOSSIP_LIMIT: Duration = Duration::from_secs(10);

/// A replica forgets a manual failover that it could not begin after five seconds.
const ASK_FOR_FAILOVER_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Keys moved by one `MIGRATE`, which blocks both servers while it runs.
const KEYS_PER_MIGRATE: usize = 100;

/// Real primaries with their replicas, all slots given out evenly. Dropping it kills them all.
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<RedisServer>,
    /// The node id of each server; stays the same over restarts.
    ids: Vec<String>,
}

impl RedisCluster {
    /// Starts `primaries` primaries with `replicas_each` replicas each and waits until every node
    /// sees all others, takes commands, and the replicas are in sync.
    ///
    /// Server `i < primaries` starts as primary, `primaries + r` as a replica of `r % primaries`.
    pub async fn start(primaries: usize, replicas_each: usize) -> anyhow::Result<Self> {
        Self::start_with(primaries, replicas_each, RedisConfig::new()).await
    }

    /// The same, with `each` as the configuration of every node: for example
    /// `.line("cluster-require-full-coverage no")`, which is `yes` otherwise. Not for a fixed port
    /// or a directory of the caller.
    pub async fn start_with(
        primaries: usize,
        replicas_each: usize,
        each: RedisConfig,
    ) -> anyhow::Result<Self> {
        ensure!(primaries > 0, "a cluster needs a primary");
        let node = each
            .cluster()
            .first_line("cluster-require-full-coverage yes")
            .first_line("cluster-replica-validity-factor 0")
            .first_line("cluster-node-timeout 2000");
        let count = primaries * (1 + replicas_each);
        let servers = try_join_all((0..count).map(|_| node.clone().start())).await?;
        let ids = try_join_all(servers.iter().map(async |server| {
            anyhow::Ok(server.command(&["CLUSTER", "MYID"]).await?.into_result()?.text())
        }))
        .await?;
        let cluster = Self { servers, ids };
        cluster.give_out_slots(primaries).await?;
        cluster.introduce_all().await?;
        for index in primaries..count {
            let primary = &cluster.ids[(index - primaries) % primaries];
            cluster.tell(index, &["CLUSTER", "REPLICATE", primary]).await?;
        }
        cluster.wait_until_formed(primaries).await?;
        Ok(cluster)
    }

    /// `redis+cluster://127.0.0.1:PORT,127.0.0.1:PORT,...`, with every node's port.
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.servers.iter().map(|one| one.addr().to_string()).collect();
        format!("redis+cluster://{}", addrs.join(","))
    }

    /// All nodes, in the order they were started in, whatever their roles are now.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// One of [`Self::servers`], to be killed and restarted.
    pub fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// The slot of `key`, hash tag respected.
    pub async fn slot_of_key(&self, key: &str) -> anyhow::Result<u16> {
        let server = self.servers.iter().find(|one| one.pid().is_some()).context("none runs")?;
        let slot = server.command(&["CLUSTER", "KEYSLOT", key]).await?.into_result()?;
        Ok(u16::try_from(slot.int().context("no slot")?)?)
    }

    /// The index of the server that owns the slot of `key`, see [`Self::primary_of_slot`].
    pub async fn primary_of_key(&self, key: &str) -> anyhow::Result<usize> {
        self.primary_of_slot(self.slot_of_key(key).await?).await
    }

    /// The index of the running server that calls itself the owner of `slot`. While an old owner
    /// has not heard of its successor both do, and the later election wins. Servers must not be
    /// paused.
    pub async fn primary_of_slot(&self, slot: u16) -> anyhow::Result<usize> {
        let mut owners = Vec::new();
        for (index, nodes) in self.views().await? {
            let myself = nodes.iter().find(|node| node.myself).context("no line of its own")?;
            if myself.is_primary() && myself.owns(slot) {
                owners.push((myself.epoch, index));
            }
        }
        let (_, index) = owners.into_iter().max().with_context(|| format!("no owner of {slot}"))?;
        Ok(index)
    }

    /// The index of the first running replica of the primary at `index`.
    pub async fn replica_of(&self, index: usize) -> anyhow::Result<usize> {
        for (replica, nodes) in self.views().await? {
            let myself = nodes.iter().find(|node| node.myself).context("no line of its own")?;
            if myself.primary.as_deref() == Some(&self.ids[index]) {
                return Ok(replica);
            }
        }
        anyhow::bail!("server {index} has no running replica")
    }

    /// Makes the replica at `replica_index` the primary of its slots, by force if its primary is
    /// down, and waits until every running node sees it so.
    pub async fn failover_to(&self, replica_index: usize) -> anyhow::Result<()> {
        let begun = async || {
            let reply = self.servers[replica_index].command(&["CLUSTER", "FAILOVER"]).await?;
            match reply {
                Reply::Error(text) if text.contains("FORCE") => {
                    self.tell(replica_index, &["CLUSTER", "FAILOVER", "FORCE"]).await
                }
                other => other.into_result().map(drop),
            }
        };
        let id = &self.ids[replica_index];
        let promoted = async || {
            let seen = self.views().await?.into_iter().all(|(_, nodes)| {
                nodes.iter().any(|node| node.id == *id && node.is_primary() && node.owns_any())
            });
            Ok(seen.then_some(()))
        };
        let what = format!("server {replica_index} to be the primary of its slots");
        until(FAILOVER_LIMIT, &what, async || {
            // Refused when an earlier call has made it primary by now.
            let refused = begun().await.err();
            match until(ASK_FOR_FAILOVER_AGAIN_AFTER, "promotion", promoted).await {
                Ok(()) => Ok(Some(())),
                Err(error) => Err(refused.unwrap_or(error)),
            }
        })
        .await
    }

    /// Opens the move of `slot` and leaves it there: `from` answers ASK for keys it has not, `to`
    /// takes them after ASKING.
    pub async fn migrate_slot_begin(
        &self,
        slot: u16,
        from: usize,
        to: usize,
    ) -> anyhow::Result<()> {
        let slot = slot.to_string();
        self.tell(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.ids[from]]).await?;
        self.tell(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.ids[to]]).await
    }

    /// Moves up to `at_most` keys of a slot whose move is open, and tells how many there were.
    pub async fn migrate_keys(
        &self,
        slot: u16,
        from: usize,
        to: usize,
        at_most: usize,
    ) -> anyhow::Result<usize> {
        let get = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &at_most.to_string()];
        let reply = self.servers[from].command(&get).await?.into_result()?;
        let keys: Vec<Vec<u8>> = reply
            .items()
            .iter()
            .filter_map(
                |key| if let Reply::Bulk(Some(key)) = key { Some(key.clone()) } else { None },
            )
            .collect();
        if keys.is_empty() {
            return Ok(0);
        }
        let port = self.servers[to].port().to_string();
        let mut words: Vec<Vec<u8>> =
            ["MIGRATE", "127.0.0.1", &port, "", "0", "5000"].map(Vec::from).to_vec();
        if let Some(login) = &self.servers[to].config().login {
            words.push(if login.user.is_some() { "AUTH2" } else { "AUTH" }.into());
            words.extend(login.words().into_iter().map(Vec::from));
        }
        words.push("KEYS".into());
        let moved = keys.len();
        words.extend(keys);
        self.servers[from].command(&words).await?.into_result()?;
        Ok(moved)
    }

    /// Moves what is left of `slot`, closes its move and waits until every running node knows the
    /// new owner.
    pub async fn migrate_slot_finish(
        &self,
        slot: u16,
        from: usize,
        to: usize,
    ) -> anyhow::Result<()> {
        while self.migrate_keys(slot, from, to, KEYS_PER_MIGRATE).await? > 0 {}
        let owner = &self.ids[to];
        let word = slot.to_string();
        let set = ["CLUSTER", "SETSLOT", &word, "NODE", owner];
        // The new owner first: were it last, nobody would own the slot in between.
        self.tell(to, &set).await?;
        self.tell(from, &set).await?;
        for (index, nodes) in self.views().await? {
            let primary = nodes.iter().any(|node| node.myself && node.is_primary());
            if primary && index != from && index != to {
                self.tell(index, &set).await?;
            }
        }
        until(GOSSIP_LIMIT, &format!("all nodes to know the owner of slot {slot}"), async || {
            let known =
                self.views().await?.into_iter().all(|(_, nodes)| {
                    nodes.iter().any(|node| node.id == *owner && node.owns(slot))
                });
            Ok(known.then_some(()))
        })
        .await
    }

    /// A command that must not be refused.
    async fn tell(&self, index: usize, words: &[&str]) -> anyhow::Result<()> {
        let reply = self.servers[index].command(words).await?;
        reply.into_result().with_context(|| format!("server {index}: {}", words.join(" ")))?;
        Ok(())
    }

    /// What each running server knows of all nodes.
    async fn views(&self) -> anyhow::Result<Vec<(usize, Vec<Node>)>> {
        let running = self.servers.iter().enumerate().filter(|(_, server)| server.pid().is_some());
        try_join_all(running.map(async |(index, server)| {
            let table = server.command(&["CLUSTER", "NODES"]).await?.into_result()?.text();
            Ok((index, parse_nodes(&table)?))
        }))
        .await
    }

    /// Even shares, and an epoch of its own for every node, so that no two quarrel about it.
    async fn give_out_slots(&self, primaries: usize) -> anyhow::Result<()> {
        for index in 0..self.servers.len() {
            let epoch = (index + 1).to_string();
            self.tell(index, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await?;
        }
        let slots = usize::from(SLOTS);
        for index in 0..primaries {
            let first = (index * slots / primaries).to_string();
            let last = ((index + 1) * slots / primaries - 1).to_string();
            self.tell(index, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await?;
        }
        Ok(())
    }

    /// Introduces every pair, which is quicker than waiting for gossip, until all know all.
    async fn introduce_all(&self) -> anyhow::Result<()> {
        for (index, server) in self.servers.iter().enumerate() {
            let port = server.port().to_string();
            let bus = server.bus_port().context("a cluster node has a bus port")?.to_string();
            for other in 0..index {
                self.tell(other, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await?;
            }
        }
        until(FORM_LIMIT, "the nodes to know each other", async || {
            let all_met = self.views().await?.iter().all(|(_, nodes)| self.all_known(nodes));
            Ok(all_met.then_some(()))
        })
        .await
    }

    fn all_known(&self, nodes: &[Node]) -> bool {
        nodes.len() == self.ids.len()
            && self.ids.iter().all(|id| nodes.iter().any(|node| node.id == *id && node.settled))
    }

    async fn wait_until_formed(&self, primaries: usize) -> anyhow::Result<()> {
        until(FORM_LIMIT, "the cluster to form", async || {
            for (index, nodes) in self.views().await? {
                let seen = nodes.iter().filter(|node| node.is_primary()).count();
                ensure!(seen == primaries, "server {index} sees {seen} primaries");
                ensure!(self.all_known(&nodes), "server {index} does not know all nodes");
                let info = self.servers[index].command(&["CLUSTER", "INFO"]).await?.text();
                let state = value_of(&info, "cluster_state");
                ensure!(state == Some("ok"), "server {index} is in state {state:?}");
            }
            Ok(Some(()))
        })
        .await?;
        try_join_all(self.servers[primaries..].iter().map(RedisServer::wait_until_in_sync)).await?;
        Ok(())
    }
}
