//! The suite on a standalone Redis.

use crate::suite::servers;
use crate::suite::shared;

use lingua_lab::RedisServer;

static SERVER: shared::Shared<RedisServer> = shared::Shared::new();

pub async fn redis() -> anyhow::Result<servers::Served<RedisServer>> {
    let server = SERVER.get(RedisServer::start).await?;
    let url = server.url();
    servers::Served::connect(server, &url).await
}

conformance!(crate::redis::redis, model_cases = 200);
