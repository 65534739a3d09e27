//! Request ids of HTTP callers, on Redis.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{JobId, RequestId, TenantId};

use super::connection::Link;
use super::keys;
use super::scripts::{REQUEST_CLAIM, REQUEST_RELEASE};
use crate::error::{Result, checked_ms};
use crate::requests::RequestIds;

pub(super) struct RedisRequests {
    link: Link,
}

impl RedisRequests {
    pub(super) fn new(link: Link) -> Self {
        RedisRequests { link }
    }
}

#[async_trait]
impl RequestIds for RedisRequests {
    async fn claim(
        &self,
        tenant: &TenantId,
        request: &RequestId,
        job: &JobId,
        keep_for: Duration,
    ) -> Result<JobId> {
        let call = self
            .link
            .call(&REQUEST_CLAIM, [keys::request(tenant, request)])?
            .arg(job.as_str())
            .arg(checked_ms(keep_for)?);
        let mut reply = call.run().await?;
        match reply.word() {
            "job" => reply.parse(),
            _ => Err(reply.unexpected()),
        }
    }

    async fn release(&self, tenant: &TenantId, request: &RequestId, job: &JobId) -> Result<()> {
        let keys = [keys::request(tenant, request)];
        let reply = self.link.call(&REQUEST_RELEASE, keys)?.arg(job.as_str()).run().await?;
        match reply.word() {
            "released" | "kept" => Ok(()),
            _ => Err(reply.unexpected()),
        }
    }
}
