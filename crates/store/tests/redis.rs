//! The suite on a standalone Redis.

#[cfg(test)]
#[macro_use]
mod suite;
#[cfg(test)]
#[path = "suite/servers.rs"]
mod servers;
#[cfg(test)]
#[path = "suite/shared.rs"]
mod shared;

use lingua_lab::RedisServer;

static SERVER: shared::Shared<RedisServer> = shared::Shared::new();

async fn redis() -> anyhow::Result<servers::Served<RedisServer>> {
    let server = SERVER.get(RedisServer::start).await?;
    let url = server.url();
    servers::Served::connect(server, &url).await
}

conformance!(crate::redis, model_cases = 200);
