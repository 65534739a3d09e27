//! The suite on a Redis Cluster of three primaries with a replica each, so that most steps meet another server.

#[cfg(test)]
#[macro_use]
mod suite;
#[cfg(test)]
#[path = "suite/servers.rs"]
mod servers;
#[cfg(test)]
#[path = "suite/shared.rs"]
mod shared;

use lingua_lab::cluster::RedisCluster;

static CLUSTER: shared::Shared<RedisCluster> = shared::Shared::new();

async fn cluster() -> anyhow::Result<servers::Served<RedisCluster>> {
    let cluster = CLUSTER.get(async || RedisCluster::start(3, 1).await).await?;
    let url = cluster.url();
    servers::Served::connect(cluster, &url).await
}

conformance!(crate::cluster, model_cases = 24);
