//! The suite on a Redis behind Sentinels: one primary, one replica, three sentinels.

use crate::suite::servers;
use crate::suite::shared;

use lingua_lab::sentinel::SentinelGroup;

static GROUP: shared::Shared<SentinelGroup> = shared::Shared::new();

pub async fn sentinel() -> anyhow::Result<servers::Served<SentinelGroup>> {
    let group = GROUP.get(async || SentinelGroup::start(1, 3).await).await?;
    let url = group.url();
    servers::Served::connect(group, &url).await
}

conformance!(crate::redis_sentinel::sentinel, model_cases = 24);
