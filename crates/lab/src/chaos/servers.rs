//! The servers of the store, and what can be done to them.

use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use super::options::Store;
use crate::{RedisCluster, RedisServer, SentinelGroup};

/// How long the lab waits for servers to agree after a fault that is over.
const PRIMARIES: usize = 3;

/// A store of one of the three kinds.
#[derive(Debug)]
pub(super) enum Servers {
    Standalone(Box<RedisServer>),
    Sentinel(SentinelGroup),
    Cluster(RedisCluster),
}

/// What was hurt, to be healed later.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hurt {
    Killed(usize),
    Stopped(usize),
    KilledSentinel(usize),
    StoppedSentinel(usize),
    Nothing,
}

impl Servers {
    pub async fn start(store: Store) -> anyhow::Result<Self> {
        Ok(match store {
            Store::Standalone => Servers::Standalone(Box::new(RedisServer::start().await?)),
            Store::Sentinel => Servers::Sentinel(SentinelGroup::start(2, 3).await?),
            Store::Cluster => Servers::Cluster(RedisCluster::start(PRIMARIES, 1).await?),
        })
    }

    pub fn url(&self) -> String {
        match self {
            Servers::Standalone(server) => server.url(),
            Servers::Sentinel(group) => group.url(),
            Servers::Cluster(cluster) => cluster.url(),
        }
    }

    /// The one server, where there is only one.
    pub fn single(&self) -> Option<&RedisServer> {
        match self {
            Servers::Standalone(server) => Some(server),
            _ => None,
        }
    }

    /// A command to every server that runs; replicas refuse some of them, and are told by their
    /// primary.
    pub async fn tell_all(&self, words: &[&str]) -> anyhow::Result<()> {
        for server in self.servers().iter().filter(|server| server.pid().is_some()) {
            server.command(words).await?;
        }
        Ok(())
    }

    pub async fn kill(&mut self, server: usize) -> anyhow::Result<Hurt> {
        let index = self.primary(server).await?;
        self.server_mut(index).kill()?;
        Ok(Hurt::Killed(index))
    }

    pub async fn stop(&mut self, server: usize) -> anyhow::Result<Hurt> {
        let index = self.primary(server).await?;
        self.servers()[index].pause()?;
        Ok(Hurt::Stopped(index))
    }

    pub async fn fail_over(&mut self, server: usize) -> anyhow::Result<Hurt> {
        match self {
            Servers::Standalone(_) => {}
            Servers::Sentinel(group) => drop(group.failover().await?),
            Servers::Cluster(cluster) => {
                let primary = primary_of_share(cluster, server).await?;
                let replica = cluster.replica_of(primary).await?;
                cluster.failover_to(replica).await?;
            }
        }
        Ok(Hurt::Nothing)
    }

    pub fn kill_sentinel(&mut self, index: usize) -> anyhow::Result<Hurt> {
        if let Servers::Sentinel(group) = self {
            group.sentinel_mut(index).kill()?;
        }
        Ok(Hurt::KilledSentinel(index))
    }

    pub fn stop_sentinel(&self, index: usize) -> anyhow::Result<Hurt> {
        if let Servers::Sentinel(group) = self {
            group.sentinels()[index].pause()?;
        }
        Ok(Hurt::StoppedSentinel(index))
    }

    pub async fn heal(&mut self, hurt: Hurt) -> anyhow::Result<()> {
        match (hurt, self) {
            (Hurt::Nothing, _) => Ok(()),
            (Hurt::Killed(index), servers) => servers.server_mut(index).restart().await,
            (Hurt::Stopped(index), servers) => servers.servers()[index].resume(),
            (Hurt::KilledSentinel(index), Servers::Sentinel(group)) => {
                group.sentinel_mut(index).restart().await
            }
            (Hurt::StoppedSentinel(index), Servers::Sentinel(group)) => {
                group.sentinels()[index].resume()
            }
            (Hurt::KilledSentinel(_) | Hurt::StoppedSentinel(_), _) => Ok(()),
        }
    }

    /// Lets everything run that does not.
    pub async fn heal_all(&mut self) -> anyhow::Result<()> {
        for index in 0..self.servers().len() {
            let server = self.server_mut(index);
            match server.pid() {
                None => server.restart().await?,
                Some(pid) => go_on(pid)?,
            }
        }
        if let Servers::Sentinel(group) = self {
            for index in 0..group.sentinels().len() {
                match group.sentinels()[index].pid() {
                    None => group.sentinel_mut(index).restart().await?,
                    Some(pid) => go_on(pid)?,
                }
            }
        }
        Ok(())
    }

    fn servers(&self) -> &[RedisServer] {
        match self {
            Servers::Standalone(server) => std::slice::from_ref(&**server),
            Servers::Sentinel(group) => group.servers(),
            Servers::Cluster(cluster) => cluster.servers(),
        }
    }

    fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        match self {
            Servers::Standalone(server) => server,
            Servers::Sentinel(group) => group.server_mut(index),
            Servers::Cluster(cluster) => cluster.server_mut(index),
        }
    }

    async fn primary(&self, server: usize) -> anyhow::Result<usize> {
        match self {
            Servers::Standalone(_) => Ok(0),
            Servers::Sentinel(group) => group.primary().await,
            Servers::Cluster(cluster) => primary_of_share(cluster, server).await,
        }
    }
}

/// The primary of one of the equal shares of all slots.
async fn primary_of_share(cluster: &RedisCluster, share: usize) -> anyhow::Result<usize> {
    let slot = (share % PRIMARIES) * usize::from(crate::cluster::SLOTS) / PRIMARIES;
    cluster.primary_of_slot(u16::try_from(slot)?).await
}

/// A process that is not stopped takes no notice.
fn go_on(pid: u32) -> anyhow::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process id")?;
    Ok(kill_process(pid, Signal::CONT)?)
}

/// How long a group may need to be of one mind again.
pub(super) const SETTLES_WITHIN: Duration = Duration::from_secs(20);
