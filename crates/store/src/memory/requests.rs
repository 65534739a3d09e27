//! Which job a caller's request id stands for.

use std::time::Duration;

use async_trait::async_trait;
use lingua_core::{JobId, Moment, RequestId, TenantId};

use super::MemoryStore;
use super::expiring::Expiring;
use super::sharded::Sharded;
use crate::error::{Result, checked_ms};
use crate::journal::{Entry, Kind};
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
        let now = self.change()?;
        let key = (tenant.clone(), request.clone());
        let (hash, mut requests) = self.requests.of(&key);
        let bound = requests.put_new(now, hash, key, now + keep_for, || *job).copied();
        if bound.is_none() {
            let key = [tenant.as_str(), request.as_str()];
            self.note(|journal| journal.note(Kind::Request, &key, now + keep_for, job));
        }
        drop(requests);
        self.kept(bound.unwrap_or(*job))
    }

    async fn release(&self, tenant: &TenantId, request: &RequestId, job: &JobId) -> Result<()> {
        let now = self.change()?;
        let key = (tenant.clone(), request.clone());
        let (hash, mut requests) = self.requests.of(&key);
        if requests.get(now, hash, &key) == Some(job) {
            requests.put(now, hash, key, *job, now);
            let key = [tenant.as_str(), request.as_str()];
            self.note(|journal| journal.note_end(Kind::Request, &key));
        }
        drop(requests);
        self.kept(())
    }
}

impl MemoryStore {
    /// Puts back a request that was kept; `None` if it cannot be read.
    pub(super) fn put_back_request(&self, now: Moment, entry: &Entry) -> Option<()> {
        let key = (entry.id(0)?, entry.id(1)?);
        let (hash, mut requests) = self.requests.of(&key);
        requests.put(now, hash, key, entry.json()?, entry.until);
        Some(())
    }
}
