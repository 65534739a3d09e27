//! The suite on a Redis Cluster of three primaries with a replica each, so that most steps meet another server.

use crate::suite::servers;
use crate::suite::shared;

use lingua_lab::cluster::RedisCluster;

static CLUSTER: shared::Shared<RedisCluster> = shared::Shared::new();

pub async fn cluster() -> anyhow::Result<servers::Served<RedisCluster>> {
    let cluster = CLUSTER.get(async || RedisCluster::start(3, 1).await).await?;
    let url = cluster.url();
    servers::Served::connect(cluster, &url).await
}

conformance!(crate::redis_cluster::cluster, model_cases = 24);
