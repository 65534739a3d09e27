//! Which job a caller's request id stands for.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{JobId, RequestId, TenantId};

use super::MemoryStore;
use super::expiring::Expiring;
use super::sharded::Sharded;
use crate::error::{Result, checked_ms};
use crate::requests::RequestIds;

pub(super) type Requests = Sharded<Expiring<(TenantId, RequestId), JobId>, 16>;

#[async_trait]
impl RequestIds for MemoryStore {
    async fn claim(
        &self,
        tenant: &TenantId,
        request: &RequestId,
        job: &JobId,
        keep_for: Duration,
    ) -> Result<JobId> {
        checked_ms(keep_for)?;
        let now = self.clock.now();
        let key = (tenant.clone(), request.clone());
        let (hash, mut requests) = self.requests.of(&key);
        let bound = requests.put_new(now, hash, key, now + keep_for, || *job);
        Ok(bound.copied().unwrap_or(*job))
    }

    async fn release(&self, tenant: &TenantId, request: &RequestId, job: &JobId) -> Result<()> {
        let now = self.clock.now();
        let key = (tenant.clone(), request.clone());
        let (hash, mut requests) = self.requests.of(&key);
        if requests.get(now, hash, &key) == Some(job) {
            requests.put(now, hash, key, *job, now);
        }
        Ok(())
    }
}
