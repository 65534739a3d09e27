//! The suite on a Redis behind Sentinels: one primary, one replica, three sentinels.

#[cfg(test)]
#[macro_use]
mod suite;
#[cfg(test)]
#[path = "suite/servers.rs"]
mod servers;
#[cfg(test)]
#[path = "suite/shared.rs"]
mod shared;

use lingua_lab::sentinel::SentinelGroup;

static GROUP: shared::Shared<SentinelGroup> = shared::Shared::new();

async fn sentinel() -> anyhow::Result<servers::Served<SentinelGroup>> {
    let group = GROUP.get(async || SentinelGroup::start(1, 3).await).await?;
    let url = group.url();
    servers::Served::connect(group, &url).await
}

conformance!(crate::sentinel, model_cases = 24);
